//! What does not belong into a base: the machine's own, credentials, settings of package indexes and proxies, and what
//! only serves to install more.

use std::path::Path;

use crate::environment::archive::{Kind, Node, Tree};

/// Folders that are kept empty: what a sandbox or an engine puts there, caches, logs.
const EMPTIED: [&str; 16] = [
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "var/tmp",
    "var/log",
    "var/cache",
    "var/lib/apt/lists",
    "var/lib/cloud",
    "root/.cache",
    "lost+found",
    "etc/apt/auth.conf.d",
    "media",
    // Which authorities are trusted is the host's business: its bundle is mounted where there is a network.
    "etc/ssl/certs",
    "usr/local/share/ca-certificates",
];

/// Files and folders that go. A name that ends with `*` stands for all that begin so.
const GONE: [&str; 41] = [
    // The machine's own; engines and sandboxes have their own.
    "etc/resolv.conf",
    "etc/hostname",
    "etc/hosts",
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "etc/mtab",
    "etc/fstab",
    ".dockerenv",
    "etc/ssh/ssh_host_*",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    // Credentials, and settings of indexes and proxies.
    "etc/apt/auth.conf",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/apt.conf.d/*proxy*",
    "etc/apt/apt.conf",
    "etc/pip.conf",
    "etc/npmrc",
    "usr/etc/npmrc",
    "usr/local/etc/npmrc",
    "etc/netrc",
    "etc/docker/*",
    "etc/krb5.keytab",
    "root/.netrc",
    "root/.npmrc",
    "root/.yarnrc*",
    "root/.pip",
    "root/.config/pip",
    "root/.config/uv",
    "root/.pypirc",
    "root/.git-credentials",
    "root/.config/git",
    "root/.ssh",
    "root/.gnupg",
    "root/.docker",
    "root/.aws",
    "root/.config/gcloud",
    "root/.kube",
    "root/.cargo/credentials*",
    "root/.bash_history",
];

/// What goes from a base that we made ourselves: the mirror's address, which could hold credentials.
const GONE_OF_DEBIAN: [&str; 2] = ["etc/apt/sources.list", "etc/apt/sources.list.d/*"];

/// Takes out of a tree what does not belong into a base.
pub fn clean(tree: &mut Tree, debian: bool) {
    let more: &[&str] = if debian { &GONE_OF_DEBIAN } else { &[] };
    tree.retain(|path, _| {
        let below = |folder: &str| path != Path::new(folder) && path.starts_with(folder);
        !EMPTIED.iter().any(|folder| below(folder)) && !GONE.iter().chain(more).any(|pattern| matches(path, pattern))
    });
}

/// Files that installing wrote get one time: the newest one of those that a package brought, so that the same packages
/// give the same archive. `began`: when the installation began, in seconds since 1970.
pub fn settle_times(tree: &mut Tree, began: u64) {
    let newest = tree.iter().map(|(_, node)| node.time).filter(|time| *time < began).max().unwrap_or_default();
    tree.change(|_, node| {
        if node.time >= newest {
            (node.time, node.nanos) = (newest, 0);
        }
    });
}

/// Whether a tree is a system that commands can run in.
pub fn is_root(tree: &Tree) -> bool {
    let there =
        |path: &str| matches!(tree.get(Path::new(path)), Some(Node { kind: Kind::File(_) | Kind::Link(_), .. }));
    there("bin/sh") || there("usr/bin/sh")
}

fn matches(path: &Path, pattern: &str) -> bool {
    let Some((folder, name)) = pattern.rsplit_once('/') else { return path == Path::new(pattern) };
    if !name.contains('*') {
        return path == Path::new(pattern);
    }
    let Some(last) = path.file_name().and_then(|name| name.to_str()) else { return false };
    if path.parent() != Some(Path::new(folder)) {
        return false;
    }
    let mut rest = last;
    let mut parts = name.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || name.ends_with('*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::archive::Part;

    fn tree(names: &[(&str, u64)]) -> Tree {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        let mut builder = tar::Builder::new(Vec::new());
        for (name, time) in names {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o6755);
            header.set_mtime(*time);
            builder.append_data(&mut header, name, &b"x"[..]).unwrap();
        }
        fs_err::write(&path, builder.into_inner().unwrap()).unwrap();
        let mut tree = Tree::default();
        tree.put(&Part::whole(&path).unwrap(), "x.tar", crate::environment::archive::Whiteouts::Apply).unwrap();
        tree
    }

    fn names(tree: &Tree) -> Vec<String> {
        let files = tree.iter().filter(|(_, node)| !matches!(node.kind, Kind::Folder));
        files.map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn credentials_settings_and_the_machines_own_go() {
        let stay = ["bin/sh", "etc/os-release", "root/.bashrc", "usr/bin/x", "var/lib/dpkg/status"];
        let go = [
            "etc/apt/apt.conf.d/99mmdebstrap",
            "etc/apt/apt.conf.d/10-proxy.conf",
            "etc/apt/auth.conf.d/a.conf",
            "etc/pip.conf",
            "etc/resolv.conf",
            "etc/ssh/ssh_host_rsa_key",
            "proc/1/x",
            "root/.cargo/credentials.toml",
            "root/.config/pip/pip.conf",
            "root/.npmrc",
            "tmp/x",
            "var/cache/apt/pkgcache.bin",
            "var/lib/apt/lists/x",
        ];
        let mirror = ["etc/apt/sources.list", "etc/apt/sources.list.d/x.sources"];
        let all: Vec<(&str, u64)> = stay.iter().chain(&go).chain(&mirror).map(|name| (*name, 0)).collect();
        let mut image = tree(&all);
        clean(&mut image, false);
        assert_eq!(names(&image).len(), stay.len() + mirror.len());
        let mut made = tree(&all);
        clean(&mut made, true);
        assert_eq!(names(&made), stay);
        // The empty folders stay, and no file has special bits.
        assert!(made.get(Path::new("tmp")).is_some() && made.get(Path::new("var/cache")).is_some());
        assert!(made.iter().all(|(_, node)| node.mode & !0o777 == 0));
        assert!(is_root(&made));
        assert!(!is_root(&tree(&[("etc/passwd", 0)])));
    }

    #[test]
    fn what_installing_wrote_gets_the_time_of_the_newest_package() {
        let mut tree = tree(&[("a", 100), ("b", 200), ("c", 1000), ("d", 1003)]);
        settle_times(&mut tree, 1000);
        assert_eq!(tree.iter().map(|(_, node)| node.time).collect::<Vec<_>>(), [100, 200, 200, 200]);
    }
}
