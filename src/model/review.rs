//! Reviews: what one tool said of one instance.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, InstanceId};

/// One line of `reviews.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// The instance.
    pub instance_id: InstanceId,
    /// The tool.
    pub tool: String,
    /// Its version.
    #[serde(default)]
    pub tool_version: Option<String>,
    /// What it found, best first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The tool's own text.
    #[serde(default)]
    pub raw: Option<String>,
    /// Tokens, cost, seconds, as the source gives them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
    /// How the tool ended, in the source's word.
    #[serde(default)]
    pub status: Option<String>,
    /// Fields of a newer or foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One finding of a review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its place in the ranking, from 1.
    pub rank: u32,
    /// The file; absent for general remarks.
    #[serde(default)]
    pub path: Option<String>,
    /// The first line.
    #[serde(default)]
    pub start_line: Option<u64>,
    /// The last line.
    #[serde(default)]
    pub end_line: Option<u64>,
    /// `old` or `new` side of the diff.
    #[serde(default)]
    pub side: Option<String>,
    /// A short title.
    #[serde(default)]
    pub title: Option<String>,
    /// The text.
    pub body: String,
    /// Severity in the tool's word.
    #[serde(default)]
    pub severity: Option<String>,
    /// Suggested code.
    #[serde(default)]
    pub suggestion: Option<String>,
    /// Fields of a newer or foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}
