//! The helper: a fork of this same binary, executed again as a small process with one thread, that sets a sandbox up.
//!
//! Three processes take part. The *supervisor* (outside) makes the cgroup and the namespaces, watches the deadline and
//! the lifeline, and reports. The *init* (PID 1 inside) builds the private root, starts the command and reaps. The
//! *payload* gives up every right and becomes the command.

mod copy;
mod disk;
mod etc;
mod hidden;
mod ids;
mod init;
mod mounts;
mod overlay;
mod payload;
mod place;
mod proc;
mod remove;
mod root;
mod seccomp;
mod spawner;
mod supervisor;
mod sys;
mod system;
mod watcher;

use std::process::ExitCode;

pub(in crate::sandbox) use disk::{Disk, disk_size};
pub(in crate::sandbox) use place::{below, below_root};

use super::protocol::SPAWNER_ARG;

/// Runs the sandbox's helper when this process was started as one.
///
/// A binary that makes a [`LocalSandbox`](super::LocalSandbox) with itself as the helper calls this first of all, before
/// it starts a thread or a runtime, and ends with the exit code when there is one.
pub fn helper_main_if_asked() -> Option<ExitCode> {
    (std::env::args_os().nth(1)? == SPAWNER_ARG).then(spawner::main)
}
