use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::model::{BenchManifest, Instance};

fn instance(pull: u64) -> Value {
    let id = format!("o__r-{pull}@0123abc");
    json!({
        "instance_id": id, "repo": "o/r", "commit_to_review": {"head_commit": "0123abc"},
        "reference_review_comments": [{"id": "c1", "text": "same"}, {"id": "c2", "text": "same"}],
        "oracles": [{"comment": "c1", "framework": "pytest", "test": format!("oracles/{id}/c1/t.py"), "before": ["failed"]}]
    })
}

/// A sound benchmark of two instances.
fn content() -> Content {
    let manifest: BenchManifest = serde_json::from_value(json!({
        "schema": 1, "name": "b", "frozen": [{"instance_id": "o__r-1@0123abc", "comment": "c1"}], "later": {"x": 1}
    }))
    .unwrap();
    let mut content = Content::new(manifest);
    for pull in [1, 2] {
        let row: Instance = serde_json::from_value(instance(pull)).unwrap();
        content.tests.insert(row.oracles[0].test.clone(), b"def test(): pass\n".to_vec());
        content.instances.push(row);
    }
    let row = |value: Value| serde_json::from_value(value).unwrap();
    content.reviews.push(serde_json::from_value(json!({"instance_id": "o__r-1@0123abc", "tool": "t"})).unwrap());
    content
        .revisions
        .push(serde_json::from_value(json!({"instance_id": "o__r-1@0123abc", "arm": "t", "patch": "d"})).unwrap());
    content.recorded.push(row(json!({"instance_id": "o__r-1@0123abc", "comment": "c1", "arm": "t", "passed": true})));
    content
}

fn written() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &content(), WriteMode::Careful).unwrap();
    dir
}

fn append(dir: &Path, file: &str, line: &Value) {
    let path = dir.join(file);
    let old = fs_err::read_to_string(&path).unwrap_or_default();
    fs_err::write(path, format!("{old}{line}\n")).unwrap();
}

fn replace(dir: &Path, file: &str, from: &str, to: &str) {
    let old = fs_err::read_to_string(dir.join(file)).unwrap();
    assert!(old.contains(from), "{file} has no {from}");
    fs_err::write(dir.join(file), old.replacen(from, to, 1)).unwrap();
}

/// Problems as `FILE:LINE FIELD`, errors only, without the digest's.
fn places(dir: &Path) -> Vec<String> {
    check(dir)
        .iter()
        .filter(|p| p.is_error() && p.field != "dataset_digest")
        .map(|p| format!("{}:{} {}", p.file, p.line.unwrap_or(0), p.field))
        .collect()
}

#[test]
fn a_written_benchmark_is_sound() {
    let dir = written();
    assert_eq!(check(dir.path()), []);
    let loaded = Benchmark::load(dir.path()).unwrap();
    assert_eq!(loaded.benchmark.manifest.extra["later"]["x"], 1);
    assert_eq!(loaded.benchmark.digest.to_string(), loaded.benchmark.manifest.dataset_digest.unwrap());
}

#[test]
fn rows_that_do_not_fit_are_named_with_file_line_and_field() {
    let cases: [(&str, Value, &str); 9] = [
        (DATASET, instance(1), "dataset.jsonl:3 instance_id"),
        (REVIEWS, json!({"instance_id": "o__r-9@0123abc", "tool": "t"}), "reviews.jsonl:2 instance_id"),
        (REVIEWS, json!({"instance_id": "O__R-1@0123ABC", "tool": "t"}), "reviews.jsonl:2 tool"),
        (REVISIONS, json!({"instance_id": "o__r-9@0123abc", "arm": "t", "patch": ""}), "revisions.jsonl:2 instance_id"),
        (REVISIONS, json!({"instance_id": "o__r-1@0123abc", "arm": "t", "patch": ""}), "revisions.jsonl:2 attempt"),
        (REVISIONS, json!({"instance_id": "o__r-1@0123abc", "arm": "head", "patch": ""}), "revisions.jsonl:2 arm"),
        (
            RECORDED,
            json!({"instance_id": "o__r-1@0123abc", "comment": "c9", "arm": "t", "passed": true}),
            "recorded.jsonl:2 comment",
        ),
        (
            RECORDED,
            json!({"instance_id": "o__r-1@0123abc", "comment": "c1", "arm": "t", "passed": false}),
            "recorded.jsonl:2 comment",
        ),
        (
            RECORDED,
            json!({"instance_id": "o__r-9@0123abc", "comment": "c1", "arm": "t", "passed": false}),
            "recorded.jsonl:2 instance_id",
        ),
    ];
    for (file, line, place) in cases {
        let dir = written();
        append(dir.path(), file, &line);
        assert_eq!(places(dir.path()), [place], "{line}");
    }
}

#[test]
fn instances_that_do_not_hold_together_are_named() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 9] = [
        (|v| v["reference_review_comments"][1]["id"] = json!("c1"), "reference_review_comments[1].id"),
        (|v| v["oracles"][0]["comment"] = json!("c9"), "oracles[0].comment"),
        (|v| v["oracles"] = json!([v["oracles"][0], v["oracles"][0]]), "oracles[1].comment"),
        (|v| v["oracles"][0]["test"] = json!("oracles/none.py"), "oracles[0].test"),
        (|v| v["oracles"][0]["test"] = json!("../x.py"), "oracles[0].test"),
        (|v| v["oracles"][0]["install_as"] = json!("a/../../x.py"), "oracles[0].install_as"),
        (|v| v["oracles"][0]["before"] = json!(["passed"]), "oracles[0].before"),
        (|v| v["oracles"][0]["command"] = json!(["sh"]), "oracles[0].command"),
        (|v| v["commit_to_review"]["head_commit"] = json!(""), "commit_to_review.head_commit"),
    ];
    for (edit, field) in cases {
        let dir = written();
        let mut row = instance(2);
        edit(&mut row);
        let text = format!("{}\n{row}\n", instance(1));
        fs_err::write(dir.path().join(DATASET), text).unwrap();
        assert_eq!(places(dir.path()), [format!("dataset.jsonl:2 {field}")], "{field}");
    }
}

#[test]
fn a_broken_line_does_not_take_the_others_down() {
    let dir = written();
    replace(dir.path(), DATASET, "\"reference_review_comments\":[", "\"reference_review_comments\":[3,");
    append(dir.path(), REVISIONS, &json!({"instance_id": "o__r-2@0123abc", "arm": "t"}));
    append(dir.path(), REVISIONS, &json!({"instance_id": "o__r-2@0123abc", "model_name_or_path": "t"}));
    let loaded = Benchmark::load(dir.path()).unwrap();
    assert_eq!((loaded.benchmark.instances.len(), loaded.benchmark.revisions.len()), (1, 2));
    let texts: Vec<_> = loaded.problems.iter().map(ToString::to_string).collect();
    assert!(texts[0].starts_with("dataset.jsonl:1: error: field `reference_review_comments"), "{texts:?}");
    assert!(texts[1].starts_with("revisions.jsonl:2: error: ") && texts[1].contains("`patch`"), "{texts:?}");
}

#[test]
fn the_manifest_is_checked() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 5] = [
        (|v| v["schema"] = json!(99), "bench.json:0 schema"),
        (|v| v["schema"] = json!("x"), "bench.json:0 schema"),
        (|v| v["frozen"][0]["comment"] = json!("c9"), "bench.json:0 frozen[0]"),
        (|v| v["frozen"] = json!([v["frozen"][0], v["frozen"][0]]), "bench.json:0 frozen[1]"),
        (|v| v["bundles"] = json!(["repos/x.bundle"]), "bench.json:0 bundles[0]"),
    ];
    for (edit, place) in cases {
        let dir = written();
        let path = dir.path().join(MANIFEST);
        let mut value: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
        edit(&mut value);
        fs_err::write(&path, value.to_string()).unwrap();
        assert_eq!(places(dir.path()), [place]);
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Benchmark::load(dir.path()), Err(BenchError::NotABenchmark(_))));
    assert!(matches!(Benchmark::load(&dir.path().join("no")), Err(BenchError::NoFolder(_))));
    assert_eq!(places(dir.path()), ["bench.json:0 "]);
}

#[test]
fn one_changed_byte_of_a_test_or_row_changes_the_digest() {
    let test = "oracles/o__r-1@0123abc/c1/t.py";
    for (file, from, to) in [(test, "pass", "pasS"), (DATASET, "same", "samE")] {
        let dir = written();
        replace(dir.path(), file, from, to);
        let fields: Vec<_> = check(dir.path()).iter().map(|p| p.field.clone()).collect();
        assert_eq!(fields, ["dataset_digest"], "{file}");
    }
    let dir = written();
    append(dir.path(), REVISIONS, &json!({"instance_id": "o__r-2@0123abc", "arm": "t", "patch": "d"}));
    let mut lines: Vec<_> =
        fs_err::read_to_string(dir.path().join(DATASET)).unwrap().lines().map(str::to_owned).collect();
    lines.reverse();
    fs_err::write(dir.path().join(DATASET), lines.join("\n")).unwrap();
    assert_eq!(check(dir.path()), [], "neither revisions nor the order of rows are part of it");
}

#[test]
fn links_that_lead_out_are_refused() {
    let (dir, outside) = (written(), tempfile::tempdir().unwrap());
    let test = dir.path().join("oracles/o__r-1@0123abc/c1/t.py");
    fs_err::write(outside.path().join("t.py"), fs_err::read(&test).unwrap()).unwrap();
    fs_err::remove_file(&test).unwrap();
    fs_err::os::unix::fs::symlink(outside.path().join("t.py"), &test).unwrap();
    assert_eq!(places(dir.path()), ["dataset.jsonl:1 oracles[0].test"]);
}

#[test]
fn only_new_or_own_folders_are_written_into() {
    let dir = tempfile::tempdir().unwrap();
    fs_err::write(dir.path().join("thesis.tex"), "years").unwrap();
    assert!(matches!(write(dir.path(), &content(), WriteMode::Careful), Err(WriteError::NotOurs(_))));
    assert!(!dir.path().join(DATASET).exists());
    write(dir.path(), &content(), WriteMode::Force).unwrap();
    assert_eq!(fs_err::read(dir.path().join("thesis.tex")).unwrap(), b"years");
    write(dir.path(), &content(), WriteMode::Careful).unwrap();
    let file = dir.path().join("thesis.tex");
    assert!(matches!(write(&file, &content(), WriteMode::Force), Err(WriteError::NotAFolder(_))));
    let mut escaping = content();
    escaping.tests.insert("../x.py".into(), Vec::new());
    assert!(matches!(write(dir.path(), &escaping, WriteMode::Force), Err(WriteError::Path { .. })));
}
