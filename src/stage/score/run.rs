//! The whole run: rows of the index are laid out anew, then instance by instance everything that is missing is run.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::instance::{InstanceJob, run_instance};
use super::plan::Plan;
use super::row::Row;
use super::runner::Counters;
use crate::engine::{Event, Events, Scheduler};
use crate::environment::Environments;
use crate::model::{Arm, CommentId, Digest};
use crate::oracle::{Frameworks, Policy, Reporters};
use crate::repo::RepoSources;
use crate::sandbox::{Limits, Sandbox};
use crate::store::{RunFolder, StoreError};

/// How a run is to be made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Verdict policy.
    pub policy: Policy,
    /// Runs of each oracle.
    pub repeat: u32,
    /// Limits of each run.
    pub limits: Limits,
    /// Run again what is on record.
    pub redo: bool,
    /// Outcome classes to run again.
    pub retry: Vec<String>,
    /// How often a run is tried again, in a fresh workspace, after an infrastructure failure.
    pub infra_retries: u32,
}

/// What a run stands on.
#[derive(Clone)]
pub struct Services {
    /// Where repositories come from.
    pub repositories: RepoSources,
    /// Environments.
    pub environments: Arc<Environments>,
    /// Where oracles run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The cache folder.
    pub cache: PathBuf,
    /// Test frameworks.
    pub frameworks: Arc<Frameworks>,
    /// redgreen's own reporters, laid out on the host.
    pub reporters: Reporters,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Oracle runs made.
    pub made: u64,
    /// Oracle runs served from records.
    pub cached: u64,
    /// Rows that ended as infra.
    pub infra: u64,
    /// Why, with counts.
    pub infra_reasons: BTreeMap<String, u64>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Why a run could not go on at all. Whatever concerns one instance only is a row and not an error.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The run folder cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task of ours broke.
    #[error("a task broke: {0}")]
    Broken(String),
}

/// Scores a plan into a run folder.
///
/// # Errors
/// When the run folder cannot be written. Everything else becomes a row.
pub async fn score(
    plan: &Plan<'_>,
    bench_root: &Path,
    settings: Settings,
    services: Services,
    scheduler: Scheduler,
    events: Events,
    run: RunFolder,
) -> Result<Summary, ScoreError> {
    events.send(Event::RunStarted { tasks: plan.tasks(settings.repeat), instances: plan.instances.len() as u64 });
    forget_rows(plan, &run)?;
    let shared = Arc::new(Shared {
        bench_root: bench_root.to_owned(),
        settings,
        services,
        scheduler: scheduler.clone(),
        events,
        run,
        shows_head: plan.shows_head,
        shows_merged: plan.shows_merged,
        counters: Counters::default(),
    });
    // One instance more than there are slots is kept ready, so that no slot waits for a checkout or a build.
    let ahead = Arc::new(Semaphore::new(scheduler.jobs() + 1));
    let mut tasks = JoinSet::new();
    for instance in &plan.instances {
        let job = InstanceJob {
            instance: instance.instance.clone(),
            comments: instance.comments.clone(),
            revisions: instance.revisions.iter().map(|r| (*r).clone()).collect(),
            missing: instance.missing.clone(),
        };
        let shared = shared.clone();
        let ahead = ahead.clone();
        tasks.spawn(async move {
            let Ok(_permit) = ahead.acquire_owned().await else { return Ok(()) };
            run_instance(shared, job).await
        });
    }
    let mut first_error = None;
    while let Some(result) = tasks.join_next().await {
        let result = result.unwrap_or_else(|e| Err(ScoreError::Broken(e.to_string())));
        if let Err(error) = result {
            // The folder cannot be written: nothing that is run from here on could be kept.
            scheduler.drain.cancel();
            scheduler.stop.cancel();
            first_error.get_or_insert(error);
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => Ok(shared.counters.summary(scheduler.is_stopping())),
    }
}

/// What all tasks of a run share.
pub(super) struct Shared {
    pub(super) bench_root: PathBuf,
    pub(super) settings: Settings,
    pub(super) services: Services,
    pub(super) scheduler: Scheduler,
    pub(super) events: Events,
    pub(super) run: RunFolder,
    pub(super) shows_head: bool,
    pub(super) shows_merged: bool,
    pub(super) counters: Counters,
}

/// Takes the rows of the plan's comments and arms out of the index, so that a row that is not made anew (interrupted,
/// killed, or no longer in the benchmark) reads as not run and never as an old answer.
fn forget_rows(plan: &Plan<'_>, run: &RunFolder) -> Result<(), StoreError> {
    let comments: HashSet<(&str, &CommentId)> =
        plan.instances.iter().flat_map(|p| p.comments.iter().map(|c| (p.instance.instance_id.folded(), c))).collect();
    let mut arms: HashSet<&Arm> = plan.instances.iter().flat_map(|p| p.revisions.iter().map(|r| &r.arm)).collect();
    arms.extend(plan.instances.iter().flat_map(|p| p.missing.iter()));
    let rows: Vec<Row> = run.rows()?;
    let stale: Vec<Digest> = rows
        .iter()
        .filter(|row| {
            comments.contains(&(row.instance_id.folded(), &row.comment))
                && (row.arm.is_state() || arms.contains(&row.arm))
        })
        .map(Row::id)
        .collect();
    stale.iter().try_for_each(|id| run.remove_row(id))
}
