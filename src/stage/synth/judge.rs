//! What the runs of a proposed test mean. Pure.

use crate::model::{ErrorKind, OracleKind, Outcome, SideSeen, SynthReason};

/// What a test came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It fails before and passes after.
    Accepted {
        /// Whether failing before is an error by the very name that the comment asks for.
        by_missing_name: bool,
    },
    /// It does not.
    Rejected {
        /// Why.
        reason: SynthReason,
        /// In words.
        detail: String,
    },
}

/// The name that the comment asks for, where the model gave one, and whether all that must hold for it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The comment asks for it and the fix brings it.
    pub is_asked_for: bool,
    /// The run at the head says that it is missing.
    pub is_missing: bool,
}

/// Judges the runs on both commits: the same number on each, at least one, none of them infra.
pub fn judge(before: &SideSeen, after: &SideSeen, kind: OracleKind, wanted: Wanted) -> Judgement {
    let reject = |reason, detail: String| Judgement::Rejected { reason, detail };
    let all = || before.outcomes.iter().chain(&after.outcomes);
    if all().any(|outcome| *outcome == Outcome::TimedOut) {
        let at =
            if before.outcomes.contains(&Outcome::TimedOut) { "the commit to review" } else { "the merged commit" };
        return reject(SynthReason::Timeout, format!("a run at {at} reached its time limit"));
    }
    for (side, at) in [(after, "the merged commit"), (before, "the commit to review")] {
        if let Some(first) = side.outcomes.first()
            && let Some(other) = side.outcomes.iter().find(|other| *other != first)
        {
            return reject(SynthReason::Flaky, format!("repeats at {at} differ: {first} and {other}"));
        }
    }
    let (Some(then), Some(now)) = (before.outcomes.first(), after.outcomes.first()) else {
        return reject(SynthReason::NoTests, "nothing was run".to_owned());
    };
    let said = |side: &SideSeen| side.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    if *now == Outcome::NoTests {
        return reject(SynthReason::NoTests, "no test was seen at the merged commit".to_owned());
    }
    if *now != Outcome::Passed {
        return reject(SynthReason::FailsAfter, format!("{now}{}", said(after)));
    }
    let by_missing_name = match then {
        Outcome::Failed => false,
        Outcome::Passed => return reject(SynthReason::PassesBefore, "passed at both commits".to_owned()),
        Outcome::NoTests => {
            return reject(SynthReason::NoTests, "not all tests were seen at the commit to review".to_owned());
        }
        Outcome::Errored(ErrorKind::Exception | ErrorKind::Import | ErrorKind::Compile)
            if wanted.is_asked_for && wanted.is_missing =>
        {
            true
        }
        other => return reject(SynthReason::ErroredBefore, format!("{other}{}", said(before))),
    };
    if kind == OracleKind::Behavioral && after.text_only == Some(true) {
        let detail = "the test passes without ever loading the project's code".to_owned();
        return reject(SynthReason::NeedsTextInspection, detail);
    }
    Judgement::Accepted { by_missing_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Wanted = Wanted { is_asked_for: false, is_missing: false };

    fn side(outcomes: &str) -> SideSeen {
        let outcomes = outcomes.split(' ').map(|one| one.parse().unwrap()).collect();
        SideSeen { outcomes, message: Some("m".to_owned()), output: String::new(), text_only: None }
    }

    fn reason(before: &str, after: &str) -> Option<SynthReason> {
        match judge(&side(before), &side(after), OracleKind::Behavioral, NO) {
            Judgement::Accepted { .. } => None,
            Judgement::Rejected { reason, .. } => Some(reason),
        }
    }

    #[test]
    fn only_a_failed_assertion_before_and_a_pass_after_are_accepted() {
        use SynthReason::{ErroredBefore, FailsAfter, Flaky, NoTests, PassesBefore, Timeout};
        for (before, after, wanted) in [
            ("failed failed failed", "passed passed passed", None),
            ("passed", "passed", Some(PassesBefore)),
            ("failed", "failed", Some(FailsAfter)),
            ("failed", "errored(import)", Some(FailsAfter)),
            ("failed", "crashed", Some(FailsAfter)),
            ("passed", "failed", Some(FailsAfter)),
            ("errored(import)", "passed", Some(ErroredBefore)),
            ("errored(syntax)", "passed", Some(ErroredBefore)),
            ("crashed", "passed", Some(ErroredBefore)),
            ("out-of-memory", "passed", Some(ErroredBefore)),
            ("failed failed passed", "passed passed passed", Some(Flaky)),
            ("failed failed", "passed failed", Some(Flaky)),
            ("failed errored(exception)", "passed passed", Some(Flaky)),
            ("timed-out", "passed", Some(Timeout)),
            ("failed failed", "passed timed-out", Some(Timeout)),
            ("no-tests", "passed", Some(NoTests)),
            ("failed", "no-tests", Some(NoTests)),
        ] {
            assert_eq!(reason(before, after), wanted, "{before} | {after}");
        }
    }

    #[test]
    fn an_error_counts_only_by_the_very_name_that_is_asked_for() {
        let (before, after) = (side("errored(import)"), side("passed"));
        for (is_asked_for, is_missing) in [(true, true), (true, false), (false, true)] {
            let wanted = Wanted { is_asked_for, is_missing };
            let judged = judge(&before, &after, OracleKind::Behavioral, wanted);
            assert_eq!(judged == Judgement::Accepted { by_missing_name: true }, is_asked_for && is_missing);
        }
        let both = Wanted { is_asked_for: true, is_missing: true };
        let broken = judge(&side("errored(syntax)"), &after, OracleKind::Behavioral, both);
        assert!(matches!(broken, Judgement::Rejected { reason: SynthReason::ErroredBefore, .. }));
    }

    #[test]
    fn a_behavioral_test_runs_the_project() {
        let after = SideSeen { text_only: Some(true), ..side("passed") };
        let judged = |kind| judge(&side("failed"), &after, kind, NO);
        let Judgement::Rejected { reason, .. } = judged(OracleKind::Behavioral) else { panic!() };
        assert_eq!(reason, SynthReason::NeedsTextInspection);
        assert_eq!(judged(OracleKind::Structural), Judgement::Accepted { by_missing_name: false });
    }
}
