//! What redgreen and its helper process say to each other over the control socket.
//!
//! The helper reads one [`Job`] (eight bytes of length, then JSON; the result channel's descriptor rides on the first
//! bytes) and writes one [`Report`] before it ends. Until then the socket is also its lifeline: when redgreen's end
//! closes, by wish or because redgreen died, the helper kills the tree.

use serde::{Deserialize, Serialize};

use super::cgroup::Plan;
use crate::sandbox::{End, Task};

/// The first argument that turns the binary into the process that helpers are forked from.
pub const SPAWNER_ARG: &str = "__sandbox-spawner";

/// User and group inside the sandbox.
pub const INSIDE_ID: u32 = 1000;

/// The host user and group that tasks run as when redgreen runs as root: the same on all machines, so that a cache
/// written on one is usable on the next. It lies in a range that neither distributions nor systemd hand out, and
/// below 65536, so that it exists in most containers, too.
pub const ROOT_MODE_ID: u32 = 60977;

/// The home directory inside.
pub const HOME: &str = "/home/redgreen";

/// The descriptor of the result channel inside: one digit, as POSIX shells cannot name others.
pub const RESULT_FD: i32 = 7;

/// With whose rights the namespaces are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Privilege {
    /// Real root makes mounts and namespaces, the command runs in a user namespace mapped to [`ROOT_MODE_ID`].
    Root,
    /// One user namespace does everything; the command is the calling user.
    User,
    /// Real root makes the mounts only: a file-system view, and no isolation beyond it.
    Bare,
}

/// One run, as redgreen orders it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The task.
    pub task: Task,
    /// With whose rights.
    pub privilege: Privilege,
    /// Host user and group of the command.
    pub owner: (u32, u32),
    /// Where to make a cgroup; `None`: limits by rlimits and the watcher.
    pub cgroup: Option<Plan>,
    /// The run's name, which holds its owner's identity; the cgroup's name.
    pub name: String,
    /// Copy instead of mounting overlayfs.
    pub copy_workspace: bool,
    /// What the command has as standard input, output and error.
    #[serde(default)]
    pub streams: Streams,
}

/// What a command has on its descriptors 0, 1 and 2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// Nothing to read, and pipes that are captured.
    #[default]
    Captured,
    /// One two-way stream of the caller's for all three.
    Stream,
    /// One terminal of the caller's for all three, which becomes the session's own.
    Terminal,
}

/// How one run went, as the helper saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// A step before the command failed with this error number.
    Setup {
        /// What was being done.
        step: String,
        /// The error number.
        errno: i32,
    },
    /// The command could not be executed.
    Spawn {
        /// The program.
        program: String,
        /// The error number.
        errno: i32,
    },
    /// The command ran and ended.
    Ended(Ended),
}

/// The end of a command that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Of the main process.
    pub end: End,
    /// Wall-clock or CPU limit.
    pub timed_out: bool,
    /// Memory limit.
    pub out_of_memory: bool,
    /// The lifeline closed.
    pub cancelled: bool,
    /// More than the limit was left on disk.
    pub over_disk: bool,
    /// Wall-clock seconds from the command's start to the end of its tree.
    pub seconds: f64,
    /// CPU seconds of the tree.
    pub cpu_seconds: f64,
    /// Peak memory in bytes.
    pub peak_memory: Option<u64>,
    /// Who limited memory.
    pub memory: String,
    /// Who limited processes.
    pub pids: String,
    /// How the copy-on-write mounts were made.
    pub workspace: String,
}

/// What PID 1 of the sandbox tells the supervisor, one JSON message a packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitMessage {
    /// Setting up failed, or the command could not be executed.
    Failed(Report),
    /// The command runs.
    Started {
        /// How the copy-on-write mounts were made.
        workspace: String,
    },
    /// The command ended and nothing of its tree is left.
    Ended {
        /// Of the main process.
        end: End,
        /// The CPU limit ended it.
        cpu_limit: bool,
        /// The watcher killed the tree.
        out_of_memory: bool,
        /// CPU seconds of all processes that were waited for.
        cpu_seconds: f64,
        /// The watcher's peak.
        peak_memory: Option<u64>,
    },
}
