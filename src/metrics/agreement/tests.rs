use super::*;
use crate::metrics::recorded_verdicts;
use crate::model::Arm;

fn recorded(comment: &str, arm: &str, passed: bool) -> RecordedVerdict {
    RecordedVerdict {
        instance_id: "o__r-1@0123abc".parse().unwrap(),
        comment: comment.parse().unwrap(),
        arm: Arm::new(arm),
        passed,
        error: None,
        first_line: None,
        extra: Default::default(),
    }
}

fn revision(arm: &str, patch: &str) -> Revision {
    serde_json::from_value(serde_json::json!({"instance_id": "o__r-1@0123abc", "arm": arm, "patch": patch})).unwrap()
}

/// A verdict of ours with one outcome.
fn here(comment: &str, arm: &str, verdict: VerdictKind, outcome: Option<Outcome>) -> Verdict {
    let mut row = recorded_verdicts(&[recorded(comment, arm, false)]).remove(0);
    row.verdict = verdict;
    row.reason = outcome.as_ref().map(ToString::to_string);
    row.outcomes = outcome.into_iter().collect();
    row
}

fn plain(verdict: &Verdict) -> Replayed<'_> {
    Replayed { verdict, exit_code: None, first_line: None }
}

#[test]
fn pairs_agree_or_do_not() {
    let theirs =
        [recorded("0", "a", true), recorded("1", "a", false), recorded("2", "a", true), recorded("3", "a", false)];
    let ours = [
        here("0", "a", VerdictKind::Pass, Some(Outcome::Passed)),
        here("1", "a", VerdictKind::Fail, Some(Outcome::Failed)),
        here("2", "a", VerdictKind::Fail, Some(Outcome::Errored(ErrorKind::Exception))),
        here("9", "a", VerdictKind::Fail, Some(Outcome::Failed)),
    ];
    let rows: Vec<_> = ours.iter().map(plain).collect();
    let result = agreement(&theirs, &[revision("a", "diff")], &rows);
    assert_eq!((result.compared, result.agree, result.not_run.len()), (3, 2, 0), "comment 3 was not chosen here");
    let other = &result.disagree[0];
    assert_eq!(
        (other.comment.as_str(), other.recorded.as_str(), other.here.as_str(), other.reason.as_deref()),
        ("2", "pass", "fail", Some("errored(exception)"))
    );
}

#[test]
fn what_says_nothing_is_counted_by_its_reason() {
    let theirs: Vec<_> = (0..8).map(|n| recorded(&n.to_string(), "a", false)).collect();
    let mut ours = [
        here("0", "a", VerdictKind::Fail, Some(Outcome::Errored(ErrorKind::Import))),
        here("1", "a", VerdictKind::Fail, Some(Outcome::TimedOut)),
        here("2", "a", VerdictKind::Fail, None),
        here("3", "a", VerdictKind::Invalid, None),
        here("4", "a", VerdictKind::Missing, None),
        here("5", "a", VerdictKind::Fail, Some(Outcome::Errored(ErrorKind::Import))),
        here("6", "a", VerdictKind::Invalid, None),
        here("7", "a", VerdictKind::Fail, Some(Outcome::NoTests)),
    ];
    ours[2].reason = Some("patch: hunk 3 does not fit".into());
    ours[3].reason = Some("control: merged failed".into());
    ours[4].reason = Some("no revision".into());
    ours[6].reason = Some("not run: empty diff".into());
    let rows: Vec<_> = ours
        .iter()
        .map(|v| match v.comment.as_str() {
            // An import error inside a test ends with 1, at collection with 2: only the exit code tells.
            "0" => Replayed { exit_code: Some(2), ..plain(v) },
            "5" => Replayed { exit_code: Some(1), ..plain(v) },
            "7" => Replayed { exit_code: Some(5), ..plain(v) },
            _ => plain(v),
        })
        .collect();
    let result = agreement(&theirs, &[revision("a", "diff")], &rows);
    let reasons: Vec<_> = result.not_run.iter().map(|(reason, n)| (reason.as_str(), *n)).collect();
    assert_eq!(
        reasons,
        [
            ("control", 1),
            ("empty diff", 1),
            ("exit code 2", 1),
            ("exit code 5", 1),
            ("no revision", 1),
            ("patch", 1),
            ("timed-out", 1)
        ]
    );
    assert_eq!((result.compared, result.agree), (1, 1));
}

#[test]
fn no_changes_compares_without_a_run_and_an_empty_diff_does_not() {
    let mut noted = recorded("0", "a", false);
    noted.error = Some("Agent made no changes".into());
    let theirs = [noted, recorded("0", "b", true), recorded("0", "head", false), recorded("0", "merged", true)];
    let ours = [
        here("0", "a", VerdictKind::Fail, None),
        here("0", "b", VerdictKind::Fail, Some(Outcome::Failed)),
        here("0", "head", VerdictKind::Fail, Some(Outcome::Failed)),
        here("0", "merged", VerdictKind::Pass, Some(Outcome::Passed)),
    ];
    let rows: Vec<_> = ours.iter().map(plain).collect();
    let result = agreement(&theirs, &[revision("a", ""), revision("b", "\n")], &rows);
    assert_eq!((result.compared, result.agree, result.not_run["empty diff"]), (1, 1, 1));
}

#[test]
fn first_lines_are_compared_where_both_fail_and_have_one() {
    let mut theirs: Vec<_> = (0..4).map(|n| recorded(&n.to_string(), "a", n == 3)).collect();
    for row in &mut theirs[..3] {
        row.first_line = Some("assert 1 == 2 ".into());
    }
    let ours: Vec<_> = (0..4)
        .map(|n| {
            here(&n.to_string(), "a", if n == 3 { VerdictKind::Pass } else { VerdictKind::Fail }, Some(Outcome::Failed))
        })
        .collect();
    let lines = [Some("assert 1 == 2"), Some("assert 2 == 2"), None, Some("x")];
    let rows: Vec<_> = ours.iter().zip(lines).map(|(v, line)| Replayed { first_line: line, ..plain(v) }).collect();
    let result = agreement(&theirs, &[revision("a", "d")], &rows);
    assert_eq!(result.first_line, FirstLine { equal: 1, compared: 2 });
}

#[test]
fn pytests_two_spellings_of_a_missing_exception_are_one_line() {
    let same = |a: &str, b: &str| plain_line(a) == plain_line(b);
    assert!(same("Failed: DID NOT RAISE <class 'a.b.DomainError'>", "Failed: DID NOT RAISE DomainError"));
    assert!(same("Failed: DID NOT RAISE <class 'ValueError'> ", "Failed: DID NOT RAISE ValueError"));
    assert!(!same("Failed: DID NOT RAISE <class 'a.TypeError'>", "Failed: DID NOT RAISE ValueError"));
    assert!(!same("assert 1 == 2", "assert 1 == 3"));
}
