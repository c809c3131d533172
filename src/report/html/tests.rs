//! Contexts made of hostile texts: nothing hidden reaches a template, and nothing is larger than its bound.

use serde_json::{Value, json};

use super::bounds::{COMMENT_BYTES, OUTPUT_BYTES, PATCH_BYTES, TEST_BYTES};
use super::{Layout, OracleState, contexts, write};
use crate::model::{
    Arm, Attrition, AttritionReason, AttritionScope, CommentId, Extra, InfraReason, InstanceId, OracleKind, Outcome,
    digest_bytes, digest_json,
};
use crate::report::{Built, build};
use crate::sandbox::{End, Isolation};
use crate::stage::score::{
    OracleRecord, RECORD_SCHEMA, Roster, RosterComment, RosterInstance, RosterTest, Row, RowState, STAGE,
};
use crate::store::{BenchmarkRef, MANIFEST_SCHEMA, RunFolder, RunManifest};

const NASTY: &str = "</td>\0\u{1b}[2J\u{202e}\u{9b}<b>\u{fffe}";

fn nasty(size: usize) -> String {
    NASTY.repeat(size / NASTY.len() + 1)
}

fn isolation() -> Isolation {
    let text = || NASTY.to_owned();
    Isolation { sandbox: text(), level: text(), network: text(), memory: text(), pids: text(), workspace: text() }
}

/// A run of one comment: good controls, a tool that fails, and one that could not be run.
fn run(folder: &std::path::Path) -> (RunFolder, Built) {
    let id: InstanceId = "o__r-1@0123abc".parse().unwrap();
    let big = nasty(1 << 17);
    let blob = digest_bytes(big.as_bytes());
    let comment = RosterComment {
        instance_id: id.clone(),
        comment: CommentId::from_index(0),
        category: Some(big.clone()),
        kind: OracleKind::Behavioral,
        language: big.clone(),
        valid: true,
        frozen: false,
        before: Vec::new(),
        text: big.clone(),
        path: big.clone(),
        lines: big.clone(),
        test: Some(RosterTest { framework: NASTY.to_owned(), path: NASTY.to_owned(), source: Some(blob.clone()) }),
    };
    let lost = Attrition {
        scope: AttritionScope::Row,
        instance_id: None,
        comment: None,
        arm: None,
        stage: big.clone(),
        reason: AttritionReason::Malformed,
        detail: big.clone(),
        extra: Extra::new(),
    };
    let roster = Roster {
        schema: 1,
        comments: vec![comment],
        recorded: Vec::new(),
        has_frozen: false,
        instances: vec![RosterInstance {
            instance_id: id.clone(),
            repo: NASTY.to_owned(),
            title: big.clone(),
            head_commit: NASTY.to_owned(),
            merged_commit: None,
        }],
        attrition: vec![lost.clone(), lost],
    };
    let roster = serde_json::to_vec(&roster).unwrap();
    let manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: NASTY.to_owned(),
        created: jiff::Timestamp::from_second(0).unwrap(),
        benchmark: BenchmarkRef { name: big.clone(), path: "b".into(), digest: digest_bytes(b"b") },
        policy: "strict".to_owned(),
        roster: digest_bytes(&roster),
        denominator: "all".to_owned(),
        cache: None,
    };
    let run = RunFolder::create(folder, &manifest).unwrap();
    run.put_blob(&roster).unwrap();
    run.put_blob(big.as_bytes()).unwrap();
    let put = |arm: Arm, outcomes: &[Outcome]| {
        let keys = outcomes.iter().enumerate().map(|(repeat, outcome)| {
            let inputs = json!({"arm": arm.as_str(), "repeat": repeat, "limits": {"wall": 120.0, "memory": 1 << 30}});
            let record = OracleRecord {
                schema: RECORD_SCHEMA,
                key: digest_json(&inputs),
                inputs,
                outcome: outcome.clone(),
                tests: json!([{"id": big, "status": NASTY}]),
                passed: Vec::new(),
                text_only: Some(true),
                trace: None,
                message: Some(big.clone()),
                first_line: None,
                channel: NASTY.to_owned(),
                end: End::Signaled(9),
                seconds: 1.5,
                cpu_seconds: 0.5,
                peak_memory: Some(1 << 20),
                isolation: isolation(),
                evidence: [("stdout".to_owned(), blob.clone()), (NASTY.to_owned(), blob.clone())].into(),
                started: jiff::Timestamp::from_second(100 + repeat as i64).unwrap(),
            };
            run.put_record(STAGE, &record.key, &record).unwrap();
            record.key
        });
        row(
            &run,
            &id,
            arm.clone(),
            RowState::Runs { keys: keys.collect(), with_head_configuration: Vec::new() },
            Some(blob.clone()),
        );
    };
    put(Arm::head(), &[Outcome::Failed]);
    put(Arm::merged(), &[Outcome::Passed]);
    put(Arm::new(NASTY), &[Outcome::Passed, Outcome::Failed]);
    let infra = RowState::Infra { class: InfraReason::Disk, detail: big.clone(), log: Some(digest_bytes(b"gone")) };
    row(&run, &id, Arm::new("other"), infra, None);
    let built = build(&run, None).unwrap();
    (run, built)
}

fn row(run: &RunFolder, id: &InstanceId, arm: Arm, state: RowState, patch: Option<crate::model::Digest>) {
    let control = arm.is_state();
    let row = Row {
        instance_id: id.clone(),
        comment: CommentId::from_index(0),
        arm,
        agent: (!control).then(|| NASTY.to_owned()),
        model: None,
        attempt: 1,
        state,
        marks: vec![NASTY.to_owned()],
        patch: patch.filter(|_| !control),
        shown: true,
        grounds: None,
    };
    run.put_row(&row.id(), &row).unwrap();
}

fn texts(value: &Value, seen: &mut Vec<String>) {
    match value {
        Value::String(text) => seen.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, seen)),
        Value::Object(map) => map.values().for_each(|item| texts(item, seen)),
        _ => {}
    }
}

#[test]
fn nothing_hidden_and_nothing_too_large_reaches_a_template() {
    let dir = tempfile::tempdir().unwrap();
    let (run, built) = run(&dir.path().join("run"));
    let (front, sections) = contexts(&run, &built);
    let mut seen = Vec::new();
    texts(&serde_json::to_value((&front, &sections)).unwrap(), &mut seen);
    assert!(seen.len() > 100);
    for text in &seen {
        let hidden = text.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{fffe}'));
        assert_eq!(hidden, None, "{text:?}");
        // Written out, a hidden character takes up to 13 bytes.
        let most = [COMMENT_BYTES, OUTPUT_BYTES, PATCH_BYTES, TEST_BYTES].into_iter().max().unwrap();
        assert!(text.len() < 13 * most, "{} bytes", text.len());
    }
}

#[test]
fn one_verdict_is_told_in_full() {
    let dir = tempfile::tempdir().unwrap();
    let (run, built) = run(&dir.path().join("run"));
    let (front, sections) = contexts(&run, &built);
    let comment = &sections[0].comments[0];
    assert_eq!(comment.state, OracleState::Good);
    assert_eq!(comment.controls[0].outcomes, ["failed"]);
    assert!(comment.left_out > 0 && comment.test.as_ref().unwrap().left_out > 0);
    let flaky = comment.verdicts.iter().find(|v| v.reason == "flaky 1/2").unwrap();
    assert_eq!(flaky.runs.iter().map(|r| r.outcome.as_str()).collect::<Vec<_>>(), ["passed", "failed"]);
    assert_eq!(flaky.outputs.len(), 2);
    assert!(flaky.marks.iter().any(|mark| mark == "text-only"), "{:?}", flaky.marks);
    let fact = |name: &str| flaky.facts.iter().find(|f| f.name == name).unwrap().value.clone();
    assert_eq!((fact("ended"), fact("limits")), ("signal 9".to_owned(), "wall 120 s · memory 1 GiB".to_owned()));
    assert_eq!(fact("took"), "1.5 s · CPU 0.500 s · peak memory 1 MiB");
    let infra = comment.verdicts.iter().find(|v| v.arm == "other").unwrap();
    assert!(infra.outputs[0].problem.is_some(), "a blob that is gone is said to be");
    assert_eq!((front.health.infra_total, front.health.infra[0].name.as_str()), (1, "disk"));
    assert_eq!(front.facts.ran, "1970-01-01 00:01:40 to 1970-01-01 00:01:41 UTC");
    assert_eq!((front.attrition.len(), front.attrition[0].count, front.attrition_total), (1, 2, 2));
    assert_eq!(write(&run, &built).unwrap().layout, Layout::OnePage);
}
