//! The index between verdicts and records: one row for each comment, arm and attempt.

use serde::{Deserialize, Serialize};

use crate::model::{Arm, CommentId, Digest, InfraReason, InstanceId, digest_json};

/// One row: which records stand behind one verdict, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The arm.
    pub arm: Arm,
    /// The coding agent.
    pub agent: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What there is.
    pub state: RowState,
    /// Marks for the verdict.
    #[serde(default)]
    pub marks: Vec<String>,
    /// The digest of the patch as it was given, where there is one.
    #[serde(default)]
    pub patch: Option<Digest>,
    /// Whether the report shows the row; controls that were not asked for are kept for the verdicts of the others.
    #[serde(default = "yes")]
    pub shown: bool,
    /// The digest of what the benchmark and the command say of the row. When the same is asked for again, what is there
    /// stays as it is until there is something else to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grounds: Option<Digest>,
}

/// What there is behind a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RowState {
    /// Oracle runs, one record each.
    Runs {
        /// The records' keys, in the order of the repeats.
        keys: Vec<Digest>,
        /// The keys of the same runs with head's test configuration, where there was need for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        with_head_configuration: Vec<Digest>,
    },
    /// The comment has no accepted oracle.
    NoOracle,
    /// The arm has no revision for the instance.
    Missing,
    /// The agent said that it changed nothing, which is a fail without a run.
    NoChanges,
    /// The patch was rejected.
    Patch {
        /// Why.
        problem: String,
    },
    /// Not replayable under policy `c-crab`.
    NotRun {
        /// Why.
        reason: String,
    },
    /// Not run because a control is bad.
    BadControl,
    /// Infrastructure: tried again by the next run.
    Infra {
        /// The class.
        class: InfraReason,
        /// What happened.
        detail: String,
        /// The blob with the log of what failed, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<Digest>,
    },
}

fn yes() -> bool {
    true
}

impl Row {
    /// The records' keys, in the order of the repeats.
    pub fn keys(&self) -> &[Digest] {
        match &self.state {
            RowState::Runs { keys, .. } => keys,
            _ => &[],
        }
    }

    /// The keys of the runs with head's test configuration.
    pub fn keys_with_head_configuration(&self) -> &[Digest] {
        match &self.state {
            RowState::Runs { with_head_configuration, .. } => with_head_configuration,
            _ => &[],
        }
    }

    /// The digest of the row's identity: its name in the run folder.
    pub fn id(&self) -> Digest {
        digest_json(&serde_json::json!({
            "instance": self.instance_id.folded(),
            "comment": self.comment.as_str(),
            "arm": self.arm.as_str(),
            "agent": self.agent,
            "model": self.model,
            "attempt": self.attempt,
        }))
    }
}
