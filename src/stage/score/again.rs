//! One oracle run once more: for looking at it, and for sitting down in its workspace.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::inputs::{InputChange, input_changes};
use super::instance::InstanceJob;
use super::prepare::{Ready, Unavailable, prepare};
use super::record::{OracleRecord, STAGE};
use super::run::{ScoreError, Services, Settings, Shared};
use super::runner::{Bound, attempt, record};
use super::state::State;
use crate::engine::{Events, Scheduler, TaskId};
use crate::model::{Arm, CommentId, Digest, Instance, Outcome, Revision};
use crate::oracle::{Classified, RunEvidence, TestId, is_oracle_run};
use crate::repo::TreePath;
use crate::sandbox::{End, Exit, Isolation, Mount, RunFuture, Sandbox, SandboxError, Seat, Task};
use crate::store::RunFolder;

/// Which run is to be made again.
#[derive(Debug, Clone)]
pub struct Which {
    /// The benchmark's folder, where the test lies.
    pub bench_root: PathBuf,
    /// The instance.
    pub instance: Instance,
    /// The comment, which must have an oracle.
    pub comment: CommentId,
    /// The arm.
    pub arm: Arm,
    /// The revision of a tool's arm.
    pub revision: Option<Revision>,
    /// The repeat, from 1; part of the key.
    pub repeat: u32,
    /// Test configuration of the tree that is to be head's.
    pub with_head_versions_of: Vec<String>,
    /// The tests that must be seen, where they are known.
    pub expected: Option<Vec<TestId>>,
    /// The record of the run, where there is one.
    pub old: Option<OracleRecord>,
}

/// What came of it.
#[derive(Debug)]
pub struct Again {
    /// The key that the run has now.
    pub key: Digest,
    /// What differs from the recorded run's inputs; nothing when it is the same run, or none was recorded.
    pub changes: Vec<InputChange>,
    /// What ran in the sandbox, in order: the rebuild where there is one, the oracle.
    pub tasks: Vec<Task>,
    /// How it ended; `None` when somebody attended it.
    pub ended: Option<Ended>,
}

/// The end of a run that was made again.
#[derive(Debug)]
pub struct Ended {
    /// What it showed.
    pub outcome: Outcome,
    /// The first failing assertion's message.
    pub message: Option<String>,
    /// What was written.
    pub evidence: RunEvidence,
    /// Whether it is now on record.
    pub recorded: bool,
}

/// Why it was not run.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// It cannot be run here.
    #[error("{}: {}", .0.class.as_str(), .0.detail)]
    Unavailable(Unavailable),
    /// The patch is rejected, as it was or only now.
    #[error("the patch is rejected: {0}")]
    Patch(String),
    /// It is another run than the recorded one, and cannot be recorded in its place.
    #[error("the inputs are not those of the record any more: {}", .0.iter().map(InputChange::text).collect::<Vec<_>>().join(", "))]
    Differs(Vec<InputChange>),
    /// The run folder or the program is broken.
    #[error(transparent)]
    Score(#[from] ScoreError),
}

/// Opens a seat when the workspace is ready; gets the task whose place is taken.
pub type OpenSeat = Box<dyn Fn(&Task) -> std::io::Result<Seat> + Send + Sync>;

/// What [`again`] runs with.
pub struct Means {
    /// Limits and policy; repeats and retries do not count.
    pub settings: Settings,
    /// What the run stands on.
    pub services: Services,
    /// Stops it.
    pub scheduler: Scheduler,
    /// Is told what is being prepared.
    pub events: Events,
    /// The run folder; only written to when the result is to be recorded.
    pub run: RunFolder,
}

/// Runs once more. With `seat` somebody sits down in the workspace instead; with `keep` the result replaces the record.
///
/// # Errors
/// See [`AgainError`].
pub async fn again(which: Which, means: Means, seat: Option<OpenSeat>, keep: bool) -> Result<Again, AgainError> {
    let Means { settings, mut services, scheduler, events, run } = means;
    let attended = seat.is_some();
    let watched = Arc::new(Watched { inner: services.sandbox.clone(), tasks: Mutex::default(), seat });
    services.sandbox = watched.clone();
    let shared = Arc::new(Shared::alone(which.bench_root, settings, services, scheduler, events, run));
    let job = Arc::new(InstanceJob {
        instance: which.instance,
        comments: vec![which.comment.clone()],
        revisions: which.revision.into_iter().collect(),
        missing: Vec::new(),
    });
    let ready = Arc::new(prepare(&shared, &job).await.map_err(AgainError::Unavailable)?);
    let mut state = state_of(&ready, &which.arm)?;
    if !which.with_head_versions_of.is_empty() {
        let paths = which.with_head_versions_of.iter().filter_map(|path| TreePath::new(path.as_str()).ok()).collect();
        state = ready.with_head_versions(&state, &paths);
    }
    let bound = Bound::new(&shared, &job, &ready, &which.comment).map_err(AgainError::Unavailable)?;
    let (key, inputs) = bound.key(&state, which.expected.as_deref(), which.repeat);
    let changes = which.old.as_ref().map(|old| input_changes(&old.inputs, &inputs)).unwrap_or_default();
    if keep && !changes.is_empty() {
        return Err(AgainError::Differs(changes));
    }
    let task = TaskId {
        instance_id: job.instance.instance_id.clone(),
        comment: which.comment,
        arm: which.arm,
        attempt: job.revisions.first().map_or(1, |r| r.attempt),
        repeat: which.repeat,
        with_head_configuration: !state.laid_over.is_empty(),
    };
    let started = jiff::Timestamp::now();
    let made = attempt(&shared, &ready, &bound, &state, which.expected.as_deref(), &task).await;
    let tasks = std::mem::take(&mut *watched.tasks.lock().unwrap_or_else(PoisonError::into_inner));
    if attended && !tasks.is_empty() && made.is_ok() {
        return Ok(Again { key, changes, tasks, ended: None });
    }
    let (evidence, classified) = made.map_err(AgainError::Unavailable)?;
    let ended = ended(&shared, &state, (&key, inputs), started, evidence, classified, keep)?;
    Ok(Again { key, changes, tasks, ended: Some(ended) })
}

fn state_of(ready: &Ready, arm: &Arm) -> Result<Arc<State>, AgainError> {
    let gone = |what: &str| {
        AgainError::Unavailable(Unavailable::new(crate::model::InfraReason::Repository, format!("there is no {what}")))
    };
    match arm.as_str() {
        Arm::HEAD => Ok(ready.head.clone()),
        Arm::MERGED => ready.merged.clone().ok_or_else(|| gone("merged commit")),
        _ => match ready.revisions.first() {
            Some(Ok(state)) => Ok(state.clone()),
            Some(Err(problem)) => Err(AgainError::Patch(problem.clone())),
            None => Err(gone("revision")),
        },
    }
}

fn ended(
    shared: &Shared,
    state: &State,
    (key, inputs): (&Digest, Value),
    started: jiff::Timestamp,
    evidence: RunEvidence,
    classified: Classified,
    keep: bool,
) -> Result<Ended, AgainError> {
    let (outcome, message) = (classified.outcome.clone(), classified.message.clone());
    let recorded = keep && !outcome.is_infra();
    if recorded {
        let record = record(shared, state, key.clone(), inputs, started, &evidence, classified)?;
        shared.run.put_record(STAGE, key, &record).map_err(ScoreError::from)?;
    }
    Ok(Ended { outcome, message, evidence, recorded })
}

/// A sandbox that remembers what ran in it, and lets somebody sit down in the oracle's place.
struct Watched {
    inner: Arc<dyn Sandbox>,
    tasks: Mutex<Vec<Task>>,
    seat: Option<OpenSeat>,
}

/// The variable that holds the oracle's command in a workspace that somebody sits in: `eval "$REDGREEN_ORACLE"`.
pub const ORACLE_VARIABLE: &str = "REDGREEN_ORACLE";

impl Watched {
    async fn watch(&self, task: &Task, cancel: &CancellationToken) -> Result<Exit, SandboxError> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task.clone());
        let Some(open) = &self.seat else { return self.inner.run(task, cancel).await };
        if !is_oracle_run(task) {
            // The rebuild is run as ever; where it fails there is nothing behind it to sit down in.
            let exit = self.inner.run(task, cancel).await?;
            if exit.end == End::Exited(0) {
                return Ok(exit);
            }
        }
        let setup = |step: &str| {
            let step = step.to_owned();
            move |source| SandboxError::Setup { step, source }
        };
        let seat = open(task).map_err(setup("open the terminal"))?;
        self.inner.attend(&attended(task, seat.terminal), seat, cancel).await
    }
}

/// The task with a shell in the command's place. What it writes is thrown away as ever.
fn attended(task: &Task, terminal: bool) -> Task {
    let oracle = shell_line(&task.argv);
    let mut task = with_shell(task, terminal);
    task.variables.insert(ORACLE_VARIABLE.to_owned(), oracle);
    task
}

/// The task with a shell in the command's place, with time to sit in it.
pub(super) fn with_shell(task: &Task, terminal: bool) -> Task {
    let mut task = task.clone();
    let script = if terminal {
        "if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc -i; else exec sh -i; fi"
    } else {
        "exec sh"
    };
    // The oracle's own shell, where the command names one: an environment may bring it from elsewhere.
    let shell = task.argv.first().filter(|program| program.ends_with("/sh")).cloned();
    task.argv = vec![shell.unwrap_or_else(|| "/bin/sh".to_owned()), "-c".to_owned(), script.to_owned()];
    if terminal {
        task.variables.insert("PS1".to_owned(), "redgreen:\\w\\$ ".to_owned());
        task.variables.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
    }
    task.limits.wall = std::time::Duration::from_secs(7 * 24 * 3600);
    task.limits.cpu = None;
    for mount in &mut task.mounts {
        if let Mount::Overlay { upper, .. } = mount {
            *upper = None;
        }
    }
    task
}

/// Words as one line of shell.
pub fn shell_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

impl Sandbox for Watched {
    fn isolation(&self) -> Isolation {
        self.inner.isolation()
    }

    fn owner(&self) -> (u32, u32) {
        self.inner.owner()
    }

    fn run<'a>(&'a self, task: &'a Task, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(self.watch(task, cancel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_from_a_shell_as_they_were() {
        let words = ["printf", "[%s]", "a b", "it's", "", "$HOME", "x=1", "\n"].map(str::to_owned);
        let out = std::process::Command::new("/bin/sh").arg("-c").arg(shell_line(&words)).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "[a b][it's][][$HOME][x=1][\n]");
    }
}
