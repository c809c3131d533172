//! Coding agents: given a work tree that knows nothing later than the commit to review, a prompt and limits, an agent
//! leaves a patch. Nothing here knows of oracles or scores.
//!
//! Two kinds so far: [`CommandAgent`], any program, run in the sandbox without network; [`RecordedAgent`], patches that
//! are there already.

mod command;
mod recorded;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::model::{Comment, InfraReason, Instance};
use crate::repo::{BaseTree, ChangeSet, RepoError, Repository, changes_in};

pub use command::CommandAgent;
pub use recorded::RecordedAgent;

/// One attempt that an agent is asked for.
#[derive(Debug, Clone, Copy)]
pub struct AgentJob<'a> {
    /// The pull request. An agent of ours sees of it only what the prompt and the tree say.
    pub instance: &'a Instance,
    /// The comment that is to be addressed.
    pub comment: &'a Comment,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What it is told.
    pub prompt: &'a str,
    /// A checkout of the commit to review that is the agent's alone, with a `.git` of one commit; `None` for one that
    /// needs none.
    pub tree: Option<&'a Path>,
    /// The repository that the tree was made from, to compare with. The agent's programs never see it.
    pub repository: Option<&'a Repository>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status", content = "reason")]
pub enum AgentStatus {
    /// The patch is its work.
    Done,
    /// It came to its end and changed nothing.
    NoChanges,
    /// It broke; the patch is what it had by then.
    Failed(String),
    /// Its time was over; the patch is what it had by then.
    TimedOut,
    /// There is no attempt of this number on record.
    NoAttempt,
}

/// What an attempt left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    /// How it ended.
    #[serde(flatten)]
    pub status: AgentStatus,
    /// A unified diff from the commit to review; empty where nothing changed.
    pub patch: String,
    /// Tokens and cost, as far as the agent says.
    pub usage: Value,
    /// Seconds that it took; 0 for a recorded one.
    #[serde(default)]
    pub seconds: f64,
    /// What it wrote, or where its trajectory lies.
    pub trajectory: Value,
}

/// Why an attempt did not come about. It says nothing of the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", class.as_str())]
pub struct AgentError {
    /// The class.
    pub class: InfraReason,
    /// What happened.
    pub detail: String,
}

impl AgentError {
    fn of_repo(error: &RepoError) -> Self {
        let class = if error.is_disk() { InfraReason::Disk } else { InfraReason::Repository };
        Self { class, detail: error.to_string() }
    }
}

/// What [`Agent::work`] gives.
pub type AgentFuture<'a> = Pin<Box<dyn Future<Output = Result<AgentWork, AgentError>> + Send + 'a>>;

/// A coding agent.
pub trait Agent: Send + Sync {
    /// Its name in records.
    fn name(&self) -> &str;

    /// Its model, where it has one that is known.
    fn model(&self) -> Option<&str> {
        None
    }

    /// All of it that could change what it does at this attempt, for the record's key.
    fn identity(&self, job: &AgentJob<'_>) -> Value;

    /// Whether it works in a tree.
    fn needs_tree(&self) -> bool {
        true
    }

    /// Makes one attempt. When `cancel` fires it ends as [`InfraReason::Interrupted`].
    fn work<'a>(&'a self, job: &'a AgentJob<'a>, cancel: &'a CancellationToken) -> AgentFuture<'a>;
}

/// What was changed in a job's tree, as a patch that gives it again.
fn captured(repository: &Repository, head: &str, tree: &Path) -> Result<Captured, RepoError> {
    let base = repository.tree_of(&repository.resolve(head)?)?;
    let changes = changes_in(&base, tree)?;
    Captured::of(&changes, &base)
}

/// A captured patch, or why there can be none.
enum Captured {
    Patch(String),
    NoText(String),
}

impl Captured {
    fn of(changes: &ChangeSet, base: &dyn BaseTree) -> Result<Self, RepoError> {
        match String::from_utf8(changes.to_patch(base)?) {
            Ok(patch) => Ok(Self::Patch(patch)),
            // A patch travels as JSON text, and this one would not come back as it was.
            Err(_) => Ok(Self::NoText("the change has bytes that are not UTF-8 in a text file".to_owned())),
        }
    }
}
