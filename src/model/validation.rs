//! What one attempt of a coding agent says of whether a comment can be solved from its words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CommentId, Digest, Extra, InstanceId};

/// What an agent's attempt at one comment came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SolveStatus {
    /// The oracle passes on the agent's patch.
    Solved,
    /// It does not, or the agent changed nothing.
    NotSolved,
    /// The agent broke, or ran out of time: this is no answer.
    AgentFailed,
    /// There is no attempt of this number on record.
    NoAttempt,
    /// The oracle itself says nothing here (a bad control, no merged commit to hold it against).
    BadOracle,
}

impl SolveStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Solved, Self::NotSolved, Self::AgentFailed, Self::NoAttempt, Self::BadOracle];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::NotSolved => "not-solved",
            Self::AgentFailed => "agent-failed",
            Self::NoAttempt => "no-attempt",
            Self::BadOracle => "bad-oracle",
        }
    }

    /// Whether it says anything of the comment.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Solved | Self::NotSolved)
    }
}

/// One line of `validate.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationRow {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The agent.
    pub agent: String,
    /// Its model, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What it came to.
    pub status: SolveStatus,
    /// Why, in words: the verdict's reason, or what befell the agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The agent's patch; empty where it changed nothing.
    #[serde(default)]
    pub patch: String,
    /// Tokens and cost, as the agent gives them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
    /// The end of what the agent wrote, or where its trajectory lies.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub trajectory: Value,
    /// The digest of all that could change the agent's patch.
    pub key: Digest,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_one_string_form() {
        for status in SolveStatus::ALL {
            let json = serde_json::to_value(status).unwrap();
            assert_eq!(json, status.as_str());
            assert_eq!(serde_json::from_value::<SolveStatus>(json).unwrap(), status);
        }
    }
}
