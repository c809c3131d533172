//! `bench.json`: what makes a folder a benchmark.

use serde::{Deserialize, Serialize};

use super::{CommentId, Extra, InstanceId};

/// The version of the benchmark folder's format that this program writes.
pub const BENCH_SCHEMA: u32 = 1;

/// `bench.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchManifest {
    /// The format's version.
    pub schema: u32,
    /// The benchmark's name.
    pub name: String,
    /// Where it came from, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The digest over the dataset and its tests when it was frozen; `check` compares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_digest: Option<String>,
    /// The benchmark's own frozen choice of comments (denominator `final`); absent where it made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Vec<FrozenRow>>,
    /// The arms whose revisions or recorded verdicts belong to the benchmark, so that an arm with nothing at all is
    /// still listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One comment of the frozen set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenRow {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
}
