//! The whole: attempts by agents, then their patches scored by the oracles.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::attempts::{Attempt, Attempted, Making};
use crate::agent::{Agent, AgentError, AgentStatus};
use crate::engine::{Events, Scheduler};
use crate::llm::Prompt;
use crate::model::{
    Arm, CommentId, Extra, Instance, InstanceId, Revision, RevisionStatus, SolveStatus, ValidationRow, Verdict,
    VerdictKind,
};
use crate::oracle::Policy;
use crate::stage::score::{self, InstancePlan, Plan, Roster, ScoreError, Services, Settings};
use crate::store::{RunFolder, StoreError};

/// The stage's name.
pub const STAGE: &str = "validate";

/// What the stage stands on.
pub struct Validate<'a> {
    /// The agents.
    pub agents: &'a [Arc<dyn Agent>],
    /// Attempts by each agent at each comment.
    pub attempts: u32,
    /// What agents are told.
    pub prompt: &'a Prompt,
    /// What runs stand on.
    pub services: &'a Services,
    /// How oracles are run; the policy is strict.
    pub settings: &'a Settings,
    /// Slots, and how the run is asked to stop.
    pub scheduler: &'a Scheduler,
    /// Where records go.
    pub run: &'a RunFolder,
    /// Ask agents again whose work is on record.
    pub redo: bool,
}

/// An attempt that is to be made again.
#[derive(Debug, Clone)]
pub struct Open {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The agent.
    pub agent: String,
    /// Which attempt.
    pub attempt: u32,
    /// `infra(REASON)` or `interrupted`.
    pub why: String,
    /// In words.
    pub detail: String,
}

/// What came of it. Each attempt at each comment with an oracle is in `rows` or in `open`, once.
#[derive(Debug, Default)]
pub struct Validated {
    /// Rows in the order of the dataset.
    pub rows: Vec<ValidationRow>,
    /// Attempts without one.
    pub open: Vec<Open>,
    /// Comments that went in.
    pub comments: usize,
    /// Those without an oracle.
    pub left: usize,
    /// Attempts whose patch an earlier run had made.
    pub served: usize,
    /// Whether the run was asked to stop.
    pub interrupted: bool,
}

/// One thing that happened.
pub enum Told<'a> {
    /// An agent's attempt ended.
    Attempt {
        /// The instance.
        instance: &'a InstanceId,
        /// The comment.
        comment: &'a CommentId,
        /// The agent.
        agent: &'a str,
        /// Which attempt.
        attempt: u32,
        /// How it ended, or why it did not come about.
        ended: Result<&'a AgentStatus, &'a AgentError>,
    },
    /// Patches are being scored: so many.
    Scoring(usize),
}

/// Why it could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// Scoring broke.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// The run folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Validate<'_> {
    /// Lets the agents try, and scores what they left. `bench` is the folder in which the tests lie.
    ///
    /// # Errors
    /// When the run folder cannot be read or written.
    pub async fn run(
        &self,
        instances: &[&Instance],
        bench: &Path,
        events: Events,
        tell: &(impl Fn(Told<'_>) + Sync),
    ) -> Result<Validated, ValidateError> {
        let mut validated = Validated::default();
        let mut wanted: Vec<Attempt<'_>> = Vec::new();
        for instance in instances {
            for comment in &instance.reference_review_comments {
                validated.comments += 1;
                if instance.oracle(&comment.id).is_none() {
                    validated.left += 1;
                    continue;
                }
                for agent in self.agents {
                    let attempts = 1..=self.attempts.max(1);
                    wanted.extend(attempts.map(|attempt| Attempt { instance, comment, agent, attempt }));
                }
            }
        }
        let made = self.make(&wanted, tell).await;
        let verdicts = self.score(instances, bench, &wanted, &made, events, tell).await?;
        for (wanted, made) in wanted.iter().zip(made) {
            let attempted = match made {
                Ok(attempted) => attempted,
                Err(error) => {
                    validated.open.push(open(wanted, error.class.as_str(), error.detail));
                    continue;
                }
            };
            validated.served += usize::from(attempted.served);
            match status(&attempted, verdicts.get(&key(wanted))) {
                Ok((status, detail)) => validated.rows.push(row(wanted, attempted, status, detail)),
                Err((why, detail)) => validated.open.push(open(wanted, why, detail)),
            }
        }
        validated.interrupted = self.scheduler.is_interrupted();
        Ok(validated)
    }

    async fn make(
        &self,
        wanted: &[Attempt<'_>],
        tell: &(impl Fn(Told<'_>) + Sync),
    ) -> Vec<Result<Attempted, AgentError>> {
        let making = Making {
            services: self.services,
            scheduler: self.scheduler,
            run: self.run,
            prompt: self.prompt,
            redo: self.redo,
        };
        let making = &making;
        let attempts = stream::iter(wanted)
            .map(|one| async move {
                let made = making.make(one).await;
                tell(Told::Attempt {
                    instance: &one.instance.instance_id,
                    comment: &one.comment.id,
                    agent: one.agent.name(),
                    attempt: one.attempt,
                    ended: made.as_ref().map(|attempted| &attempted.work.status),
                });
                made
            })
            .buffered(self.scheduler.jobs().max(1));
        attempts.collect().await
    }

    /// Scores the patches that are answers. Equal patches of one comment are run once, by their records' keys.
    async fn score(
        &self,
        instances: &[&Instance],
        bench: &Path,
        wanted: &[Attempt<'_>],
        made: &[Result<Attempted, AgentError>],
        events: Events,
        tell: &(impl Fn(Told<'_>) + Sync),
    ) -> Result<HashMap<Key, Verdict>, ValidateError> {
        let mut revisions: BTreeMap<(usize, &CommentId), Vec<Revision>> = BTreeMap::new();
        let place: HashMap<&InstanceId, usize> =
            instances.iter().enumerate().map(|(at, instance)| (&instance.instance_id, at)).collect();
        let mut count = 0;
        for (wanted, made) in wanted.iter().zip(made) {
            let Ok(attempted) = made else { continue };
            if attempted.work.status != AgentStatus::Done {
                continue;
            }
            let Some(at) = place.get(&wanted.instance.instance_id) else { continue };
            count += 1;
            revisions.entry((*at, &wanted.comment.id)).or_default().push(revision(wanted, attempted));
        }
        if count == 0 || self.scheduler.is_stopping() {
            return Ok(HashMap::new());
        }
        tell(Told::Scoring(count));
        let plans = revisions.iter().filter_map(|((at, comment), revisions)| {
            Some(InstancePlan {
                instance: instances.get(*at)?,
                comments: vec![(*comment).clone()],
                revisions: revisions.iter().collect(),
                missing: Vec::new(),
            })
        });
        let plan = Plan { instances: plans.collect(), shows_head: true, shows_merged: true, unknown_arms: Vec::new() };
        let settings = Settings { policy: Policy::Strict, ..self.settings.clone() };
        let (services, scheduler) = (self.services.clone(), self.scheduler.clone());
        let (_, entered) = score::score(&plan, bench, settings, services, scheduler, events, self.run.clone()).await?;
        let all: Vec<Instance> = instances.iter().map(|instance| (*instance).clone()).collect();
        let roster = Roster::new(&all, None, &[], &[], |_| None);
        let rows: Vec<score::Row> = self.run.rows()?;
        let scored = score::verdicts(&roster, &rows, Policy::Strict, |keys| self.run.records(score::STAGE, keys))?;
        drop(entered);
        Ok(scored.verdicts.into_iter().map(|verdict| (key_of(&verdict), verdict)).collect())
    }
}

/// Instance, comment, agent, its model, attempt.
type Key = (String, CommentId, String, Option<String>, u32);

fn key(wanted: &Attempt<'_>) -> Key {
    let instance = wanted.instance.instance_id.folded().to_owned();
    let model = wanted.agent.model().map(str::to_owned);
    (instance, wanted.comment.id.clone(), wanted.agent.name().to_owned(), model, wanted.attempt)
}

fn key_of(verdict: &Verdict) -> Key {
    let agent = verdict.agent.clone().unwrap_or_default();
    let instance = verdict.instance_id.folded().to_owned();
    (instance, verdict.comment.clone(), agent, verdict.model.clone(), verdict.attempt)
}

fn revision(wanted: &Attempt<'_>, attempted: &Attempted) -> Revision {
    Revision {
        instance_id: wanted.instance.instance_id.clone(),
        // What guides the agent is the human's comment.
        arm: Arm::new(Arm::HUMAN),
        agent: Some(wanted.agent.name().to_owned()),
        model: wanted.agent.model().map(str::to_owned),
        attempt: wanted.attempt,
        patch: attempted.work.patch.clone(),
        status: RevisionStatus::Done,
        usage: serde_json::Value::Null,
        trajectory: serde_json::Value::Null,
        extra: Extra::new(),
    }
}

/// What an attempt came to, or why that is not known yet.
fn status(attempted: &Attempted, verdict: Option<&Verdict>) -> Result<(SolveStatus, String), (&'static str, String)> {
    let text = |text: &str| text.to_owned();
    match &attempted.work.status {
        AgentStatus::NoChanges => return Ok((SolveStatus::NotSolved, text("no changes"))),
        AgentStatus::Failed(why) => return Ok((SolveStatus::AgentFailed, why.clone())),
        AgentStatus::TimedOut => return Ok((SolveStatus::AgentFailed, text("its time was over"))),
        AgentStatus::NoAttempt => return Ok((SolveStatus::NoAttempt, String::new())),
        AgentStatus::Done => {}
    }
    let Some(verdict) = verdict else { return Err(("interrupted", text("the patch was not scored"))) };
    let reason = verdict.reason.clone().unwrap_or_default();
    match verdict.verdict {
        VerdictKind::Pass => Ok((SolveStatus::Solved, String::new())),
        VerdictKind::Fail => Ok((SolveStatus::NotSolved, reason)),
        VerdictKind::Invalid if reason.starts_with("infra") => Err(("scoring", reason)),
        VerdictKind::Invalid => Ok((SolveStatus::BadOracle, reason)),
        VerdictKind::Missing => Err(("scoring", reason)),
    }
}

fn row(wanted: &Attempt<'_>, attempted: Attempted, status: SolveStatus, detail: String) -> ValidationRow {
    ValidationRow {
        instance_id: wanted.instance.instance_id.clone(),
        comment: wanted.comment.id.clone(),
        agent: wanted.agent.name().to_owned(),
        model: wanted.agent.model().map(str::to_owned),
        attempt: wanted.attempt,
        status,
        detail,
        patch: attempted.work.patch,
        usage: attempted.work.usage,
        trajectory: attempted.work.trajectory,
        key: attempted.key,
        extra: Extra::new(),
    }
}

fn open(wanted: &Attempt<'_>, why: &str, detail: String) -> Open {
    let why = match why {
        "interrupted" => why.to_owned(),
        _ => format!("infra({why})"),
    };
    Open {
        instance_id: wanted.instance.instance_id.clone(),
        comment: wanted.comment.id.clone(),
        agent: wanted.agent.name().to_owned(),
        attempt: wanted.attempt,
        why,
        detail,
    }
}
