//! A resumed run writes only what is new.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::support::Place;

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
