//! A sandbox for unit tests: it runs nothing, notes what it was asked for, and answers as it was told.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::prepare::{BuildSubject, Environments};
use super::settings::{HostVariables, Settings};
use crate::sandbox::{Captured, End, Exit, Isolation, RunFuture, Sandbox, SandboxError, Task};

/// What every task gives.
pub(super) type Answer = fn(&Task) -> Result<Exit, SandboxError>;

pub(super) struct Recorder {
    tasks: Mutex<Vec<Task>>,
    answer: Answer,
    /// How long each task takes.
    takes: Duration,
}

impl Recorder {
    pub fn answering(answer: Answer) -> Arc<Self> {
        Self::answering_after(Duration::ZERO, answer)
    }

    pub fn answering_after(takes: Duration, answer: Answer) -> Arc<Self> {
        Arc::new(Self { tasks: Mutex::default(), answer, takes })
    }

    /// What it was asked to run.
    pub fn tasks(&self) -> Vec<Task> {
        self.tasks.lock().unwrap().clone()
    }
}

/// A sandbox that fails.
pub(super) fn broken(_: &Task) -> Result<Exit, SandboxError> {
    Err(SandboxError::Helper("it broke".to_owned()))
}

/// An end with this code and this on standard output.
pub(super) fn exit(code: i32, stdout: &str) -> Exit {
    Exit {
        end: End::Exited(code),
        timed_out: false,
        out_of_memory: false,
        cancelled: false,
        stdout: Captured { bytes: stdout.as_bytes().to_vec(), dropped: 0 },
        stderr: Captured::default(),
        result: Captured::default(),
        token: None,
        seconds: 0.0,
        cpu_seconds: 0.0,
        peak_memory: None,
        isolation: isolation(),
    }
}

fn isolation() -> Isolation {
    Isolation {
        sandbox: "recorder".to_owned(),
        level: "none".to_owned(),
        network: "none".to_owned(),
        memory: "none".to_owned(),
        pids: "none".to_owned(),
        workspace: "none".to_owned(),
    }
}

impl Sandbox for Recorder {
    fn isolation(&self) -> Isolation {
        isolation()
    }

    fn owner(&self) -> (u32, u32) {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }

    fn run<'a>(&'a self, task: &'a Task, _cancel: &'a CancellationToken) -> RunFuture<'a> {
        self.tasks.lock().unwrap().push(task.clone());
        Box::pin(async {
            tokio::time::sleep(self.takes).await;
            (self.answer)(task)
        })
    }
}

/// Environments in a cache of their own, with an empty tree that they are for.
pub(super) struct Room {
    _folder: tempfile::TempDir,
    pub environments: Arc<Environments>,
    pub subject: BuildSubject,
}

impl Room {
    pub fn with(sandbox: Arc<dyn Sandbox>, edit: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        let mut settings = Settings::new(folder.path().join("cache"), HostVariables::pick(path));
        edit(&mut settings);
        let snapshot: PathBuf = folder.path().join("tree");
        fs_err::create_dir(&snapshot).unwrap();
        let subject = BuildSubject { snapshot, tree: "t".to_owned(), merged: None, merged_tree: None };
        Self { _folder: folder, environments: Arc::new(Environments::new(settings, sandbox).unwrap()), subject }
    }

    pub fn of(sandbox: Arc<dyn Sandbox>) -> Self {
        Self::with(sandbox, |_| {})
    }
}
