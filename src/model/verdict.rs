//! What the outcomes mean for the score.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arm, CommentId, Digest, Extra, InstanceId, Outcome};

/// The four verdicts. Every comment of an arm has exactly one, so the counts of a row add up to its total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// All runs passed, with good controls.
    Pass,
    /// The revision does not do what the comment asks for, or breaks.
    Fail,
    /// Nothing can be said: bad controls, infrastructure, no oracle.
    Invalid,
    /// There is no revision of this arm for this comment.
    Missing,
}

impl VerdictKind {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
            Self::Missing => "missing",
        }
    }
}

/// Why a verdict is what it is, with one string form each; details follow the first words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictReason {
    /// `fail`: the runs' common outcome.
    Outcome(Outcome),
    /// `fail`: repeats differ; `passed` of `runs` passed.
    Flaky {
        /// How many runs passed.
        passed: usize,
        /// How many runs there were.
        runs: usize,
    },
    /// `fail`: the patch does not apply, or would leave the tree.
    Patch(String),
    /// `fail`: exit code, expected ids and reports do not fit together.
    ResultChannel,
    /// `fail`: the runs passed, and with head's test configuration they do not; why they would fail then.
    TestConfiguration(Box<VerdictReason>),
    /// `fail`: the agent said that it changed nothing (recorded revisions).
    NoChanges,
    /// `invalid`: a control is bad.
    Control(String),
    /// `invalid`: infrastructure, after retries.
    Infra(String),
    /// `invalid`: the comment has no accepted oracle.
    NoOracle,
    /// `invalid` under policy `c-crab`: the pair cannot be replayed.
    NotRun(String),
    /// `missing`: the arm has nothing for the instance, or nothing for this comment.
    NoRevision,
}

impl fmt::Display for VerdictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outcome(outcome) => write!(f, "{outcome}"),
            Self::Flaky { passed, runs } => write!(f, "flaky {passed}/{runs}"),
            Self::Patch(detail) => write!(f, "patch: {detail}"),
            Self::ResultChannel => f.write_str("result channel"),
            Self::TestConfiguration(reason) => write!(f, "test configuration: {reason}"),
            Self::NoChanges => f.write_str("no changes"),
            Self::Control(detail) => write!(f, "control: {detail}"),
            Self::Infra(detail) => write!(f, "infra: {detail}"),
            Self::NoOracle => f.write_str("no-oracle"),
            Self::NotRun(detail) => write!(f, "not run: {detail}"),
            Self::NoRevision => f.write_str("no revision"),
        }
    }
}

/// One row of a report: what one attempt of one arm is worth for one comment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The instance.
    #[schemars(with = "String")]
    pub instance_id: InstanceId,
    /// The comment.
    #[schemars(with = "String")]
    pub comment: CommentId,
    /// Where the guidance came from.
    #[schemars(with = "String")]
    pub arm: Arm,
    /// The coding agent, where one made the revision.
    #[serde(default)]
    pub agent: Option<String>,
    /// Its model.
    #[serde(default)]
    pub model: Option<String>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// One outcome a run, in order.
    #[schemars(with = "Vec<String>")]
    pub outcomes: Vec<Outcome>,
    /// The outcomes of the same runs with head's test configuration, where there was need for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub with_head_configuration: Vec<Outcome>,
    /// The verdict.
    pub verdict: VerdictKind,
    /// Why; null for a plain pass.
    pub reason: Option<String>,
    /// Marks beside the verdict: `uncontrolled`, `test-configuration`, `channel: weak`, …
    #[serde(default)]
    pub marks: Vec<String>,
    /// The first failing assertion's message, where there is one.
    #[serde(default)]
    pub message: Option<String>,
    /// Wall-clock seconds of all runs together.
    pub seconds: f64,
    /// Which limits were really in force; null when nothing ran.
    #[serde(default)]
    pub isolation: serde_json::Value,
    /// The record's key; null when nothing ran.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub key: Option<Digest>,
    /// Digests of logs and patches behind the verdict, by name.
    #[serde(default)]
    pub evidence: Extra,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_string_form() {
        let text = || "x: y".to_owned();
        for (reason, wanted) in [
            (VerdictReason::Outcome(Outcome::TimedOut), "timed-out"),
            (VerdictReason::Flaky { passed: 1, runs: 3 }, "flaky 1/3"),
            (VerdictReason::Patch(text()), "patch: x: y"),
            (VerdictReason::ResultChannel, "result channel"),
            (VerdictReason::NoChanges, "no changes"),
            (VerdictReason::Control(text()), "control: x: y"),
            (VerdictReason::Infra(text()), "infra: x: y"),
            (VerdictReason::NoOracle, "no-oracle"),
            (VerdictReason::NotRun(text()), "not run: x: y"),
            (VerdictReason::NoRevision, "no revision"),
        ] {
            assert_eq!(reason.to_string(), wanted);
            let second = VerdictReason::TestConfiguration(Box::new(reason));
            assert_eq!(second.to_string(), format!("test configuration: {wanted}"));
        }
    }
}
