//! Several runs at once, and runs that are put together.

use std::process::Stdio;

use crate::support::{Place, Ran, copy_folder, timeless};

const SHELL: [&str; 5] = ["score", "bench", "--instances", "*rotate*", "--json"];

#[test]
fn two_runs_into_one_folder_do_not_disturb_each_other() {
    let place = Place::with_bench();
    let start = || {
        let mut command = place.command(&[&SHELL[..], &["--out", "run"]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (first, second) = (start(), start());
    let first = Ran::of(first.wait_with_output().unwrap()).exits(0).json();
    let second = Ran::of(second.wait_with_output().unwrap()).exits(0).json();
    let last = place.run(&["report", "run", "--json"]).exits(0).json();
    assert_eq!(timeless(&first), timeless(&second));
    assert_eq!(timeless(&first), timeless(&last));
    assert_eq!(place.run(&[&SHELL[..], &["--out", "run"]].concat()).exits(0).made_and_served().0, 0);
}

#[test]
fn two_runs_on_one_fresh_cache_do_not_disturb_each_other() {
    let place = Place::with_bench();
    let start = |out: &str| {
        let arguments = ["--out", out, "--cache", "cache", "--instances", "*tally-9*", "--denominator", "all"];
        let mut command = place.command(&[&SHELL[..], &arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (first, second) = (start("a"), start("b"));
    let first = Ran::of(first.wait_with_output().unwrap()).exits(0);
    let second = Ran::of(second.wait_with_output().unwrap()).exits(0);
    assert_eq!(timeless(&first.json()), timeless(&second.json()));
    assert!(first.made_and_served().0 > 0 && first.made_and_served() == second.made_and_served());
}

#[test]
fn two_run_folders_merge_by_copying() {
    let place = Place::with_bench();
    let score = |out: &str, instances: &str| {
        let arguments = ["score", "bench", "--out", out, "--instances", instances, "--denominator", "all", "--json"];
        place.run(&arguments).exits(0)
    };
    score("a", "*rotate-6*");
    score("b", "*rotate-8*");
    let whole = score("c", "*rotate*").json();
    copy_folder(&place.join("b"), &place.join("a"));
    let union = place.run(&["report", "a", "--json"]).exits(0).json();
    assert_eq!(timeless(&union), timeless(&whole));
    // And everything in it serves.
    let again = score("a", "*rotate*");
    assert_eq!(again.made_and_served(), (0, 16));
}

#[test]
fn the_default_folder_is_the_newest_that_fits() {
    let place = Place::with_bench();
    let score = |more: &[&str]| {
        let first = ["score", "bench", "--instances", "*rotate-8*", "--denominator", "all", "--arms", "head"];
        place.run(&[&first[..], more].concat()).exits(0)
    };
    let folder = |n: u32| format!("run: {}\n", place.join(format!("redgreen-runs/quickstart-{n}")).display());
    let first = score(&[]);
    // Said at the start and at the end.
    assert_eq!(first.stderr.matches(&folder(1)).count(), 2, "{}", first.stderr);
    assert_eq!(score(&[]).made_and_served(), (0, 1));
    let new = score(&["--new"]);
    assert!(new.stderr.contains(&folder(2)) && new.made_and_served() == (1, 0), "{}", new.stderr);
    assert!(score(&[]).stderr.contains(&folder(2)));
    assert!(score(&["--policy", "c-crab"]).stderr.contains(&folder(3)));
    assert!(score(&[]).stderr.contains(&folder(2)));
}
