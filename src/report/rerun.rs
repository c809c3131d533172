//! What `rerun` prints: a task as a person can read and repeat it.

use crate::sandbox::{Limits, Mount, Network, Task};
use crate::stage::score::shell_line;

/// A task: the command as a line of shell, then mounts and limits.
pub fn task(task: &Task) -> String {
    let mut words = vec!["env".to_owned(), "-i".to_owned()];
    words.extend(task.variables.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(task.argv.iter().cloned());
    let cwd = task.cwd.display().to_string();
    let mut out = format!("  {} && {}\n", shell_line(&["cd".to_owned(), cwd]), shell_line(&words));
    out.push_str("  mounts, in this order:\n");
    for mount in &task.mounts {
        out.push_str(&format!("    {}\n", self::mount(mount)));
    }
    let network = match task.network {
        Network::None => "no network",
        Network::Host => "the host's network",
    };
    out.push_str(&format!("  limits: {}; {network}\n", limits(&task.limits)));
    out
}

fn mount(mount: &Mount) -> String {
    match mount {
        Mount::ReadOnly { source, target } => format!("{}: read-only {}", target.display(), source.display()),
        Mount::ReadWrite { source, target } => format!("{}: read and write {}", target.display(), source.display()),
        Mount::Overlay { lowers, target, upper, remove } => {
            let lowers = lowers.iter().map(|l| l.display().to_string()).collect::<Vec<_>>().join(":");
            let upper = upper.as_ref().map_or("memory".to_owned(), |upper| upper.display().to_string());
            let mut out = format!("{}: copy-on-write over {lowers}, changes go to {upper}", target.display());
            if !remove.is_empty() {
                let removed = remove.iter().map(|r| r.display().to_string()).collect::<Vec<_>>().join(", ");
                out.push_str(&format!(", removed: {removed}"));
            }
            out
        }
    }
}

fn limits(limits: &Limits) -> String {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let mut out = format!("{} s", limits.wall.as_secs_f64());
    if let Some(cpu) = limits.cpu {
        out.push_str(&format!(", {} s of CPU time", cpu.as_secs_f64()));
    }
    out.push_str(&format!(
        ", memory {}, {} processes, files of {}, output {}, temporary files {}",
        mib(limits.memory),
        limits.pids,
        mib(limits.file_size),
        mib(limits.output),
        mib(limits.scratch)
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_task_is_a_line_of_shell_with_its_mounts() {
        let text = task(&Task {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), "echo \"$A\"".to_owned()],
            cwd: "/work space".into(),
            variables: BTreeMap::from([("A".to_owned(), "it's".to_owned())]),
            root: crate::sandbox::Root::Host,
            mounts: vec![
                Mount::Overlay {
                    lowers: vec!["/a".into(), "/b".into()],
                    target: "/workspace".into(),
                    upper: None,
                    remove: vec!["x".into()],
                },
                Mount::ReadOnly { source: "/s".into(), target: "/oracle/t.sh".into() },
            ],
            limits: Limits::default(),
            network: Network::None,
            result_channel: true,
        });
        let expected = "  cd '/work space' && env -i 'A=it'\\''s' /bin/sh -c 'echo \"$A\"'
  mounts, in this order:
    /workspace: copy-on-write over /a:/b, changes go to memory, removed: x
    /oracle/t.sh: read-only /s
  limits: 120 s, memory 2048 MiB, 512 processes, files of 1024 MiB, output 4 MiB, temporary files 1024 MiB; no network
";
        assert_eq!(text, expected);
    }
}
