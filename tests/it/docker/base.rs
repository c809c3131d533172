//! The base of these tests: Debian with Python, made once into the target folder, and imported by the sandbox itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use fs_err as fs;
use redgreen::sandbox::Root;

/// The release that has Python 3.11.
const RELEASE: &str = "bookworm";
/// What identifies the base's content: change it with what is below.
const DIGEST: &str = "it-bookworm-python3-1";

static ROOT: LazyLock<Root> = LazyLock::new(|| {
    let archive = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docker").join(format!("{DIGEST}.tar"));
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    // One of several test programs makes it.
    let lock = fs::File::create(archive.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let has_image = Command::new("docker")
        .args(["image", "inspect", &redgreen::sandbox::docker::own_name(DIGEST)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !archive.exists() && !has_image {
        make(&archive);
    }
    Root::Base { folder: None, archive: Some(archive), image: None, digest: DIGEST.to_owned() }
});

/// The base.
pub fn root() -> Root {
    ROOT.clone()
}

fn make(archive: &PathBuf) {
    let half = archive.with_extension("half.tar");
    let status = Command::new("mmdebstrap")
        .args(["--variant=minbase", "--include=python3", "--aptopt=Acquire::Languages \"none\""])
        .args(["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"])
        .arg(RELEASE)
        .arg(&half)
        .stdin(Stdio::null())
        .output()
        .expect("`mmdebstrap` makes the base of these tests: install it");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    fs::rename(half, archive).unwrap();
}
