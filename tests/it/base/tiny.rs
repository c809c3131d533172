//! A root file system small enough to make in a moment: this machine's shell and some tools, with the libraries that
//! they need, and a toolchain that no machine has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::support::{Place, host};

/// What is in it beside a shell.
const TOOLS: [&str; 27] = [
    "cat", "chmod", "cp", "cut", "date", "dirname", "env", "expr", "grep", "head", "id", "ls", "mkdir", "mktemp", "mv",
    "readlink", "rm", "sed", "sleep", "sort", "stat", "tail", "touch", "tr", "true", "wc", "basename",
];

/// A definition of a language whose toolchain only a base has: `tiny-tool`. Its layer tells its own log what the step saw of
/// the network's settings; its build removes a file of the layer, and makes one in the tree.
pub const DEFINITION: &str = r#"
schema = 1
name = "tiny"

[toolchain]
programs = ["tiny-tool"]
probe = ["{{program}}"]

[[base]]
name = "tiny-9"
version = "9"
debian = "bookworm"
packages = ["tiny"]

[[layer]]
name = "deps"
path = "/env/deps"
build_writes = true

[[layer.step]]
name = "fetch"
network = true
argv = ["/bin/sh", "-c", "env; cat /env/ca/bundle.pem; mkdir /env/deps/sub; echo one > /env/deps/one; echo two > /env/deps/sub/two"]

[[build.step]]
name = "build"
argv = ["/bin/sh", "-c", "rm /env/deps/sub/two; echo built > built.txt; cat /etc/os-release > on.txt"]

[[variable]]
name = "DEPS"
value = "/env/deps"

[tools]
sh = "/bin/sh"
"#;

/// The toolchain: a script that says what it is.
const TOOL: &str = r#"#!/bin/sh
printf '{"version": "9.1.0", "executable": "/usr/local/bin/tiny-tool", "roots": ["/usr/local"], "tools": {"tiny": "/usr/local/bin/tiny-tool"}, "identity": {}}'
"#;

/// The CA bundle that fetches see.
pub const AUTHORITY: &str =
    "-----BEGIN CERTIFICATE-----\nan authority of this machine alone\n-----END CERTIFICATE-----\n";

/// Makes the root in a folder. `mark` tells one from another.
pub fn root(folder: &Path, mark: &str) {
    let write = |path: &str, text: &str, mode: u32| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    for name in ["usr/bin", "usr/lib", "usr/lib64", "tmp", "opt", "dev", "proc"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for name in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), folder.join(name)).unwrap();
    }
    let mut files = BTreeSet::new();
    for (name, at) in TOOLS.iter().map(|name| (*name, *name)).chain([("sh", "sh")]) {
        let program = find(name);
        let to = folder.join("usr/bin").join(at);
        fs::copy(fs::canonicalize(&program).unwrap(), to).unwrap();
        let listed = Command::new("ldd").arg(&program).env("LC_ALL", "C").output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        files.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    for library in files {
        // At the same place: the links above stand for those of this machine.
        let plain = library.strip_prefix("/").unwrap();
        let plain = if plain.starts_with("usr") { plain.to_owned() } else { Path::new("usr").join(plain) };
        let to = folder.join(plain);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if !to.exists() {
            fs::copy(fs::canonicalize(&library).unwrap(), to).unwrap();
        }
    }
    write("usr/local/bin/tiny-tool", TOOL, 0o755);
    write("etc/os-release", &format!("PRETTY_NAME=\"Tiny {mark}\"\n"), 0o644);
    write("etc/passwd", "someone:x:77:77::/:/bin/sh\n", 0o644);
    write("etc/own.conf", "of the base\n", 0o600);
    write("etc/ssl/certs/theirs.pem", "theirs\n", 0o644);
    write("etc/ssl/openssl.cnf", "[x]\n", 0o644);
    write("opt/kit/file", "kit\n", 0o644);
    write("usr/bin/raised", "#!/bin/sh\n", 0o4755);
    write("var/lib/dpkg/status", "Package: tiny\nStatus: install ok installed\nVersion: 9.1\n", 0o644);
    // What must not stay.
    for path in SECRET_FILES {
        write(path, "hunter2\n", 0o644);
    }
    // As old as what comes in packages.
    let old = rustix::fs::Timespec { tv_sec: 1_600_000_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    for entry in walkdir::WalkDir::new(folder).contents_first(true) {
        let (here, itself) = (rustix::fs::CWD, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        rustix::fs::utimensat(here, entry.unwrap().path(), &times, itself).unwrap();
    }
}

/// Files with credentials or settings that no base keeps.
pub const SECRET_FILES: [&str; 6] = [
    "etc/pip.conf",
    "root/.netrc",
    "root/.npmrc",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/auth.conf",
    "root/.docker/config.json",
];

fn find(name: &str) -> PathBuf {
    let path = host("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("no {name} on this machine"))
}

/// Packs a folder as a tar archive, with a device in it.
pub fn pack(folder: &Path, archive: &Path) {
    let mut builder = tar::Builder::new(fs::File::create(archive).unwrap());
    builder.follow_symlinks(false);
    builder.append_dir_all(".", folder).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Char);
    header.set_size(0);
    header.set_mode(0o666);
    header.set_device_major(1).unwrap();
    header.set_device_minor(3).unwrap();
    builder.append_data(&mut header, "usr/lib/device", std::io::empty()).unwrap();
    builder.finish().unwrap();
}

/// A place with the tiny root as `tiny.tar`, its definition in `definitions`, and a cache of its own.
pub struct Room {
    pub place: Place,
}

impl Room {
    pub fn new() -> Self {
        Self::marked("one")
    }

    /// The same with a root that `mark` tells from all others.
    pub fn marked(mark: &str) -> Self {
        let place = Place::new();
        root(&place.join("root"), mark);
        pack(&place.join("root"), &place.join("tiny.tar"));
        fs::create_dir(place.join("definitions")).unwrap();
        fs::write(place.join("definitions/tiny.toml"), DEFINITION).unwrap();
        fs::write(place.join("ca.pem"), AUTHORITY).unwrap();
        Self { place }
    }

    /// `redgreen` in it, with the settings of a network that must stay out of everything.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command
            .env("REDGREEN_CACHE", self.place.join("cache"))
            .env("REDGREEN_DEFINITIONS", self.place.join("definitions"))
            .env("https_proxy", "http://proxy-of-this-machine.example:3128")
            .env("PIP_INDEX_URL", "https://index-of-this-machine.example/simple")
            .env("SSL_CERT_FILE", self.place.join("ca.pem"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> crate::support::Ran {
        crate::support::Ran::of(self.command(arguments).output().unwrap())
    }

    /// The base `tiny` in the cache.
    pub fn tiny(&self) -> serde_json::Value {
        let made = self.run(&["env", "base", "--from", "tiny.tar", "tiny", "--json"]).exits(0).json();
        made[0].clone()
    }

    /// All that lies in the cache's bucket of bases.
    pub fn bases(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.join("cache/bases-v1")).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The names in an archive.
pub fn names(archive: &Path) -> BTreeSet<String> {
    let mut archive = tar::Archive::new(fs::File::open(archive).unwrap());
    let entries = archive.entries().unwrap();
    entries.map(|e| e.unwrap().path().unwrap().display().to_string().trim_end_matches('/').to_owned()).collect()
}
