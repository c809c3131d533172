//! From outcomes to a verdict: the design's table, and the c-CRAB release's rule.

use crate::model::{ErrorKind, Outcome, VerdictKind, VerdictReason};

use super::policy::Policy;

/// Mark: no merged commit is known, so that one control is missing.
pub const UNCONTROLLED: &str = "uncontrolled";

/// Mark: the revision touches test configuration that its second run had in head's versions.
pub const TEST_CONFIGURATION: &str = "test-configuration";
/// Mark: the revision touches test configuration that the fix changes too, and that the oracle depends on: its own
/// versions of these files were in force.
pub const PART_OF_THE_FIX: &str = "test-configuration: part of the fix";

/// The controls' outcomes, one a repeat.
#[derive(Debug, Clone, Copy, Default)]
pub struct Controls<'a> {
    /// The reviewed commit itself.
    pub head: &'a [Outcome],
    /// The merged commit; `None` when it is not known.
    pub merged: Option<&'a [Outcome]>,
    /// Outcomes beside `failed` that are good at head, as the oracle declares them (`errored`, `errored(import)`).
    pub before: &'a [String],
}

/// What there is to judge for one comment.
#[derive(Debug, Clone, Copy)]
pub enum Attempt<'a> {
    /// The oracle ran on the revision, once a repeat.
    Runs(&'a [Outcome]),
    /// The same, and all runs passed; then once more each with head's versions of the test configuration that the
    /// revision touches.
    RunsTwice {
        /// The runs of the revision as it is.
        runs: &'a [Outcome],
        /// The runs with head's test configuration.
        with_head_configuration: &'a [Outcome],
    },
    /// The revision's patch does not apply, or would leave the tree; with what was said.
    Patch(&'a str),
    /// The agent said that it changed nothing, and nothing was run.
    NoChanges,
    /// There is no revision.
    Missing,
}

/// A verdict with its reason and marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: VerdictKind,
    /// Why; `None` for a plain pass.
    pub reason: Option<VerdictReason>,
    /// Marks beside it.
    pub marks: Vec<&'static str>,
}

/// Decides one verdict.
///
/// A missing revision is missing whatever the controls say, as there is nothing that they could gate. Under
/// [`Policy::CCrab`] the controls do not gate at all.
pub fn decide(policy: Policy, controls: &Controls<'_>, attempt: Attempt<'_>) -> Decision {
    let mut marks = Vec::new();
    let (verdict, reason) = match (policy, attempt) {
        (_, Attempt::Missing) => (VerdictKind::Missing, Some(VerdictReason::NoRevision)),
        (Policy::CCrab, _) => judge(attempt),
        (Policy::Strict, _) => {
            if controls.merged.is_none() {
                marks.push(UNCONTROLLED);
            }
            match check(controls) {
                Some(reason) => (VerdictKind::Invalid, Some(reason)),
                None => judge(attempt),
            }
        }
    };
    Decision { verdict, reason, marks }
}

/// What is wrong with the controls that exist, if anything.
pub fn check(controls: &Controls<'_>) -> Option<VerdictReason> {
    let good_at_head = |outcome: &Outcome| {
        *outcome == Outcome::Failed
            || controls.before.iter().any(|text| text == outcome.class() || *text == outcome.to_string())
    };
    let merged = controls.merged.and_then(|runs| bad_control("merged", runs, |outcome| *outcome == Outcome::Passed));
    merged.or_else(|| bad_control("head", controls.head, good_at_head))
}

fn bad_control(name: &str, runs: &[Outcome], is_good: impl Fn(&Outcome) -> bool) -> Option<VerdictReason> {
    if let Some(infra) = runs.iter().find(|outcome| outcome.is_infra()) {
        return Some(VerdictReason::Infra(format!("{name} {infra}")));
    }
    let bad = runs.iter().find(|outcome| !is_good(outcome))?;
    let good = runs.iter().filter(|outcome| is_good(outcome)).count();
    Some(VerdictReason::Control(if good == 0 {
        format!("{name} {bad}")
    } else {
        format!("{name} flaky {good}/{}", runs.len())
    }))
}

fn judge(attempt: Attempt<'_>) -> (VerdictKind, Option<VerdictReason>) {
    let runs = match attempt {
        Attempt::Runs(runs) => runs,
        Attempt::RunsTwice { runs, with_head_configuration } => {
            return match (judge(Attempt::Runs(runs)), judge(Attempt::Runs(with_head_configuration))) {
                ((VerdictKind::Pass, _), (VerdictKind::Fail, reason)) => {
                    (VerdictKind::Fail, reason.map(|reason| VerdictReason::TestConfiguration(Box::new(reason))))
                }
                ((VerdictKind::Pass, _), second) => second,
                (first, _) => first,
            };
        }
        Attempt::Patch(detail) => return (VerdictKind::Fail, Some(VerdictReason::Patch(detail.to_owned()))),
        Attempt::NoChanges => return (VerdictKind::Fail, Some(VerdictReason::NoChanges)),
        Attempt::Missing => return (VerdictKind::Missing, Some(VerdictReason::NoRevision)),
    };
    if let Some(Outcome::Infra(reason)) = runs.iter().find(|outcome| outcome.is_infra()) {
        return (VerdictKind::Invalid, Some(VerdictReason::Infra(reason.as_str().to_owned())));
    }
    let Some(first) = runs.first() else {
        return (VerdictKind::Invalid, Some(VerdictReason::NotRun("no run was made".to_owned())));
    };
    if runs.iter().any(|outcome| outcome != first) {
        let passed = runs.iter().filter(|outcome| **outcome == Outcome::Passed).count();
        return (VerdictKind::Fail, Some(VerdictReason::Flaky { passed, runs: runs.len() }));
    }
    match first {
        Outcome::Passed => (VerdictKind::Pass, None),
        Outcome::Errored(ErrorKind::ResultChannel) => (VerdictKind::Fail, Some(VerdictReason::ResultChannel)),
        outcome => (VerdictKind::Fail, Some(VerdictReason::Outcome(outcome.clone()))),
    }
}
