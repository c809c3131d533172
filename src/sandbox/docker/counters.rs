//! A container's cgroup, read from outside where the engine is on this machine: what it used, and whether the kernel
//! killed something in it for want of memory. An engine's own word on that can be late, and is silent on some.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::sandbox::local::Cgroup;

/// What was read last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// CPU seconds of all processes.
    pub cpu_seconds: f64,
    /// The most memory at once, in bytes; `None`: nothing was read.
    pub peak_memory: Option<u64>,
    /// How many processes the kernel killed for want of memory.
    pub oom_kills: u64,
    /// Whether the container's own limit was reached, as of the last look at which kills were seen; `None`: none were.
    pub own_limit: Option<bool>,
}

impl Counters {
    /// Whether the kernel killed for want of memory elsewhere: in a group above, or in the whole machine.
    pub fn is_machines(&self) -> bool {
        self.oom_kills > 0 && self.own_limit == Some(false)
    }
}

/// The files of one container's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    cpu: PathBuf,
    memory: Cgroup,
}

impl Group {
    /// The cgroup of a process of this PID namespace, in version 1 or 2, where its path holds `id`, the container's whole
    /// id: the number is the engine's, and may be another process's here. `None` where it is not to be seen.
    pub fn of(pid: i64, id: &str) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        locate(&text, Path::new("/sys/fs/cgroup"), id).filter(|group| group.memory.is_there())
    }

    /// Reads the counters. What cannot be read (the group goes with its last process) stays as it was.
    pub fn read(&self, last: &mut Counters) {
        if let Some(cpu) = fs::read_to_string(&self.cpu).ok().and_then(|text| cpu_seconds(&text)) {
            last.cpu_seconds = last.cpu_seconds.max(cpu);
        }
        let kills = self.memory.oom_kills();
        last.oom_kills = last.oom_kills.max(kills);
        // Read after the kills, which come after the limit.
        last.peak_memory = last.peak_memory.max(self.memory.peak());
        if kills > 0 {
            last.own_limit = self.memory.own_limit_was_reached().or(last.own_limit);
        }
    }
}

/// Finds the files by the text of `/proc/PID/cgroup`.
fn locate(text: &str, mounts: &Path, id: &str) -> Option<Group> {
    let path = |controller: &str| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (names, path) = (parts.next()?, parts.next()?);
            let is = if controller.is_empty() { names.is_empty() } else { names.split(',').any(|n| n == controller) };
            if is { containers(path, id) } else { None }
        })
    };
    if let Some(memory) = path("memory") {
        let cpu = mounts.join("cpuacct").join(path("cpuacct")?).join("cpuacct.usage");
        return Some(Group { cpu, memory: Cgroup::at(mounts.join("memory").join(memory), false) });
    }
    let group = mounts.join(path("")?);
    Some(Group { cpu: group.join("cpu.stat"), memory: Cgroup::at(group, true) })
}

/// The part of a cgroup's path that ends with the container's own group, which the limits are of.
fn containers(path: &str, id: &str) -> Option<String> {
    if id.is_empty() || path.contains("..") {
        return None;
    }
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let own = names.iter().position(|name| name.contains(id))?;
    Some(names[..=own].join("/"))
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

    const ID: &str = "4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339c4c01";

    fn located(text: &str) -> Option<Group> {
        locate(&text.replace("ID", ID), Path::new("/sys/fs/cgroup"), ID)
    }

    #[test]
    fn files_are_found_in_both_versions() {
        let at = |path: &str| PathBuf::from("/sys/fs/cgroup").join(path.replace("ID", ID));
        let group = located("12:cpu,cpuacct:/docker/ID\n9:memory:/docker/ID\n0::/\n").unwrap();
        assert_eq!(group.memory, Cgroup::at(at("memory/docker/ID"), false));
        assert_eq!(group.cpu, at("cpuacct/docker/ID/cpuacct.usage"));
        let group = located("0::/system.slice/docker-ID.scope\n").unwrap();
        assert_eq!(group.memory, Cgroup::at(at("system.slice/docker-ID.scope"), true));
        // Podman's, with the limit in the outer one.
        let group = located("0::/machine.slice/libpod-ID.scope/container\n").unwrap();
        assert_eq!(group.memory, Cgroup::at(at("machine.slice/libpod-ID.scope"), true));
    }

    #[test]
    fn another_process_of_that_number_is_none_of_ours() {
        for other in [
            "0::/\n",
            "0::/../../ID\n",
            "0::/system.slice/ssh.service\n",
            "9:memory:/user.slice\n8:cpuacct:/user.slice\n0::/\n",
            "9:memory:/docker/4c01db0b339c\n8:cpuacct:/docker/4c01db0b339c\n",
            "0::/system.slice/docker-4c01db0b339c4c01.scope\n",
        ] {
            assert_eq!(located(other), None, "{other}");
        }
        assert_eq!(locate("0::/docker/x\n", Path::new("/"), ""), None);
        // This process itself is in no container of that id.
        assert_eq!(Group::of(std::process::id().into(), ID), None);
    }

    #[test]
    fn counters_are_read_and_never_go_back() {
        let folder = tempfile::tempdir().unwrap();
        let group = locate(&format!("0::/{ID}\n"), folder.path(), ID).unwrap();
        let at = |name: &str| folder.path().join(ID).join(name);
        fs::create_dir(at("")).unwrap();
        fs::write(at("cpu.stat"), "usage_usec 1500000\nuser_usec 1\n").unwrap();
        fs::write(at("memory.peak"), "4096\n").unwrap();
        fs::write(at("memory.events"), "low 0\noom 2\noom_kill 1\noom_group_kill 0\n").unwrap();
        let mut counters = Counters::default();
        group.read(&mut counters);
        let wanted = Counters { cpu_seconds: 1.5, peak_memory: Some(4096), oom_kills: 1, own_limit: Some(true) };
        assert_eq!(counters, wanted);
        fs::write(at("cpu.stat"), "7").unwrap();
        fs::remove_file(at("memory.events")).unwrap();
        group.read(&mut counters);
        assert_eq!(counters, wanted);
    }

    #[test]
    fn a_kill_for_the_machines_want_is_told_from_the_containers() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let is_machines = |text: &str| {
            let mut counters = Counters::default();
            locate(&text.replace("ID", ID), folder.path(), ID).unwrap().read(&mut counters);
            counters.is_machines()
        };
        let second = format!("{ID}/memory.events");
        for (events, machines) in
            [("oom 0\noom_kill 1\n", true), ("oom 1\noom_kill 1\n", false), ("oom 0\noom_kill 0\n", false)]
        {
            write(&second, events);
            assert_eq!(is_machines("0::/ID\n"), machines, "{events}");
        }
        let first = |name: &str| format!("memory/docker/{ID}/memory.{name}");
        write(&first("oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
        write(&first("limit_in_bytes"), "209715200\n");
        for (peak, machines) in [("52428800\n", true), ("209715200\n", false)] {
            write(&first("max_usage_in_bytes"), peak);
            assert_eq!(is_machines("9:memory:/docker/ID\n8:cpuacct:/docker/ID\n"), machines, "{peak}");
        }
    }
}
