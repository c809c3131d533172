//! The other verbs, and the files that a run leaves.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Place, example};

#[test]
fn the_report_files_agree_with_the_table() {
    let place = Place::new();
    let arguments = ["score", &example(), "--out", "run", "--instances", "*rotate*", "--denominator", "all", "--json"];
    let report = place.run(&arguments).exits(0).json();
    let read = |name: &str| fs_err::read_to_string(place.join("run/report").join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read("report.json")).unwrap(), report);

    let arms = report["arms"].as_array().unwrap();
    let text = read("arms.csv");
    let rows: Vec<BTreeMap<String, String>> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), arms.len());
    for (row, arm) in rows.iter().zip(arms) {
        assert_eq!(row["arm"], arm["arm"].as_str().unwrap());
        for field in ["passed", "failed", "invalid", "missing", "missing_instances", "total"] {
            assert_eq!(row[field], arm[field].to_string(), "{field}");
        }
        let rate: f64 = row["rate"].parse().unwrap();
        assert!((rate - arm["rate"].as_f64().unwrap()).abs() < 1e-12);
    }

    let verdicts = report["verdicts"].as_array().unwrap();
    let text = read("verdicts.csv");
    let rows: Vec<BTreeMap<String, String>> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), verdicts.len());
    for (row, verdict) in rows.iter().zip(verdicts) {
        for field in ["instance_id", "comment", "arm", "verdict"] {
            assert_eq!(row[field], verdict[field].as_str().unwrap());
        }
        assert_eq!(row["reason"], verdict["reason"].as_str().unwrap_or_default());
    }

    // SWE-bench's words: an instance is resolved when all of its comments pass.
    let summary: Value = serde_json::from_str(&read("swebench.json")).unwrap();
    assert_eq!(summary["human"]["resolved_ids"].as_array().unwrap().len(), 2);
    assert_eq!(summary["head"]["resolved_instances"], 0);
    assert_eq!(summary["owl-review"]["submitted_instances"], 2);

    let markdown = read("report.md");
    for arm in arms {
        let (name, passed, total) = (arm["arm"].as_str().unwrap(), &arm["passed"], &arm["total"]);
        let line = markdown.lines().find(|line| line.starts_with('|') && line.contains(name)).unwrap();
        let numbers: Vec<&str> = line.split('|').map(str::trim).collect();
        assert!(
            numbers.contains(&passed.to_string().as_str()) && numbers.contains(&total.to_string().as_str()),
            "{line}"
        );
    }
    // `report/` can be made again from the rest.
    fs_err::remove_dir_all(place.join("run/report")).unwrap();
    place.run(&["report", "run"]).exits(0);
    assert_eq!(read("verdicts.csv"), text);
}

#[test]
fn check_says_what_is_good_and_what_is_not() {
    let place = Place::with_bench();
    assert_snapshot!(place.see(&["check", "bench"]), @r"
    exit code 0
    ----- stdout
    0 errors, 0 warnings
    ");
    place.edit_rows("bench/revisions.jsonl", |row| {
        if row["instance_id"] == "lantern-example__rotate-8@f8880c3" && row["arm"] == "none" {
            row["instance_id"] = "lantern-example__rotate-9@f8880c3".into();
        }
    });
    assert_snapshot!(place.see(&["check", "bench"]), @r"
    exit code 1
    ----- stdout
    revisions.jsonl:39: error: field `instance_id`: there is no instance `lantern-example__rotate-9@f8880c3` in dataset.jsonl; add it or remove this line
    1 error, 0 warnings
    ");
}

#[test]
fn predictions_are_added_to_a_benchmark() {
    let place = Place::with_bench();
    let patch = "diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n";
    let line = |instance: &str, arm: &str| {
        serde_json::json!({"instance_id": instance, "model_name_or_path": arm, "model_patch": patch}).to_string()
    };
    let lines = [
        line("lantern-example__rotate-8@f8880c3", "wren"),
        line("lantern-example__rotate-6@e2215cf", "wren"),
        line("somebody__else-1@0123456", "wren"),
        "{\"instance_id\": 4}".to_owned(),
    ];
    fs_err::write(place.join("wren.jsonl"), lines.join("\n")).unwrap();
    let before = fs_err::read_to_string(place.join("bench/revisions.jsonl")).unwrap();
    assert_snapshot!(place.see(&["import", "predictions", "wren.jsonl", "--out", "bench"]), @r"
    exit code 0
    ----- stdout
    bench: 2 revisions added, 0 replaced, 1 of unknown instances, 1 row not read
    ----- stderr
    wren.jsonl:4: error: field `instance_id`: invalid type: integer `4`, expected a string; the row is left out
    `somebody__else-1@0123456` is no instance of this benchmark
    ");
    let after = fs_err::read_to_string(place.join("bench/revisions.jsonl")).unwrap();
    assert_eq!(after.lines().count(), before.lines().count() + 2);
    // The same again replaces what is there.
    assert_snapshot!(place.see(&["import", "predictions", "wren.jsonl", "--out", "bench"]), @r"
    exit code 0
    ----- stdout
    bench: 0 revisions added, 2 replaced, 1 of unknown instances, 1 row not read
    ----- stderr
    wren.jsonl:4: error: field `instance_id`: invalid type: integer `4`, expected a string; the row is left out
    `somebody__else-1@0123456` is no instance of this benchmark
    ");
    assert_eq!(fs_err::read_to_string(place.join("bench/revisions.jsonl")).unwrap(), after);
    assert_snapshot!(place.see(&["import", "predictions", "nowhere.jsonl", "--out", "bench"]), @r"
    exit code 2
    ----- stderr
    error: there is no file or folder `nowhere.jsonl`; check the path
    ");
}

#[test]
fn the_cache_is_listed_and_emptied() {
    let place = Place::new();
    assert_snapshot!(place.see(&["gc", "--cache", "cache"]), @r"
    exit code 0
    ----- stdout
    cache: [place]/cache
    0 entries unused for 30 days
    ");
    let score = ["score", &example(), "--out", "run", "--instances", "*rotate-8*", "--denominator", "all"];
    place.run(&[&score[..], &["--cache", "cache"]].concat()).exits(0);
    // What was just used is kept; nothing is deleted that was not asked for.
    let kept = place.run(&["gc", "--cache", "cache", "--delete", "--json"]).exits(0).json();
    assert_eq!(kept["unused"], serde_json::json!([]));
    let listed = place.run(&["gc", "--cache", "cache", "--unused-days", "0", "--json"]).exits(0).json();
    let entries = listed["unused"].as_array().unwrap();
    assert!(entries.iter().any(|e| e.as_str().unwrap().contains("/snapshots-v1/")), "{listed}");
    assert!(entries.iter().all(|e| fs_err::metadata(e.as_str().unwrap()).is_ok()));
    place.run(&["gc", "--cache", "cache", "--unused-days", "0", "--delete"]).exits(0);
    assert!(entries.iter().all(|e| fs_err::metadata(e.as_str().unwrap()).is_err()));
    let again = place.run(&[&score[..], &["--cache", "cache", "--redo"]].concat()).exits(0);
    assert_eq!(again.made_and_served(), (6, 0));
}

#[test]
fn environments_are_listed_and_built_ahead() {
    let place = Place::with_bench();
    assert_snapshot!(place.see(&["env", "list"]), @r"
    exit code 0
    ----- stdout
    c          c++, cpp, cc, cxx
    go         golang
    java       jvm, kotlin
    node       javascript, typescript, js, ts, nodejs
    python     py, python3, cpython
    rust       rs, cargo
    shell      sh, posix-sh, bash
    ");
    assert_snapshot!(place.see(&["env", "build", "bench", "--offline", "--redo", "-i", "*rotate-6*"]), @r"
    exit code 0
    ----- stdout
    1 environment ready, 0 not
    ----- stderr
    lantern-example__rotate-6@e2215cf: begins
    lantern-example__rotate-6@e2215cf: repository
    lantern-example__rotate-6@e2215cf: shell: the shell runs
    lantern-example__rotate-6@e2215cf: ready, proven
    ");
    assert_snapshot!(place.see(&["env", "build", "bench", "-i", "nothing"]), @r"
    exit code 2
    ----- stderr
    error: no instance matches `--instances`
    hint: `redgreen check bench` tells what the folder holds
    ");
}

#[test]
fn completions_and_version() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"]).exits(0).stdout;
    assert!(script.contains("_redgreen()") && script.contains("--denominator"));
    let version = place.run(&["--version"]).exits(0).stdout;
    assert_eq!(version, format!("redgreen {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn doctor_names_what_it_found() {
    let place = Place::new();
    let doctor = place.run(&["doctor"]).exits(0);
    for topic in ["redgreen", "sandbox", "toolchain", "git", "disk"] {
        assert!(doctor.stdout.lines().any(|l| l.split_whitespace().nth(1) == Some(topic)), "{}", doctor.stdout);
    }
    let value = place.run(&["doctor", "--json"]).exits(0).json();
    assert_eq!(value["ok"], true);
}
