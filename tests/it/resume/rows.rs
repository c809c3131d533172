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
