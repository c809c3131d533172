//! What a container costs, side by side with what it is compared to. Prints and asserts nothing.
//!
//! 1. From start to exit of `true`: `docker run` of the engine's own client with the same image, and the Docker sandbox
//!    with all of its limits, with a copy-on-write workspace, and with a workspace that is copied; the embedded sandbox
//!    beside them. They take turns, so that a busy machine slows all of them.
//! 2. The same of one oracle run (pytest's place is taken by unittest, which needs no packages): `docker run` of the bare
//!    command against the run through the sandbox.
//! 3. Sandboxed runs of `true` in a second, one, two and four at once.
//!
//! `cargo bench --bench docker -- ROUNDS BASE` (10 rounds where none are given). BASE is an image with `python3`, or an
//! archive of a root file system with it; without one the first local image that has it is taken.

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::measure::{Case, load, plain, side_by_side};
use common::{Answer, REDGREEN};
use redgreen::sandbox::docker::{DockerConfig, DockerSandbox, Surroundings, own_name};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Limits, Mount, Network, Root, Sandbox, Task, WORKSPACE};
use tokio_util::sync::CancellationToken;

fn main() -> Answer<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10);
    let named = words.iter().find(|word| word.parse::<usize>().is_err());
    let Some(base) = named.cloned().or_else(image_with_python) else {
        println!("no image with python3: name one, or an archive, after `--`");
        return Ok(());
    };
    let scratch = tempfile::tempdir()?;
    fs_err::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let tree = scratch.path().join("tree");
    fs_err::create_dir(&tree)?;
    fs_err::write(tree.join("clamp_test.py"), TEST)?;
    let around = Surroundings::of(&std::env::vars().collect::<BTreeMap<_, _>>());
    let config = DockerConfig::new(around, scratch.path().join("docker"));
    let mounted = DockerSandbox::new(config.clone())?;
    let copied = DockerSandbox::new(DockerConfig { copy_workspace: true, ..config })?;
    let local = LocalSandbox::new(LocalConfig::new(REDGREEN, scratch.path()))?;
    let (root, image) = root(&base);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let test = ["/usr/bin/python3", "-m", "unittest", "clamp_test"];
    for argv in [&["/bin/true"][..], &test] {
        let task = |root: &Root| task(&tree, argv, root.clone());
        let (inside, outside) = (task(&root), task(&Root::Host));
        // So that the image is there before anybody's clock runs.
        sandboxed(&runtime, &mounted, &inside)?;
        let mut run = Command::new("docker");
        run.args(["run", "--rm", "--network", "none", "-v", &format!("{}:/workspace", tree.display())]);
        run.args(["-w", "/workspace", &image]).args(argv);
        let workspace = mounted.isolation().workspace;
        let mut cases = vec![
            Case::new("docker run --network none, a bind and no limits", move || plain(&mut run)),
            Case::new(format!("Docker sandbox ({workspace})"), || sandboxed(&runtime, &mounted, &inside)),
            Case::new("Docker sandbox (copy)", || sandboxed(&runtime, &copied, &inside)),
            Case::new("embedded sandbox", || sandboxed(&runtime, &local, &outside)),
        ];
        side_by_side(&format!("start to exit of `{}`", argv.join(" ")), rounds, &mut cases)?;
    }
    for at_once in [1, 2, 4] {
        throughput(&mounted, &task(&tree, &["/bin/true"], root.clone()), at_once)?;
    }
    Ok(())
}

const TEST: &str = "import unittest\n\n\nclass Clamp(unittest.TestCase):\n    def test_cut(self):\n        \
                    self.assertEqual(min(9, 5), 5)\n";

/// A base from an image's name or an archive's path, and the name of its image.
fn root(base: &str) -> (Root, String) {
    let of = |archive, image| Root::Base { folder: None, archive, image, digest: "bench".to_owned() };
    if Path::new(base).is_file() {
        (of(Some(base.into()), None), own_name("bench"))
    } else {
        (of(None, Some(base.to_owned())), base.to_owned())
    }
}

/// A local image that has python3.
fn image_with_python() -> Option<String> {
    let output = Command::new("docker").args(["images", "--format", "{{.Repository}}:{{.Tag}}"]).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let fits = |image: &&str| {
        let words = ["run", "--rm", "--network", "none", image, "/usr/bin/python3", "-c", "pass"];
        plain(Command::new("docker").args(words)).is_ok()
    };
    names.lines().filter(|name| !name.contains('<')).find(fits).map(str::to_owned)
}

fn task(tree: &Path, argv: &[&str], root: Root) -> Task {
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

fn sandboxed(runtime: &tokio::runtime::Runtime, sandbox: &dyn Sandbox, task: &Task) -> Answer<()> {
    let exit = runtime.block_on(sandbox.run(task, &CancellationToken::new()))?;
    let said = exit.stderr.text();
    if exit.end == End::Exited(0) {
        Ok(())
    } else {
        Err(format!("{:?} ended with {:?}: {said}", task.argv, exit.end).into())
    }
}

/// Runs for some seconds, so many at once.
fn throughput(sandbox: &DockerSandbox, task: &Task, at_once: usize) -> Answer<()> {
    let done = AtomicUsize::new(0);
    let start = Instant::now();
    let work = || -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        while start.elapsed() < Duration::from_secs(10) {
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
    println!("containers of `true`, {at_once} at once: {:.2} in a second; {}", done as f64 / seconds, load());
    Ok(())
}
