//! Verdicts that came with the data, to be compared with ours.

use serde::{Deserialize, Serialize};

use super::{Arm, CommentId, Extra, InstanceId};

/// One line of `recorded.jsonl`: what the source says of one arm and one comment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedVerdict {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The arm.
    pub arm: Arm,
    /// What the source says; a missing output is no line at all.
    pub passed: bool,
    /// The source's error note (`Agent made no changes`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The first failing assertion's line of the recorded output (pytest's first `E ` line without the mark).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_line: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl RecordedVerdict {
    /// The error note of an agent that left the tree as it was, in c-CRAB's words.
    pub const NO_CHANGES: &'static str = "Agent made no changes";

    /// Whether it carries the note that the agent changed nothing.
    pub fn says_no_changes(&self) -> bool {
        self.error.as_deref().map(str::trim) == Some(Self::NO_CHANGES)
    }
}
