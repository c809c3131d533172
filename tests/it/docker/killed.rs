//! `kill -9` in the middle of a build and of tests: the next start cleans up, and of two live runs the other one is not
//! disturbed.
//!
//! Both kinds of commands wait for a file that somebody has to put into their container: so the test knows what runs.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::is_here;
use super::leftovers::{docker, eventually};
use super::tiny::{Fresh, containers_of, ended};
use crate::support::{Ran, cells};

/// Waits in a container until the test lets it go on.
const GATE: &str = "until test -e /tmp/go; do sleep 0.1; done; ";

fn running(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The running containers of a process, by id and command.
fn inside(pid: u32) -> Vec<(String, String)> {
    let format = "{{.ID}} {{.Label \"redgreen.owner\"}}";
    let listed = docker(&["ps", "--filter", "label=redgreen.owner", "--format", format]);
    let own = listed.lines().filter_map(|line| line.split_once(' '));
    let own = own.filter(|(_, owner)| owner.split('-').nth(3) == Some(&pid.to_string()));
    own.filter_map(|(id, _)| {
        // One that went meanwhile is none.
        let shown = Command::new("docker").args(["inspect", "--format", "{{json .Config}}", id]).output().unwrap();
        shown.status.success().then(|| (id.to_owned(), String::from_utf8(shown.stdout).unwrap()))
    })
    .collect()
}

/// Waits until a process's gated command runs, in which this text stands.
#[track_caller]
fn at_its_gate(child: &Child, text: &str) {
    eventually(&format!("{text} runs"), || inside(child.id()).iter().any(|(_, command)| command.contains(text)));
}

/// Lets a process through all of its gates, until it ends.
fn let_through(mut child: Child) -> Ran {
    while child.try_wait().unwrap().is_none() {
        for (id, _) in inside(child.id()) {
            let _ = Command::new("docker").args(["exec", &id, "touch", "/tmp/go"]).output().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ran::of(child.wait_with_output().unwrap())
}

/// Two processes at their gates (a command with this text in it), one killed; a third one that starts and ends; the live
/// one's and the third one's answers.
fn of_two_one_is_killed(fresh: &Fresh, text: &str, command: impl Fn(usize) -> Command) -> (Value, Value) {
    let live = running(command(0));
    at_its_gate(&live, text);
    let mut dead = running(command(1));
    at_its_gate(&dead, text);
    let lives = containers_of(live.id());
    assert_eq!((lives.len(), containers_of(dead.id()).len()), (1, 1));
    let before: Vec<String> = inside(live.id()).into_iter().map(|(id, _)| id).collect();
    dead.kill().unwrap();
    dead.wait().unwrap();
    assert_eq!(containers_of(dead.id()).len(), 1, "nobody cleaned up yet");

    let third = let_through(running(command(2))).exits(0).json();
    assert_eq!(containers_of(dead.id()), Vec::<String>::new());
    assert_eq!(containers_of(live.id()), lives);
    let after: Vec<String> = inside(live.id()).into_iter().map(|(id, _)| id).collect();
    assert_eq!(after, before, "the live one's container still runs");

    let live_id = live.id();
    let live = let_through(live).exits(0).json();
    for pid in [live_id, dead.id()] {
        fresh.assert_clean_of(pid);
    }
    assert_eq!(fresh.mounts(), Vec::<String>::new());
    (live, third)
}

#[test]
fn a_killed_build_is_cleaned_up_after_and_a_live_one_is_left_alone() {
    if !is_here() {
        return;
    }
    let build = "rm /env/deps/sub/two;";
    let fresh = Fresh::new(3, "true\n", |text| {
        assert!(text.contains(build));
        text.replace(build, &format!("{GATE}{build}"))
    });
    let command = |at: usize| fresh.command(&["env", "build", "bench", "--instances", &fresh.ids[at]]);
    let (live, third) = of_two_one_is_killed(&fresh, build, command);
    assert_eq!((&live["built"], &third["built"]), (&1.into(), &1.into()), "{live:#} {third:#}");
    // What was killed is built anew, and what was not is there.
    let again = let_through(running(command(1))).exits(0).json();
    assert_eq!(again["built"], 1, "{again:#}");
    let all = ended(fresh.command(&["env", "build", "bench"]));
    assert_eq!((&all["built"], &all["cached"]), (&0.into(), &3.into()), "{all:#}");
}

#[test]
fn killed_tests_are_cleaned_up_after_and_live_ones_are_left_alone() {
    if !is_here() {
        return;
    }
    let test = format!("{GATE}. ./clamp.sh; [ \"$value\" = 5 ]\n");
    let fresh = Fresh::new(3, &test, |text| text);
    ended(fresh.command(&["env", "build", "bench"]));
    let command = |at: usize| {
        let run = format!("run-{at}");
        fresh.command(&["score", "bench", "--instances", &fresh.ids[at], "--out", &run, "--denominator", "all"])
    };
    let (live, third) = of_two_one_is_killed(&fresh, "c1.sh", command);
    let verdicts = |report: &Value| -> Vec<(String, String)> {
        cells(report).into_iter().map(|((_, _, arm), (verdict, _))| (arm, verdict)).collect()
    };
    let expected = [("fox", "fail"), ("head", "fail"), ("merged", "pass"), ("owl", "pass")];
    let expected: Vec<_> = expected.map(|(arm, verdict)| (arm.to_owned(), verdict.to_owned())).into();
    let again = let_through(running(command(1))).exits(0).json();
    for report in [&live, &third, &again] {
        assert_eq!(verdicts(report), expected, "{report:#}");
    }
}
