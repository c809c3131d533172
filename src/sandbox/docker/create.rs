//! From a task to the container that runs it.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, ResourcesUlimits};

use super::command::Command;
use super::facts::Facts;
use crate::sandbox::{Limits, Network, OPEN_FILES, Task};

/// The host's name inside.
const HOSTNAME: &str = "redgreen";

/// Settings and interfaces of the whole machine, as the embedded sandbox has them.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Memory, keys, kernel internals and hardware of the whole machine: what engines mask by default, and a little more.
const MASKED: [&str; 15] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// What a container is made of beside its task.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The image's digest.
    pub image: &'a str,
    /// The command.
    pub command: Command,
    /// The command's user and group.
    pub owner: (u32, u32),
    /// Labels.
    pub labels: HashMap<String, String>,
    /// Mounts that the engine makes.
    pub mounts: Vec<Mount>,
    /// File systems in memory that the engine makes.
    pub tmpfs: HashMap<String, String>,
    /// Whether files must be put into the container's own layer before it starts.
    pub writable_root: bool,
    /// Whether somebody attends it at a terminal; `None`: nobody does.
    pub terminal: Option<bool>,
}

/// The engine's description of a task's container.
pub fn body(task: &Task, facts: &Facts, parts: Parts<'_>) -> ContainerCreateBody {
    let (uid, gid) = parts.owner;
    let limits = &task.limits;
    let memory = Some(clamp(limits.memory));
    let stdin = task.result_channel || parts.terminal.is_some();
    let host = HostConfig {
        network_mode: Some(network(task.network).to_owned()),
        memory,
        // No swap beside it: an engine's own default is as much again.
        memory_swap: memory,
        // The init process counts among them.
        pids_limit: Some(clamp(limits.pids).saturating_add(1)),
        ulimits: Some(ulimits(limits, parts.command.by_script)),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_rootfs: Some(!parts.writable_root),
        masked_paths: Some(MASKED.map(str::to_owned).to_vec()),
        readonly_paths: Some(READ_ONLY.map(str::to_owned).to_vec()),
        shm_size: Some(clamp(limits.scratch).max(1 << 20)),
        ipc_mode: Some("private".to_owned()),
        init: Some(facts.has_init),
        // A log file would be as large as the output, and rotating it loses the beginning. We are attached.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        // So that the command dies before us when the machine runs out of memory.
        oom_score_adj: Some(800),
        mounts: Some(parts.mounts),
        tmpfs: Some(parts.tmpfs),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        hostname: (task.network == Network::None).then(|| HOSTNAME.to_owned()),
        user: Some(format!("{uid}:{gid}")),
        attach_stdin: Some(stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(stdin),
        stdin_once: Some(stdin),
        tty: parts.terminal,
        env: Some(parts.command.variables),
        // The image's entry point has no part in it.
        entrypoint: Some(parts.command.argv),
        cmd: Some(Vec::new()),
        image: Some(parts.image.to_owned()),
        working_dir: Some(task.cwd.to_string_lossy().into_owned()),
        labels: Some(parts.labels),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

fn network(network: Network) -> &'static str {
    match network {
        Network::None => "none",
        Network::Host => "host",
    }
}

fn ulimits(limits: &Limits, by_script: bool) -> Vec<ResourcesUlimits> {
    let limit = |name: &str, soft: u64, hard: u64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(clamp(soft)),
        hard: Some(clamp(hard)),
    };
    let mut all = vec![
        // One byte and not none: the kernel hands the dump of a crashed process to a program of the host's, where one is
        // set, whatever the limit is, unless it is exactly this.
        limit("core", 1, 1),
        limit("fsize", limits.file_size, limits.file_size),
    ];
    if !by_script {
        // An engine cannot raise what it was started with itself, and rather starts nothing: this is what any has.
        all.push(limit("nofile", OPEN_FILES.0, OPEN_FILES.0));
    }
    if let Some(cpu) = limits.cpu {
        // The soft limit's signal can be caught; a second later comes the one that cannot.
        let seconds = cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0);
        all.push(limit("cpu", seconds, seconds.saturating_add(1)));
    }
    all
}

/// A number as engines take it.
fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sandbox::Root;

    fn made(network: Network, cpu: Option<Duration>) -> ContainerCreateBody {
        let task = Task {
            argv: vec!["x".to_owned()],
            cwd: "/workspace".into(),
            variables: Default::default(),
            root: Root::Host,
            mounts: Vec::new(),
            limits: Limits { cpu, memory: 1 << 20, pids: 7, ..Limits::default() },
            network,
            result_channel: false,
        };
        let version = serde_json::from_str("{}").unwrap();
        let facts = Facts::of(&version, &serde_json::from_str("{}").unwrap(), "1.41".to_owned());
        let command =
            Command { argv: task.argv.clone(), variables: vec!["A=b".to_owned()], by_script: false, says: false };
        let parts = Parts {
            image: "sha256:0",
            command,
            owner: (60977, 60977),
            labels: HashMap::new(),
            mounts: Vec::new(),
            tmpfs: HashMap::new(),
            writable_root: false,
            terminal: None,
        };
        body(&task, &facts, parts)
    }

    #[test]
    fn a_container_has_no_rights_and_every_limit() {
        let body = made(Network::None, Some(Duration::from_millis(1500)));
        let host = body.host_config.unwrap();
        assert_eq!((host.memory, host.memory_swap, host.pids_limit), (Some(1 << 20), Some(1 << 20), Some(8)));
        assert_eq!((host.network_mode.as_deref(), host.readonly_rootfs), (Some("none"), Some(true)));
        assert_eq!(
            (host.cap_drop.unwrap().join(","), host.security_opt.unwrap().join(",")),
            ("ALL".into(), "no-new-privileges".into())
        );
        assert_eq!((host.privileged, host.cap_add, host.devices, host.binds), (None, None, None, None));
        let ulimits = host.ulimits.unwrap();
        let files = ulimits.iter().find(|one| one.name.as_deref() == Some("nofile")).unwrap();
        assert_eq!((files.soft, files.hard), (Some(4096), Some(4096)));
        let cpu = ulimits.into_iter().find(|one| one.name.as_deref() == Some("cpu")).unwrap();
        assert_eq!((cpu.soft, cpu.hard), (Some(2), Some(3)));
        assert_eq!(body.user.as_deref(), Some("60977:60977"));
        assert_eq!((body.entrypoint, body.cmd), (Some(vec!["x".to_owned()]), Some(Vec::new())));
        assert_eq!((body.open_stdin, body.hostname.as_deref()), (Some(false), Some("redgreen")));
    }

    #[test]
    fn a_fetch_has_the_hosts_network() {
        let body = made(Network::Host, None);
        assert_eq!(body.host_config.unwrap().network_mode.as_deref(), Some("host"));
        assert_eq!(body.hostname, None);
    }
}
