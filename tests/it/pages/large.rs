//! Runs of many verdicts, made by writing their records: nothing runs.

use std::path::Path;

use redgreen::model::{Arm, CommentId, Digest, InstanceId, OracleKind, Outcome, digest_bytes, digest_json};
use redgreen::sandbox::{End, Isolation};
use redgreen::stage::score::{
    OracleRecord, RECORD_SCHEMA, Roster, RosterComment, RosterInstance, RosterTest, Row, RowState, STAGE,
};
use redgreen::store::{BenchmarkRef, MANIFEST_SCHEMA, RunFolder, RunManifest};
use serde_json::json;

/// Comments of one instance.
const COMMENTS: usize = 2;

/// Arms beside the controls.
const TOOLS: usize = 8;

/// A run of `instances` instances; how many verdicts it has.
pub fn run(root: &Path, instances: usize) -> usize {
    let ids: Vec<InstanceId> =
        (0..instances).map(|n| format!("team__shop-{}@{n:07x}", n + 1).parse().unwrap()).collect();
    let test =
        b"import unittest\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 2)\n";
    let mut comments = Vec::new();
    for id in &ids {
        for index in 0..COMMENTS {
            comments.push(RosterComment {
                instance_id: id.clone(),
                comment: CommentId::from_index(index),
                category: Some(["design", "robustness", "naming"][index % 3].to_owned()),
                kind: OracleKind::Behavioral,
                language: "python".to_owned(),
                valid: true,
                frozen: false,
                before: Vec::new(),
                text: format!("This breaks on empty input of {id}; please check before you divide. ").repeat(3),
                path: format!("src/shop/{index}.py"),
                lines: "12-15".to_owned(),
                test: Some(RosterTest {
                    framework: "unittest".to_owned(),
                    path: format!("oracles/{id}/{index}/test_it.py"),
                    source: Some(digest_bytes(test)),
                }),
            });
        }
    }
    let known = |id: &InstanceId| RosterInstance {
        instance_id: id.clone(),
        repo: id.repo(),
        title: "Add a discount".to_owned(),
        head_commit: id.short_commit().to_owned(),
        merged_commit: Some("ffffff0".to_owned()),
    };
    let roster = Roster {
        schema: 1,
        comments,
        recorded: Vec::new(),
        has_frozen: false,
        instances: ids.iter().map(known).collect(),
        attrition: Vec::new(),
    };
    let bytes = serde_json::to_vec(&roster).unwrap();
    let manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::from_second(1_700_000_000).unwrap(),
        benchmark: BenchmarkRef { name: "large".to_owned(), path: "large".into(), digest: digest_bytes(b"large") },
        policy: "strict".to_owned(),
        roster: digest_bytes(&bytes),
        denominator: "valid".to_owned(),
        cache: None,
    };
    let run = RunFolder::create(root, &manifest).unwrap();
    put(&run, &bytes);
    put(&run, test);
    let mut count = 0;
    for (at, id) in ids.iter().enumerate() {
        for tool in 0..TOOLS + 2 {
            let arm = match tool {
                0 => Arm::head(),
                1 => Arm::merged(),
                n => Arm::new(format!("tool-{n}")),
            };
            let patch = (tool > 1).then(|| {
                let lines: String = (0..40).map(|n| format!(" line {n} of {id}\n+added {n} by {arm}\n")).collect();
                put(&run, format!("--- a/shop.py\n+++ b/shop.py\n@@ -1,40 +1,80 @@\n{lines}").as_bytes())
            });
            for index in 0..COMMENTS {
                let passes = tool == 1 || (tool > 1 && (at + tool * 7 + index).is_multiple_of(3));
                let key = record(&run, at, tool, index, passes);
                let row = Row {
                    instance_id: id.clone(),
                    comment: CommentId::from_index(index),
                    arm: arm.clone(),
                    agent: patch.as_ref().map(|_| "agent".to_owned()),
                    model: patch.as_ref().map(|_| "model".to_owned()),
                    attempt: 1,
                    state: RowState::Runs { keys: vec![key], with_head_configuration: Vec::new() },
                    marks: Vec::new(),
                    patch: patch.clone(),
                    shown: true,
                    grounds: None,
                };
                run.put_row(&row.id(), &row).unwrap();
                count += 1;
            }
        }
    }
    count
}

fn record(run: &RunFolder, at: usize, tool: usize, index: usize, passes: bool) -> Digest {
    let inputs = json!({"at": at, "tool": tool, "index": index,
        "limits": {"wall": 120.0, "cpu": null, "memory": 2_147_483_648_u64, "pids": 512}});
    let key = digest_json(&inputs);
    let text = format!("test_it ... {at} {tool} {index}\n").repeat(20);
    let record = OracleRecord {
        schema: RECORD_SCHEMA,
        key: key.clone(),
        inputs,
        outcome: if passes { Outcome::Passed } else { Outcome::Failed },
        tests: json!([{"id": "Test::test_it", "status": if passes { "passed" } else { "failed" }}]),
        passed: Vec::new(),
        text_only: Some(false),
        trace: None,
        message: (!passes).then(|| "AssertionError: 1 != 2".to_owned()),
        first_line: None,
        channel: "reporter".to_owned(),
        end: End::Exited(i32::from(!passes)),
        seconds: 0.25,
        cpu_seconds: 0.125,
        peak_memory: Some(10 << 20),
        isolation: Isolation {
            sandbox: "local".to_owned(),
            level: "full".to_owned(),
            network: "none".to_owned(),
            memory: "cgroup".to_owned(),
            pids: "cgroup".to_owned(),
            workspace: "overlayfs".to_owned(),
        },
        evidence: [("stdout".to_owned(), put(run, text.as_bytes()))].into(),
        started: jiff::Timestamp::from_second(1_700_000_000 + at as i64).unwrap(),
    };
    let path = run.record_path(STAGE, &key);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
    key
}

/// A blob that is not flushed to the disk: thousands of them are.
fn put(run: &RunFolder, bytes: &[u8]) -> Digest {
    let digest = digest_bytes(bytes);
    let path = run.blob_path(&digest);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, bytes).unwrap();
    digest
}
