//! A dead owner's leftovers go when somebody else starts, a live one's never: one cache, two live processes and dead ones.

use std::collections::BTreeMap;
use std::path::Path;

use super::stand::{Stand, Template, eventually};
use crate::support::is_root;

/// The instant at which processes are held or killed: an oracle's run of theirs is set up, its command waits.
fn instant(template: &Template) -> (&'static str, u64) {
    const POINT: &str = "init.command.waits";
    (POINT, template.counts[POINT] - 1)
}

/// Files of a folder, with their sizes.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    entries.map(|e| (e.path().display().to_string(), e.metadata().unwrap().len())).collect()
}

/// Starts a run that stands still in the middle of an oracle's run.
fn held(stand: &Stand, template: &Template, wrapper: &[&str], run: &str) -> super::stand::Running {
    let (point, nth) = instant(template);
    let running = stand.start_under(wrapper, run, Some(&format!("{point}:{nth}:wait")));
    eventually("it stands at its point", || stand.count(run, point) >= nth);
    running
}

#[test]
fn a_live_process_is_not_disturbed_by_another_that_takes_away_what_a_dead_one_left() {
    let template = Template::new();
    let stand = template.stand();
    let live = held(&stand, &template, &[], "run-live");
    let lives = stand.scratch();
    assert_eq!(lives.len(), 1);
    let before = files(&lives[0]);
    let groups = stand.cgroups();

    // The main process dies together with its helper's supervisor: nobody is left to clean up.
    let (point, nth) = ("helper.command.started", template.counts["helper.command.started"] - 1);
    let (_, status) = stand.start("run-dead", Some(&format!("{point}:{nth}:both"))).end();
    assert!(!status.success());
    assert_eq!(stand.scratch().len(), 2);
    let more_groups = stand.cgroups();
    assert!(groups.is_empty() || more_groups.len() > groups.len(), "{groups:?} {more_groups:?}");

    // Another process starts, and ends.
    stand.run("run-other", None).exits(0);
    assert_eq!(stand.scratch(), lives);
    assert_eq!(files(&lives[0]), before);
    assert_eq!(stand.cgroups(), groups);

    stand.go("run-live");
    live.end().0.exits(0);
    stand.seen("run-live").assert_is(&stand.seen("run-other"));
    stand.run("run-dead", None).exits(0);
    stand.seen("run-dead").assert_is(&stand.seen("run-other"));
    stand.assert_clean();
}

#[test]
fn process_numbers_of_another_namespace_are_not_believed() {
    if !is_root("a PID namespace that shares the cache") {
        return;
    }
    let template = Template::new();
    let stand = template.stand();
    let wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let live = held(&stand, &template, &wrapper, "run-live");
    let lives = stand.scratch();
    assert_eq!(lives.len(), 1);
    // There its number is a small one, which here belongs to another process or to none.
    stand.run("run-other", None).exits(0);
    assert_eq!(stand.scratch(), lives);

    // The other way round, with a dead one outside.
    let (point, nth) = instant(&template);
    stand.start("run-dead", Some(&format!("{point}:{nth}:main"))).end();
    assert_eq!(stand.scratch().len(), 2);
    stand.start_under(&wrapper, "run-inside", None).end().0.exits(0);
    assert_eq!(stand.scratch(), lives);

    // Killed with its whole namespace: seen from outside, too.
    let namespace = fs_err::read_link(format!("/proc/{}/ns/pid_for_children", live.child.id())).unwrap();
    let namespace: String = namespace.to_str().unwrap().chars().filter(char::is_ascii_digit).collect();
    live.kill();
    eventually("the namespace is gone", || stand.count_processes() == 0);
    stand.run("run-live", None).exits(0);
    assert!(stand.scratch().is_empty());
    // Its cgroup is empty, and stays for an hour, as its numbers mean nothing here.
    for group in walkdir::WalkDir::new("/sys/fs/cgroup").into_iter().flatten() {
        let name = group.file_name().to_string_lossy();
        if name.starts_with("redgreen-") && name.contains(&format!("-{namespace}-")) && group.file_type().is_dir() {
            fs_err::remove_dir(group.path()).unwrap();
        }
    }
    stand.seen("run-live").assert_is(&stand.seen("run-other"));
    stand.seen("run-inside").assert_is(&stand.seen("run-other"));
}

#[test]
fn half_made_entries_of_the_dead_go_and_those_of_the_living_stay() {
    let template = Template::new();
    let stand = template.stand();
    let half = |stand: &Stand| -> Vec<String> {
        let entries = walkdir::WalkDir::new(stand.join("cache")).into_iter().flatten();
        let names = entries.filter_map(|e| e.file_name().to_str().map(str::to_owned));
        let mut names: Vec<_> =
            names.filter(|name| name.ends_with(".tmp") || name.len() > 64 && name.starts_with('.')).collect();
        names.sort();
        names
    };
    // Dead while it made a layer, a tree, a clone: all three at different times.
    for (run, fault) in
        [("run-a", "repo.clone.made:1"), ("run-b", "repo.snapshot.written:1"), ("run-c", "layer.log.written:1")]
    {
        let (_, status) = stand.start(run, Some(fault)).end();
        assert!(!status.success());
        assert_eq!(half(&stand).len(), 1, "{run}: {:?}", half(&stand));
        if run != "run-c" {
            // Any other command that uses the cache takes it away, also one that needs none of it.
            stand.redgreen(&["doctor", "--cache", "cache"]);
            assert_eq!(half(&stand), Vec::<String>::new(), "{run}");
        }
    }
    stand.redgreen(&["doctor", "--cache", "cache"]);
    let live = stand.start("run-live", Some("layer.log.written:1:wait"));
    eventually("it makes a layer", || stand.count("run-live", "layer.log.written") == 1);
    let making = half(&stand);
    assert_eq!(making.len(), 1);
    stand.redgreen(&["doctor", "--cache", "cache"]);
    assert_eq!(half(&stand), making);
    stand.go("run-live");
    live.end().0.exits(0);
    for run in ["run-a", "run-b", "run-c"] {
        stand.run(run, None).exits(0);
        stand.seen(run).assert_is(&stand.seen("run-live"));
    }
    stand.assert_clean();
}
