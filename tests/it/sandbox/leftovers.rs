//! However a run ends, nothing of it stays.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err as fs;
use redgreen::sandbox::{End, Exit, Sandbox, SandboxError, Task};
use tokio_util::sync::CancellationToken;

use super::{eventually, overlay, owned_dir, parent, processes, run, sandbox, shell, task, try_run};

/// Starts a command in the background, and gives the process of the sandbox's supervisor and the command's mark.
fn with_running(number: u32, act: impl FnOnce(i32)) -> (Result<Exit, SandboxError>, String) {
    let mark = format!("{}.{number}", 100_000 + std::process::id());
    let sandbox = sandbox();
    let task = shell(&format!("setsid sleep {mark} & sleep {mark}"));
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| try_run(&sandbox, &task));
        eventually("the commands run", || processes(&mark).len() == 2);
        // Of the command: the shell, PID 1, the supervisor. The session leader is the shell's child, too.
        let shell = parent(processes(&mark)[0]);
        act(parent(parent(shell)));
        running.join().unwrap()
    });
    (outcome, mark)
}

#[test]
fn killing_the_supervisor_leaves_nothing() {
    let mut groups = Vec::new();
    let (outcome, mark) = with_running(625, |supervisor| {
        groups = cgroup_of(supervisor_child(supervisor));
        // SAFETY: plain system call on a process of this test's.
        unsafe { libc::kill(supervisor, libc::SIGKILL) };
    });
    assert!(matches!(outcome, Err(SandboxError::Helper(_))), "{outcome:?}");
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    eventually("nothing is left", || processes(&mark).is_empty());
}

#[test]
fn a_start_removes_what_dead_owners_left_and_nothing_else() {
    if sandbox().isolation().level != "full" {
        return;
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(path) = own.lines().find_map(|line| line.split_once(":memory:")) else { return };
    let parent = Path::new("/sys/fs/cgroup/memory").join(path.1.trim_start_matches('/'));
    let boot: String =
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().chars().filter(|c| *c != '-').take(8).collect();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    // Our number, but another time of start: somebody who had it before.
    let dead = parent.join(format!("redgreen-{boot}-{namespace}-{}-1-0", std::process::id()));
    let foreign = parent.join(format!("redgreen-{boot}-1-{}-1-0", std::process::id()));
    fs::create_dir(&dead).unwrap();
    fs::create_dir(&foreign).unwrap();
    let _ = sandbox();
    let (dead, alive) = (dead.exists(), foreign.exists());
    fs::remove_dir(&foreign).unwrap();
    assert!(!dead && alive);
}

/// Not a test of its own: what `killing_redgreen_leaves_nothing` kills.
#[test]
#[ignore = "sleeps until it is killed"]
fn victim() {
    let mark = format!("{}.875", 100_000 + std::process::id());
    let _ = run(&shell(&format!("setsid sleep {mark} & sleep {mark}")));
}

#[test]
fn killing_redgreen_leaves_nothing() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::leftovers::victim", "--ignored"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mark = format!("{}.875", 100_000 + victim.id());
    eventually("the commands run", || processes(&mark).len() == 2);
    let groups = cgroups_of(victim.id());
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("nothing is left", || processes(&mark).is_empty());
    eventually("the cgroup is gone", || groups.iter().all(|group| !group.exists()));
    assert!(sandbox().isolation().level != "full" || !groups.is_empty());
}

/// The one child of a supervisor.
fn supervisor_child(supervisor: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// The cgroups of ours that a process is in.
fn cgroup_of(pid: i32) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let names = text.lines().filter_map(|line| line.rsplit('/').next()).filter(|name| name.starts_with("redgreen-"));
    let names: Vec<_> = names.collect();
    walkdir::WalkDir::new("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .map(walkdir::DirEntry::into_path)
        .filter(|path| names.iter().any(|name| path.ends_with(name)))
        .collect()
}

/// The cgroups that belong to runs of a process.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    walkdir::WalkDir::new("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("redgreen-") && name.split('-').nth(3) == Some(&pid.to_string())
        })
        .map(walkdir::DirEntry::into_path)
        .collect()
}

#[test]
fn a_dropped_run_is_killed() {
    let mark = format!("{}.375", 100_000 + std::process::id());
    let sandbox = sandbox();
    let task = task(&["sleep", &mark]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        let run = sandbox.run(&task, &cancel);
        tokio::select! {
            _ = run => panic!("ended by itself"),
            () = async { while processes(&mark).is_empty() { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
        }
    });
    eventually("nothing is left", || processes(&mark).is_empty());
}

#[test]
fn fifty_at_once_leave_nothing_behind() {
    let sandbox = sandbox();
    let lower = owned_dir(&sandbox, &[("f", "low")]);
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let before = mounts();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cancel = CancellationToken::new();
    let tasks: Vec<Task> = (0..50)
        .map(|number| {
            let mut task = shell(&format!("cat f; echo {number} > f; cat f; exit {number}"));
            task.cwd = "/workspace".into();
            task.mounts = vec![overlay(lower.path())];
            task
        })
        .collect();
    let exits = runtime.block_on(async {
        let mut exits = Vec::new();
        let running: Vec<_> = tasks.iter().map(|task| sandbox.run(task, &cancel)).collect();
        for run in join_all(running).await {
            exits.push(run.unwrap());
        }
        exits
    });
    for (number, exit) in exits.iter().enumerate() {
        assert_eq!(exit.stdout.text(), format!("low{number}\n"), "{}", exit.stderr.text());
        assert_eq!(exit.end, End::Exited(i32::try_from(number).unwrap()));
    }
    assert_eq!(mounts(), before);
    assert_eq!(fs::read_to_string(lower.path().join("f")).unwrap(), "low");
    assert_eq!(fs::read_dir(lower.path()).unwrap().count(), 1);
}

/// Polls all futures to their ends, at the same time.
async fn join_all<T>(mut running: Vec<std::pin::Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in running.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
