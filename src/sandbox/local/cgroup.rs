//! Memory and process limits by a control group of the run's own, in version 1, version 2 or a mix of them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::fault;
use crate::sandbox::Limits;

/// Where runs make their cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "version")]
pub enum Plan {
    /// Controllers in hierarchies of their own.
    V1 {
        /// The parent in the memory hierarchy.
        memory: PathBuf,
        /// The parent in the pids hierarchy.
        pids: Option<PathBuf>,
    },
    /// The unified hierarchy.
    V2 {
        /// The parent; it hands the memory and pids controllers on to its children.
        parent: PathBuf,
    },
}

impl Plan {
    /// Whether it limits processes, too.
    pub fn limits_pids(&self) -> bool {
        !matches!(self, Self::V1 { pids: None, .. })
    }

    /// All parents.
    pub fn parents(&self) -> Vec<&Path> {
        match self {
            Self::V1 { memory, pids } => std::iter::once(memory).chain(pids).map(PathBuf::as_path).collect(),
            Self::V2 { parent } => vec![parent],
        }
    }
}

/// The hierarchies in which this process might make cgroups, most wanted first; nothing is tried yet.
///
/// `own` is the text of `/proc/self/cgroup`, `mounts` of `/proc/self/mountinfo`.
pub fn candidates(own: &str, mounts: &str) -> Vec<Plan> {
    let mut plans = Vec::new();
    // In version 2 a group with processes cannot hand controllers on, so a delegated parent may be the usable one.
    if let (Some(path), Some(mount)) = (own_path(own, ""), find_mount(mounts, "cgroup2", None))
        && let Some(group) = mount.locate(path)
    {
        let inside = group.ancestors().take_while(|dir| dir.starts_with(&mount.point));
        plans.extend(inside.map(|dir| Plan::V2 { parent: dir.to_path_buf() }));
    }
    let v1 = |controller| {
        let path = own_path(own, controller)?;
        find_mount(mounts, "cgroup", Some(controller))?.locate(path)
    };
    if let Some(memory) = v1("memory") {
        plans.push(Plan::V1 { memory, pids: v1("pids") });
    }
    plans
}

/// Whether a child made under `parent` would have the controllers that a run needs.
pub fn hands_on(subtree_control: &str) -> bool {
    let has = |wanted| subtree_control.split_whitespace().any(|name| name == wanted);
    has("memory") && has("pids")
}

/// The first hierarchy in which a run's cgroup can really be made, or what each one said.
pub fn find(name: &str) -> Result<Plan, String> {
    let read = |path| fs::read_to_string(path).map_err(|error| error.to_string());
    let plans = candidates(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?);
    let mut said = Vec::new();
    for mut plan in plans {
        if let Plan::V2 { parent } = &plan {
            let control = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
            if !hands_on(&control) {
                said.push(format!("`{}` hands no memory controller on", parent.display()));
                continue;
            }
        }
        loop {
            match Cgroup::create(&plan, name, &Limits::default()) {
                Ok(group) => {
                    group.remove();
                    return Ok(plan);
                }
                // Memory is what matters; processes can be limited by an rlimit.
                Err(_) if matches!(&plan, Plan::V1 { pids: Some(_), .. }) => {
                    if let Plan::V1 { pids, .. } = &mut plan {
                        *pids = None;
                    }
                }
                Err(error) => {
                    said.push(error.to_string());
                    break;
                }
            }
        }
    }
    if said.is_empty() { Err("no memory cgroup is mounted".to_owned()) } else { Err(said.join("; ")) }
}

/// The path of a controller in `/proc/self/cgroup` (empty: the unified hierarchy).
fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// A mounted cgroup hierarchy.
#[derive(Debug)]
struct Hierarchy {
    /// The directory of the hierarchy that is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

impl Hierarchy {
    /// The directory of a cgroup path.
    fn locate(&self, path: &str) -> Option<PathBuf> {
        // In a container the mount may start below the path's root, or the path may be seen from elsewhere.
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(if below.as_os_str().is_empty() { self.point.clone() } else { self.point.join(below) })
    }
}

/// Finds a mounted hierarchy in the text of mountinfo.
fn find_mount(mounts: &str, kind: &str, controller: Option<&str>) -> Option<Hierarchy> {
    mounts.lines().find_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut rest = rest.split(' ');
        let (is, options) = (rest.next()?, rest.nth(1)?);
        let fits = is == kind && controller.is_none_or(|wanted| options.split(',').any(|option| option == wanted));
        fits.then(|| Hierarchy { root: root.into(), point: point.into() })
    })
}

/// The step that fails when the kernel kills in a run's cgroup, and not for the run's own limit.
pub const KEEP_PROCESSES: &str = "keep the run's processes when the machine ran out of memory";

/// The cgroup of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    unified: bool,
    memory: PathBuf,
    pids: Option<PathBuf>,
}

impl Cgroup {
    /// One that somebody else made and takes away, to be read only.
    pub fn at(memory: PathBuf, unified: bool) -> Self {
        Self { unified, memory, pids: None }
    }

    /// Whether it is there, with a memory controller.
    pub fn is_there(&self) -> bool {
        self.memory.join(self.events()).exists()
    }

    /// The file that counts what happened in it.
    fn events(&self) -> &'static str {
        if self.unified { "memory.events" } else { "memory.oom_control" }
    }

    /// Makes it and sets its limits; leaves nothing when that fails.
    pub fn create(plan: &Plan, name: &str, limits: &Limits) -> io::Result<Self> {
        let group = match plan {
            Plan::V1 { memory, pids } => {
                Self { unified: false, memory: memory.join(name), pids: pids.as_ref().map(|dir| dir.join(name)) }
            }
            Plan::V2 { parent } => Self { unified: true, memory: parent.join(name), pids: None },
        };
        group.set_up(limits).inspect_err(|_| group.remove())?;
        fault::point("sandbox.cgroup.limited");
        Ok(group)
    }

    fn set_up(&self, limits: &Limits) -> io::Result<()> {
        let bytes = limits.memory.to_string();
        // PID 1 of the sandbox is ours and in the group, too.
        let pids = limits.pids.saturating_add(1).to_string();
        fs::create_dir(&self.memory)?;
        fault::point("sandbox.cgroup.made");
        if self.unified {
            write(&self.memory, "memory.max", &bytes)?;
            optional(write(&self.memory, "memory.swap.max", "0"))?;
            write(&self.memory, "pids.max", &pids)?;
        } else {
            write(&self.memory, "memory.limit_in_bytes", &bytes)?;
            optional(write(&self.memory, "memory.memsw.limit_in_bytes", &bytes))?;
            if let Some(dir) = &self.pids {
                fs::create_dir(dir)?;
                write(dir, "pids.max", &pids)?;
            }
        }
        Ok(())
    }

    /// Files into which a single-threaded process writes `0` to join.
    ///
    /// In version 1 that is `tasks`: moving only the calling thread spares the kernel a wait that the whole machine
    /// would feel, and costs this run milliseconds.
    pub fn join_files(&self) -> io::Result<Vec<fs::File>> {
        let file = if self.unified { "cgroup.procs" } else { "tasks" };
        std::iter::once(&self.memory)
            .chain(&self.pids)
            .map(|dir| fs::OpenOptions::new().write(true).open(dir.join(file)))
            .collect()
    }

    /// How many processes the kernel killed in it for want of memory.
    pub fn oom_kills(&self) -> u64 {
        fs::read_to_string(self.memory.join(self.events())).map(|text| counter(&text, "oom_kill")).unwrap_or(0)
    }

    /// Whether this group's own limit was ever reached. The kernel also kills in it when memory ends further up, in a
    /// group above or in the whole machine; that says nothing of the command. `None`: the group does not say, or not any
    /// more.
    pub fn own_limit_was_reached(&self) -> Option<bool> {
        let read = |file| fs::read_to_string(self.memory.join(file)).ok();
        if self.unified {
            return read("memory.events").map(|text| counter(&text, "oom") > 0);
        }
        // Failures are not counted where memory with swap has the same limit, but the peak is exact.
        let number = |file| read(file).and_then(|text| text.trim().parse::<u64>().ok());
        Some(reached(number("memory.max_usage_in_bytes")?, number("memory.limit_in_bytes")?))
    }

    /// The most memory that was in use at once, in bytes, where the kernel says so.
    pub fn peak(&self) -> Option<u64> {
        let file = if self.unified { "memory.peak" } else { "memory.max_usage_in_bytes" };
        fs::read_to_string(self.memory.join(file)).ok()?.trim().parse().ok()
    }

    /// Kills all that is in it, where the kernel can do that at once.
    pub fn kill(&self) {
        if self.unified {
            // Before Linux 5.14 the file is missing; the PID namespace's end does the same.
            let _ = write(&self.memory, "cgroup.kill", "1");
        }
    }

    /// Removes it. The kernel may need a moment after the last process; what stays is reaped by a later start.
    pub fn remove(&self) {
        for dir in std::iter::once(&self.memory).chain(&self.pids) {
            remove_group(dir);
        }
    }
}

/// Kills all processes in a cgroup directory that nobody looks after any more, and removes it.
pub fn kill_and_remove(group: &Path) {
    for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
        // 0 is a process of another PID namespace, and to kill it would mean our own group.
        if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    remove_group(group);
}

/// Removes one cgroup directory, waiting up to half a second for it to become empty.
fn remove_group(dir: &Path) {
    for wait in [0, 1, 2, 5, 10, 20, 50, 100, 150, 160] {
        std::thread::sleep(Duration::from_millis(wait));
        match std::fs::remove_dir(dir) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            _ => return,
        }
    }
}

fn write(dir: &Path, file: &str, text: &str) -> io::Result<()> {
    use std::io::Write;
    // Not `fs::write`, which would ask to create and truncate.
    fs::OpenOptions::new().write(true).open(dir.join(file))?.write_all(text.as_bytes())
}

/// A control that this kernel may not have.
fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(()),
        other => other,
    }
}

/// Whether a peak is as near to the limit as one that was held up by it: the kernel hands pages out in batches.
fn reached(peak: u64, limit: u64) -> bool {
    const BATCHES: u64 = 1 << 20;
    peak.saturating_add(BATCHES.min(limit / 16)) >= limit
}

/// A `name number` line.
fn counter(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.split_once(' ').filter(|(key, _)| *key == name))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/pids rw,relatime shared:4 - cgroup cgroup rw,pids
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn hybrid_offers_unified_first_then_version_1() {
        let own = "9:name=systemd:/\n8:pids:/\n4:memory:/a/b\n0::/\n";
        let plans = candidates(own, V1_MOUNTS);
        assert_eq!(
            plans,
            [
                Plan::V2 { parent: "/sys/fs/cgroup/unified".into() },
                Plan::V1 { memory: "/sys/fs/cgroup/memory/a/b".into(), pids: Some("/sys/fs/cgroup/pids".into()) },
            ]
        );
    }

    #[test]
    fn unified_offers_every_ancestor_up_to_the_mount() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let plans = candidates("0::/user.slice/app.scope\n", mounts);
        let parents: Vec<_> = plans.iter().flat_map(Plan::parents).collect();
        assert_eq!(
            parents,
            ["/sys/fs/cgroup/user.slice/app.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"].map(Path::new)
        );
    }

    #[test]
    fn a_container_mount_starts_below_the_root() {
        let mounts = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let plans = candidates("4:memory:/docker/abc\n", mounts);
        assert_eq!(plans, [Plan::V1 { memory: "/sys/fs/cgroup/memory".into(), pids: None }]);
        assert!(candidates("4:memory:/elsewhere\n", mounts).is_empty());
    }

    #[test]
    fn counters_are_read_by_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(counter(text, "oom_kill"), 3);
        assert_eq!(counter("low 0\nmax 7\noom 2\noom_kill 1\n", "oom_kill"), 1);
        assert_eq!(counter("", "oom_kill"), 0);
    }

    #[test]
    fn a_limit_is_reached_within_the_kernels_batches() {
        let mib = |n: u64| n << 20;
        assert!(reached(mib(2048), mib(2048)) && reached(mib(2048) - 300_000, mib(2048)) && reached(mib(32), mib(32)));
        assert!(!reached(mib(33), mib(1024)) && !reached(mib(1024) - mib(2), mib(1024)) && !reached(mib(14), mib(16)));
    }

    #[test]
    fn only_a_parent_with_both_controllers_will_do() {
        assert!(hands_on("cpu io memory pids\n"));
        assert!(!hands_on("memory\n"));
        assert!(!hands_on(""));
    }
}
