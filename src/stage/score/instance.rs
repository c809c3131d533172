//! One instance: its controls, then its revisions, and the rows that come of them.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::causes::STOPPED;
use super::plan::InstancePlan;
use super::prepare::{Ready, Unavailable, prepare};
use super::row::{Row, RowState};
use super::run::{ScoreError, Shared};
use super::runner::{Bound, Made, run_state};
use super::second::{OfTheFix, Subject};
use super::state::State;
use crate::engine::{Event, SkipCause, TaskId};
use crate::model::{Arm, CommentId, Digest, InfraReason, Instance, Outcome, Revision, RevisionStatus};
use crate::oracle::{self, Controls, Policy, TEST_CONFIGURATION, TestId};

/// One instance with everything that is to be run on it, owned.
pub(super) struct InstanceJob {
    pub(super) instance: Instance,
    pub(super) comments: Vec<CommentId>,
    pub(super) revisions: Vec<Revision>,
    pub(super) missing: Vec<Arm>,
}

impl InstanceJob {
    pub(super) fn new(plan: &InstancePlan<'_>) -> Self {
        Self {
            instance: plan.instance.clone(),
            comments: plan.comments.clone(),
            revisions: plan.revisions.iter().map(|r| (*r).clone()).collect(),
            missing: plan.missing.clone(),
        }
    }
}

impl InstanceJob {
    /// How many comments have an oracle.
    fn oracles(&self) -> usize {
        self.comments.iter().filter(|comment| self.instance.oracle(comment).is_some()).count()
    }
}

/// Runs one instance to its end.
pub(super) async fn run_instance(shared: Arc<Shared>, job: InstanceJob) -> Result<(), ScoreError> {
    let job = Arc::new(job);
    for revision in &job.revisions {
        shared.run.put_blob(revision.patch.as_bytes())?;
    }
    for comment in &job.comments {
        for arm in &job.missing {
            put(&shared, &row(&job, comment, arm, None, RowState::Missing))?;
        }
        if job.instance.merged_commit.is_none() {
            put(&shared, &row(&job, comment, &Arm::merged(), None, RowState::Missing))?;
        }
    }
    let (with, without): (Vec<_>, Vec<_>) =
        job.comments.iter().cloned().partition(|c| job.instance.oracle(c).is_some());
    for comment in &without {
        put_all(&shared, &job, comment, &RowState::NoOracle)?;
    }
    let with = without_tried(&shared, &job, with)?;
    if with.is_empty() {
        return Ok(());
    }
    if shared.scheduler.is_stopping() {
        return unavailable(&shared, &job, &with, &shared.not_started());
    }
    let began = std::time::Instant::now();
    let ready = match prepare(&shared, &job).await {
        Ok(ready) => Arc::new(ready),
        Err(why) => {
            let why = why.or_disk(&shared.services.cache);
            shared.failed(&why, &job.instance.instance_id);
            return unavailable(&shared, &job, &with, &why);
        }
    };
    shared.events.send(Event::Prepared {
        instance_id: job.instance.instance_id.clone(),
        seconds: began.elapsed().as_secs_f64(),
    });
    let mut oracles = JoinSet::new();
    for comment in with {
        let (shared, job, ready) = (shared.clone(), job.clone(), ready.clone());
        oracles.spawn(async move { run_oracle(&shared, &job, &ready, &comment).await });
    }
    let mut result = Ok(());
    while let Some(ended) = oracles.join_next().await {
        let ended = ended.unwrap_or_else(|e| Err(ScoreError::Broken(e.to_string())));
        result = result.and(ended);
    }
    result
}

/// One oracle: the controls first, then every revision.
async fn run_oracle(
    shared: &Arc<Shared>,
    job: &Arc<InstanceJob>,
    ready: &Arc<Ready>,
    comment: &CommentId,
) -> Result<(), ScoreError> {
    let bound = match Bound::new(shared, job, ready, comment) {
        Ok(bound) => Arc::new(bound),
        Err(why) => return unavailable(shared, job, std::slice::from_ref(comment), &why),
    };
    let mut expected: Option<Vec<TestId>> = None;
    let mut merged = None;
    let mut merged_marks = Vec::new();
    if let Some(state) = &ready.merged {
        let runs = runs(shared, job, ready, &bound, state, &Arm::merged(), 1, &mut expected).await?;
        if !bound.test_configuration(state).is_empty() {
            merged_marks.push(TEST_CONFIGURATION.to_owned());
        }
        put_runs(shared, job, comment, &Arm::merged(), None, &runs, merged_marks.clone())?;
        state.oracle_is_done(job.oracles()).await;
        merged = Some(runs);
    }
    let head = {
        let mut expected = expected.clone();
        runs(shared, job, ready, &bound, &ready.head, &Arm::head(), 1, &mut expected).await?
    };
    ready.head.oracle_is_done(job.oracles()).await;
    put_runs(shared, job, comment, &Arm::head(), None, &head, Vec::new())?;

    let controls = Controls {
        merged: merged.as_ref().map(|m| m.outcomes.as_slice()),
        head: &head.outcomes,
        before: bound.before(),
    };
    let stuck = head.infra.as_ref().or(merged.as_ref().and_then(|m| m.infra.as_ref()));
    let bad = shared.settings.policy == Policy::Strict && (stuck.is_some() || oracle::check(&controls).is_some());
    if bad {
        let (state, reason, cause) = match stuck {
            Some(why) => (infra(shared, why)?, format!("a control could not be run: {}", why.detail), cause_of(why)),
            None => {
                let what = oracle::check(&controls).map(|reason| reason.to_string()).unwrap_or_default();
                (RowState::BadControl, format!("{comment}: {what}"), SkipCause::Control)
            }
        };
        for revision in &job.revisions {
            put(shared, &row(job, comment, &revision.arm, Some(revision), state.clone()))?;
        }
        let count = job.revisions.len() as u64 * u64::from(shared.settings.repeat);
        if count > 0 {
            let instance_id = job.instance.instance_id.clone();
            shared.events.send(Event::TasksSkipped { count, instance_id, reason, cause });
        }
        return Ok(());
    }
    let fix = Arc::new(Subject { shared, job, ready, bound: &bound, expected: &expected }.of_the_fix().await?);
    if let Some(runs) = merged.as_mut().filter(|_| !fix.keys.is_empty()) {
        runs.with_head_configuration.clone_from(&fix.keys);
        put_runs(shared, job, comment, &Arm::merged(), None, runs, merged_marks)?;
    }
    let mut tasks = JoinSet::new();
    for index in 0..job.revisions.len() {
        if is_left(shared, job, comment, &job.revisions[index]) {
            skip_left(shared, job, 1);
            continue;
        }
        let (shared, job, ready, bound, expected, fix) =
            (shared.clone(), job.clone(), ready.clone(), bound.clone(), expected.clone(), fix.clone());
        tasks.spawn(async move { run_revision(&shared, &job, &ready, &bound, index, expected, &fix).await });
    }
    let mut result = Ok(());
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.unwrap_or_else(|e| Err(ScoreError::Broken(e.to_string())));
        result = result.and(ended);
    }
    result
}

async fn run_revision(
    shared: &Arc<Shared>,
    job: &Arc<InstanceJob>,
    ready: &Arc<Ready>,
    bound: &Arc<Bound>,
    index: usize,
    mut expected: Option<Vec<TestId>>,
    fix: &OfTheFix,
) -> Result<(), ScoreError> {
    let revision = &job.revisions[index];
    let skip = |state: RowState, reason: &str| -> Result<(), ScoreError> {
        put(shared, &row(job, bound.comment(), &revision.arm, Some(revision), state))?;
        shared.events.send(Event::TasksSkipped {
            count: u64::from(shared.settings.repeat),
            instance_id: job.instance.instance_id.clone(),
            reason: format!("arm {}: {reason}", revision.arm),
            cause: SkipCause::Decided,
        });
        Ok(())
    };
    if revision.patch.trim().is_empty() {
        if revision.status == RevisionStatus::NoChanges {
            return skip(RowState::NoChanges, "no changes");
        }
        if shared.settings.policy == Policy::CCrab {
            return skip(RowState::NotRun { reason: "empty diff".to_owned() }, "empty diff");
        }
    }
    let state = match &ready.revisions[index] {
        Ok(state) => state,
        Err(problem) => return skip(RowState::Patch { problem: problem.clone() }, &format!("patch: {problem}")),
    };
    let (arm, attempt) = (&revision.arm, revision.attempt);
    let mut runs = runs(shared, job, ready, bound, state, arm, attempt, &mut expected).await?;
    let second = Subject { shared, job, ready, bound, expected: &expected };
    let marks = second.add(state, arm, attempt, fix, &mut runs).await?;
    state.oracle_is_done(job.oracles()).await;
    put_runs(shared, job, bound.comment(), arm, Some(revision), &runs, marks)
}

/// The repeats of one oracle on one state.
pub(super) struct Runs {
    pub(super) keys: Vec<Digest>,
    pub(super) outcomes: Vec<Outcome>,
    /// The same runs with head's test configuration.
    pub(super) with_head_configuration: Vec<Digest>,
    pub(super) infra: Option<Unavailable>,
}

#[expect(clippy::too_many_arguments, reason = "what is run, on what, as what")]
pub(super) async fn runs(
    shared: &Arc<Shared>,
    job: &Arc<InstanceJob>,
    ready: &Arc<Ready>,
    bound: &Bound,
    state: &Arc<State>,
    arm: &Arm,
    attempt: u32,
    expected: &mut Option<Vec<TestId>>,
) -> Result<Runs, ScoreError> {
    let mut runs = Runs { keys: Vec::new(), outcomes: Vec::new(), with_head_configuration: Vec::new(), infra: None };
    for repeat in 1..=shared.settings.repeat {
        let task = TaskId {
            instance_id: job.instance.instance_id.clone(),
            comment: bound.comment().clone(),
            arm: arm.clone(),
            attempt,
            repeat,
            with_head_configuration: !state.laid_over.is_empty(),
        };
        match run_state(shared, ready, bound, state, expected.as_deref(), task).await? {
            Made::Recorded(record) => {
                // The tests that the fixed code shows are those that every other run must show.
                if arm.as_str() == Arm::MERGED && expected.is_none() && record.outcome == Outcome::Passed {
                    *expected = Some(record.passed.clone());
                }
                runs.keys.push(record.key.clone());
                runs.outcomes.push(record.outcome.clone());
            }
            Made::Infra(why) => {
                runs.outcomes.push(Outcome::Infra(why.class));
                let count = u64::from(shared.settings.repeat - repeat);
                if count > 0 {
                    let instance_id = job.instance.instance_id.clone();
                    let reason = format!("{}: {}", why.class.as_str(), why.detail);
                    shared.events.send(Event::TasksSkipped { count, instance_id, reason, cause: cause_of(&why) });
                }
                runs.infra = Some(why);
                break;
            }
        }
    }
    Ok(runs)
}

fn row(job: &InstanceJob, comment: &CommentId, arm: &Arm, revision: Option<&Revision>, state: RowState) -> Row {
    Row {
        instance_id: job.instance.instance_id.clone(),
        comment: comment.clone(),
        arm: arm.clone(),
        agent: revision.and_then(|r| r.agent.clone()),
        model: revision.and_then(|r| r.model.clone()),
        attempt: revision.map_or(1, |r| r.attempt),
        state,
        marks: Vec::new(),
        patch: revision.map(|r| crate::model::digest_bytes(r.patch.as_bytes())),
        shown: true,
        grounds: None,
    }
}

fn put(shared: &Shared, row: &Row) -> Result<(), ScoreError> {
    if let RowState::Infra { class, detail, log } = &row.state {
        shared.counters.infra(*class, detail, log.as_ref());
    }
    let mut row = row.clone();
    let id = row.id();
    row.shown = shared.shown.shows(&row.arm, &id);
    row.grounds = shared.shown.grounds(&id);
    Ok(shared.run.put_row(&id, &row)?)
}

/// The row state of something that could not be run; its log becomes evidence.
fn infra(shared: &Shared, why: &Unavailable) -> Result<RowState, ScoreError> {
    let log = why.log.as_deref().filter(|log| !log.is_empty()).map(|log| shared.run.put_blob(log)).transpose()?;
    Ok(RowState::Infra { class: why.class, detail: why.detail.clone(), log })
}

fn cause_of(why: &Unavailable) -> SkipCause {
    match why.class {
        InfraReason::Interrupted => SkipCause::Interrupted,
        _ if why.detail.starts_with(STOPPED) => SkipCause::Stopped,
        _ => SkipCause::Infra,
    }
}

/// With `--only-missing`: whether a revision's row is one that was tried and is to be left as it is.
fn is_left(shared: &Shared, job: &InstanceJob, comment: &CommentId, revision: &Revision) -> bool {
    !shared.left.is_empty()
        && shared.left.contains(&row(job, comment, &revision.arm, Some(revision), RowState::Missing).id())
}

fn skip_left(shared: &Shared, job: &InstanceJob, rows: u64) {
    shared.events.send(Event::TasksSkipped {
        count: rows * u64::from(shared.settings.repeat),
        instance_id: job.instance.instance_id.clone(),
        reason: "tried before and infra: left as it is".to_owned(),
        cause: SkipCause::Stopped,
    });
}

/// The comments of which something is missing. Of the others every row was tried; where a row is missing its controls
/// are needed, and run.
fn without_tried(shared: &Shared, job: &InstanceJob, comments: Vec<CommentId>) -> Result<Vec<CommentId>, ScoreError> {
    if shared.left.is_empty() {
        return Ok(comments);
    }
    let mut missing = Vec::new();
    for comment in comments {
        let mut controls = vec![Arm::head()];
        controls.extend(job.instance.merged_commit.as_ref().map(|_| Arm::merged()));
        let rows = controls.len() + job.revisions.len();
        let left = controls
            .iter()
            .filter(|arm| shared.left.contains(&row(job, &comment, arm, None, RowState::Missing).id()))
            .count()
            + job.revisions.iter().filter(|revision| is_left(shared, job, &comment, revision)).count();
        if left == rows {
            skip_left(shared, job, rows as u64);
        } else {
            missing.push(comment);
        }
    }
    Ok(missing)
}

/// Rows that say of everything that is to be scored that it was not run yet. Each is replaced when there is more to
/// say; after a crash or a full disk the report still counts them all.
pub(super) fn planned_rows<'a>(job: &'a InstanceJob, mut add: impl FnMut(Row, Option<&'a Revision>)) {
    let not_yet =
        RowState::Infra { class: InfraReason::Interrupted, detail: "not run yet: score again".to_owned(), log: None };
    for comment in &job.comments {
        for arm in [Arm::head(), Arm::merged()].iter().chain(&job.missing) {
            add(row(job, comment, arm, None, not_yet.clone()), None);
        }
        for revision in &job.revisions {
            add(row(job, comment, &revision.arm, Some(revision), not_yet.clone()), Some(revision));
        }
    }
}

/// The same row state for both controls and every revision of a comment.
fn put_all(shared: &Shared, job: &InstanceJob, comment: &CommentId, state: &RowState) -> Result<(), ScoreError> {
    if job.instance.merged_commit.is_some() {
        put(shared, &row(job, comment, &Arm::merged(), None, state.clone()))?;
    }
    put(shared, &row(job, comment, &Arm::head(), None, state.clone()))?;
    job.revisions.iter().try_for_each(|r| put(shared, &row(job, comment, &r.arm, Some(r), state.clone())))
}

fn put_runs(
    shared: &Shared,
    job: &InstanceJob,
    comment: &CommentId,
    arm: &Arm,
    revision: Option<&Revision>,
    runs: &Runs,
    marks: Vec<String>,
) -> Result<(), ScoreError> {
    let state = match &runs.infra {
        Some(why) => infra(shared, why)?,
        None => {
            RowState::Runs { keys: runs.keys.clone(), with_head_configuration: runs.with_head_configuration.clone() }
        }
    };
    let mut row = row(job, comment, arm, revision, state);
    row.marks = marks;
    put(shared, &row)
}

/// Rows for oracles that cannot be run at all.
fn unavailable(
    shared: &Shared,
    job: &InstanceJob,
    comments: &[CommentId],
    why: &Unavailable,
) -> Result<(), ScoreError> {
    let state = infra(shared, why)?;
    for comment in comments {
        put_all(shared, job, comment, &state)?;
    }
    let controls = 1 + u64::from(job.instance.merged_commit.is_some());
    shared.events.send(Event::TasksSkipped {
        count: comments.len() as u64 * (job.revisions.len() as u64 + controls) * u64::from(shared.settings.repeat),
        instance_id: job.instance.instance_id.clone(),
        reason: format!("{}: {}", why.class.as_str(), why.detail),
        cause: cause_of(why),
    });
    Ok(())
}
