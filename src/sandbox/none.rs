//! No sandbox, for those who typed so.

use tokio_util::sync::CancellationToken;

use super::local::{Identity, Job, LocalConfig, Privilege, ROOT_MODE_ID, Streams, attend_job, run_job};
use super::{Isolation, Listener, RunFuture, Sandbox, SandboxError, Seat, Task};

/// Commands as an unprivileged host user, on the host's network, with the host's kernel interfaces.
///
/// A task's mounts lie at fixed paths, so something must make them: a mount namespace and a new root, which only root
/// can have without a user namespace. Nothing else is isolated; that the command has process numbers of its own is so
/// that its tree can be killed whole. Limits are by rlimits and the watcher.
#[derive(Debug)]
pub struct NoSandbox {
    config: LocalConfig,
    identity: Identity,
}

impl NoSandbox {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] unless this process is root.
    pub fn new(config: LocalConfig) -> Result<Self, SandboxError> {
        let unavailable = |reason: &str| SandboxError::Unavailable { reason: reason.to_owned() };
        if !rustix::process::geteuid().is_root() {
            return Err(unavailable(
                "without a sandbox a task's mounts need root; use the `local` sandbox, which does not",
            ));
        }
        let identity = Identity::own().ok_or_else(|| unavailable("`/proc` is not mounted"))?;
        Ok(Self { config, identity })
    }

    fn job(&self, task: &Task) -> Job {
        Job {
            task: task.clone(),
            privilege: Privilege::Bare,
            owner: self.owner(),
            cgroup: None,
            name: self.identity.name(),
            copy_workspace: self.config.copy_workspace,
            streams: Streams::Captured,
        }
    }
}

impl Sandbox for NoSandbox {
    fn isolation(&self) -> Isolation {
        Isolation {
            sandbox: "none".to_owned(),
            level: "none".to_owned(),
            network: "host".to_owned(),
            memory: "watcher".to_owned(),
            pids: "rlimit".to_owned(),
            workspace: if self.config.copy_workspace { "copy" } else { "overlayfs" }.to_owned(),
        }
    }

    fn owner(&self) -> (u32, u32) {
        (ROOT_MODE_ID, ROOT_MODE_ID)
    }

    fn run<'a>(&'a self, task: &'a Task, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(run_job(self.config.helper.clone(), self.job(task), None, cancel))
    }

    fn run_heard<'a>(&'a self, task: &'a Task, listener: Listener, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(run_job(self.config.helper.clone(), self.job(task), Some(listener), cancel))
    }

    fn attend<'a>(&'a self, task: &'a Task, seat: Seat, cancel: &'a CancellationToken) -> RunFuture<'a> {
        Box::pin(attend_job(self.config.helper.clone(), self.job(task), seat, cancel))
    }
}
