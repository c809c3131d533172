//! Revisions: the patch that a coding agent made from an arm's guidance.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Arm, Extra, InstanceId};

/// One line of `revisions.jsonl`. Its key is instance, arm, agent, model, attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    /// The instance.
    pub instance_id: InstanceId,
    /// Where the guidance came from.
    pub arm: Arm,
    /// The coding agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// Its model.
    #[serde(default)]
    pub model: Option<String>,
    /// The attempt, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    /// A unified diff from the commit to review; empty where nothing changed.
    pub patch: String,
    /// How the agent ended.
    #[serde(default)]
    pub status: RevisionStatus,
    /// Tokens, cost, seconds, as the source gives them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
    /// The agent's trajectory, or where it lies.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub trajectory: Value,
    /// Fields of a newer or foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Revision {
    /// Whether another revision is the same attempt of the same agent with the same guidance.
    pub fn same_key(&self, other: &Self) -> bool {
        self.instance_id == other.instance_id
            && self.arm == other.arm
            && self.agent == other.agent
            && self.model == other.model
            && self.attempt == other.attempt
    }
}

fn first() -> u32 {
    1
}

/// How an agent's attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevisionStatus {
    /// It finished; the patch is its work.
    #[default]
    Done,
    /// It said that it changed nothing.
    NoChanges,
    /// It ran out of time; the patch is what it had by then.
    TimedOut,
    /// It broke; the patch is what it had by then.
    Errored,
    /// Recorded without saying.
    Unknown,
}

/// A SWE-bench prediction; loads as a revision whose arm is the model's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WirePrediction {
    /// The instance.
    pub instance_id: InstanceId,
    /// The model's name or path: the arm.
    pub model_name_or_path: String,
    /// A unified diff; null and empty are equal.
    #[serde(default)]
    pub model_patch: Option<String>,
    /// Fields of a foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl From<WirePrediction> for Revision {
    fn from(prediction: WirePrediction) -> Self {
        Self {
            instance_id: prediction.instance_id,
            arm: Arm::new(prediction.model_name_or_path),
            agent: None,
            model: None,
            attempt: 1,
            patch: prediction.model_patch.unwrap_or_default(),
            status: RevisionStatus::Unknown,
            usage: Value::Null,
            trajectory: Value::Null,
            extra: prediction.extra,
        }
    }
}
