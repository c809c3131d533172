//! The table from outcomes to verdicts, row by row.

use proptest::prelude::*;

use super::*;
use crate::model::{Outcome, VerdictKind};

fn outcomes(texts: &[&str]) -> Vec<Outcome> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn shown(decision: &Decision) -> String {
    let reason = decision.reason.as_ref().map(|reason| format!("({reason})")).unwrap_or_default();
    let marks: String = decision.marks.iter().map(|mark| format!(" [{mark}]")).collect();
    format!("{}{reason}{marks}", decision.verdict.as_str())
}

fn strictly(head: &[&str], merged: Option<&[&str]>, before: &[&str], runs: &[&str]) -> String {
    let (head, merged, runs) = (outcomes(head), merged.map(outcomes), outcomes(runs));
    let before: Vec<String> = before.iter().map(|text| (*text).to_owned()).collect();
    let controls = Controls { head: &head, merged: merged.as_deref(), before: &before };
    shown(&decide(Policy::Strict, &controls, Attempt::Runs(&runs)))
}

#[test]
fn with_good_controls_the_runs_decide() {
    for (runs, verdict) in [
        (&["passed"][..], "pass"),
        (&["passed", "passed", "passed"], "pass"),
        (&["failed"], "fail(failed)"),
        (&["errored(exception)"], "fail(errored(exception))"),
        (&["errored(import)"], "fail(errored(import))"),
        (&["errored(syntax)"], "fail(errored(syntax))"),
        (&["errored(compile)"], "fail(errored(compile))"),
        (&["errored(runner)"], "fail(errored(runner))"),
        (&["timed-out"], "fail(timed-out)"),
        (&["out-of-memory"], "fail(out-of-memory)"),
        (&["crashed"], "fail(crashed)"),
        (&["no-tests"], "fail(no-tests)"),
        (&["errored(result-channel)"], "fail(result channel)"),
        (&["failed", "failed"], "fail(failed)"),
        (&["passed", "failed", "passed"], "fail(flaky 2/3)"),
        (&["failed", "timed-out"], "fail(flaky 0/2)"),
        (&["passed", "errored(exception)"], "fail(flaky 1/2)"),
        (&["infra(sandbox)"], "invalid(infra: sandbox)"),
        (&["passed", "infra(disk)"], "invalid(infra: disk)"),
        (&["failed", "infra(disk)"], "invalid(infra: disk)"),
        (&[], "invalid(not run: no run was made)"),
    ] {
        assert_eq!(strictly(&["failed"], Some(&["passed"]), &[], runs), verdict, "{runs:?}");
    }
}

#[test]
fn bad_controls_make_every_verdict_invalid() {
    for (head, merged, before, verdict) in [
        (&["failed"][..], Some(&["passed"][..]), &[][..], "pass"),
        (&["failed", "failed"], Some(&["passed", "passed"]), &[], "pass"),
        (&["errored(import)"], Some(&["passed"]), &["errored"], "pass"),
        (&["errored(import)"], Some(&["passed"]), &["errored(import)"], "pass"),
        (&["failed", "errored(import)"], Some(&["passed"]), &["failed", "errored"], "pass"),
        (&["timed-out"], Some(&["passed"]), &["timed-out"], "pass"),
        (&["errored(import)"], Some(&["passed"]), &[], "invalid(control: head errored(import))"),
        (&["errored(import)"], Some(&["passed"]), &["errored(syntax)"], "invalid(control: head errored(import))"),
        (&["passed"], Some(&["passed"]), &[], "invalid(control: head passed)"),
        (&["passed"], Some(&["passed"]), &["errored"], "invalid(control: head passed)"),
        (&["no-tests"], Some(&["passed"]), &["errored"], "invalid(control: head no-tests)"),
        (&["failed", "passed"], Some(&["passed"]), &[], "invalid(control: head flaky 1/2)"),
        (&["failed"], Some(&["failed"]), &[], "invalid(control: merged failed)"),
        (&["failed"], Some(&["no-tests"]), &[], "invalid(control: merged no-tests)"),
        (&["failed"], Some(&["passed", "passed", "failed"]), &[], "invalid(control: merged flaky 2/3)"),
        (&["failed"], Some(&["infra(environment)"]), &[], "invalid(infra: merged infra(environment))"),
        (&["infra(toolchain)"], Some(&["passed"]), &[], "invalid(infra: head infra(toolchain))"),
        (&["failed"], None, &[], "pass [uncontrolled]"),
        (&["passed"], None, &[], "invalid(control: head passed) [uncontrolled]"),
    ] {
        assert_eq!(strictly(head, merged, before, &["passed"]), verdict, "{head:?} {merged:?} {before:?}");
    }
}

#[test]
fn a_pass_that_needs_its_own_test_configuration_is_none() {
    let (head, merged) = (outcomes(&["failed"]), outcomes(&["passed"]));
    let controls = Controls { head: &head, merged: Some(&merged), before: &[] };
    for (runs, second, verdict) in [
        (&["passed"][..], &["passed"][..], "pass"),
        (&["passed"], &["failed"], "fail(test configuration: failed)"),
        (&["passed"], &["errored(import)"], "fail(test configuration: errored(import))"),
        (&["passed"], &["errored(result-channel)"], "fail(test configuration: result channel)"),
        (&["passed", "passed"], &["passed", "failed"], "fail(test configuration: flaky 1/2)"),
        (&["passed"], &["infra(disk)"], "invalid(infra: disk)"),
        (&["passed"], &[], "invalid(not run: no run was made)"),
        (&["failed"], &["passed"], "fail(failed)"),
        (&["infra(sandbox)"], &["failed"], "invalid(infra: sandbox)"),
    ] {
        let (runs, second) = (outcomes(runs), outcomes(second));
        let attempt = Attempt::RunsTwice { runs: &runs, with_head_configuration: &second };
        assert_eq!(shown(&decide(Policy::Strict, &controls, attempt)), verdict, "{runs:?} {second:?}");
    }
}

#[test]
fn what_never_ran_has_its_own_reasons() {
    let (head, merged) = (outcomes(&["failed"]), outcomes(&["passed"]));
    let good = Controls { head: &head, merged: Some(&merged), before: &[] };
    let bad = Controls { head: &merged, merged: Some(&merged), before: &[] };
    for (controls, attempt, verdict) in [
        (&good, Attempt::Patch("hunk 1 does not apply"), "fail(patch: hunk 1 does not apply)"),
        (&bad, Attempt::Patch("hunk 1 does not apply"), "invalid(control: head passed)"),
        (&good, Attempt::NoChanges, "fail(no changes)"),
        (&good, Attempt::Missing, "missing(no revision)"),
        (&bad, Attempt::Missing, "missing(no revision)"),
    ] {
        assert_eq!(shown(&decide(Policy::Strict, controls, attempt)), verdict);
    }
}

#[test]
fn under_the_releases_rule_controls_do_not_gate() {
    let passed = outcomes(&["passed"]);
    let bad = Controls { head: &passed, merged: None, before: &[] };
    for (runs, verdict) in [
        (&["passed"][..], "pass"),
        (&["failed"], "fail(failed)"),
        (&["errored(import)"], "fail(errored(import))"),
        (&["timed-out"], "fail(timed-out)"),
        (&["infra(environment)"], "invalid(infra: environment)"),
    ] {
        assert_eq!(shown(&decide(Policy::CCrab, &bad, Attempt::Runs(&outcomes(runs)))), verdict);
    }
    assert_eq!(shown(&decide(Policy::CCrab, &bad, Attempt::NoChanges)), "fail(no changes)");
    assert_eq!(shown(&decide(Policy::CCrab, &bad, Attempt::Missing)), "missing(no revision)");
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    const ALL: [&str; 9] = [
        "passed",
        "failed",
        "errored(exception)",
        "errored(result-channel)",
        "timed-out",
        "out-of-memory",
        "no-tests",
        "crashed",
        "infra(sandbox)",
    ];
    proptest::sample::select(&ALL[..]).prop_map(|text| text.parse().unwrap())
}

proptest! {
    #[test]
    fn a_pass_needs_only_passes_and_infra_is_never_a_fail(
        runs in proptest::collection::vec(any_outcome(), 0..4),
        head in proptest::collection::vec(any_outcome(), 0..3),
        merged in proptest::option::of(proptest::collection::vec(any_outcome(), 0..3)),
        strict in any::<bool>(),
    ) {
        let policy = if strict { Policy::Strict } else { Policy::CCrab };
        let controls = Controls { head: &head, merged: merged.as_deref(), before: &[] };
        let verdict = decide(policy, &controls, Attempt::Runs(&runs)).verdict;
        if verdict == VerdictKind::Pass {
            prop_assert!(!runs.is_empty() && runs.iter().all(|outcome| *outcome == Outcome::Passed));
        }
        if runs.iter().any(Outcome::is_infra) {
            prop_assert_eq!(verdict, VerdictKind::Invalid);
        }
        if strict && head.contains(&Outcome::Passed) {
            prop_assert_eq!(verdict, VerdictKind::Invalid);
        }
    }
}
