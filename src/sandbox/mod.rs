//! Where a command runs: the [`Sandbox`] trait; `local`, the embedded sandbox on Linux namespaces; `docker`, containers.
//!
//! A sandbox knows nothing of tests. It gets a [`Task`] (what to run, on which file systems, within which limits) and
//! gives back an [`Exit`] (how it ended and what it wrote). Everything that decides what an exit means is elsewhere.

pub mod docker;
pub mod local;
pub mod none;
mod token;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use token::Token;

/// Where the repository's tree lies inside.
pub const WORKSPACE: &str = "/workspace";

/// [`Isolation::workspace`] where workspaces are copied.
pub const COPY: &str = "copy";

/// How the note begins that a sandbox adds to a task's standard error when it was ended for what it left on disk.
pub const OVER_DISK: &str = "redgreen: ended, as it left more than";

/// How many files each of a task's processes may have open: soft and hard limit, as far as those who start it can give it.
const OPEN_FILES: (u64, u64) = (4096, 65_536);

/// The environment variable that names the inherited descriptor of the result channel inside (a decimal number).
pub const RESULT_FD_VARIABLE: &str = "REDGREEN_RESULT_FD";

/// The environment variable that names the descriptor of the token inside, where it does not wait in the result channel
/// itself (a decimal number).
pub const TOKEN_FD_VARIABLE: &str = "REDGREEN_TOKEN_FD";

/// One command to run in a fresh sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Program and arguments. The program is looked up in the task's own `PATH` variable.
    pub argv: Vec<String>,
    /// The current directory inside.
    pub cwd: PathBuf,
    /// The whole environment, apart from what the sandbox adds (`HOME`, `TMPDIR`, `RESULT_FD_VARIABLE`).
    pub variables: BTreeMap<String, String>,
    /// What is below everything else.
    #[serde(default)]
    pub root: Root,
    /// Copy-on-write and read-only file systems, mounted in this order.
    pub mounts: Vec<Mount>,
    /// The limits.
    pub limits: Limits,
    /// The network.
    pub network: Network,
    /// Whether to open a result channel: a socket whose one end the command inherits ([`RESULT_FD_VARIABLE`]). A fresh
    /// [`Token`] and a newline wait in it for whoever reads first; what the command writes is [`Exit::result`]. Where a
    /// sandbox cannot hand on a socket, the token waits at another descriptor ([`TOKEN_FD_VARIABLE`]), and what the command
    /// writes to its standard output comes as [`Exit::stderr`].
    pub result_channel: bool,
}

/// The root file system of a task. It is read-only, whatever the task's mounts are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Root {
    /// The host's system directories; the embedded sandbox's own way.
    #[default]
    Host,
    /// A base: the same root file system as an unpacked folder (for the embedded sandbox) and as an archive or image (for
    /// a container engine).
    Base {
        /// The unpacked root file system on the host.
        folder: Option<PathBuf>,
        /// The same as a tar archive on the host, which a container engine can import.
        archive: Option<PathBuf>,
        /// The image in an engine's store, by id or reference with digest.
        image: Option<String>,
        /// What identifies its content.
        digest: String,
    },
}

impl Root {
    /// What identifies its content; `None` for the host, whose packages change under us.
    pub fn digest(&self) -> Option<&str> {
        match self {
            Self::Host => None,
            Self::Base { digest, .. } => Some(digest),
        }
    }
}

/// One mount inside the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Mount {
    /// A host directory or file, read-only at `target`.
    ReadOnly {
        /// On the host.
        source: PathBuf,
        /// Inside.
        target: PathBuf,
    },
    /// A host directory, writable at `target`: what is written stays on the host. For build phases only.
    ReadWrite {
        /// On the host.
        source: PathBuf,
        /// Inside.
        target: PathBuf,
    },
    /// Copy-on-write over `lowers` (topmost first) at `target`.
    Overlay {
        /// Host directories, topmost first; at least one.
        lowers: Vec<PathBuf>,
        /// Inside.
        target: PathBuf,
        /// Where changes go: an empty host directory of the caller's, kept afterwards; `None`: memory, thrown away.
        upper: Option<PathBuf>,
        /// Paths below `target` that are removed, with parents left empty by it, before the command starts.
        remove: Vec<PathBuf>,
    },
}

impl Mount {
    /// Its place inside.
    pub fn target(&self) -> &Path {
        match self {
            Self::ReadOnly { target, .. } | Self::ReadWrite { target, .. } | Self::Overlay { target, .. } => target,
        }
    }

    /// What of the host is seen there: one place, or an overlay's lowers, topmost first.
    pub fn sources(&self) -> &[PathBuf] {
        match self {
            Self::ReadOnly { source, .. } | Self::ReadWrite { source, .. } => std::slice::from_ref(source),
            Self::Overlay { lowers, .. } => lowers,
        }
    }
}

/// Limits of one task. Which of them were really in force, and how, is in [`Isolation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall clock; the whole process tree dies when it is over.
    pub wall: Duration,
    /// CPU time of the tree's processes, each.
    pub cpu: Option<Duration>,
    /// Memory of the whole tree, in bytes.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u64,
    /// The size of a file, in bytes.
    pub file_size: u64,
    /// Bytes kept of each output stream; the command goes on when more comes, the rest is counted and dropped.
    pub output: u64,
    /// Size of the memory-backed file systems (`/tmp`, home, `/dev/shm`, an overlay's upper), in bytes.
    pub scratch: u64,
    /// What a task may leave on the host's disk, in directories that are kept (`upper` of an overlay, a writable mount),
    /// in bytes. It is watched, so a fast writer gets a little further.
    pub disk: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            wall: Duration::from_secs(120),
            cpu: None,
            memory: 2048 * MIB,
            pids: 512,
            file_size: 1024 * MIB,
            output: 4 * MIB,
            scratch: 1024 * MIB,
            disk: 8192 * MIB,
        }
    }
}

/// What of the network a task sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// A loopback of its own only.
    None,
    /// The host's network, for fetch phases.
    Host,
}

/// How a task ended.
#[derive(Debug, Clone)]
pub struct Exit {
    /// The main process's own end; when the sandbox killed it, the signal.
    pub end: End,
    /// Whether the wall-clock or CPU limit ended it.
    pub timed_out: bool,
    /// Whether the memory limit was hit (read from the cgroup or the watcher, never from the exit code).
    pub out_of_memory: bool,
    /// Whether the caller's token ended it.
    pub cancelled: bool,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// What came through the result channel.
    pub result: Captured,
    /// The token that was given to the command; `None` where there was no result channel.
    pub token: Option<Token>,
    /// Wall-clock seconds from start to end of the tree.
    pub seconds: f64,
    /// CPU seconds of the tree.
    pub cpu_seconds: f64,
    /// The tree's peak memory in bytes, where it was measured.
    pub peak_memory: Option<u64>,
    /// What was in force.
    pub isolation: Isolation,
}

/// How the main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// Captured bytes, capped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// How many more came and were dropped.
    pub dropped: u64,
}

impl Captured {
    /// Keeps what comes up to `cap` bytes in all, and counts the rest.
    pub fn keep(&mut self, bytes: &[u8], cap: usize) {
        let kept = bytes.len().min(cap.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.dropped += (bytes.len() - kept) as u64;
    }

    /// The bytes as text, broken UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Which isolation was really in force; part of every record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The sandbox: `local`, `docker`, `none`.
    pub sandbox: String,
    /// `full` (namespaces and cgroup), `userns` (namespaces, limits by rlimits and a watcher), `container`, `none`.
    pub level: String,
    /// `none` or `host`.
    pub network: String,
    /// `cgroup`, `watcher` or `none`.
    pub memory: String,
    /// `cgroup`, `rlimit` or `none`.
    pub pids: String,
    /// `overlayfs` or `copy`; in an exit also `none`, where the task had no copy-on-write mount.
    pub workspace: String,
}

/// What went wrong outside the task.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No level of isolation can be had here.
    #[error("no sandbox can be set up here: {reason}")]
    Unavailable {
        /// What was tried and what it said.
        reason: String,
    },
    /// Setting up this task failed.
    #[error("could not {step}: {source}")]
    Setup {
        /// What was being done.
        step: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The program of the task does not exist inside.
    #[error("`{program}` could not be started in the sandbox: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The sandbox's helper process broke or did not answer.
    #[error("the sandbox's helper failed: {0}")]
    Helper(String),
    /// A task on the host's root, in a sandbox that has none.
    #[error(
        "a container needs a base to stand on: make one with `redgreen env base`, or name an image or archive as the \
         environment's `base`"
    )]
    NoBase,
    /// The container engine refused, broke off or stalled.
    #[error(transparent)]
    Engine(Box<docker::EngineError>),
}

impl From<docker::EngineError> for SandboxError {
    fn from(error: docker::EngineError) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl SandboxError {
    /// Whether the disk is the cause.
    pub fn is_disk(&self) -> bool {
        match self {
            Self::Setup { source, .. } | Self::Spawn { source, .. } => {
                matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
            }
            Self::Engine(error) => error.is_disk(),
            _ => false,
        }
    }
}

/// Where somebody sits who attends a command: see [`Sandbox::attend`].
#[derive(Debug)]
pub struct Seat {
    /// A two-way stream: the command's standard input, output and error.
    pub stream: std::os::fd::OwnedFd,
    /// Whether it is a terminal, which then becomes that of the command's session. It should be one that was made for
    /// this, as whatever runs inside can write to it and read from it.
    pub terminal: bool,
}

/// Is given what a command writes to its standard output and error while it runs, in the pieces in which it comes, before
/// any cap. It is called on the thread that reads, so it must be quick.
pub type Listener = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// What [`Sandbox::run`] gives.
pub type RunFuture<'a> = Pin<Box<dyn Future<Output = Result<Exit, SandboxError>> + Send + 'a>>;

/// A place where commands run.
pub trait Sandbox: Send + Sync {
    /// What isolation tasks without network get here.
    fn isolation(&self) -> Isolation;

    /// The host user and group that files must belong to so that a task can change them.
    fn owner(&self) -> (u32, u32);

    /// Whether tasks can stand on the host's own system ([`Root::Host`]).
    fn has_host_root(&self) -> bool {
        true
    }

    /// Runs one task to its end. When `cancel` fires the whole tree is killed and the exit says so.
    fn run<'a>(&'a self, task: &'a Task, cancel: &'a CancellationToken) -> RunFuture<'a>;

    /// The same, and a listener is given what the command writes while it runs. A sandbox that can't tell so early gives
    /// it nothing.
    fn run_heard<'a>(&'a self, task: &'a Task, _listener: Listener, cancel: &'a CancellationToken) -> RunFuture<'a> {
        self.run(task, cancel)
    }

    /// Runs one task that somebody attends: its standard input, output and error are the seat's and are not captured.
    fn attend<'a>(&'a self, _task: &'a Task, _seat: Seat, _cancel: &'a CancellationToken) -> RunFuture<'a> {
        let reason = format!("the sandbox `{}` has no interactive commands", self.isolation().sandbox);
        Box::pin(std::future::ready(Err(SandboxError::Unavailable { reason })))
    }
}
