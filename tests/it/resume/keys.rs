//! A changed byte runs exactly those rows again that depend on it; the number of runs says so, both ways.

use serde_json::{Value, json};

use crate::support::{Place, Ran, cells, changed};

/// The shell instances: one of two comments (five runs each: `none` says that it changed nothing, an arm is missing), one
/// of one comment without a merged commit (six runs).
const SHELL: [&str; 7] = ["score", "bench", "--out", "run", "--json", "--instances", "*rotate*"];
const TWO_COMMENTS: u64 = 5;
const ONE_COMMENT: u64 = 6;
const ALL: u64 = 2 * TWO_COMMENTS + ONE_COMMENT;

const FIRST_TEST: &str = "bench/oracles/lantern-example__rotate-6@e2215cf/c1/rotate_spaces.sh";

fn score(place: &Place, more: &[&str]) -> Ran {
    place.run(&[&SHELL[..], &["--denominator", "all"], more].concat())
}

#[track_caller]
fn counts(place: &Place, more: &[&str]) -> (u64, u64) {
    score(place, more).exits(0).made_and_served()
}

#[test]
fn nothing_changed() {
    let place = Place::scored();
    let ran = score(&place, &[]).exits(0);
    assert_eq!(ran.made_and_served(), (0, ALL));
    assert!(ran.stderr.contains("0 oracle runs made"), "{}", ran.stderr);
}

#[test]
fn a_byte_of_a_test() {
    let place = Place::scored();
    place.edit(FIRST_TEST, |text| text + "#\n");
    assert_eq!(counts(&place, &[]), (TWO_COMMENTS, TWO_COMMENTS + ONE_COMMENT));
    place.edit(FIRST_TEST, |text| text.trim_end_matches("#\n").to_owned());
    assert_eq!(counts(&place, &[]), (0, ALL));
}

#[test]
fn a_byte_of_a_patch() {
    let place = Place::scored();
    let add = |from: &str, to: &str| {
        place.edit_rows("bench/revisions.jsonl", |row| {
            if row["arm"] == "human" && row["instance_id"].as_str().unwrap().contains("rotate-8") {
                row["patch"] = row["patch"].as_str().unwrap().replacen(from, to, 1).into();
            }
        });
    };
    let patch = "+# more\n";
    // A line that is added to the last hunk.
    let row = row_of(&place, "human", "rotate-8");
    let text = row["patch"].as_str().unwrap().to_owned();
    let grown = grow_last_hunk(&text, patch);
    add(&text, &grown);
    assert_eq!(counts(&place, &[]), (1, ALL - 1));
    add(&grown, &text);
    assert_eq!(counts(&place, &[]), (0, ALL));
}

fn row_of(place: &Place, arm: &str, instance: &str) -> Value {
    let text = fs_err::read_to_string(place.join("bench/revisions.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|row| row["arm"] == arm && row["instance_id"].as_str().unwrap().contains(instance))
        .unwrap()
}

/// Adds a line at the end of the last hunk and counts it.
fn grow_last_hunk(patch: &str, line: &str) -> String {
    let start = patch.rfind("@@ -").unwrap();
    let (head, hunk) = patch.split_at(start);
    let (ranges, body) = hunk.split_once('\n').unwrap();
    let ranges = regex::Regex::new(r"\+(\d+),(\d+)").unwrap().replace(ranges, |found: &regex::Captures<'_>| {
        format!("+{},{}", &found[1], found[2].parse::<u32>().unwrap() + 1)
    });
    format!("{head}{ranges}\n{body}{line}")
}

#[test]
fn a_variable_of_an_environment() {
    let place = Place::scored();
    let set = |value: Value| {
        place.edit_rows("bench/dataset.jsonl", |row| {
            if row["instance_id"].as_str().unwrap().contains("rotate-8") {
                row["environment"]["variables"] = value.clone();
            }
        });
    };
    set(json!({"ROTATE_KEEP": "3"}));
    assert_eq!(counts(&place, &[]), (ONE_COMMENT, 2 * TWO_COMMENTS));
    set(json!({"ROTATE_KEEP": "4"}));
    assert_eq!(counts(&place, &[]), (ONE_COMMENT, 2 * TWO_COMMENTS));
    set(json!({}));
    assert_eq!(counts(&place, &[]), (0, ALL));
}

#[test]
fn a_limit() {
    let place = Place::scored();
    let one = |more: &[&str]| {
        let arguments = ["score", "bench", "--out", "run", "--denominator", "all", "--instances", "*rotate-8*"];
        place.run(&[&arguments[..], more].concat()).exits(0).made_and_served()
    };
    assert_eq!(one(&["--timeout", "77"]), (ONE_COMMENT, 0));
    assert_eq!(one(&["--timeout", "77"]), (0, ONE_COMMENT));
    assert_eq!(one(&["--memory", "777M"]), (ONE_COMMENT, 0));
    assert_eq!(one(&[]), (0, ONE_COMMENT));
    // Another number of repeats keeps the first of them.
    assert_eq!(one(&["--repeat", "2"]), (ONE_COMMENT, ONE_COMMENT));
}

#[test]
fn a_record_that_is_gone_or_broken_is_made_again() {
    let place = Place::scored();
    let before = score(&place, &[]).exits(0).json();
    let is_one = |r: &&Value| r["arm"] == "human" && r["instance_id"].as_str().unwrap().contains("rotate-8");
    let row = before["verdicts"].as_array().unwrap().iter().find(is_one).unwrap();
    let key = row["key"].as_str().unwrap();
    let record = place.join("run/records/oracle").join(&key[..2]).join(format!("{key}.json"));
    fs_err::remove_file(&record).unwrap();
    let report = place.run(&["report", "run", "--json"]).exits(0);
    assert!(report.stdout.contains("rows point to records that are gone"), "{}", report.stdout);
    let again = score(&place, &[]).exits(0);
    assert_eq!(again.made_and_served(), (1, ALL - 1));
    assert_eq!(changed(&before, &again.json()), []);
    fs_err::write(&record, "{\"schema\": 1, ").unwrap();
    assert_eq!(counts(&place, &[]), (1, ALL - 1));
    assert_eq!(counts(&place, &[]), (0, ALL));
}

#[test]
fn redo_and_retry() {
    let place = Place::scored();
    assert_eq!(counts(&place, &["--redo", "--arms", "head"]), (2 + 1 + 2, 0), "the controls of three oracles");
    let before = score(&place, &[]).exits(0).json();
    let is_failed = |r: &&Value| r["outcomes"][0] == "failed" && r["instance_id"].as_str().unwrap().contains("rotate");
    let failed = before["verdicts"].as_array().unwrap().iter().filter(is_failed).count() as u64;
    assert!(failed > 0);
    let again = score(&place, &["--retry", "failed"]).exits(0);
    assert_eq!(again.made_and_served(), (failed, ALL - failed));
    assert_eq!(changed(&before, &again.json()), []);
    assert_eq!(counts(&place, &["--retry", "timed-out"]), (0, ALL));
}

#[test]
fn revisions_from_predictions_are_one_more_arm() {
    let place = Place::scored();
    let human = row_of(&place, "human", "rotate-8");
    let patch = human["patch"].as_str().unwrap();
    let predictions = json!([
        {"instance_id": human["instance_id"], "model_name_or_path": "same", "model_patch": patch},
        {"instance_id": human["instance_id"], "model_name_or_path": "other",
         "model_patch": grow_last_hunk(patch, "+# more\n")},
    ]);
    fs_err::write(place.join("predictions.json"), predictions.to_string()).unwrap();
    let ran = score(&place, &["--revisions", "predictions.json"]).exits(0);
    // An equal change is an equal run.
    assert_eq!(ran.made_and_served(), (1, ALL + 1));
    let report = ran.json();
    let arms: Vec<&str> = report["arms"].as_array().unwrap().iter().map(|a| a["arm"].as_str().unwrap()).collect();
    assert_eq!(
        arms,
        ["hare-review", "magpie-review", "other", "owl-review", "same", "human", "none", "head", "merged"]
    );
    for arm in ["same", "other"] {
        let row = report["arms"].as_array().unwrap().iter().find(|a| a["arm"] == arm).unwrap();
        assert_eq!((&row["passed"], &row["failed"], &row["missing_instances"]), (&json!(1), &json!(0), &json!(7)));
    }
}

#[test]
fn arms_instances_and_slices() {
    let place = Place::with_bench();
    let score = |out: &str, more: &[&str]| {
        let first = ["score", "bench", "--denominator", "all", "--json", "--out", out];
        place.run(&[&first[..], more].concat()).exits(0)
    };
    let one = score("a", &["--slice", "7:", "--arms", "owl-review,none"]);
    let report = one.json();
    assert_eq!(report["instances"], 1);
    let shown: Vec<String> = cells(&report).into_keys().map(|(_, _, arm)| arm).collect();
    assert_eq!(shown, ["none", "owl-review"]);
    // The control ran all the same.
    assert_eq!(one.made_and_served(), (3, 0));
    // A choice within a choice: the second of the two.
    let second = score("b", &["--instances", "*ROTATE*", "--slice", "1:2", "--arms", "owl-review,none"]).json();
    assert_eq!(cells(&second), cells(&report));
    // A folder keeps what it has: another arm is one more, and controls that were shown once stay.
    let more = score("a", &["--slice", "7:", "--arms", "head,human"]);
    assert_eq!(more.made_and_served(), (1, 1));
    let shown: Vec<String> = cells(&more.json()).into_keys().map(|(_, _, arm)| arm).collect();
    assert_eq!(shown, ["head", "human", "none", "owl-review"]);
    let again = score("a", &["--slice", "7:", "--arms", "human"]).json();
    assert_eq!(cells(&again), cells(&more.json()));
}

#[test]
fn a_bad_control_gates_arms_that_are_shown_alone() {
    let place = Place::with_bench();
    place.edit("bench/oracles/lantern-example__rotate-8@f8880c3/c1/missing_file.sh", |_| {
        "#!/bin/sh\necho 1..1\necho 'ok 1 - always'\n".to_owned()
    });
    let arguments = ["score", "bench", "--out", "run", "--json", "--denominator", "all", "--instances", "*rotate-8*"];
    let ran = place.run(&[&arguments[..], &["--arms", "owl-review"]].concat()).exits(0);
    assert!(ran.stderr.contains("lantern-example__rotate-8@f8880c3: not run: c1: control: head"), "{}", ran.stderr);
    let report = ran.json();
    let rows: Vec<_> = cells(&report).into_iter().collect();
    assert_eq!(rows.len(), 1);
    let ((_, _, arm), (verdict, reason)) = &rows[0];
    assert_eq!((arm.as_str(), verdict.as_str()), ("owl-review", "invalid"));
    assert!(reason.starts_with("control: head"), "{reason}");
}
