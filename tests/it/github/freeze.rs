//! `freeze`: only what just ran well is in the frozen set.

use std::collections::BTreeMap;

use serde_json::Value;

use super::stand::rows;
use crate::support::Place;

const SHELF: &str = "lantern-example__shelf-4@053db49";
const TALLY: &str = "lantern-example__tally-3@2a8c4ad";

fn test_of(place: &Place, instance: &str, comment: &str) -> String {
    let data = rows(&place.join("bench/dataset.jsonl"));
    let row = data.iter().find(|row| row["instance_id"] == instance).unwrap();
    let oracles = row["oracles"].as_array().unwrap();
    oracles.iter().find(|o| o["comment"] == comment).unwrap()["test"].as_str().unwrap().to_owned()
}

fn refusals(summary: &Value) -> BTreeMap<(String, String), String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let refused = summary["refused"].as_array().unwrap().iter();
    refused.map(|r| ((text(r, "instance_id"), text(r, "comment")), text(r, "reason"))).collect()
}

fn files(place: &Place, bench: &str) -> BTreeMap<String, Vec<u8>> {
    let root = place.join(bench);
    let entries = walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    entries
        .map(|e| (e.path().strip_prefix(&root).unwrap().display().to_string(), fs_err::read(e.path()).unwrap()))
        .collect()
}

#[test]
fn refused_oracles_are_typed_and_the_rest_is_frozen() {
    let place = Place::with_bench();
    // One that passes without any change, and one that nothing passes.
    let (shelf, tally) = (test_of(&place, SHELF, "c1"), test_of(&place, TALLY, "c1"));
    let empty = "import unittest\n\n\nclass Nothing(unittest.TestCase):\n    def test(self):\n        self.assertTrue(RESULT)\n";
    place.edit(&format!("bench/{shelf}"), |_| empty.replace("RESULT", "True"));
    place.edit(&format!("bench/{tally}"), |_| empty.replace("RESULT", "False"));
    let freeze =
        |out: &str, run: &str| place.run(&["freeze", "bench", "--out", out, "--run", run, "--repeat", "2", "--json"]);
    let ran = freeze("one", "run1").exits(0);
    let summary = ran.json();
    let refused = refusals(&summary);
    assert_eq!(refused[&(SHELF.to_owned(), "c1".to_owned())], "bad-control");
    assert_eq!(refused[&(TALLY.to_owned(), "c1".to_owned())], "bad-control");
    // The pull request that was never merged.
    let uncontrolled: Vec<_> = refused.iter().filter(|(_, reason)| *reason == "uncontrolled").collect();
    assert_eq!((refused.len(), uncontrolled.len()), (3, 1), "{refused:?}");
    let frozen = summary["frozen"].as_array().unwrap().len();
    assert_eq!((frozen, summary["without_oracle"].as_u64()), (9, Some(1)));

    let data = rows(&place.join("one/dataset.jsonl"));
    let accepted = |o: &&Value| o["accepted"] != false;
    let kept = data.iter().filter_map(|row| row["oracles"].as_array()).flatten().filter(accepted).count();
    assert_eq!(kept, frozen);
    let lines = rows(&place.join("one/attrition.jsonl"));
    let of_freeze: Vec<_> =
        lines.iter().filter(|a| a["stage"] == "freeze").map(|a| a["reason"].as_str().unwrap()).collect();
    assert_eq!(of_freeze.len(), 3);
    place.run(&["check", "one"]).exits(0);
    let scored = place.run(&["score", "one", "--arms", "head,merged", "--json"]).exits(0).json();
    assert_eq!((scored["denominator"].as_str(), scored["comments"].as_u64()), (Some("final"), Some(9)));

    // The same bytes from another freeze, and from one of the frozen benchmark nothing is refused any more.
    freeze("two", "run2").exits(0);
    assert!(files(&place, "one") == files(&place, "two"));
    // Records that served once are no proof of now, and those of a scoring may be old.
    let again = freeze("three", "run1").exits(2);
    assert!(again.stderr.contains("served a freeze that is done"), "{}", again.stderr);
    let scoring = place.join("redgreen-runs").read_dir().unwrap().next().unwrap().unwrap().path();
    let old = freeze("three", scoring.to_str().unwrap()).exits(2);
    assert!(old.stderr.contains("a run that no freeze began"), "{}", old.stderr);
    assert!(!place.join("three").exists());
}

#[test]
fn nothing_is_written_where_nothing_is_left_or_the_benchmark_is_broken() {
    let place = Place::with_bench();
    place.edit("bench/dataset.jsonl", |text| {
        text.lines().filter(|l| l.contains(SHELF)).map(|l| format!("{l}\n")).collect()
    });
    fs_err::remove_file(place.join("bench/revisions.jsonl")).unwrap();
    fs_err::remove_file(place.join("bench/reviews.jsonl")).unwrap();
    place.edit("bench/bench.json", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest.as_object_mut().unwrap().remove("frozen");
        manifest.to_string()
    });
    fs_err::write(place.join("t.toml"), "kinds = [\"structural\"]\n").unwrap();
    let freeze = |more: &[&str]| place.run(&[&["freeze", "bench", "--repeat", "1"], more].concat());
    let ran = freeze(&["--out", "none", "--thresholds", "t.toml"]).exits(1);
    assert!(
        ran.stdout.contains("threshold: its kind is behavioral") && ran.stdout.contains("nothing was written"),
        "{}",
        ran.stdout
    );
    assert!(!place.join("none").exists());
    let ran = freeze(&["--out", "bench"]).exits(2);
    assert!(ran.stderr.contains("the benchmark itself"), "{}", ran.stderr);
    fs_err::write(place.join("t.toml"), "kill_rate = 0.5\n").unwrap();
    let ran = freeze(&["--out", "none", "--thresholds", "t.toml"]).exits(2);
    assert!(ran.stderr.contains("t.toml: `kill_rate` needs the figures of an audit"), "{}", ran.stderr);
    // Without its repository nothing can be run: that is nobody's fault but the machine's.
    fs_err::rename(place.join("bench/repos"), place.join("away")).unwrap();
    let ran = freeze(&["--out", "none", "--offline", "--json"]).exits(3);
    assert_eq!(refusals(&ran.json()).values().collect::<Vec<_>>(), ["infra"]);
    // Then the same command goes on with what it has.
    fs_err::rename(place.join("away"), place.join("bench/repos")).unwrap();
    let ran = freeze(&["--out", "some"]).exits(0);
    assert_eq!(ran.made_and_served(), (0, 2));
    assert!(ran.stdout.contains("1 of 1 comment frozen"), "{}", ran.stdout);
    // Once it is written, another freeze runs its own.
    assert_eq!(freeze(&["--out", "other"]).exits(0).made_and_served(), (2, 0));
    fs_err::remove_file(place.join(format!("bench/{}", test_of(&place, SHELF, "c1")))).unwrap();
    let ran = freeze(&["--out", "none"]).exits(2);
    assert!(ran.stderr.contains("the benchmark has 1 error"), "{}", ran.stderr);
}

/// The numbers of the example's files, counted here by hand.
#[test]
fn the_funnel_has_numbers_only_where_something_tells_of_a_stage() {
    let place = Place::with_bench();
    let found = place.run(&["funnel", "bench", "--json"]).exits(0).json();
    let stages = found["stages"].as_array().unwrap();
    let counts: Vec<_> = stages
        .iter()
        .map(|s| {
            (
                s["stage"].as_str().unwrap(),
                s["status"].as_str().unwrap(),
                s["instances"].as_u64(),
                s["comments"].as_u64(),
            )
        })
        .collect();
    let data = rows(&place.join("bench/dataset.jsonl"));
    let comments: usize = data.iter().map(|row| row["reference_review_comments"].as_array().unwrap().len()).sum();
    assert_eq!((data.len(), comments), (8, 13));
    assert_eq!(counts[0], ("imported", "done", Some(8), Some(13)));
    assert_eq!(counts[1].1, "not-run");
    assert_eq!((counts[1].2, counts[1].3), (None, None));
    assert_eq!((counts[3].0, counts[3].1, counts[3].3), ("testable", "done", Some(12)));
    assert_eq!((counts[5].0, counts[5].1, counts[5].3), ("frozen", "done", Some(9)));
    assert_eq!(found["unexplained"], 0);
    assert!(stages.iter().all(|s| s["money"].is_null() && s["hours"].is_null()));
    let text = place.run(&["funnel", "bench"]).exits(0).stdout;
    let line = |stage: &str| {
        text.lines().find(|l| l.trim_start().starts_with(stage)).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert!(line("filtered").contains("not run") && line("frozen").contains('9'), "{text}");

    // What the filter and the models left beside it is read, and a broken line of theirs is named, once.
    const KEY: &str = "24beabe1881ab4253dbe7b09259da87cd9f71f7dabfe11548fcc7c82cf4942e9";
    let kept: String = data
        .iter()
        .flat_map(|row| row["reference_review_comments"].as_array().unwrap().iter().map(move |c| (row, c)))
        .enumerate()
        .map(|(n, (row, c))| {
            let decision = if n < 4 { "dropped" } else { "kept" };
            format!(
                "{}\n",
                serde_json::json!({"instance_id": row["instance_id"], "comment": c["id"], "decision": decision, "key": KEY})
            )
        })
        .collect();
    fs_err::write(place.join("bench/filter.jsonl"), format!("{kept}{{oops\n")).unwrap();
    let call = serde_json::json!({"stage": "filter", "purpose": "classify", "request": KEY, "model": "m",
                                  "outcome": "answered", "cost": 0.5, "seconds": 3600, "attempts": 1});
    fs_err::write(place.join("bench/llm.jsonl"), format!("{call}\n")).unwrap();
    let ran = place.run(&["funnel", "bench", "--json"]).exits(0);
    assert_eq!(ran.stderr.matches("filter.jsonl:14").count(), 1, "{}", ran.stderr);
    let filtered = &ran.json()["stages"][1];
    assert_eq!((&filtered["comments"], &filtered["money"], &filtered["hours"]), (&9.into(), &0.5.into(), &1.0.into()));
}
