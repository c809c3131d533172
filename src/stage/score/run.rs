//! The whole run: rows of the index are laid out anew, then instance by instance everything that is missing is run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::causes::STOPPED;
use super::earlier::{Earlier, was_tried};
use super::grounds::{self, Grounds};
use super::instance::{InstanceJob, planned_rows, run_instance};
use super::plan::Plan;
use super::room::free_up;
use super::row::{Row, RowState};
use super::runner::Counters;
use crate::engine::{Bounds, Breaker, Closed, DiskGuard, Event, Events, Place, Scheduler, time};
use crate::environment::{Environments, Overrides};
use crate::model::{Arm, CommentId, Digest, InfraReason};
use crate::oracle::{Frameworks, Policy, Reporters};
use crate::repo::RepoSources;
use crate::sandbox::{Limits, Sandbox};
use crate::store::{Entered, RunFolder, Scratch, StoreError, Uses};

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
    /// Leave rows alone that were tried and ended as infra.
    pub only_missing: bool,
    /// Deadlines of phases, budgets, the circuit breaker.
    pub bounds: Bounds,
    /// When to wait for room on disks.
    pub disk: DiskSettings,
    /// How often a run is tried again, in a fresh workspace, after an infrastructure failure.
    pub infra_retries: u32,
}

impl Default for Settings {
    /// As `score` runs without options.
    fn default() -> Self {
        Self {
            policy: Policy::Strict,
            repeat: 1,
            limits: Limits::default(),
            redo: false,
            retry: Vec::new(),
            only_missing: false,
            bounds: Bounds::default(),
            disk: DiskSettings::default(),
            infra_retries: 2,
        }
    }
}

/// When to wait for room on disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSettings {
    /// Nothing new is started with fewer free bytes; 0: never wait.
    pub min_free: u64,
    /// How long to wait before giving up.
    pub patience: Duration,
    /// Whether to delete from the cache what nothing used for a day.
    pub clean: bool,
}

impl Default for DiskSettings {
    fn default() -> Self {
        Self { min_free: 1 << 30, patience: Duration::from_secs(600), clean: false }
    }
}

impl Settings {
    /// How long a rebuild may take.
    pub fn rebuild_wall(&self) -> Duration {
        self.bounds.phases.rebuild.unwrap_or(self.limits.wall)
    }

    /// Takes over the limits from a record's inputs, those that can be read.
    pub fn set_recorded_limits(&mut self, inputs: &serde_json::Value) {
        let recorded = &inputs["limits"];
        let seconds = |name: &str| recorded[name].as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok());
        self.bounds.phases.rebuild = seconds("rebuild").or(self.bounds.phases.rebuild);
        let number = |name: &str, default: u64| recorded[name].as_u64().unwrap_or(default);
        let limits = &mut self.limits;
        limits.wall = seconds("wall").unwrap_or(limits.wall);
        limits.cpu = seconds("cpu").or(limits.cpu);
        limits.memory = number("memory", limits.memory);
        limits.pids = number("pids", limits.pids);
        limits.file_size = number("file_size", limits.file_size);
        limits.output = number("output", limits.output);
        limits.scratch = number("scratch", limits.scratch);
    }
}

/// What a run stands on.
#[derive(Clone)]
pub struct Services {
    /// Where repositories come from.
    pub repositories: RepoSources,
    /// Environments by hand, which are taken at their word.
    pub overrides: Arc<Overrides>,
    /// Environments.
    pub environments: Arc<Environments>,
    /// Where oracles run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The cache folder.
    pub cache: PathBuf,
    /// What this process uses of the cache.
    pub uses: Uses,
    /// This process's folder of temporary files, in the cache.
    pub scratch: Arc<Scratch>,
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
    /// Why, with counts of rows.
    pub infra_reasons: BTreeMap<InfraCause, u64>,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Why runs were made that had been made before, with counts.
    pub again: BTreeMap<String, u64>,
    /// Rows that ended as infra earlier and were left as they are.
    pub left: u64,
}

/// One cause of infra rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InfraCause {
    /// The class, in its string form.
    pub class: &'static str,
    /// What happened.
    pub detail: String,
    /// The blob with the log of what failed, where there is one.
    pub log: Option<Digest>,
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

/// Scores a plan into a run folder. With the summary comes this process's place in the folder: as long as it is held,
/// other processes leave the rows alone, so that a report can be made of them.
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
) -> Result<(Summary, Entered), ScoreError> {
    events.send(Event::RunStarted { tasks: plan.tasks(settings.repeat), instances: plan.instances.len() as u64 });
    let jobs: Vec<InstanceJob> = plan.instances.iter().map(InstanceJob::new).collect();
    let entered = run.enter()?;
    let grounds = Grounds::new(&settings, &services, bench_root);
    let Laid { shown, left, earlier } =
        lay_out_rows(plan, &jobs, &run, grounds.as_ref(), entered.alone(), settings.only_missing)?;
    run.rows_are_laid_out()?;
    let scheduler = guarded(scheduler, &settings.disk, &services.cache, run.root(), &events);
    let timer =
        settings.bounds.run_budget.map(|budget| tokio::spawn(close_after(budget, scheduler.clone(), events.clone())));
    let breaker = Breaker::new(settings.bounds.same_infra, plan.instances.len());
    entered.share()?;
    let shared = Arc::new(Shared {
        bench_root: bench_root.to_owned(),
        settings,
        services,
        scheduler: scheduler.clone(),
        events,
        run,
        shown,
        left,
        earlier,
        breaker,
        counters: Counters::default(),
    });
    // One instance more than there are slots is kept ready, so that no slot waits for a checkout or a build.
    let ahead = Arc::new(Semaphore::new(scheduler.jobs() + 1));
    let mut tasks = JoinSet::new();
    for job in jobs {
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
    if let Some(timer) = timer {
        timer.abort();
    }
    let summary = shared.counters.summary(scheduler.is_interrupted());
    match first_error {
        Some(error) => Err(error),
        None => Ok((Summary { left: shared.left.len() as u64, ..summary }, entered)),
    }
}

/// The scheduler, which waits when a disk that the run writes to has too little room.
pub(super) fn guarded(
    scheduler: Scheduler,
    disk: &DiskSettings,
    cache: &Path,
    run: &Path,
    events: &Events,
) -> Scheduler {
    if disk.min_free == 0 {
        return scheduler;
    }
    let places =
        vec![Place { name: "cache", path: cache.to_owned() }, Place { name: "run folder", path: run.to_owned() }];
    let clean = disk.clean.then(|| free_up(cache));
    scheduler.guarded(DiskGuard::new(places, disk.min_free, disk.patience, clean, events.clone()))
}

/// Closes the scheduler when the run's budget is used up.
pub(super) async fn close_after(budget: Duration, scheduler: Scheduler, events: Events) {
    tokio::time::sleep(budget).await;
    let detail = format!("{STOPPED}the run's budget of {} is used up", time(budget));
    if scheduler.close(Closed { class: InfraReason::Deadline, detail: detail.clone() }) {
        let text = format!("{detail}: letting what runs finish, starting nothing new; the same command goes on");
        events.send(Event::Note { text });
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
    pub(super) shown: Shown,
    /// Rows that ended as infra earlier and are to be left as they are.
    pub(super) left: HashSet<Digest>,
    /// What earlier runs into the folder had.
    pub(super) earlier: Earlier,
    pub(super) breaker: Breaker,
    pub(super) counters: Counters,
}

impl Shared {
    /// For one run beside any plan.
    pub(super) fn alone(
        bench_root: PathBuf,
        settings: Settings,
        services: Services,
        scheduler: Scheduler,
        events: Events,
        run: RunFolder,
    ) -> Self {
        let shown = Shown::default();
        let breaker = Breaker::new(0, 1);
        let (left, earlier, counters) = (HashSet::new(), Earlier::default(), Counters::default());
        Self { bench_root, settings, services, scheduler, events, run, shown, left, earlier, breaker, counters }
    }
}

/// Which control rows the report shows: those of this run's arms, and those that an earlier run into the same folder
/// showed. A control that was not asked for is kept only for the verdicts of the others.
#[derive(Default)]
pub(super) struct Shown {
    head: bool,
    merged: bool,
    earlier: HashSet<Digest>,
    /// What the benchmark and the command say of each row.
    grounds: HashMap<Digest, Digest>,
}

impl Shown {
    pub(super) fn shows(&self, arm: &Arm, row: &Digest) -> bool {
        let asked = match arm.as_str() {
            Arm::HEAD => self.head,
            Arm::MERGED => self.merged,
            _ => true,
        };
        asked || self.earlier.contains(row)
    }

    pub(super) fn grounds(&self, row: &Digest) -> Option<Digest> {
        self.grounds.get(row).cloned()
    }
}

/// Lays out the rows of the plan's comments and arms anew, so that one that is not made (interrupted, killed) reads as
/// not run and never as an answer to another question, and takes out those that are no longer in the benchmark. A row of
/// the same grounds answers the same question, and stays. Where another process scores into the same folder, its rows
/// are not old, and only those that are not there yet are laid out.
fn lay_out_rows(
    plan: &Plan<'_>,
    jobs: &[InstanceJob],
    run: &RunFolder,
    grounds: Option<&Grounds<'_>>,
    alone: bool,
    only_missing: bool,
) -> Result<Laid, StoreError> {
    let comments: HashSet<(&str, &CommentId)> =
        jobs.iter().flat_map(|job| job.comments.iter().map(|c| (job.instance.instance_id.folded(), c))).collect();
    let mut arms: HashSet<&Arm> = jobs.iter().flat_map(|job| job.revisions.iter().map(|r| &r.arm)).collect();
    arms.extend(jobs.iter().flat_map(|job| job.missing.iter()));
    let old: Vec<Row> = run.rows()?;
    let ids: Vec<Digest> = old.iter().map(Row::id).collect();
    let there: HashMap<&Digest, &Row> = ids.iter().zip(&old).collect();
    let of_old = |keep: fn(&Row) -> bool| -> HashSet<Digest> {
        ids.iter().zip(&old).filter(|(_, row)| keep(row)).map(|(id, _)| id.clone()).collect()
    };
    let earlier = of_old(|row| row.arm.is_state() && row.shown);
    let mut shown = Shown { head: plan.shows_head, merged: plan.shows_merged, earlier, grounds: HashMap::new() };
    let tried = if only_missing { of_old(was_tried) } else { HashSet::new() };
    let mut planned = HashSet::new();
    let mut result = Ok(());
    for job in jobs {
        let of_comments = grounds.map(|grounds| grounds.of(job)).unwrap_or_default();
        planned_rows(job, |mut row, revision| {
            let id = row.id();
            row.shown = shown.shows(&row.arm, &id);
            row.grounds = of_comments.get(&row.comment).map(|comment| grounds::of_row(&row, comment, revision));
            if let Some(grounds) = &row.grounds {
                shown.grounds.insert(id.clone(), grounds.clone());
            }
            let stays = there.get(&id).is_some_and(|old| !alone || tried.contains(&id) || answers(old, &row));
            if result.is_ok() && !stays {
                result = run.put_row(&id, &row);
            }
            planned.insert(id);
        });
    }
    result?;
    let gone = ids.iter().zip(&old).filter(|(id, row)| {
        comments.contains(&(row.instance_id.folded(), &row.comment))
            && (row.arm.is_state() || arms.contains(&row.arm))
            && !planned.contains(*id)
    });
    gone.map(|(id, _)| id).try_for_each(|id| run.remove_row(id))?;
    Ok(Laid { shown, left: tried.intersection(&planned).cloned().collect(), earlier: Earlier::new(&old) })
}

/// What laying out the rows gives.
struct Laid {
    shown: Shown,
    left: HashSet<Digest>,
    earlier: Earlier,
}

/// Whether a row that is there has a lasting answer to what is asked now.
fn answers(old: &Row, asked: &Row) -> bool {
    let lasts = !matches!(old.state, RowState::Infra { .. });
    lasts && asked.grounds.is_some() && old.grounds == asked.grounds && old.shown == asked.shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InfraReason, digest_bytes};

    #[test]
    fn only_a_lasting_answer_to_the_same_question_stays() {
        let asked = Row {
            instance_id: "o__r-1@0123abc".parse().unwrap(),
            comment: CommentId::from_index(0),
            arm: Arm::head(),
            agent: None,
            model: None,
            attempt: 1,
            state: RowState::Missing,
            marks: Vec::new(),
            patch: None,
            shown: true,
            grounds: Some(digest_bytes(b"1")),
        };
        let infra = RowState::Infra { class: InfraReason::Interrupted, detail: "x".to_owned(), log: None };
        assert!(answers(&Row { state: RowState::BadControl, ..asked.clone() }, &asked));
        assert!(!answers(&Row { state: infra, ..asked.clone() }, &asked));
        assert!(!answers(&Row { grounds: Some(digest_bytes(b"2")), ..asked.clone() }, &asked));
        assert!(!answers(&Row { shown: false, ..asked.clone() }, &asked));
        // Without grounds nothing is known: rows of older versions, and things that are to be done again.
        let unknown = Row { grounds: None, ..asked.clone() };
        assert!(!answers(&unknown, &unknown) && !answers(&unknown, &asked) && !answers(&asked, &unknown));
    }
}
