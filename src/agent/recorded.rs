//! An agent whose work is there already: revisions from a file, or those of one arm of a benchmark.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentFuture, AgentJob, AgentStatus, AgentWork};
use crate::model::{Revision, RevisionStatus, digest_bytes};

/// Recorded revisions as an agent. One revision is of all comments of its pull request.
pub struct RecordedAgent {
    name: String,
    revisions: Vec<Revision>,
}

impl RecordedAgent {
    /// The revisions of one agent.
    pub fn new(name: &str, revisions: Vec<Revision>) -> Self {
        Self { name: name.to_owned(), revisions }
    }

    fn revision(&self, job: &AgentJob<'_>) -> Option<&Revision> {
        let is_meant = |one: &&Revision| one.instance_id == job.instance.instance_id && one.attempt == job.attempt;
        self.revisions.iter().find(is_meant)
    }
}

impl Agent for RecordedAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> Option<&str> {
        let mut models = self.revisions.iter().map(|one| one.model.as_deref());
        let first = models.next().flatten();
        first.filter(|first| models.all(|other| other == Some(first)))
    }

    fn identity(&self, job: &AgentJob<'_>) -> Value {
        let revision = self.revision(job);
        json!({
            "kind": "recorded", "name": self.name, "attempt": job.attempt,
            "patch": revision.map(|one| digest_bytes(one.patch.as_bytes())),
            "status": revision.map(|one| one.status),
        })
    }

    fn needs_tree(&self) -> bool {
        false
    }

    fn work<'a>(&'a self, job: &'a AgentJob<'a>, _cancel: &'a CancellationToken) -> AgentFuture<'a> {
        let work = match self.revision(job) {
            None => AgentWork {
                status: AgentStatus::NoAttempt,
                patch: String::new(),
                usage: Value::Null,
                seconds: 0.0,
                trajectory: Value::Null,
            },
            Some(revision) => AgentWork {
                status: match revision.status {
                    RevisionStatus::TimedOut => AgentStatus::TimedOut,
                    RevisionStatus::Errored => AgentStatus::Failed("as recorded".to_owned()),
                    _ if revision.patch.trim().is_empty() => AgentStatus::NoChanges,
                    _ => AgentStatus::Done,
                },
                patch: revision.patch.clone(),
                usage: revision.usage.clone(),
                seconds: 0.0,
                trajectory: revision.trajectory.clone(),
            },
        };
        Box::pin(std::future::ready(Ok(work)))
    }
}
