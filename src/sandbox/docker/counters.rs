//! A container's cgroup, read from outside where the engine is on this machine: what it used, and whether the kernel
//! killed something in it for want of memory. An engine's own word on that can be late, and is silent on some.

use std::path::{Path, PathBuf};

use fs_err as fs;

/// What was read last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// CPU seconds of all processes.
    pub cpu_seconds: f64,
    /// The most memory at once, in bytes; `None`: nothing was read.
    pub peak_memory: Option<u64>,
    /// How many processes the kernel killed for want of memory.
    pub oom_kills: u64,
}

/// The files of one container's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    cpu: PathBuf,
    peak: PathBuf,
    kills: PathBuf,
}

impl Group {
    /// The cgroup of a process of this PID namespace, in version 1 or 2. `None` where it is not to be seen.
    pub fn of(pid: i64) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = Path::new("/sys/fs/cgroup");
        locate(&text, mounts).filter(|group| group.kills.exists())
    }

    /// Reads the counters. What cannot be read (the group goes with its last process) stays as it was.
    pub fn read(&self, last: &mut Counters) {
        let text = |path: &Path| fs::read_to_string(path).ok();
        if let Some(cpu) = text(&self.cpu).and_then(|text| cpu_seconds(&text)) {
            last.cpu_seconds = last.cpu_seconds.max(cpu);
        }
        if let Some(peak) = text(&self.peak).and_then(|text| text.trim().parse().ok()) {
            last.peak_memory = last.peak_memory.max(Some(peak));
        }
        if let Some(kills) = text(&self.kills).and_then(|text| field(&text, "oom_kill")) {
            last.oom_kills = last.oom_kills.max(kills);
        }
    }
}

/// Finds the files by the text of `/proc/PID/cgroup`.
fn locate(text: &str, mounts: &Path) -> Option<Group> {
    let path = |controller: &str| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (names, path) = (parts.next()?, parts.next()?);
            let is = if controller.is_empty() { names.is_empty() } else { names.split(',').any(|n| n == controller) };
            // A process outside of any container's group is none of ours.
            is.then(|| path.trim_start_matches('/').to_owned()).filter(|path| !path.is_empty() && !path.contains(".."))
        })
    };
    if let Some(memory) = path("memory") {
        let group = mounts.join("memory").join(memory);
        let cpu = mounts.join("cpuacct").join(path("cpuacct").unwrap_or_default()).join("cpuacct.usage");
        return Some(Group {
            cpu,
            peak: group.join("memory.max_usage_in_bytes"),
            kills: group.join("memory.oom_control"),
        });
    }
    let group = mounts.join(path("")?);
    Some(Group { cpu: group.join("cpu.stat"), peak: group.join("memory.peak"), kills: group.join("memory.events") })
}

/// Nanoseconds alone (version 1), or `usage_usec` (version 2).
fn cpu_seconds(text: &str) -> Option<f64> {
    let nanoseconds = text.trim().parse::<u64>().ok().map(|number| number as f64 / 1e9);
    nanoseconds.or_else(|| field(text, "usage_usec").map(|number| number as f64 / 1e6))
}

/// A number behind a name.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_both_versions() {
        let root = Path::new("/sys/fs/cgroup");
        let first = "12:cpu,cpuacct:/docker/ab\n9:memory:/docker/ab\n0::/\n";
        let group = locate(first, root).unwrap();
        assert_eq!(group.kills, Path::new("/sys/fs/cgroup/memory/docker/ab/memory.oom_control"));
        assert_eq!(group.cpu, Path::new("/sys/fs/cgroup/cpuacct/docker/ab/cpuacct.usage"));
        let second = "0::/system.slice/docker-ab.scope\n";
        let group = locate(second, root).unwrap();
        assert_eq!(group.peak, Path::new("/sys/fs/cgroup/system.slice/docker-ab.scope/memory.peak"));
        assert_eq!(locate("0::/\n", root), None);
        assert_eq!(locate("0::/../../x\n", root), None);
    }

    #[test]
    fn counters_are_read_and_never_go_back() {
        let folder = tempfile::tempdir().unwrap();
        let group = locate("0::/x\n", folder.path()).unwrap();
        fs::create_dir(folder.path().join("x")).unwrap();
        fs::write(&group.cpu, "usage_usec 1500000\nuser_usec 1\n").unwrap();
        fs::write(&group.peak, "4096\n").unwrap();
        fs::write(&group.kills, "low 0\noom 2\noom_kill 1\noom_group_kill 0\n").unwrap();
        let mut counters = Counters::default();
        group.read(&mut counters);
        assert_eq!(counters, Counters { cpu_seconds: 1.5, peak_memory: Some(4096), oom_kills: 1 });
        fs::write(&group.cpu, "7").unwrap();
        fs::remove_file(&group.kills).unwrap();
        group.read(&mut counters);
        assert_eq!(counters, Counters { cpu_seconds: 1.5, peak_memory: Some(4096), oom_kills: 1 });
    }
}
