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

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::measure::{Case, load, plain, side_by_side};
use common::{Answer, REDGREEN, number};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Limits, Mount, Network, Root, Sandbox, Task, WORKSPACE};
use tokio_util::sync::CancellationToken;

fn main() -> Answer<()> {
    let rounds = number(50);
    let scratch = tempfile::tempdir()?;
    let tree = scratch.path().join("tree");
    fs_err::create_dir(&tree)?;
    fs_err::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let sandbox = LocalSandbox::new(LocalConfig::new(REDGREEN, scratch.path()))?;
    let docker = docker_image();
    for argv in [&["/bin/true"][..], &["/usr/bin/python3", "-c", "pass"][..]] {
        if Path::new(argv[0]).exists() {
            start_to_exit(&sandbox, &tree, argv, docker.as_deref(), rounds)?;
        }
    }
    if docker.is_none() {
        println!("no Docker engine with an image that has python3 answers: nothing to compare with");
    }
    throughput(&sandbox, &tree)
}

fn start_to_exit(
    sandbox: &LocalSandbox,
    tree: &Path,
    argv: &[&str],
    docker: Option<&str>,
    rounds: usize,
) -> Answer<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let task = task(tree, argv);
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

/// A local image that has python3.
fn docker_image() -> Option<String> {
    let output = Command::new("docker").args(["images", "--format", "{{.Repository}}:{{.Tag}}"]).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let fits = |image: &&str| {
        let words = ["run", "--rm", "--network", "none", image, "python3", "-c", "pass"];
        plain(Command::new("docker").args(words)).is_ok()
    };
    names.lines().filter(|name| !name.contains('<')).find(fits).map(str::to_owned)
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

fn task(tree: &Path, argv: &[&str]) -> Task {
    Task {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        cwd: WORKSPACE.into(),
        variables: BTreeMap::new(),
        root: Root::default(),
        mounts: vec![Mount::Overlay {
            lowers: vec![tree.to_owned()],
            target: WORKSPACE.into(),
            upper: None,
            remove: Vec::new(),
        }],
        limits: Limits::default(),
        network: Network::None,
        result_channel: true,
    }
}

fn sandboxed(runtime: &tokio::runtime::Runtime, sandbox: &LocalSandbox, task: &Task) -> Answer<()> {
    let exit = runtime.block_on(sandbox.run(task, &CancellationToken::new()))?;
    if exit.end == End::Exited(0) { Ok(()) } else { Err(format!("{:?} ended with {:?}", task.argv, exit.end).into()) }
}

/// Runs of `true`, two at once, for three seconds.
fn throughput(sandbox: &LocalSandbox, tree: &Path) -> Answer<()> {
    const AT_ONCE: usize = 2;
    let (task, done) = (task(tree, &["/bin/true"]), AtomicUsize::new(0));
    let start = Instant::now();
    let work = || -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        while start.elapsed() < Duration::from_secs(3) {
            sandboxed(&runtime, sandbox, &task).map_err(|e| e.to_string())?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap_or_else(|_| Err("a worker broke".to_owned())))
    })?;
    let (done, seconds) = (done.into_inner(), start.elapsed().as_secs_f64());
    println!("sandboxed runs of `true`, {AT_ONCE} at once: {:.0} in a second; {}", done as f64 / seconds, load());
    Ok(())
}
