//! A resumed run writes only what is new.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Place, Ran, cells};

const SHELL: [&str; 7] = ["score", "bench", "--denominator", "all", "--out", "run", "--json"];

/// The files of a run's index and records, and which file each is: one that is written anew is another.
fn files(run: &Path) -> BTreeMap<PathBuf, u64> {
    ["rows", "records"]
        .into_iter()
        .flat_map(|folder| walkdir::WalkDir::new(run.join(folder)))
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| (entry.path().to_owned(), entry.metadata().unwrap().ino()))
        .collect()
}

fn score(place: &Place, more: &[&str]) {
    let _ = place.run(&[&SHELL[..], &["--instances", "*rotate*"], more].concat()).exits(0);
}

#[test]
fn what_says_the_same_is_not_written_again() {
    let place = Place::scored();
    // The rows of the whole run were laid out by the same command without a choice of instances.
    score(&place, &[]);
    let before = files(&place.join("run"));
    score(&place, &[]);
    assert_eq!(files(&place.join("run")), before);

    // Another limit is another question: rows of the two instances are laid out and made anew.
    score(&place, &["--timeout", "77"]);
    let after = files(&place.join("run"));
    let rewritten: Vec<&PathBuf> = before.keys().filter(|path| after[*path] != before[*path]).collect();
    assert!(!rewritten.is_empty() && rewritten.iter().all(|path| path.starts_with(place.join("run/rows"))));
    assert!(after.len() > before.len(), "new records beside the old ones");
}

/// The files of the rendered report, and which file each is.
fn report(place: &Place) -> BTreeMap<String, u64> {
    let entries = fs_err::read_dir(place.join("run/report")).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().ino())).collect()
}

#[test]
fn a_report_of_the_very_same_records_stays() {
    let place = Place::scored();
    score(&place, &[]);
    let first = report(&place);
    assert!(first.contains_key("report.html") && first.contains_key("junit.xml"));
    score(&place, &[]);
    assert_eq!(report(&place), first);

    // Whoever asks for a report gets one.
    let _ = place.run(&["report", "run"]).exits(0);
    let asked = report(&place);
    assert_ne!(asked["report.html"], first["report.html"]);

    // What somebody deleted comes back.
    fs_err::remove_file(place.join("run/report/junit.xml")).unwrap();
    score(&place, &[]);
    let mended = report(&place);
    assert!(mended.contains_key("junit.xml"));

    // A record that is made again is shown, though the verdict is as it was.
    score(&place, &["--redo"]);
    assert_ne!(report(&place)["report.html"], mended["report.html"]);

    // Records of a scoring that was killed before its report: what stands is not taken for theirs.
    let redone = report(&place);
    fs_err::create_dir(place.join("faults")).unwrap();
    let killed = place
        .command(&[&SHELL[..], &["--instances", "*rotate*", "--redo"]].concat())
        .env("REDGREEN_FAULT_FOLDER", place.join("faults"))
        .env("REDGREEN_FAULT", "run.record.put:3")
        .output()
        .unwrap();
    assert!(!killed.status.success());
    assert!(!place.join("run/report/.made-of.json").exists());
    score(&place, &[]);
    assert_ne!(report(&place)["report.html"], redone["report.html"]);
}

/// Scores in a room of its own, and dies when the first instance is ready. What is left then is what `report` says.
fn dies(place: &Place, more: &[&str]) -> BTreeMap<(String, String, String), (String, String)> {
    fs_err::create_dir_all(place.join("faults")).unwrap();
    let mut command = place.command(&[&SHELL[..], &["--instances", "*rotate*", "--jobs", "1"], more].concat());
    command.env("REDGREEN_FAULT_FOLDER", place.join("faults")).env("REDGREEN_FAULT", "score.instance.made:1");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, None, "it dies\n{}", ran.stderr);
    fs_err::remove_dir_all(place.join("faults")).unwrap();
    cells(&place.run(&["report", "run", "--json"]).exits(0).json())
}

#[test]
fn a_run_that_dies_leaves_no_answer_of_another_environment() {
    let place = Place::with_bench();
    fs_err::create_dir(place.join("definitions")).unwrap();
    fs_err::write(place.join("definitions/tiny.toml"), include_str!("../crash/tiny.toml")).unwrap();
    let override_with = |variables: serde_json::Value| {
        let environment = json!({"language": "tiny", "packages": ["one", "two"], "variables": variables});
        let line = json!({"repo": "lantern-example/rotate", "environment": environment});
        fs_err::write(place.join("environments.jsonl"), format!("{line}\n")).unwrap();
    };
    override_with(json!({}));
    let by_hand = ["--overrides", "environments.jsonl", "--definitions", "definitions"];
    let count = |more: &[&str]| {
        let all = [&SHELL[..], &["--instances", "*rotate*"], more].concat();
        place.run(&all).exits(0).made_and_served()
    };
    let is_no_answer = |cells: BTreeMap<_, (String, String)>| {
        let answered = cells.values().any(|(verdict, _)| verdict == "pass" || verdict == "fail");
        assert!(!cells.is_empty() && !answered, "{cells:?}");
    };
    let is_an_answer = |cells: BTreeMap<_, (String, String)>| {
        let known = cells.values().filter(|(verdict, _)| verdict == "pass" || verdict == "fail").count();
        assert!(known * 2 > cells.len(), "{cells:?}");
    };
    let all = count(&by_hand).0;
    assert!(all > 0);

    // The same stays, other variables do not, nor does another definition of the language by hand: the instances' own
    // is the shell's.
    is_an_answer(dies(&place, &by_hand));
    assert_eq!(count(&by_hand), (0, all));
    override_with(json!({"ROTATE_KEEP": "3"}));
    is_no_answer(dies(&place, &by_hand));
    assert_eq!(count(&by_hand), (all, 0));
    place.edit("definitions/tiny.toml", |text| text.replace("generated &&", "generated && true &&"));
    is_no_answer(dies(&place, &by_hand));
    assert_eq!(count(&by_hand), (all, 0));
    override_with(json!({}));
    place.edit("definitions/tiny.toml", |text| text.replace("generated && true &&", "generated &&"));
    assert_eq!(count(&by_hand), (0, all));

    // So with what is bounded by the commit's day.
    let _ = count(&[]);
    is_an_answer(dies(&place, &[]));
    is_no_answer(dies(&place, &["--as-of-commit"]));
    let _ = count(&["--as-of-commit"]);
    is_an_answer(dies(&place, &["--as-of-commit"]));
}
