//! Commands in a sandbox, over a small tree.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redgreen::sandbox::{End, Limits, Mount, Network, Root, Sandbox, Task, WORKSPACE};
use tokio_util::sync::CancellationToken;

use super::Answer;
use super::measure::{load, plain};

/// A command over a copy-on-write tree, with the limits of an oracle run.
pub fn task(tree: &Path, argv: &[&str], root: Root) -> Task {
    Task {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        cwd: WORKSPACE.into(),
        variables: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        root,
        mounts: vec![Mount::Overlay {
            lowers: vec![tree.to_owned()],
            target: WORKSPACE.into(),
            upper: None,
            remove: Vec::new(),
        }],
        limits: Limits::default(),
        network: Network::None,
        result_channel: false,
    }
}

/// Runs a task that must succeed.
pub fn sandboxed(runtime: &tokio::runtime::Runtime, sandbox: &dyn Sandbox, task: &Task) -> Answer<()> {
    let exit = runtime.block_on(sandbox.run(task, &CancellationToken::new()))?;
    let said = exit.stderr.text();
    if exit.end == End::Exited(0) {
        Ok(())
    } else {
        Err(format!("{:?} ended with {:?}: {said}", task.argv, exit.end).into())
    }
}

/// Runs a task for some seconds, so many at once, and says how many came to an end in a second.
pub fn throughput(what: &str, sandbox: &dyn Sandbox, task: &Task, at_once: usize, seconds: u64) -> Answer<()> {
    let done = AtomicUsize::new(0);
    let start = Instant::now();
    let work = || -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        while start.elapsed() < Duration::from_secs(seconds) {
            sandboxed(&runtime, sandbox, task).map_err(|e| e.to_string())?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap_or_else(|_| Err("a worker broke".to_owned())))
    })?;
    let (done, seconds) = (done.into_inner(), start.elapsed().as_secs_f64());
    println!("{what}, {at_once} at once: {:.1} in a second; {}", done as f64 / seconds, load());
    Ok(())
}

/// A local image of the container engine that has python3.
pub fn image_with_python() -> Option<String> {
    let output = Command::new("docker").args(["images", "--format", "{{.Repository}}:{{.Tag}}"]).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let fits = |image: &&str| {
        let words = ["run", "--rm", "--network", "none", image, "/usr/bin/python3", "-c", "pass"];
        plain(Command::new("docker").args(words)).is_ok()
    };
    names.lines().filter(|name| !name.contains('<')).find(fits).map(str::to_owned)
}
