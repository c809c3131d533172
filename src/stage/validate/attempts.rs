//! The agents' part: trees handed out and checked for leaks, prompts, attempts, their records.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agent::{Agent, AgentError, AgentJob, AgentWork};
use crate::llm::{Prompt, PromptError};
use crate::model::{Comment, Digest, InfraReason, Instance, digest_json};
use crate::repo::{HandOut, HandOutError, Repository, SnapshotMode};
use crate::stage::score::Services;
use crate::store::RunFolder;
use crate::store::cache::Bucket;

/// The prompt's name.
pub const PROMPT: &str = "solve";

/// The name of the records' folder.
const RECORDS: &str = "agent";

/// The values that the prompt is made from: the comment and the pull request, and nothing that came later.
#[derive(Debug, Clone, Serialize)]
pub struct Values<'a> {
    repo: &'a str,
    title: &'a str,
    body: &'a str,
    path: &'a str,
    line: Option<u64>,
    hunk: &'a str,
    comment: &'a str,
    patch: &'a str,
}

impl<'a> Values<'a> {
    /// Those of one comment.
    pub fn of(instance: &'a Instance, comment: &'a Comment) -> Self {
        Self {
            repo: &instance.repo,
            title: &instance.title,
            body: instance.body.as_deref().unwrap_or_default(),
            path: &comment.path,
            line: comment.line.or(comment.original_line),
            hunk: comment.diff_hunk.as_deref().unwrap_or_default(),
            comment: &comment.text,
            patch: &instance.commit_to_review.patch_to_review,
        }
    }
}

/// What an agent left, on record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AgentRecord {
    key: Digest,
    work: AgentWork,
}

/// One attempt that is wanted.
pub(super) struct Attempt<'a> {
    pub(super) instance: &'a Instance,
    pub(super) comment: &'a Comment,
    pub(super) agent: &'a Arc<dyn Agent>,
    pub(super) attempt: u32,
}

/// What came of it.
pub(super) struct Attempted {
    pub(super) key: Digest,
    pub(super) work: AgentWork,
    pub(super) served: bool,
}

/// Means of making attempts.
pub(super) struct Making<'a> {
    pub(super) services: &'a Services,
    pub(super) scheduler: &'a crate::engine::Scheduler,
    pub(super) run: &'a RunFolder,
    pub(super) prompt: &'a Prompt,
    pub(super) redo: bool,
}

impl Making<'_> {
    /// Makes an attempt, or takes it from its record.
    pub(super) async fn make(&self, wanted: &Attempt<'_>) -> Result<Attempted, AgentError> {
        let Attempt { instance, comment, agent, attempt } = *wanted;
        let setup = |error: PromptError| infra(InfraReason::Environment, error.to_string());
        let told = self.prompt.render(&Values::of(instance, comment)).map_err(setup)?;
        let prompt = if told.system.is_empty() { told.user } else { format!("{}\n\n{}\n", told.system, told.user) };
        let mut job = AgentJob { instance, comment, attempt, prompt: &prompt, tree: None, repository: None };
        let told = agent.needs_tree().then_some(&prompt);
        let key = digest_json(&json!([
            "redgreen-agent-1",
            env!("CARGO_PKG_VERSION"),
            instance.instance_id.folded(),
            instance.head_commit(),
            comment.id,
            agent.identity(&job),
            told,
        ]));
        if !self.redo
            && let Ok(Some(record)) = self.run.record::<AgentRecord>(RECORDS, &key)
            && record.key == key
        {
            return Ok(Attempted { key, work: record.work, served: true });
        }
        let stopped = || infra(InfraReason::Interrupted, "the run was interrupted".to_owned());
        let _slot = self.scheduler.slot().await.ok_or_else(stopped)?;
        let stop = &self.scheduler.stop;
        let work = if agent.needs_tree() {
            let (repository, folder) = self.hand_out(instance).await?;
            let tree = folder.path().join("repo");
            (job.tree, job.repository) = (Some(tree.as_path()), Some(&repository));
            let work = agent.work(&job, stop).await;
            // It may hold files of another user, and is large: it goes before the next one comes.
            let _ = tokio::task::spawn_blocking(move || drop(folder)).await;
            work?
        } else {
            agent.work(&job, stop).await?
        };
        let record = AgentRecord { key: key.clone(), work: work.clone() };
        let kept = self.run.put_record(RECORDS, &key, &record);
        kept.map_err(|e| infra(InfraReason::Disk, e.to_string()))?;
        Ok(Attempted { key, work, served: false })
    }

    /// A checkout of the commit to review, looked through for anything later.
    async fn hand_out(&self, instance: &Instance) -> Result<(Repository, tempfile::TempDir), AgentError> {
        let (services, instance) = (self.services.clone(), instance.clone());
        let made = tokio::task::spawn_blocking(move || {
            let disk = |e: std::io::Error| infra(InfraReason::Disk, e.to_string());
            let sources = &services.repositories;
            let repository = sources.open(&instance.repo).map_err(|e| infra(InfraReason::Repository, e.to_string()))?;
            let folder = tempfile::Builder::new().prefix("agent-").tempdir_in(services.scratch.path()).map_err(disk)?;
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs_err::set_permissions(folder.path(), open).map_err(disk)?;
            let hand_out = HandOut {
                repository: &repository,
                mode: &SnapshotMode::Run,
                commit: instance.head_commit(),
                merged: instance.merged_commit.as_deref(),
                project: &instance.repo,
                out: &folder.path().join("repo"),
                scratch: &Bucket::Scratch.path(&services.cache),
                owner: services.sandbox.owner(),
            };
            hand_out.make(&mut |_, _| {}).map_err(|error| {
                let class = match &error {
                    HandOutError::Io(_) => InfraReason::Disk,
                    _ => InfraReason::Repository,
                };
                infra(class, error.to_string())
            })?;
            Ok((repository, folder))
        });
        made.await.unwrap_or_else(|e| Err(infra(InfraReason::Sandbox, format!("a task of ours broke: {e}"))))
    }
}

pub(super) fn infra(class: InfraReason, detail: String) -> AgentError {
    AgentError { class, detail }
}
