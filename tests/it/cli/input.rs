//! Broken input: what is wrong is named with its place, and the rest is scored.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{Place, cells};

/// The shell instances: three oracles, a second or two.
const SHELL: [&str; 4] = ["--instances", "*rotate*", "--denominator", "all"];

/// Verdict and reason by arm of one instance's comment.
fn of<'a>(
    report: &'a Value,
    instance: &'a str,
    comment: &'a str,
) -> impl Iterator<Item = (String, String, String)> + 'a {
    cells(report)
        .into_iter()
        .filter(move |((i, c, _), _)| i.contains(instance) && c == comment)
        .map(|((_, _, arm), (verdict, reason))| (arm, verdict, reason))
}

#[test]
fn broken_lines_are_named_and_the_others_are_scored() {
    let place = Place::with_bench();
    place.edit("bench/dataset.jsonl", |text| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[0] = r#"{"instance_id": "lantern-example__shelf-4@053db49", "repo": 5}"#.to_owned();
        lines[1].push_str("oops");
        lines.join("\n") + "\n"
    });
    place.edit("bench/revisions.jsonl", |text| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[2] = lines[2].replace("\"attempt\": 1", "\"attempt\": \"one\"");
        lines[4].insert(0, '[');
        lines.join("\n") + "\n"
    });
    let ran = place.run(&[&["score", "bench", "--out", "run"], &SHELL[..]].concat());
    assert_snapshot!(place.notes(&ran), @r#"
    exit code 0
    ----- stderr
    dataset.jsonl:1: error: field `repo`: invalid type: integer `5`, expected a string (column 61); the line is left out until it is mended
    dataset.jsonl:2: error: trailing characters (column 4455); the line is left out until it is mended
    revisions.jsonl:3: error: field `attempt`: invalid type: string "one", expected u32; the line is left out until it is mended
    revisions.jsonl:5: error: EOF while parsing a list (column 1317); the line is left out until it is mended
    run: [place]/run
    scoring 2 instances, 18 oracle runs at most
    lantern-example__rotate-6@e2215cf: not run: arm none: no changes
    16 oracle runs made in [time], 0 served from records, 0 infra
    run: [place]/run
    "#);
    // The rows of what can be read are those of the whole benchmark.
    let whole = Place::with_bench();
    let expected = whole.run(&[&["score", "bench", "--out", "run", "--json"], &SHELL[..]].concat()).exits(0).json();
    let got = place.run(&["report", "run", "--json"]).exits(0).json();
    assert_eq!(cells(&got), cells(&expected));
    assert_snapshot!(place.see(&["check", "bench"]), @r#"
    exit code 1
    ----- stdout
    bench.json: error: field `frozen[0]`: dataset.jsonl has no comment `c1` of `lantern-example__shelf-4@053db49`; correct the frozen set, or import again
    bench.json: error: field `frozen[1]`: dataset.jsonl has no comment `c1` of `lantern-example__shelf-7@7ebd13e`; correct the frozen set, or import again
    dataset.jsonl:1: error: field `repo`: invalid type: integer `5`, expected a string (column 61); the line is left out until it is mended
    dataset.jsonl:2: error: trailing characters (column 4455); the line is left out until it is mended
    reviews.jsonl:1: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    reviews.jsonl:2: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    reviews.jsonl:9: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    reviews.jsonl:10: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    reviews.jsonl:17: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    reviews.jsonl:18: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    revisions.jsonl:1: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    revisions.jsonl:2: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    revisions.jsonl:3: error: field `attempt`: invalid type: string "one", expected u32; the line is left out until it is mended
    revisions.jsonl:5: error: EOF while parsing a list (column 1317); the line is left out until it is mended
    revisions.jsonl:9: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    revisions.jsonl:10: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    revisions.jsonl:17: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    revisions.jsonl:18: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    revisions.jsonl:24: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    revisions.jsonl:25: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    revisions.jsonl:32: error: field `instance_id`: there is no instance `lantern-example__shelf-4@053db49` in dataset.jsonl; add it or remove this line
    revisions.jsonl:33: error: field `instance_id`: there is no instance `lantern-example__shelf-7@7ebd13e` in dataset.jsonl; add it or remove this line
    22 errors, 0 warnings
    "#);
}

#[test]
fn a_benchmark_without_one_readable_instance() {
    let place = Place::with_bench();
    fs_err::write(place.join("bench/dataset.jsonl"), "{\n").unwrap();
    assert_snapshot!(place.see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    dataset.jsonl:1: error: EOF while parsing an object (column 1); the line is left out until it is mended
    error: the benchmark `[place]/bench` has no instance that can be read
    hint: `redgreen check [place]/bench` names every problem
    ");
    fs_err::write(place.join("bench/bench.json"), "{}").unwrap();
    assert_snapshot!(place.see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/bench/bench.json` cannot be read: missing field `schema`
    ");
}

#[test]
fn a_missing_test_is_infra_for_its_oracle_alone() {
    let place = Place::with_bench();
    let test = place.join("bench/oracles/lantern-example__rotate-6@e2215cf/c1/rotate_spaces.sh");
    fs_err::remove_file(&test).unwrap();
    let ran = place.run(&[&["score", "bench", "--out", "run"], &SHELL[..]].concat());
    assert_snapshot!(place.shown(&ran), @r"
    exit code 3
    ----- stdout
    quickstart: 3 comments of 2 instances, denominator `all`, policy `strict`

     arm               passed  failed  invalid  missing  total    rate       95 %  rate_scored        95 %
     hare-review            1       0        0        2      3  33.3 %   6.1–79.2      100.0 %  20.7–100.0
     magpie-review          2       0        1        0      3  66.7 %  20.8–93.9      100.0 %  34.2–100.0
     owl-review             1       1        1        0      3  33.3 %   6.1–79.2       50.0 %    9.5–90.5
     human (control)        2       0        1        0      3  66.7 %  20.8–93.9      100.0 %  34.2–100.0
     none (control)         0       2        1        0      3   0.0 %   0.0–56.1        0.0 %    0.0–65.8
     head (control)         0       2        1        0      3   0.0 %   0.0–56.1        0.0 %    0.0–65.8
     merged (control)       1       0        1        1      3  33.3 %   6.1–79.2      100.0 %  20.7–100.0

    tools together pass 2 of 3
      only hare-review: 0
      only magpie-review: 1
      only owl-review: 0
      hare-review and magpie-review: 1
      hare-review and owl-review: 1
      magpie-review and owl-review: 1

    passed by category
     category        total  hare-review  magpie-review  owl-review  human  none  head  merged
     error-handling      1            1              1           1      1     0     0       0
     robustness          2            0              1           0      1     0     0       1

    note: few comments (3): intervals are wide, and small differences mean nothing
    note: 6 verdicts are of oracles without a `merged` control, as no merged commit is known
    note: 11 verdicts come from a framework whose result the code under test could write
    note: 6 cells are invalid, nothing can be said of them: infra: environment 6
    ----- stderr
    run: [place]/run
    scoring 2 instances, 18 oracle runs at most
    lantern-example__rotate-6@e2215cf: 6 oracle runs skipped, infra: environment: the benchmark has no test `oracles/lantern-example__rotate-6@e2215cf/c1/rotate_spaces.sh` for comment c1; `redgreen check` names all that is missing
    lantern-example__rotate-6@e2215cf: not run: arm none: no changes
    11 oracle runs made in [time], 0 served from records, 6 infra
      infra, 6 rows: environment: the benchmark has no test `oracles/lantern-example__rotate-6@e2215cf/c1/rotate_spaces.sh` for comment c1; `redgreen check` names all that is missing
    run: [place]/run
    ");
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    for (arm, verdict, reason) in of(&report, "rotate-6", "c1").filter(|(_, verdict, _)| verdict != "missing") {
        assert_eq!(verdict, "invalid", "{arm}");
        assert!(reason.starts_with("infra: environment: the benchmark has no test"), "{arm} {reason}");
    }
    assert!(of(&report, "rotate-6", "c2").any(|(arm, verdict, _)| arm == "human" && verdict == "pass"));
    assert!(of(&report, "rotate-8", "c1").any(|(arm, verdict, _)| arm == "human" && verdict == "pass"));
    let check = place.run(&["check", "bench", "--json"]).exits(1).json();
    assert_eq!(check["errors"], 1);
    assert_eq!(check["problems"][0]["field"], "oracles[0].test");
}

#[test]
fn an_unknown_commit_is_infra_and_the_other_instances_stay() {
    let place = Place::with_bench();
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["instance_id"] == "lantern-example__rotate-6@e2215cf" {
            row["merged_commit"] = json!("deadbeefdeadbeefdeadbeefdeadbeefdeadbeef");
        }
    });
    let ran = place.run(&[&["score", "bench", "--out", "run"], &SHELL[..]].concat());
    assert_snapshot!(place.notes(&ran), @r"
    exit code 3
    ----- stderr
    run: [place]/run
    scoring 2 instances, 18 oracle runs at most
    lantern-example__rotate-6@e2215cf: 12 oracle runs skipped, infra: repository: commit `[digest]` is not in [cache]/repositories-v1/bundles-v1/[digest].git: no ref, pack or loose object has it
    6 oracle runs made in [time], 0 served from records, 12 infra
      infra, 12 rows: repository: commit `[digest]` is not in [cache]/repositories-v1/bundles-v1/[digest].git: no ref, pack or loose object has it
    hint: `--mirrors DIR` and `--clone-from URL` name more places for repositories
    run: [place]/run
    ");
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    assert!(of(&report, "rotate-6", "c1").any(|(_, _, reason)| reason.starts_with("infra: repository: commit")));
    assert!(of(&report, "rotate-8", "c1").all(|(_, _, reason)| !reason.contains("infra")));
}

#[test]
fn an_unknown_repository_is_infra_and_says_where_it_was_looked_for() {
    let place = Place::with_bench();
    fs_err::remove_file(place.join("bench/repos/lantern-example__rotate.bundle")).unwrap();
    let arguments = ["--instances", "*rotate-8*", "--instances", "*tally-9*", "--denominator", "all", "--offline"];
    let cache = place.join("cache").display().to_string();
    let ran = place.run(&[&["score", "bench", "--out", "run", "--cache", &cache], &arguments[..]].concat());
    assert_snapshot!(place.notes(&ran), @r"
    exit code 3
    ----- stderr
    run: [place]/run
    scoring 2 instances, 13 oracle runs at most
    lantern-example__rotate-8@f8880c3: 6 oracle runs skipped, infra: repository: repository `lantern-example/rotate` was not found; looked at: [place]/bench/repos (no such bundle); [place]/cache/repositories-v1/clones-v1/lantern-example__rotate.git (earlier clones)
    7 oracle runs made in [time], 0 served from records, 6 infra
      infra, 6 rows: repository: repository `lantern-example/rotate` was not found; looked at: [place]/bench/repos (no such bundle); [place]/cache/repositories-v1/clones-v1/lantern-example__rotate.git (earlier clones)
    hint: `--mirrors DIR` and `--clone-from URL` name more places for repositories
    run: [place]/run
    ");
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    assert!(of(&report, "tally-9", "c1").any(|(arm, verdict, _)| arm == "owl-review" && verdict == "pass"));
}

#[test]
fn the_log_of_an_environment_that_could_not_be_made_is_kept() {
    let place = Place::with_bench();
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["instance_id"] == "lantern-example__rotate-6@e2215cf" {
            row["environment"]["steps"] = json!(["echo what the step says; exit 7"]);
        }
    });
    let ran = place.run(&[&["score", "bench", "--out", "run"], &SHELL[..]].concat()).exits(3);
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    let row = report["verdicts"].as_array().unwrap().iter().find(|r| r["arm"] == "head").unwrap();
    let digest = row["evidence"]["log"].as_str().unwrap();
    let log = place.join("run/blobs").join(&digest[..2]).join(digest);
    assert!(fs_err::read_to_string(&log).unwrap().contains("what the step says"));
    assert!(ran.stderr.contains(&format!("log: {}", log.display())), "{}", ran.stderr);
}
