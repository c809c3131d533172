//! Snapshots for reviewers, and the search for anything later than the commit to review.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use redgreen::repo::{Repository, SnapshotMode};
use serde_json::Value;

use crate::support::{Place, Ran};

mod hostile;
mod places;
mod plants;
mod review;

/// Runs the git program as a person with a fixed name and no configuration would.
pub(crate) fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(arguments).env_clear().env("PATH", crate::support::host("PATH").unwrap());
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", "/nonexistent");
    for (at, (key, value)) in
        [("safe.directory", "*"), ("protocol.file.allow", "always"), ("gc.auto", "0"), ("init.defaultBranch", "main")]
            .iter()
            .enumerate()
    {
        command.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value);
    }
    command.env("GIT_CONFIG_COUNT", "4");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A Person").env(format!("GIT_{who}_EMAIL"), "person@example.org");
        command.env(format!("GIT_{who}_DATE"), "2020-05-05T12:00:00Z");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A full repository: two commits, the commit to review, its merge with a fix, and a release after it.
pub(crate) struct Full {
    pub dir: PathBuf,
    pub first: String,
    pub base: String,
    pub head: String,
    /// The commit to review with the concern addressed, squashed onto the main branch.
    pub merged: String,
    /// A commit after that.
    pub last: String,
    _folder: tempfile::TempDir,
}

/// What only the merged commit has.
pub(crate) const FIXED: &str = "def light(on):\n    return bool(on)  # fixed: any truth will do\n";

impl Full {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("full");
        fs_err::create_dir(&dir).unwrap();
        git(&dir, &["init", "-q"]);
        let write = |name: &str, text: &str| {
            fs_err::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs_err::write(dir.join(name), text).unwrap();
        };
        let commit = |message: &str| {
            git(&dir, &["add", "-A"]);
            git(&dir, &["commit", "-q", "-m", message]);
            git(&dir, &["rev-parse", "HEAD"])
        };
        write("lantern/__init__.py", "");
        write("lantern/core.py", "def light(on):\n    return on\n");
        write("setup.py", "from setuptools import setup\nsetup(name='lantern-kit', version='1.0')\n");
        write(".gitattributes", "* text=auto\n*.bin filter=lfs\n*.id ident\n");
        write("x.id", "$Id$\n");
        // As it is: git would make its line ends plain on the way in, but leaves those alone that are there already.
        write("crlf.txt", "a\r\nb\r\n");
        let crlf = git(&dir, &["hash-object", "-w", "--no-filters", "crlf.txt"]);
        git(&dir, &["update-index", "--add", "--cacheinfo", &format!("100644,{crlf},crlf.txt")]);
        let first = commit("Start");
        write("README", "a lantern\n");
        write("tool.sh", "#!/bin/sh\n");
        fs_err::set_permissions(dir.join("tool.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("README", dir.join("link")).unwrap();
        fs_err::create_dir(dir.join("sub")).unwrap();
        git(&dir, &["update-index", "--add", "--cacheinfo", &format!("160000,{first},sub")]);
        let base = commit("Second");
        git(&dir, &["checkout", "-q", "-b", "topic"]);
        write("lantern/core.py", "def light(on):\n    return on is True\n");
        write("lantern/new.py", "NEW = 1\n");
        write("data.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
        fs_err::remove_file(dir.join("README")).unwrap();
        write("README.md", "a lantern\n");
        let head = commit("Turn it on");
        git(&dir, &["checkout", "-q", "main"]);
        git(&dir, &["checkout", "-q", "topic", "--", "."]);
        write("lantern/core.py", FIXED);
        let merged = commit("Turn it on (#2)");
        write("setup.py", "from setuptools import setup\nsetup(name='lantern-kit', version='2.0')\n");
        let last = commit("Release 2.0");
        git(&dir, &["tag", "-a", "-m", "Two", "v2.0"]);
        git(&dir, &["commit-graph", "write", "--reachable"]);
        git(&dir, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
        Self { dir, first, base, head, merged, last, _folder: folder }
    }

    pub(crate) fn repository(&self) -> Repository {
        Repository::open(&self.dir).unwrap()
    }

    /// A clean checkout at `to`.
    pub(crate) fn snapshot(&self, mode: &str, to: &Path) {
        let mode = match mode {
            "run" => SnapshotMode::Run,
            _ => SnapshotMode::Review { base: self.base.clone() },
        };
        self.repository().write_snapshot(&mode, &self.head, to, me()).unwrap();
    }

    /// The options that tell a check all of this.
    pub(crate) fn options(&self, mode: &str) -> Vec<String> {
        let dir = self.dir.display().to_string();
        let mut words = vec!["--mode", mode, "--head", &self.head, "--merged", &self.merged, "--reference", &dir];
        if mode == "review" {
            words.extend(["--base", &self.base]);
        }
        words.into_iter().map(str::to_owned).collect()
    }
}

pub(crate) static FULL: LazyLock<Full> = LazyLock::new(Full::new);

pub(crate) fn me() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// `redgreen leak-check` of a checkout.
pub(crate) fn check(place: &Place, checkout: &Path, more: &[String]) -> Ran {
    let checkout = checkout.display().to_string();
    let words: Vec<&str> = ["leak-check", &checkout].into_iter().chain(more.iter().map(String::as_str)).collect();
    place.run(&words)
}

/// Its findings, by kind and place, with how certain they are.
#[track_caller]
pub(crate) fn findings(place: &Place, checkout: &Path, more: &[String]) -> BTreeSet<(String, String, String)> {
    let ran = check(place, checkout, &[more, &["--json".to_owned()]].concat());
    let report = ran.json();
    let found = found(&report);
    assert_eq!(ran.code, Some(i32::from(!found.is_empty())), "{report:#}");
    assert_eq!(report["clean"], Value::Bool(found.is_empty()));
    found
}

pub(crate) fn found(report: &Value) -> BTreeSet<(String, String, String)> {
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let all = report["findings"].as_array().unwrap();
    all.iter().map(|f| (text(f, "kind"), text(f, "place"), text(f, "later"))).collect()
}

/// Every file of a folder with its bytes, mode and time, for comparing two of them.
pub(crate) fn bytes(folder: &Path) -> Vec<(PathBuf, u32, i64, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        let content = match (meta.is_file(), meta.is_symlink()) {
            (true, _) => fs_err::read(entry.path()).unwrap(),
            (_, true) => fs_err::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        all.push((entry.path().strip_prefix(folder).unwrap().to_owned(), meta.mode(), meta.mtime(), content));
    }
    all
}
