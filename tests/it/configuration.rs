//! Revisions that touch test configuration, and caches that must not be stale.

mod caches;
mod frameworks;
mod rule;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, Ran};
use crate::truth::fixture::Fixture;

/// What a row must be: arm; verdict; reason; outcomes with head's configuration; marks beside `channel: weak`.
type Want<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a [&'a str]);

const TOUCHED: &str = "test-configuration";
const OF_THE_FIX: &str = "test-configuration: part of the fix";

fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Scores what a fixture holds, with more arguments.
fn score(place: &Place, fixture: &Fixture<'_>, bench: &str, run: &str, more: &[&str]) -> Ran {
    let (run, mirrors) = (place.join(run).display().to_string(), fixture.mirrors());
    let arguments = ["score", bench, "--out", &run, "--mirrors", &mirrors, "--offline", "--json"];
    place.run(&[&arguments[..], more].concat())
}

fn row<'a>(report: &'a Value, id: &str, comment: &str, arm: &str) -> &'a Value {
    let rows = report["verdicts"].as_array().unwrap();
    let is = |row: &&Value| row["instance_id"] == id && row["comment"] == comment && row["arm"] == arm;
    rows.iter().find(is).unwrap_or_else(|| panic!("no row for {id} {comment} {arm}"))
}

fn texts<'a>(row: &'a Value, field: &str) -> Vec<&'a str> {
    row[field].as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Holds the rows of comment `c1` of an instance against what they must be; shows all that are wrong.
#[track_caller]
fn agrees(report: &Value, id: &str, wanted: &[Want<'_>]) {
    let mut wrong = Vec::new();
    for (arm, verdict, reason, second, marks) in wanted {
        let got = row(report, id, "c1", arm);
        let seen: Vec<&str> = texts(got, "marks").into_iter().filter(|mark| *mark != "channel: weak").collect();
        let said = got["reason"].as_str().unwrap_or_default();
        if got["verdict"] != *verdict
            || said != *reason
            || texts(got, "with_head_configuration") != *second
            || seen != *marks
        {
            wrong.push(format!("{arm}: wanted {verdict} ({reason}) {second:?} {marks:?}\n  got {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All records of a run.
fn records(run: &Path) -> Vec<Value> {
    let entries = walkdir::WalkDir::new(run.join("records")).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.map(|entry| serde_json::from_slice(&fs_err::read(entry.path()).unwrap()).unwrap()).collect()
}
