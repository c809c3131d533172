//! What one sandboxed command costs, side by side with what it is compared to. Prints and asserts nothing.
//!
//! 1. From start to exit of `true` and of `python3 -c pass`: a plain child process, the embedded sandbox, bubblewrap
//!    where it is installed, and `docker run --network none` where a Docker engine with a fitting image answers. They
//!    take turns, so that a busy machine slows all of them.
//! 2. Sandboxed runs of `true` in a second, two at once.
//!
//! `cargo bench --bench overhead` runs both; `-- ROUNDS` takes another number of rounds for the first.

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::measure::{Case, plain, side_by_side};
use common::sandboxed::{image_with_python, sandboxed, task, throughput};
use common::{Answer, REDGREEN, number};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{Root, Sandbox};

fn main() -> Answer<()> {
    let rounds = number(50);
    let scratch = tempfile::tempdir()?;
    let tree = scratch.path().join("tree");
    fs_err::create_dir(&tree)?;
    fs_err::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let sandbox = LocalSandbox::new(LocalConfig::new(REDGREEN, scratch.path()))?;
    let docker = image_with_python();
    for argv in [&["/bin/true"][..], &["/usr/bin/python3", "-c", "pass"][..]] {
        if Path::new(argv[0]).exists() {
            start_to_exit(&sandbox, &tree, argv, docker.as_deref(), rounds)?;
        }
    }
    if docker.is_none() {
        println!("no Docker engine with an image that has python3 answers: nothing to compare with");
    }
    throughput("sandboxed runs of `true`", &sandbox, &task(&tree, &["/bin/true"], Root::Host), 2, 3)
}

fn start_to_exit(
    sandbox: &LocalSandbox,
    tree: &Path,
    argv: &[&str],
    docker: Option<&str>,
    rounds: usize,
) -> Answer<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let task = task(tree, argv, Root::Host);
    let mut bare = Command::new(argv[0]);
    bare.args(&argv[1..]);
    let mut cases = vec![Case::new("plain child process", || plain(&mut bare))];
    let isolation = sandbox.isolation();
    let name = format!("embedded sandbox ({}, {})", isolation.level, isolation.workspace);
    cases.push(Case::new(name, || sandboxed(&runtime, sandbox, &task)));
    if Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
        cases.push(Case::new("bubblewrap (read-only root, no limits)", || plain(bwrap().args(argv))));
    } else {
        println!("bubblewrap is not installed: nothing to compare with");
    }
    // A third of a second each: fewer rounds would do, but all cases share the machine's good and bad moments.
    if let Some(image) = docker {
        let name = Path::new(argv[0]).file_name().and_then(|name| name.to_str()).unwrap_or(argv[0]);
        let mut run = Command::new("docker");
        run.args(["run", "--rm", "--network", "none", image, name]).args(&argv[1..]);
        cases.push(Case::new("docker run --network none", move || plain(&mut run)));
    }
    side_by_side(&format!("start to exit of `{}`", argv.join(" ")), rounds, &mut cases)
}

/// About what the embedded sandbox gives, without copy-on-write, limits and a filter.
fn bwrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib64"] {
        let path = format!("/{name}");
        if Path::new(&path).exists() {
            command.args(["--ro-bind", &path, &path]);
        }
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command
}
