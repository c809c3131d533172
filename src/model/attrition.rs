//! Why a comment or an instance left the funnel: typed, counted, never silent.

use serde::{Deserialize, Serialize};

use super::{Arm, CommentId, Extra};

/// One line of `attrition.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attrition {
    /// What was lost.
    pub scope: AttritionScope,
    /// The instance's id as the source spells it (it may be the very thing that is broken).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// The comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<CommentId>,
    /// The arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<Arm>,
    /// The step it was lost at (`import`, `testgen`, `resolution`, …).
    pub stage: String,
    /// Why.
    pub reason: AttritionReason,
    /// The source's words, file and line where known.
    #[serde(default)]
    pub detail: String,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What kind of thing was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttritionScope {
    /// A file of the source.
    File,
    /// A line or entry of a file.
    Row,
    /// An instance.
    Instance,
    /// A comment (it stays in the dataset, but has no accepted oracle or is not in the frozen set).
    Comment,
    /// A revision or a whole output of one arm for one instance.
    Revision,
    /// A recorded verdict.
    Recorded,
}

/// Why it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttritionReason {
    /// The source names it but does not hold it.
    NotInSource,
    /// A Git LFS pointer stands in its place.
    LfsPointer,
    /// It does not parse.
    Malformed,
    /// Nothing to join it with.
    NoPartner,
    /// No test could be made.
    NoTest,
    /// The test fails on the merged commit too.
    FailsAfter,
    /// The test passes on the commit to review already.
    PassesBefore,
    /// The comment filter dropped it.
    Filtered,
    /// The solvability check failed.
    NotSolved,
    /// The tool or agent gave nothing.
    NoOutput,
    /// The agent said that it changed nothing.
    NoChanges,
    /// A diff is empty without that note, so it cannot be replayed.
    EmptyDiff,
    /// The language or runner is not supported.
    Unsupported,
    /// The repository or commit is not to be had.
    NoCommit,
    /// The same key occurs twice; the first one counts.
    Duplicate,
    /// A pull request without any review comment.
    NoComments,
    /// It is on a pull request as a whole, and has no place in the code.
    NotInline,
    /// No commit that is to be had has the commented lines.
    NotLocated,
    /// Several places fit, and nothing tells which one is meant.
    Ambiguous,
    /// Nothing tells the commit that a pull request branched from.
    NoBase,
    /// It was read, and nothing is made of it.
    Unused,
    /// A control of the oracle is bad: it does not fail at `head`, or does not pass at `merged`.
    BadControl,
    /// A control of the oracle cannot be run: no merged commit is known.
    Uncontrolled,
    /// It does not meet a threshold that was asked for.
    Threshold,
    /// The machine, the network or the time was to blame; it may come through another time.
    Infra,
}
