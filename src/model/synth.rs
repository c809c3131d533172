//! What became of one attempt to turn a comment into a test.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CommentId, Digest, Extra, Framework, InstanceId, OracleKind, Outcome};

/// Why an attempt is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SynthReason {
    /// The test passes on the commit to review already.
    PassesBefore,
    /// The test does not pass on the merged commit.
    FailsAfter,
    /// On the commit to review the test does not fail but breaks; the detail says how.
    ErroredBefore,
    /// Repeats on one commit differ.
    Flaky,
    /// A run reached its time limit.
    Timeout,
    /// No test was seen to run.
    NoTests,
    /// The test reads the project's text instead of running it, and does not say so.
    NeedsTextInspection,
    /// No test can be made, as the detail says: in the model's words, or what the test may not do.
    NotTestable,
    /// The next call could exceed a budget. Never a final record.
    Budget,
    /// The model gave no usable answer; the detail begins with the kind.
    Model,
    /// Something outside the comment, the model and the code went wrong. Never a final record.
    Infra,
}

impl SynthReason {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::PassesBefore,
        Self::FailsAfter,
        Self::ErroredBefore,
        Self::Flaky,
        Self::Timeout,
        Self::NoTests,
        Self::NeedsTextInspection,
        Self::NotTestable,
        Self::Budget,
        Self::Model,
        Self::Infra,
    ];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PassesBefore => "passes-before",
            Self::FailsAfter => "fails-after",
            Self::ErroredBefore => "errored-before",
            Self::Flaky => "flaky",
            Self::Timeout => "timeout",
            Self::NoTests => "no-tests",
            Self::NeedsTextInspection => "needs-text-inspection",
            Self::NotTestable => "not-testable",
            Self::Budget => "budget",
            Self::Model => "model",
            Self::Infra => "infra",
        }
    }
}

impl fmt::Display for SynthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynthAnswer {
    /// Whether it thinks that a test can be made.
    pub testable: bool,
    /// Why it made this test, or why there can be none.
    pub why: String,
    /// What the test looks at.
    pub kind: OracleKind,
    /// How it is run.
    pub framework: Framework,
    /// The name that the comment asks for and that the commit to review does not have; empty where there is none.
    #[serde(default)]
    pub missing: String,
    /// The test file.
    pub test: String,
}

/// What a static check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckHit {
    /// The rule, or `parse`.
    pub rule: String,
    /// The line of the test, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub text: String,
}

/// What the test showed on one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideSeen {
    /// Run by run.
    pub outcomes: Vec<Outcome>,
    /// What the first failure said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The end of what the telling run wrote, without what differs from run to run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Whether the test never loaded the project's code, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_only: Option<bool>,
}

/// One line of `synth.jsonl`: one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SynthRow {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// Which attempt, from 1; 0 where nothing was asked.
    pub attempt: u32,
    /// Whether the test is accepted.
    pub accepted: bool,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SynthReason>,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Whether another attempt could do better.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Whether the model was shown the merged change.
    pub saw_merged: bool,
    /// What the model answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<SynthAnswer>,
    /// What static checks found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckHit>,
    /// On the commit to review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SideSeen>,
    /// On the merged commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SideSeen>,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The digests of the prompts' templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Digest>,
    /// The digest of all that could change this row.
    pub key: Digest,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_one_string_form() {
        for reason in SynthReason::ALL {
            let json = serde_json::to_value(reason).unwrap();
            assert_eq!(json, reason.as_str());
            assert_eq!(serde_json::from_value::<SynthReason>(json).unwrap(), reason);
        }
    }
}
