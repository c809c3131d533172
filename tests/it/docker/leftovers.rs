//! Nothing stays with the engine, whatever becomes of a run; and nobody else's is touched.

use std::process::Command;
use std::time::{Duration, Instant};

use redgreen::sandbox::Sandbox;
use redgreen::sandbox::docker::{DockerConfig, DockerSandbox};
use tokio_util::sync::CancellationToken;

use super::{base, config, is_here, overlay, owned_dir, shell, try_run};

/// What the engine's own client says; a test that asks for nothing because it failed would find nothing.
#[track_caller]
pub fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn containers(label: &str) -> Vec<String> {
    docker(&["ps", "-a", "-q", "--filter", &format!("label={label}")]).lines().map(str::to_owned).collect()
}

/// The owners of all containers of ours.
pub fn owners() -> Vec<String> {
    owners_of(&["ps", "-a"])
}

/// The owners of all volumes of ours.
pub fn owners_of_volumes() -> Vec<String> {
    owners_of(&["volume", "ls"])
}

fn owners_of(list: &[&str]) -> Vec<String> {
    let format = "{{.Label \"redgreen.owner\"}}";
    let shown = docker(&[list, &["--filter", "label=redgreen.owner", "--format", format]].concat());
    shown.lines().map(str::to_owned).collect()
}

/// Those that a process owns.
pub fn of_process(owners: Vec<String>, pid: u32) -> Vec<String> {
    owners.into_iter().filter(|owner| owner.split('-').nth(3) == Some(&pid.to_string())).collect()
}

/// The owner's label of a container.
fn own_prefix(container: &str) -> String {
    docker(&["inspect", "--format", "{{index .Config.Labels \"redgreen.owner\"}}", container])
}

/// Waits for something that must come.
#[track_caller]
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(180);
    while !is() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ids of containers that run a command with this mark in it.
fn running(mark: &str) -> Vec<String> {
    containers("redgreen.run")
        .into_iter()
        .filter(|id| {
            let output = Command::new("docker").args(["inspect", "--format", "{{json .Config}}", id]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).contains(mark)
        })
        .collect()
}

fn mark(name: &str) -> String {
    format!("mark-{name}-{}", std::process::id())
}

#[test]
fn a_run_leaves_nothing_however_it_ends() {
    if !is_here() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = DockerSandbox::new(DockerConfig { scratch_dir: scratch.path().join("s"), ..config() }).unwrap();
    let lower = owned_dir(&sandbox, &[("f", "")]);
    let mark = mark("ends");
    for script in ["exit 0", "exit 1", "kill -9 $$", "sleep 100"] {
        let mut task = shell(&format!(": {mark}; touch /workspace/x; {script}"));
        task.mounts = vec![overlay(lower.path())];
        task.limits.wall = Duration::from_secs(1);
        try_run(&sandbox, &task).unwrap();
        assert!(running(&mark).is_empty(), "{script}");
    }
    drop(sandbox);
    // Neither folders nor mounts.
    assert_eq!(fs_err::read_dir(scratch.path().join("s")).unwrap().count(), 0);
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&scratch.path().display().to_string()), "{mounts}");
}

#[test]
fn a_dropped_run_is_taken_away_before_the_sandbox_ends() {
    if !is_here() {
        return;
    }
    let sandbox = DockerSandbox::new(config()).unwrap();
    let mark = mark("dropped");
    let task = shell(&format!(": {mark}; exec sleep 1000"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        let run = sandbox.run(&task, &cancel);
        let there = async {
            while running(&mark).is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            exit = run => panic!("it ended: {exit:?}"),
            () = there => {}
        }
    });
    drop(sandbox);
    assert!(running(&mark).is_empty());
}

#[test]
fn a_cancelled_run_runs_no_more_when_it_says_so() {
    if !is_here() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let config = DockerConfig { scratch_dir: scratch.path().join("s"), ..config() };
    let sandbox = DockerSandbox::new(config).unwrap();
    let lower = owned_dir(&sandbox, &[("f", "")]);
    let mark = mark("cancelled");
    let mut task = shell(&format!(": {mark}; exec sleep 1000"));
    task.mounts = vec![overlay(lower.path())];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // At some time in its making, and as it starts.
    for millis in [0, 30, 60, 100, 150, 200, 250, 300, 350, 400, 500, 700] {
        let cancel = CancellationToken::new();
        let exit = runtime.block_on(async {
            let later = async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                cancel.cancel();
            };
            tokio::join!(sandbox.run(&task, &cancel), later).0.unwrap()
        });
        assert!(exit.cancelled, "{millis}: {exit:?}");
        let output = Command::new("docker").args(["ps", "-q", "--no-trunc"]).output().unwrap();
        let up = String::from_utf8(output.stdout).unwrap();
        assert!(running(&mark).iter().all(|id| !up.contains(id.as_str())), "{millis}");
    }
    drop(sandbox);
    assert!(running(&mark).is_empty());
    assert_eq!(fs_err::read_dir(scratch.path().join("s")).unwrap().count(), 0);
}

#[test]
fn the_next_start_takes_a_dead_owners_away_and_leaves_a_live_ones() {
    if !is_here() {
        return;
    }
    let image = base::PYTHON.image();
    let make = |owner: &str, expires: u64| {
        let labels = [format!("redgreen.owner={owner}"), format!("redgreen.expires={expires}")];
        let mut command = Command::new("docker");
        command.args(["run", "-d", "--network", "none", "--label", &labels[0], "--label", &labels[1]]);
        let output = command.args(["--label", "redgreen.run=test", &image, "sleep", "1000"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let exists = |id: &str| Command::new("docker").args(["inspect", id]).output().unwrap().status.success();
    // A live owner's label: this process's own, as the sandbox writes it.
    let sandbox = DockerSandbox::new(config()).unwrap();
    let mark = mark("live");
    let task = shell(&format!(": {mark}; exec sleep 1000"));
    let cancel = CancellationToken::new();
    std::thread::scope(|scope| {
        let live = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(sandbox.run(&task, &cancel)).unwrap()
        });
        eventually("the live run runs", || !running(&mark).is_empty());
        let owner = own_prefix(&running(&mark)[0]);
        let parts: Vec<&str> = owner.split('-').collect();
        let dead = format!("{}-{}-{}-{}-1-0", parts[0], parts[1], parts[2], parts[3]);
        let elsewhere = format!("redgreen-00000000-{}-{}-1-0", parts[2], parts[3]);
        let far = 9_999_999_999;
        let made = [make(&dead, far), make(&elsewhere, far), make(&elsewhere, 1), make("somebody's own", far)];
        drop(DockerSandbox::new(config()).unwrap());
        let left: Vec<bool> = made.iter().map(|id| exists(id)).collect();
        for id in &made {
            let _ = Command::new("docker").args(["rm", "-f", id]).output();
        }
        assert_eq!(left, [false, true, false, true], "dead, another machine's, expired, nobody's that we know");
        assert_eq!(running(&mark).len(), 1, "the live run was touched");
        cancel.cancel();
        assert!(live.join().unwrap().cancelled);
    });
}
