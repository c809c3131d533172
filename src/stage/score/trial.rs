//! Tests that are only proposed, run as scoring would run them: the same environment, states, plan, records and retries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

use super::grounds::command_digest;
use super::instance::InstanceJob;
use super::prepare::{Ready, Unavailable, prepare};
use super::record::{OracleRecord, STAGE};
use super::run::{ScoreError, Services, Settings, Shared};
use super::runner::{Bound, Made, run_state};
use crate::engine::{Events, Scheduler, TaskId};
use crate::model::{Arm, CommentId, Digest, InfraReason, Instance, Oracle, Outcome, digest_json};
use crate::oracle::{OUTSIDE, TestId};
use crate::repo::Repository;
use crate::sandbox::{Exit, Mount, Network, Task, WORKSPACE};
use crate::store::RunFolder;

/// Where proposed tests are run. Cheap to clone.
#[derive(Clone)]
pub struct Trials {
    shared: Arc<Shared>,
}

/// One of the two known states of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The commit to review.
    Head,
    /// The commit that addressed the review.
    Merged,
}

/// An instance that is ready for tests of one framework.
pub struct Ground {
    shared: Arc<Shared>,
    instance: Instance,
    ready: Arc<Ready>,
}

/// What one run showed.
#[derive(Debug, Clone)]
pub struct TrialRun {
    /// The outcome; never infra.
    pub outcome: Outcome,
    /// What the first failure said.
    pub message: Option<String>,
    /// Standard output and error.
    pub output: String,
    /// Whether the test never loaded the project's code, where that was measured.
    pub text_only: Option<bool>,
    /// The tests that passed.
    pub passed: Vec<TestId>,
}

/// Why there is no run. Neither says anything of the test.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// It cannot be run here.
    #[error("{}: {}", .0.class.as_str(), .0.detail)]
    Unavailable(Unavailable),
    /// The run folder or the program is broken.
    #[error(transparent)]
    Score(#[from] ScoreError),
}

impl TrialError {
    /// The class of infrastructure failure.
    pub fn class(&self) -> InfraReason {
        match self {
            Self::Unavailable(why) => why.class,
            Self::Score(_) => InfraReason::Disk,
        }
    }
}

impl From<Unavailable> for TrialError {
    fn from(why: Unavailable) -> Self {
        Self::Unavailable(why)
    }
}

impl Trials {
    /// `tests` is the folder that the paths of proposed tests are relative to. Repeats are the caller's.
    pub fn new(
        tests: PathBuf,
        settings: Settings,
        services: Services,
        scheduler: Scheduler,
        events: Events,
        run: RunFolder,
    ) -> Self {
        Self { shared: Arc::new(Shared::alone(tests, settings, services, scheduler, events, run)) }
    }

    /// What trials stand on.
    pub fn services(&self) -> &Services {
        &self.shared.services
    }

    /// The folder of proposed tests.
    pub fn tests(&self) -> &std::path::Path {
        &self.shared.bench_root
    }

    /// Finds, unpacks or clones an instance's repository.
    ///
    /// # Errors
    /// When it is not to be had here.
    pub async fn repository(&self, name: &str) -> Result<Repository, Unavailable> {
        let (shared, name) = (self.shared.clone(), name.to_owned());
        super::prepare::blocking(move || {
            let services = &shared.services;
            super::held::repository(services, &services.repositories, &name).map(|(repository, _)| repository)
        })
        .await
    }

    /// The digest of all that could change a run on this instance, as far as that is known before anything is prepared.
    pub fn grounds(&self, instance: &Instance) -> Digest {
        let (settings, services) = (&self.shared.settings, &self.shared.services);
        let definition = |language: &str| services.environments.definitions().get(language).ok().map(|d| d.digest());
        let environment = match &instance.environment {
            Some(spec) if services.overrides.is_empty() => definition(&spec.language),
            _ => Some(services.environments.definitions_digest().clone()),
        };
        digest_json(&json!([
            "redgreen-trial-1",
            command_digest(settings, services),
            instance.repo,
            instance.head_commit(),
            instance.merged_commit,
            instance.environment,
            environment,
            *services.frameworks,
        ]))
    }

    /// Makes an instance ready for a test as proposed.
    ///
    /// # Errors
    /// Why it cannot be had here.
    pub async fn prepare(&self, instance: &Instance, proposed: &Oracle) -> Result<Ground, Unavailable> {
        let instance = with_oracle(instance, proposed);
        let job = Arc::new(job(&instance, &proposed.comment));
        let ready = Arc::new(prepare(&self.shared, &job).await?);
        Ok(Ground { shared: self.shared.clone(), instance, ready })
    }
}

fn job(instance: &Instance, comment: &CommentId) -> InstanceJob {
    let comments = vec![comment.clone()];
    InstanceJob { instance: instance.clone(), comments, revisions: Vec::new(), missing: Vec::new() }
}

/// The instance with this oracle in place of any other of its comment.
fn with_oracle(instance: &Instance, proposed: &Oracle) -> Instance {
    let mut instance = instance.clone();
    instance.oracles.retain(|oracle| oracle.comment != proposed.comment);
    instance.oracles.push(proposed.clone());
    instance
}

impl Ground {
    /// Whether the instance's merged commit is known.
    pub fn has_merged(&self) -> bool {
        self.ready.merged.is_some()
    }

    /// Runs a proposed test once on one state, or gives what is on record. `expected` are the tests that must be seen.
    ///
    /// # Errors
    /// When the run did not come about.
    pub async fn run(
        &self,
        proposed: &Oracle,
        side: Side,
        repeat: u32,
        expected: Option<&[TestId]>,
    ) -> Result<TrialRun, TrialError> {
        let instance = with_oracle(&self.instance, proposed);
        let job = job(&instance, &proposed.comment);
        let bound = Bound::new(&self.shared, &job, &self.ready, &proposed.comment)?;
        let none = || Unavailable::new(InfraReason::Repository, "no merged commit is known");
        let (state, arm) = match side {
            Side::Head => (&self.ready.head, Arm::head()),
            Side::Merged => (self.ready.merged.as_ref().ok_or_else(none)?, Arm::merged()),
        };
        let task = TaskId {
            instance_id: instance.instance_id.clone(),
            comment: proposed.comment.clone(),
            arm,
            attempt: 1,
            repeat,
            with_head_configuration: false,
        };
        let key = match run_state(&self.shared, &self.ready, &bound, state, expected, task).await? {
            Made::Recorded(served) => served.key,
            Made::Infra(why) => return Err(why.into()),
        };
        let run = &self.shared.run;
        let record = run.record::<OracleRecord>(STAGE, &key).map_err(ScoreError::from)?;
        let record = record.ok_or_else(|| Unavailable::new(InfraReason::Disk, "the record of the run is gone"))?;
        let text = |name: &str| -> Result<String, TrialError> {
            let Some(digest) = record.evidence.get(name) else { return Ok(String::new()) };
            Ok(String::from_utf8_lossy(&run.blob(digest).map_err(ScoreError::from)?).into_owned())
        };
        let parts = ["rebuild-stderr", "stdout", "stderr"].map(text);
        let mut output = String::new();
        for part in parts {
            let part = part?;
            if !part.trim().is_empty() {
                output.push_str(part.trim_end());
                output.push('\n');
            }
        }
        Ok(TrialRun {
            outcome: record.outcome,
            message: record.message,
            output,
            text_only: record.text_only,
            passed: record.passed,
        })
    }

    /// Runs a command on a proposed test in the instance's environment, beside the project's tree at the commit to
    /// review. `{test}` is the test's path inside, `{python}` and the like are the environment's programs; `None` where
    /// the environment has no such program.
    ///
    /// # Errors
    /// When the command could not be run.
    pub async fn look_at(&self, proposed: &Oracle, command: &[String]) -> Result<Option<Exit>, TrialError> {
        let sandbox = self.shared.services.sandbox.as_ref();
        let subject = self.ready.head.subject(&self.ready, sandbox.owner()).await?;
        let source = self.shared.bench_root.join(&proposed.test);
        let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let inside = PathBuf::from(OUTSIDE).join(name);
        let mut argv = Vec::new();
        for word in command {
            let name = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            match name {
                Some("test") => argv.push(inside.display().to_string()),
                Some(tool) => match subject.tools.get(tool) {
                    Some(path) => argv.push(path.clone()),
                    None if tool == "sh" => argv.push("/bin/sh".to_owned()),
                    None => return Ok(None),
                },
                None => argv.push(word.clone()),
            }
        }
        let lowers = subject.workspace.clone();
        let mut mounts = vec![Mount::Overlay { lowers, target: WORKSPACE.into(), upper: None, remove: Vec::new() }];
        mounts.extend(subject.mounts.iter().cloned());
        mounts.push(Mount::ReadOnly { source, target: inside });
        let task = Task {
            argv,
            cwd: "/tmp".into(),
            variables: BTreeMap::clone(&subject.variables),
            root: subject.root.clone(),
            mounts,
            limits: self.shared.settings.limits.clone(),
            network: Network::None,
            result_channel: false,
        };
        let stop = &self.shared.scheduler.stop;
        let exit = sandbox.run(&task, stop).await.map_err(|e| {
            let class = if e.is_disk() { InfraReason::Disk } else { InfraReason::Sandbox };
            Unavailable::new(class, e.to_string())
        })?;
        if exit.cancelled {
            return Err(super::prepare::interrupted().into());
        }
        Ok(Some(exit))
    }
}
