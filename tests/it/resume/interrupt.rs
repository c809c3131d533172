//! Ctrl-C once and twice, the polite end signal, and death in the middle.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Place, Ran, timeless};

const TEST: &str = "bench/oracles/lantern-example__rotate-6@e2215cf/c1/rotate_spaces.sh";
const ARGUMENTS: [&str; 11] = [
    "score",
    "bench",
    "--out",
    "run",
    "--instances",
    "*rotate-6*",
    "--arms",
    "owl-review,human,head,merged",
    "--jobs",
    "2",
    "--json",
];

/// A benchmark whose one oracle sleeps for so many seconds; the number marks its processes, too.
struct Slow {
    place: Place,
    mark: String,
}

impl Slow {
    fn new(seconds: u32) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let place = Place::with_bench();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{seconds}.{}{count:03}", 1_000_000 + std::process::id());
        place.edit(TEST, |text| text.replacen('\n', &format!("\nsleep {mark}\n"), 1));
        Self { place, mark }
    }

    /// Starts scoring and waits until the slow oracle sleeps.
    fn start(&self) -> Child {
        let mut command = self.place.command(&ARGUMENTS);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the oracle sleeps", || self.sleeping());
        child
    }

    fn sleeping(&self) -> bool {
        command_lines().iter().any(|line| line.contains(&self.mark))
    }

    fn events(&self) -> Vec<Value> {
        let text = fs_err::read_to_string(self.place.join("run/events.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Takes the sleep out of the test.
    fn wake(&self) {
        let sleep = format!("sleep {}\n", self.mark);
        self.place.edit(TEST, |text| text.replace(&sleep, ""));
    }

    /// The same command again.
    fn finish(&self) -> Ran {
        self.place.run(&ARGUMENTS)
    }

    /// No process, mount or cgroup of this run is left.
    fn assert_nothing_is_left(&self, pid: u32) {
        eventually("the oracle's processes are gone", || !self.sleeping());
        let group = format!("-{pid}-");
        let groups = || {
            walkdir::WalkDir::new("/sys/fs/cgroup")
                .into_iter()
                .flatten()
                .filter_map(|e| e.file_name().to_str().map(str::to_owned))
                .any(|name| name.starts_with("redgreen-") && name.contains(&group))
        };
        eventually("the cgroups are gone", || !groups());
        let mounts = fs_err::read_to_string("/proc/mounts").unwrap();
        let place = self.place.path().display().to_string();
        assert!(!mounts.contains(&place), "{mounts}");
        let lines = command_lines();
        assert!(!lines.iter().any(|line| line.contains(&place)), "{lines:?}");
    }
}

fn command_lines() -> Vec<String> {
    let read = |entry: std::fs::DirEntry| fs_err::read(entry.path().join("cmdline")).ok();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(read)
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .collect()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|e| e["event"] == kind).count()
}

#[test]
fn ctrl_c_once_finishes_what_runs_and_starts_nothing_new() {
    let slow = Slow::new(3);
    let child = slow.start();
    let pid = child.id();
    signal(&child, rustix::process::Signal::INT);
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(130);
    assert!(ran.stderr.contains("interrupted: letting what runs finish, starting nothing new"), "{}", ran.stderr);
    assert!(ran.stderr.contains("interrupted: the same command goes on"), "{}", ran.stderr);
    slow.assert_nothing_is_left(pid);
    let events = slow.events();
    let drained = events.iter().position(|e| e["event"] == "draining").unwrap();
    let (before, after) = events.split_at(drained);
    assert_eq!(count(after, "task-started"), 0);
    let finished: Vec<&Value> = events.iter().filter(|e| e["event"] == "task-finished").collect();
    assert_eq!(finished.len(), count(before, "task-started"));
    assert!(finished.iter().all(|e| !e["outcome"].as_str().unwrap().starts_with("infra")), "{finished:?}");
    // The report is printed, and counts what was not run.
    let report = ran.json();
    assert!(report["notes"].to_string().contains("infra: interrupted"), "{}", report["notes"]);
    let rows = report["verdicts"].as_array().unwrap().len();
    assert_eq!(rows, 2 * 4);

    // The same command goes on and serves what was done.
    let kept = finished.len() as u64;
    let again = slow.finish().exits(0);
    assert_eq!(again.made_and_served(), (8 - kept, kept));
}

#[test]
fn ctrl_c_twice_stops_at_once() {
    let slow = Slow::new(600);
    let child = slow.start();
    let pid = child.id();
    signal(&child, rustix::process::Signal::INT);
    eventually("it drains", || count(&slow.events(), "draining") == 1);
    assert!(slow.sleeping());
    signal(&child, rustix::process::Signal::INT);
    stopped_at_once(&slow, child, pid);
}

#[test]
fn the_polite_end_signal_stops_at_once() {
    let slow = Slow::new(600);
    let child = slow.start();
    let pid = child.id();
    signal(&child, rustix::process::Signal::TERM);
    stopped_at_once(&slow, child, pid);
}

fn stopped_at_once(slow: &Slow, child: Child, pid: u32) {
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(130);
    assert!(ran.stderr.contains("stopping at once"), "{}", ran.stderr);
    slow.assert_nothing_is_left(pid);
    // What was broken off is no record.
    let records = walkdir::WalkDir::new(slow.place.join("run/records")).into_iter().flatten();
    let records = records.filter(|e| e.file_type().is_file()).count() as u64;
    assert_eq!(ran.made_and_served().0, records);
    assert!(!ran.stderr.contains("skipped"), "{}", ran.stderr);
    // With the sleep gone (which is another test) the same command completes.
    slow.wake();
    equals_a_fresh_run(slow);
}

#[test]
fn death_in_the_middle_loses_only_what_was_running() {
    let slow = Slow::new(600);
    let mut child = slow.start();
    let pid = child.id();
    // The other oracle's four rows are laid down, the sleeping one is in flight.
    let done = || {
        let files = walkdir::WalkDir::new(slow.place.join("run/rows")).into_iter().flatten();
        let texts = files.filter_map(|e| fs_err::read_to_string(e.path()).ok());
        texts.filter(|text| text.contains("\"state\":\"runs\"")).count() == 4
    };
    eventually("the other oracle is done", done);
    child.kill().unwrap();
    child.wait().unwrap();
    slow.assert_nothing_is_left(pid);
    // The report counts everything that was to be scored.
    let report = slow.place.run(&["report", "run", "--json"]).exits(0).json();
    assert_eq!(report["verdicts"].as_array().unwrap().len(), 8);
    assert!(report["notes"].to_string().contains("infra: interrupted 4"), "{}", report["notes"]);
    slow.wake();
    assert_eq!(slow.finish().exits(0).made_and_served(), (4, 4));
    equals_a_fresh_run(&slow);
}

/// The finished run shows what a run without interruption shows.
fn equals_a_fresh_run(slow: &Slow) {
    let resumed = slow.finish().exits(0).json();
    let fresh: Vec<&str> = ARGUMENTS.iter().map(|a| if *a == "run" { "fresh" } else { *a }).collect();
    assert_eq!(timeless(&resumed), timeless(&slow.place.run(&fresh).exits(0).json()));
}
