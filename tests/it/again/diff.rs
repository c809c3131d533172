//! `diff`: what differs between two runs, and why.

use serde_json::{Value, json};

use super::bench::{instances, score};
use crate::support::Place;

fn diff(place: &Place, first: &str, second: &str) -> Value {
    place.run(&["diff", first, second, "--json"]).exits(0).json()
}

/// Cause, inputs and arm of each change.
fn changes(comparison: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    comparison["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let inputs = change["inputs"].as_array().unwrap();
            let inputs = inputs.iter().map(|i| text(&i["input"])).collect::<Vec<_>>().join(",");
            (text(&change["arm"]), text(&change["cause"]), inputs)
        })
        .collect()
}

fn one(arm: &str, cause: &str, inputs: &str) -> (String, String, String) {
    (arm.to_owned(), cause.to_owned(), inputs.to_owned())
}

/// A place with two instances, scored into `first`; their ids.
fn scored() -> (Place, Vec<String>) {
    let place = Place::new();
    let ids = instances(&place, &["one", "two"], &["right", "wrong"], |_, _| {});
    score(&place, "first", &[]).exits(0);
    (place, ids)
}

#[test]
fn two_runs_of_the_same() {
    let (place, _) = scored();
    score(&place, "second", &[]).exits(0);
    let ran = place.run(&["diff", "first", "second", "--fail-on-change"]).exits(0);
    assert!(ran.stdout.contains("8 same, 0 changed, 0 only in the first, 0 only in the second\n"), "{}", ran.stdout);
    let comparison = diff(&place, "first", "second");
    assert_eq!(comparison["changes"], json!([]));
    assert_eq!(comparison["settings"], json!([]));
    assert_eq!(comparison["counts"]["inputs"], json!({}));
}

#[test]
fn a_byte_of_a_patch() {
    let (place, ids) = scored();
    place.edit_rows("bench/revisions.jsonl", |row| {
        if row["arm"] == "right" && row["instance_id"] == ids[0].as_str() {
            row["patch"] = row["patch"].as_str().unwrap().replace("+right", "+rigth").into();
        }
    });
    score(&place, "second", &[]).exits(0);
    let comparison = diff(&place, "first", "second");
    assert_eq!(changes(&comparison), [one("right", "inputs", "patch")]);
    assert_eq!(comparison["changes"][0]["instance_id"], ids[0].as_str());
    assert_eq!(comparison["changes"][0]["before"]["verdict"], "pass");
    assert_eq!(comparison["changes"][0]["after"]["reason"], "failed");
    assert_eq!(comparison["counts"]["same"], 7);
    let right = comparison["arms"].as_array().unwrap().iter().find(|a| a["arm"] == "right").unwrap();
    assert_eq!((&right["lost"], &right["gained"]), (&json!(1), &json!(0)));
    assert_eq!((&right["before"]["rate"], &right["after"]["rate"]), (&json!(1.0), &json!(0.5)));
    let gate = place.run(&["diff", "first", "second", "--fail-on-change"]).exits(1);
    let line = format!("{} c1 right: pass → fail (failed); inputs: patch\n", ids[0]);
    assert!(gate.stdout.contains(&line), "{}", gate.stdout);
}

#[test]
fn a_byte_of_a_test_an_environment_and_a_limit() {
    let (place, ids) = scored();
    // Turned round, the merged control is bad and with it all of the instance.
    place.edit(&format!("bench/oracles/{}/c1/c1.sh", ids[0]), |text| text.replace("grep -q", "! grep -q"));
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["instance_id"] == ids[1].as_str() {
            row["environment"]["variables"] = json!({"MORE": "1"});
        }
    });
    score(&place, "second", &["--timeout", "60"]).exits(0);
    let comparison = diff(&place, "first", "second");
    let got = changes(&comparison);
    assert_eq!(got.iter().map(|(arm, ..)| arm.as_str()).collect::<Vec<_>>(), ["head", "merged", "right", "wrong"]);
    for (arm, cause, inputs) in &got {
        assert_eq!(cause, "inputs", "{arm}");
        assert!(inputs.contains("test") && inputs.contains("limit wall"), "{arm}: {inputs}");
    }
    // The other instance's verdicts are the same, on another environment.
    assert_eq!(comparison["counts"]["same_with_other_inputs"], 4);
    assert_eq!(comparison["counts"]["inputs"]["environment"], 4);
    assert_eq!(comparison["settings"][0]["input"], "benchmark digest");
}

#[test]
fn the_same_inputs_and_another_outcome() {
    let (place, ids) = scored();
    score(&place, "second", &[]).exits(0);
    // What a coin would do by chance.
    let report = place.run(&["report", "second", "--json"]).exits(0).json();
    let of = |arm: &str, id: &str| {
        let rows = report["verdicts"].as_array().unwrap();
        let row = rows.iter().find(|v| v["arm"] == arm && v["instance_id"] == id).unwrap();
        let key = row["key"].as_str().unwrap();
        format!("second/records/oracle/{}/{key}.json", &key[..2])
    };
    let flip = |file: &str, outcome: &str| {
        place.edit(file, |text| {
            let mut record: Value = serde_json::from_str(&text).unwrap();
            record["outcome"] = outcome.into();
            record.to_string()
        });
    };
    flip(&of("wrong", &ids[0]), "passed");
    // A control that falls over takes the others along.
    flip(&of("head", &ids[1]), "passed");
    let comparison = diff(&place, "first", "second");
    let mut got = changes(&comparison);
    got.sort();
    assert_eq!(
        got,
        [
            one("head", "flaky", ""),
            one("merged", "flaky", ""),
            one("right", "flaky", ""),
            one("wrong", "flaky", ""),
            one("wrong", "flaky", "")
        ]
    );
    let gated = comparison["changes"].as_array().unwrap().iter().find(|c| c["arm"] == "right").unwrap();
    assert_eq!(gated["control"], "head");
    assert_eq!(comparison["counts"]["by_cause"], json!({"flaky": 5}));
}

#[test]
fn infra_and_verdicts_that_only_one_run_has() {
    let (place, ids) = scored();
    fs_err::rename(place.join("mirrors/truth/two"), place.join("away")).unwrap();
    score(&place, "second", &["--arms", "right,head,merged"]).exits(3);
    let comparison = diff(&place, "first", "second");
    let got = changes(&comparison);
    assert_eq!(got.iter().filter(|(_, cause, _)| cause == "infra").count(), 3, "{got:?}");
    assert_eq!(got.iter().filter(|(arm, cause, _)| cause == "only-first" && arm == "wrong").count(), 2, "{got:?}");
    let ids_of_infra = comparison["changes"].as_array().unwrap().iter().filter(|c| c["cause"] == "infra");
    assert!(ids_of_infra.clone().all(|c| c["instance_id"] == ids[1].as_str()));
    // Seen from the other side.
    let back = diff(&place, "second", "first");
    assert_eq!(back["counts"]["only_second"], 2);
    let counts = &comparison["counts"];
    let sum: u64 =
        ["same", "changed", "only_first", "only_second"].iter().map(|name| counts[*name].as_u64().unwrap()).sum();
    assert_eq!(sum, 8);
    let wrong = place.run(&["diff", "first", "bench"]).exits(2);
    assert!(wrong.stderr.contains("is not a run folder"), "{}", wrong.stderr);
}
