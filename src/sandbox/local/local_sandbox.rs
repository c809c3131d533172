//! [`LocalSandbox`]: the embedded sandbox behind the [`Sandbox`] trait.

use std::io;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::cleanup;
use super::config::LocalConfig;
use super::identity::{self, Identity};
use super::probe::{self, ProbeResult};
use super::protocol::{Ended, Job, Privilege, Report, Streams};
use super::run::{self, Ends, Ran};
use crate::sandbox::{Exit, Isolation, Listener, Network, OVER_DISK, RunFuture, Sandbox, SandboxError, Seat, Task};

/// The embedded sandbox.
#[derive(Debug)]
pub struct LocalSandbox {
    helper: PathBuf,
    copy_workspace: bool,
    identity: Identity,
    setting: probe::Setting,
    isolation: Isolation,
}

impl LocalSandbox {
    /// Finds the best level that works here, by running a command in each. Blocks for some tens of milliseconds.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] when no level works, with what was tried and what it said.
    pub fn new(config: LocalConfig) -> Result<Self, SandboxError> {
        let identity = Identity::own().ok_or_else(|| SandboxError::Unavailable {
            reason: "the embedded sandbox needs Linux with `/proc` mounted".to_owned(),
        })?;
        let mut said = Vec::new();
        for setting in probe::settings(&config, &identity) {
            match probe::try_setting(&config, &identity, &setting) {
                Ok(isolation) => {
                    if let Some(plan) = &setting.cgroup {
                        identity::reap(plan, &identity);
                    }
                    let LocalConfig { helper, copy_workspace, .. } = config;
                    return Ok(Self { helper, copy_workspace, identity, setting, isolation });
                }
                Err(reason) => said.push(format!("level `{}`: {reason}", setting.level())),
            }
        }
        said.push(
            "run as root, allow unprivileged user namespaces (on Ubuntu: an AppArmor profile with `userns`), \
             or use another sandbox"
                .to_owned(),
        );
        Err(SandboxError::Unavailable { reason: said.join("; ") })
    }

    fn job(&self, task: &Task) -> Job {
        Job {
            task: task.clone(),
            privilege: self.setting.privilege,
            owner: self.setting.owner,
            cgroup: self.setting.cgroup.clone(),
            name: self.identity.name(),
            copy_workspace: self.copy_workspace,
            streams: Streams::Captured,
        }
    }

    /// Tries every level and says what each gave; for `doctor`. Blocks for some tens of milliseconds.
    pub fn probe(config: &LocalConfig) -> Vec<ProbeResult> {
        probe::all(config)
    }
}

impl Sandbox for LocalSandbox {
    fn isolation(&self) -> Isolation {
        self.isolation.clone()
    }

    fn owner(&self) -> (u32, u32) {
        self.setting.owner
    }

    fn run<'a>(&'a self, task: &'a Task, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(run_job(self.helper.clone(), self.job(task), None, cancel))
    }

    fn run_heard<'a>(&'a self, task: &'a Task, listener: Listener, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(run_job(self.helper.clone(), self.job(task), Some(listener), cancel))
    }

    fn attend<'a>(&'a self, task: &'a Task, seat: Seat, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(attend_job(self.helper.clone(), self.job(task), seat, cancel))
    }
}

/// Runs a job on a thread of its own. A cancelled token, or dropping the future, kills the tree.
pub async fn run_job(
    helper: PathBuf,
    job: Job,
    listener: Option<Listener>,
    cancel: &CancellationToken,
) -> Result<Exit, SandboxError> {
    run_with(helper, job, Ends { stream: None, listener }, cancel).await
}

/// Runs a job that somebody attends.
pub async fn attend_job(
    helper: PathBuf,
    mut job: Job,
    seat: Seat,
    cancel: &CancellationToken,
) -> Result<Exit, SandboxError> {
    job.streams = if seat.terminal { Streams::Terminal } else { Streams::Stream };
    run_with(helper, job, Ends { stream: Some(seat.stream), listener: None }, cancel).await
}

async fn run_with(helper: PathBuf, job: Job, ends: Ends, cancel: &CancellationToken) -> Result<Exit, SandboxError> {
    let (wake, asleep) = run::wake_pipe().map_err(|error| SandboxError::Helper(error.to_string()))?;
    let mut running = tokio::task::spawn_blocking(move || {
        let ran = run::run(&helper, &job, &wake, ends).inspect_err(|_| cleanup::after_dead_helper(&job))?;
        exit(&job, ran)
    });
    let mut asleep = Some(asleep);
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = cancel.cancelled() => {
            asleep.take();
            running.await
        }
    };
    drop(asleep);
    ended.unwrap_or_else(|error| Err(SandboxError::Helper(error.to_string())))
}

/// Puts an exit together.
pub fn exit(job: &Job, ran: Ran) -> Result<Exit, SandboxError> {
    let Ran { report, stdout, mut stderr, result, token } = ran;
    match report {
        Report::Setup { step, errno } => Err(SandboxError::Setup { step, source: io::Error::from_raw_os_error(errno) }),
        Report::Spawn { program, errno } => {
            Err(SandboxError::Spawn { program, source: io::Error::from_raw_os_error(errno) })
        }
        Report::Ended(ended) => {
            if ended.over_disk {
                let disk = job.task.limits.disk;
                let note = format!("\n{OVER_DISK} {disk} bytes on disk\n");
                stderr.bytes.extend_from_slice(note.as_bytes());
            }
            Ok(Exit {
                end: ended.end,
                timed_out: ended.timed_out,
                out_of_memory: ended.out_of_memory,
                cancelled: ended.cancelled,
                stdout,
                stderr,
                result,
                token,
                seconds: ended.seconds,
                cpu_seconds: ended.cpu_seconds,
                peak_memory: ended.peak_memory,
                isolation: isolation(job, &ended),
            })
        }
    }
}

/// What was in force in a run.
fn isolation(job: &Job, ended: &Ended) -> Isolation {
    let bare = job.privilege == Privilege::Bare;
    let level = match (bare, ended.memory.as_str()) {
        (true, _) => "none",
        (false, "cgroup") => "full",
        (false, _) => "userns",
    };
    let network = if bare || job.task.network == Network::Host { "host" } else { "none" };
    Isolation {
        sandbox: if bare { "none" } else { "local" }.to_owned(),
        level: level.to_owned(),
        network: network.to_owned(),
        memory: ended.memory.clone(),
        pids: ended.pids.clone(),
        workspace: ended.workspace.clone(),
    }
}
