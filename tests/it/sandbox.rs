//! The embedded sandbox, driven for real through the built binary as its helper.
//!
//! The tests do not care whether they run as root: `everything_again_as_an_unprivileged_user` runs them all once more
//! as one, where it can.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod command;
mod leftovers;
mod levels;
mod limits;
mod mounts;
mod rights;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Exit, Limits, Mount, Network, Root, Sandbox, SandboxError, Task};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const MIB: u64 = 1 << 20;
/// The name of the helper's copy beside the copied test binary.
const COPIED_HELPER: &str = "redgreen-under-test";
const OTHER_USER: u32 = 54321;

fn is_root() -> bool {
    // SAFETY: plain system call.
    unsafe { libc::geteuid() == 0 }
}

fn helper() -> PathBuf {
    let copy = std::env::current_exe().unwrap().with_file_name(COPIED_HELPER);
    if copy.exists() { copy } else { env!("CARGO_BIN_EXE_redgreen").into() }
}

fn config() -> LocalConfig {
    LocalConfig::new(helper(), std::env::temp_dir())
}

fn sandbox() -> LocalSandbox {
    LocalSandbox::new(config()).unwrap()
}

/// Every way to limit memory and processes that this machine has.
fn levels() -> Vec<LocalSandbox> {
    let weak = LocalSandbox::new(LocalConfig { cgroup: false, ..config() }).unwrap();
    assert_eq!(weak.isolation().level, "userns");
    let best = sandbox();
    if best.isolation().level == "full" { vec![best, weak] } else { vec![weak] }
}

pub fn task(argv: &[&str]) -> Task {
    Task {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        cwd: "/tmp".into(),
        variables: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
        root: Root::default(),
        mounts: Vec::new(),
        limits: Limits { wall: Duration::from_secs(60), ..Limits::default() },
        network: Network::None,
        result_channel: false,
    }
}

pub fn shell(script: &str) -> Task {
    task(&["sh", "-c", script])
}

pub fn try_run(sandbox: &dyn Sandbox, task: &Task) -> Result<Exit, SandboxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(sandbox.run(task, &CancellationToken::new()))
}

fn run(task: &Task) -> Exit {
    try_run(&sandbox(), task).unwrap()
}

/// Runs a script that must succeed, and gives its output.
#[track_caller]
fn output(task: &Task) -> String {
    let exit = run(task);
    assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
    exit.stdout.text()
}

/// A directory whose files a task may change.
pub fn owned_dir(sandbox: &dyn Sandbox, files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    give(sandbox, dir.path());
    dir
}

pub fn give(sandbox: &dyn Sandbox, path: &Path) {
    let (uid, gid) = sandbox.owner();
    std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(sandbox, &entry.unwrap().path());
        }
    }
}

pub fn overlay(lower: &Path) -> Mount {
    Mount::Overlay { lowers: vec![lower.to_path_buf()], target: "/workspace".into(), upper: None, remove: Vec::new() }
}

/// Host processes whose command line holds a text.
fn processes(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        if line.iter().any(|word| word == text) {
            found.push(pid);
        }
    }
    found
}

/// Waits for something that another process brings about.
#[track_caller]
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}
