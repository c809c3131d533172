//! Names that say which live process something belongs to, so that leftovers of dead ones can be told apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fs_err as fs;

use super::cgroup::{self, Plan};

const PREFIX: &str = "redgreen";

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Who owns a run: this process, in this PID namespace, of this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    boot: String,
    namespace: String,
    pid: u32,
    start: u64,
}

impl Identity {
    /// The calling process.
    pub fn own() -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let pid = std::process::id();
        Some(Self {
            boot: boot.chars().filter(char::is_ascii_hexdigit).take(8).collect(),
            namespace: namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect(),
            pid,
            start: start_time(pid)?,
        })
    }

    /// A name that no other run has.
    pub fn name(&self) -> String {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        format!("{PREFIX}-{}-{}-{}-{}-{number}", self.boot, self.namespace, self.pid, self.start)
    }

    /// Reads a name back.
    pub fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('-').collect();
        let [PREFIX, boot, namespace, pid, start, number] = parts[..] else { return None };
        number.parse::<u64>().ok()?;
        Some(Self {
            boot: boot.to_owned(),
            namespace: namespace.to_owned(),
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    }

    /// Whether the owner's numbers mean the same here: of this boot and this PID namespace. No cgroup outlives a boot, so
    /// that another boot's name is one that a container was given.
    fn is_of_here(&self, own: &Self) -> bool {
        self.boot == own.boot && self.namespace == own.namespace
    }

    /// Whether the owner is surely gone, as `own` sees it: its PID is free, or somebody else's now. In another PID
    /// namespace one cannot know, so the answer is no.
    pub fn is_dead(&self, own: &Self) -> bool {
        self.is_of_here(own) && start_time(self.pid) != Some(self.start)
    }
}

/// When a process started, in clock ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`; the command's name in field 2 may hold blanks and brackets.
fn parse_start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether a cgroup was made so long ago that a run in it would have put its processes in.
fn is_old(group: &std::fs::Metadata) -> bool {
    const OLD: Duration = Duration::from_secs(3600);
    group.modified().is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age >= OLD))
}

/// Removes the cgroups of owners that are gone, and kills what still runs in them. Never touches a live owner's.
pub fn reap(plan: &Plan, own: &Identity) {
    for parent in plan.parents() {
        let Ok(entries) = fs::read_dir(parent) else { continue };
        for entry in entries.flatten() {
            let Some(owner) = entry.file_name().to_str().and_then(Identity::parse) else { continue };
            if owner.is_dead(own) {
                cgroup::kill_and_remove(&entry.path());
            } else if !owner.is_of_here(own) && entry.metadata().is_ok_and(|group| is_old(&group)) {
                // The kernel refuses where a process is left; a run puts its first one in within seconds.
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_and_is_unique() {
        let own = Identity::own().unwrap();
        let (one, two) = (own.name(), own.name());
        assert_ne!(one, two);
        assert_eq!(Identity::parse(&one), Some(own.clone()));
        assert!(!own.is_dead(&own));
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in ["redgreen", "redgreen-1-2-3-4", "redgreen-a-b-c-d-e", "docker-1-2-3-4-5", "redgreen-a-1-2-3-4-5"] {
            assert_eq!(Identity::parse(name), None, "{name}");
        }
    }

    #[test]
    fn dead_is_another_start_where_numbers_mean_the_same() {
        let own = Identity::own().unwrap();
        assert!(!Identity { boot: "0".into(), start: 1, ..own.clone() }.is_dead(&own));
        assert!(Identity { start: own.start + 1, ..own.clone() }.is_dead(&own));
        assert!(!Identity { namespace: "1".into(), start: 1, ..own.clone() }.is_dead(&own));
    }

    #[test]
    fn start_time_is_the_22nd_field() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 4242 1 1";
        assert_eq!(parse_start_time(stat), Some(4242));
    }
}
