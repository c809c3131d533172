use super::*;
use crate::model::{Arm, BenchManifest, Instance, Outcome, RecordedVerdict, Verdict, VerdictKind};
use proptest::prelude::*;
use serde_json::json;

/// Two instances with three and two comments; comment 2 of the first has no accepted oracle.
fn bench() -> (BenchManifest, Vec<Instance>) {
    let instance = |pull: u64, comments: &[(&str, bool, &str)]| -> Instance {
        let id = format!("o__r-{pull}@0123abc");
        let oracles: Vec<_> = comments
            .iter()
            .map(|(c, ok, _)| json!({"comment": c, "framework": "pytest", "test": "t", "accepted": ok, "kind": "behavioral"}))
            .collect();
        let comments: Vec<_> =
            comments.iter().map(|(c, _, k)| json!({"id": c, "text": "same", "category": k})).collect();
        serde_json::from_value(json!({
            "instance_id": id, "repo": "o/r", "language": "Python", "commit_to_review": {"head_commit": "0123abc"},
            "reference_review_comments": comments, "oracles": oracles
        }))
        .unwrap()
    };
    let instances = vec![
        instance(1, &[("0", true, "style"), ("1", true, "docs"), ("2", false, "docs")]),
        instance(2, &[("0", true, "style"), ("10", true, "style")]),
    ];
    let manifest = serde_json::from_value(json!({
        "schema": 1, "name": "b", "arms": ["silent"],
        "frozen": [{"instance_id": "O__R-1@0123abc", "comment": 0}, {"instance_id": "o__r-2@0123abc", "comment": "10"},
                   {"instance_id": "o__r-2@0123abc", "comment": "0"}]
    }))
    .unwrap();
    (manifest, instances)
}

fn recorded(pull: u64, comment: &str, arm: &str, passed: bool) -> RecordedVerdict {
    serde_json::from_value(
        json!({"instance_id": format!("o__r-{pull}@0123abc"), "comment": comment, "arm": arm, "passed": passed}),
    )
    .unwrap()
}

fn rows(scores: &Scores) -> Vec<(&str, bool, [usize; 6])> {
    scores
        .arms
        .iter()
        .map(|a| (a.arm.as_str(), a.control, [a.passed, a.failed, a.invalid, a.missing, a.missing_instances, a.total]))
        .collect()
}

#[test]
fn recorded_tables_add_up_in_every_denominator() {
    let (manifest, instances) = bench();
    let recorded = [
        recorded(1, "0", "a", true),
        recorded(1, "1", "a", false),
        recorded(2, "0", "a", true),
        recorded(2, "10", "a", true),
        recorded(1, "0", "b", true),
        recorded(2, "0", "human", true),
    ];
    let report = |d| recorded_report(&manifest, &instances, &recorded, d).unwrap();
    let frozen = report(Denominator::Final);
    assert_eq!(
        rows(&frozen),
        [
            ("a", false, [3, 0, 0, 0, 0, 3]),
            ("b", false, [1, 0, 0, 2, 1, 3]),
            ("silent", false, [0, 0, 0, 3, 2, 3]),
            ("human", true, [1, 0, 0, 2, 2, 3])
        ]
    );
    assert_eq!(rows(&report(Denominator::Valid))[0], ("a", false, [3, 1, 0, 0, 0, 4]));
    assert_eq!(rows(&report(Denominator::All))[0], ("a", false, [3, 1, 1, 0, 0, 5]));
    let b = &frozen.arms[1];
    assert_eq!((b.rate, b.rate_scored), (Some(1.0 / 3.0), Some(1.0)));
    assert_eq!(frozen.arms[2].rate_scored, None);
    assert_eq!(frozen.overlap.union, 3);
    assert_eq!(frozen.overlap.exclusive, [("a".into(), 2), ("b".into(), 0), ("silent".into(), 0)].into());
    assert_eq!(frozen.overlap.pairs[0], ("a".into(), "b".into(), 1));
    assert_eq!(frozen.overlap.by_count, [0, 2, 1, 0]);
    let all = report(Denominator::All).breakdown;
    assert_eq!((all.category["docs"].total, all.category["style"].passed["a"]), (2, 3));
    assert_eq!((all.kind["behavioral"].total, all.kind["unknown"].total, all.language["python"].total), (4, 1, 5));
    assert_eq!((frozen.breakdown.instances, frozen.breakdown.instances_all_passed["a"]), (2, 2));
    assert_eq!((all.instances_all_passed["a"], all.instances_all_passed["b"]), (1, 0));
}

#[test]
fn the_json_has_the_words_of_the_contract() {
    let (manifest, instances) = bench();
    let report = recorded_report(&manifest, &instances, &[recorded(1, "0", "a", true)], Denominator::Final).unwrap();
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["denominator"], "final");
    for word in "arm control passed failed invalid missing missing_instances total rate rate_scored".split(' ') {
        assert!(value["arms"][0].get(word).is_some(), "{word}");
    }
    assert_eq!(value["overlap"]["pairs"], json!([["a", "silent", 0]]));
    assert_eq!(value["overlap"]["exclusive"]["a"], 1);
    let schema = serde_json::to_value(schemars::schema_for!(Scores)).unwrap();
    assert!(schema["properties"]["overlap"].is_object());
}

#[test]
fn final_needs_a_choice_and_words_have_one_form() {
    let (mut manifest, instances) = bench();
    assert_eq!(Denominator::default_for(&manifest), Denominator::Final);
    manifest.frozen = None;
    assert_eq!(Denominator::default_for(&manifest), Denominator::Valid);
    let error = CommentSet::of(&manifest, &instances, Denominator::Final).unwrap_err();
    assert_eq!(error, DenominatorError::NoFrozen("b".into()));
    for denominator in [Denominator::All, Denominator::Valid, Denominator::Final] {
        assert_eq!(denominator.to_string().parse(), Ok(denominator));
        assert_eq!(serde_json::to_value(denominator).unwrap(), denominator.as_str());
    }
    assert!("Final".parse::<Denominator>().is_err());
}

#[test]
fn the_first_attempt_counts_and_differing_repeats_are_one_flaky() {
    let (manifest, instances) = bench();
    let set = CommentSet::of(&manifest, &instances, Denominator::Final).unwrap();
    let verdict = |attempt, kind, outcomes: &[Outcome]| -> Verdict {
        let mut row = recorded_verdicts(&[recorded(1, "0", "a", false)]).remove(0);
        (row.attempt, row.verdict, row.outcomes) = (attempt, kind, outcomes.to_vec());
        row
    };
    let verdicts = [
        verdict(2, VerdictKind::Pass, &[Outcome::Passed]),
        verdict(1, VerdictKind::Fail, &[Outcome::Passed, Outcome::Failed]),
    ];
    let arms = [Arm::new("a")];
    assert_eq!(arm_rows(&set, &arms, &verdicts)[0].passed, 0);
    assert_eq!(outcomes(&set, &arms, &verdicts)["a"], [("flaky".to_owned(), 1)].into());
    assert_eq!(outcomes(&set, &arms, &verdicts[..1])["a"], [("passed".to_owned(), 1)].into());
}

#[test]
fn a_frozen_comment_that_is_not_there_stays_in_the_total() {
    let (mut manifest, instances) = bench();
    let gone =
        json!([{"instance_id": "o__r-3@0123abc", "comment": "0"}, {"instance_id": "o__r-1@0123abc", "comment": "0"}]);
    manifest.frozen = Some(serde_json::from_value(gone).unwrap());
    let report = recorded_report(&manifest, &instances, &[recorded(1, "0", "a", true)], Denominator::Final).unwrap();
    assert_eq!(rows(&report)[0], ("a", false, [1, 0, 1, 0, 0, 2]));
}

proptest! {
    #[test]
    fn every_row_adds_up(cells in prop::collection::vec((0_u64..4, 0_usize..12, 0_usize..4, 0_usize..4, 1_u32..3), 0..60)) {
        let (manifest, instances) = bench();
        let names = ["a", "b", "human", "head"];
        let kinds = [VerdictKind::Pass, VerdictKind::Fail, VerdictKind::Invalid, VerdictKind::Missing];
        let verdicts: Vec<Verdict> = cells
            .into_iter()
            .map(|(pull, comment, arm, kind, attempt)| {
                let mut row = recorded_verdicts(&[recorded(pull, &comment.to_string(), names[arm], false)]).remove(0);
                (row.verdict, row.attempt) = (kinds[kind], attempt);
                row
            })
            .collect();
        let arms = arms_in_order(verdicts.iter().map(|v| &v.arm));
        for denominator in [Denominator::All, Denominator::Valid, Denominator::Final] {
            let set = CommentSet::of(&manifest, &instances, denominator).unwrap();
            let scores = scores(&set, &arms, &verdicts);
            for row in &scores.arms {
                prop_assert_eq!(row.passed + row.failed + row.invalid + row.missing, row.total);
                prop_assert_eq!(row.total, set.rows.len());
                let Interval(low, high) = row.rate_interval.unwrap();
                let rate = row.rate.unwrap();
                prop_assert!(low <= rate + 1e-12 && rate <= high + 1e-12);
            }
            let overlap = &scores.overlap;
            prop_assert_eq!(overlap.by_count.iter().sum::<usize>(), set.rows.len());
            prop_assert_eq!(overlap.union, overlap.regions.iter().map(|r| r.comments).sum::<usize>());
            for (name, groups) in [("category", &scores.breakdown.category), ("instance", &scores.breakdown.instance)] {
                prop_assert_eq!(groups.values().map(|g| g.total).sum::<usize>(), set.rows.len(), "{}", name);
            }
        }
    }
}
