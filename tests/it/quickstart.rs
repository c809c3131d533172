//! The bundled example, from end to end, against its model: verdicts that were found without redgreen.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Place, copy_folder, root};

fn model() -> Value {
    let text = fs_err::read_to_string(root().join("tests/model/quickstart.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn example() -> String {
    root().join("examples/quickstart").display().to_string()
}

/// Verdict and reason of each row, by instance, comment and arm.
fn cells(report: &Value) -> BTreeMap<(String, String, String), (String, String)> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let key = (text(row, "instance_id"), text(row, "comment"), text(row, "arm"));
            (key, (text(row, "verdict"), text(row, "reason")))
        })
        .collect()
}

#[test]
fn the_example_equals_its_model_under_every_denominator_and_resumes() {
    let place = Place::new();
    let run = place.join("run").display().to_string();
    let first = place.run(&["score", &example(), "--out", &run, "--denominator", "all", "--json"]).exits(0).json();
    let model = model();

    // The table, arm by arm.
    for denominator in ["all", "valid", "final"] {
        let report = place.run(&["report", &run, "--denominator", denominator, "--json"]).exits(0).json();
        assert_eq!(report["denominator"], denominator);
        for expected in model["tables"][denominator].as_array().unwrap() {
            let arm = &expected["arm"];
            let got = report["arms"].as_array().unwrap().iter().find(|a| a["arm"] == *arm).unwrap();
            for field in ["control", "passed", "failed", "invalid", "missing", "missing_instances", "total"] {
                assert_eq!(got[field], expected[field], "{denominator} {arm} {field}");
            }
            for field in ["rate", "rate_scored"] {
                let near = (got[field].as_f64().unwrap() - expected[field].as_f64().unwrap()).abs() < 1e-12;
                assert!(near, "{denominator} {arm} {field}: {} {}", got[field], expected[field]);
            }
            let sum: u64 = ["passed", "failed", "invalid", "missing"].iter().map(|f| got[f].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), got["total"].as_u64());
        }
        assert_eq!(report["overlap"]["union"], model["overlap"][denominator]["union"]);
        assert_eq!(report["overlap"]["exclusive"], model["overlap"][denominator]["exclusive"]);
        assert_eq!(report["overlap"]["pairs"], model["overlap"][denominator]["pairs"]);
    }

    // Every verdict, its reason and its outcome.
    let rows = first["verdicts"].as_array().unwrap();
    let expected = model["verdicts"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for want in expected {
        let got = rows
            .iter()
            .find(|r| ["instance_id", "comment", "arm"].iter().all(|f| r[f] == want[f]))
            .unwrap_or_else(|| panic!("no row for {want}"));
        assert_eq!(got["verdict"], want["verdict"], "{got}");
        match want["reason_prefix"].as_str() {
            Some(prefix) => assert!(got["reason"].as_str().unwrap_or_default().starts_with(prefix), "{want}\n{got}"),
            None => assert_eq!(got["reason"], Value::Null, "{got}"),
        }
        if let Some(outcome) = want["outcome"].as_str() {
            assert_eq!(got["outcomes"][0], outcome, "{got}");
        }
        for mark in want["marks"].as_array().unwrap() {
            assert!(got["marks"].as_array().unwrap().contains(mark), "{want}\n{got}");
        }
    }

    // The same command again runs nothing and says so.
    let again = place.run(&["score", &example(), "--out", &run, "--denominator", "all", "--json"]).exits(0);
    assert!(again.stderr.contains("0 oracle runs made"), "{}", again.stderr);
    assert_eq!(cells(&again.json()), cells(&first));
}

#[test]
fn one_changed_hunk_changes_exactly_one_cell() {
    let place = Place::new();
    let bench = place.join("bench");
    copy_folder(&root().join("examples/quickstart"), &bench);
    let bench_text = bench.display().to_string();
    let run = place.join("run").display().to_string();
    let arguments = ["score", &bench_text, "--out", &run, "--instances", "*tally-3*", "--json"];
    let before = cells(&place.run(&arguments).exits(0).json());
    // The best reviewer's revision of one instance is undone.
    let file = bench.join("revisions.jsonl");
    let mut changed = 0;
    let lines: Vec<String> = fs_err::read_to_string(&file)
        .unwrap()
        .lines()
        .map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            if row["arm"] == "owl-review" && row["instance_id"].as_str().unwrap().contains("tally-3") {
                let patch = row["patch"].as_str().unwrap();
                let (header, hunks) = patch.split_at(patch.find("\n@@ ").unwrap());
                let remarked = format!("{header}{}", hunks.replacen("\n+", "\n+# a remark\n+", 1));
                row["patch"] = grow_first_hunk(&remarked).into();
                changed += 1;
            }
            row.to_string()
        })
        .collect();
    assert_eq!(changed, 1);
    fs_err::write(&file, lines.join("\n") + "\n").unwrap();
    let again = place.run(&arguments).exits(0);
    let after = cells(&again.json());
    assert_eq!(before.len(), after.len());
    // A remark changes no verdict, but only this arm's two oracles are run again.
    assert_eq!(before, after);
    assert!(again.stderr.contains("2 oracle runs made"), "{}", again.stderr);
}

/// Adds one to the new side's count of the first hunk.
fn grow_first_hunk(patch: &str) -> String {
    let start = patch.find("@@ -").unwrap();
    let end = start + patch[start..].find(" @@").unwrap();
    let plus = start + patch[start..end].find('+').unwrap();
    let (at, count) = patch[plus + 1..end].split_once(',').unwrap();
    format!("{}+{at},{}{}", &patch[..plus], count.parse::<u32>().unwrap() + 1, &patch[end..])
}
