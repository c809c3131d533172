//! The embedded sandbox: Linux namespaces, overlayfs, cgroups and seccomp, with nothing to install.
//!
//! Needs Linux 5.12 and one of two things: root (with `CAP_SYS_ADMIN`), or a kernel that lets unprivileged users make
//! user namespaces. A command never runs with a right of root's: as root it is mapped to a host user that owns nothing
//! else, otherwise it is the calling user, who sees nothing but what the task mounts.
//!
//! It shares the host's kernel: a hole there is a way out. It is made for code that is wrong, and for code that cheats,
//! not for code that attacks kernels.

mod cgroup;
mod cleanup;
mod config;
mod failure;
mod helper;
mod identity;
mod local_sandbox;
mod lookup;
mod probe;
mod protocol;
mod run;
mod spawner;

pub use config::LocalConfig;
pub use helper::helper_main_if_asked;
pub use local_sandbox::LocalSandbox;
pub use probe::ProbeResult;
pub use protocol::{HOME, INSIDE_ID, ROOT_MODE_ID, SPAWNER_ARG};
pub(in crate::sandbox) use {
    cgroup::{Cgroup, KEEP_PROCESSES},
    cleanup::{remove_work_dir, work_dir},
    helper::{Disk, below, below_root, disk_size},
    identity::Identity,
    local_sandbox::{attend_job, run_job},
    lookup::candidates,
    protocol::{Job, Privilege, RESULT_FD, Streams},
};
