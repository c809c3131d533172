//! `/proc` of the sandbox's own PID namespace, with the machine's knobs read-only and its secrets masked.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, OFlags};
use rustix::mount::MountFlags;

use super::super::failure::{Failure, Step};
use super::place;
use super::root::{Root, mkdir};

/// Settings and interfaces of the whole machine.
const READ_ONLY: [&str; 5] = ["sys", "irq", "bus", "fs", "sysrq-trigger"];

/// Memory, keys, kernel internals and hardware of the whole machine.
const MASKED: [&str; 12] = [
    "kcore",
    "keys",
    "kallsyms",
    "kmsg",
    "timer_list",
    "sched_debug",
    "latency_stats",
    "interrupts",
    "acpi",
    "scsi",
    "asound",
    "pressure",
];

/// Mounts it. The host's `/proc` must still be visible: without one in full view the kernel refuses an unprivileged
/// user a new one.
pub fn mount(root: &Root) -> Result<(), Failure> {
    mkdir("proc")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "proc", "proc", flags, None).step(|| "mount `/proc`".to_owned())?;
    for name in READ_ONLY {
        let Some(at) = open(root, name) else { continue };
        let step = || format!("make `/proc/{name}` read-only");
        let tree = place::detached(CWD, Path::new("proc").join(name)).step(step)?;
        place::read_only(&tree).step(step)?;
        place::attach(&tree, &at).step(step)?;
    }
    for name in MASKED {
        let Some(at) = open(root, name) else { continue };
        let step = || format!("mask `/proc/{name}`");
        // `/sys` is an empty directory here.
        let cover = if place::is_dir(&at) { "sys" } else { "dev/null" };
        let tree = place::detached(CWD, cover).step(step)?;
        if place::is_dir(&at) {
            place::read_only(&tree).step(step)?;
        }
        place::attach(&tree, &at).step(step)?;
    }
    Ok(())
}

/// A file of the new `/proc`, where this kernel has it.
fn open(root: &Root, name: &str) -> Option<OwnedFd> {
    place::open(&root.dir, Path::new("proc").join(name), OFlags::empty()).ok()
}
