//! Running one step in the sandbox and saying what went wrong.

use std::path::Path;
use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::error::{EnvironmentError, Phase, StepEnd};
use super::pulse::{Pulse, Tail};
use crate::model::InfraReason;
use crate::sandbox::{End, Exit, Network, RunFuture, Sandbox, Task};

/// How many of a failed step's last lines an error shows.
const TAIL_LINES: usize = 12;

/// Signs of a network that did not answer, as package clients and resolvers write them (in lower case).
pub(super) const NETWORK_SIGNS: [&str; 26] = [
    "temporary failure in name resolution",
    "name or service not known",
    "could not resolve",
    "couldn't resolve",
    "failed to resolve",
    "dns error",
    "connection refused",
    "connection reset",
    "connection aborted",
    "network is unreachable",
    "newconnectionerror",
    "connecttimeouterror",
    "readtimeouterror",
    "remotedisconnected",
    "proxyerror",
    "sslerror",
    "certificate_verify_failed",
    "self_signed_cert",
    "unable_to_get_issuer_cert",
    "enotfound",
    "eai_again",
    "econnrefused",
    "econnreset",
    "etimedout",
    "spurious network error",
    "502 bad gateway",
];

const DISK_SIGNS: [&str; 3] = ["no space left on device", "enospc", "disk quota exceeded"];

/// With less than this on the disk of the cache a step is not believed, whatever it says itself: programs go on where a
/// file could not be written, or forget to look.
const NOTHING_LEFT: u64 = 1 << 20;

/// The sandbox and the phase's deadline.
#[derive(Clone, Copy)]
pub(super) struct Runner<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub deadline: &'a Deadline<'a>,
    /// Who watches the steps.
    pub watch: Watch<'a>,
}

/// What is looked at and said while a step runs.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    /// How often a running step gives a sign of life.
    pub every: Duration,
    /// Who is told.
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
    /// Where layers lie.
    pub cache: &'a Path,
}

impl Runner<'_> {
    /// Runs a task to its end, whatever its exit code.
    pub async fn run(&self, step: &str, task: &Task) -> Result<Exit, EnvironmentError> {
        let cancel = &self.deadline.token;
        if cancel.is_cancelled() {
            return Err(EnvironmentError::Cancelled);
        }
        let left = self.deadline.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.deadline.error());
        }
        let mut task = task.clone();
        task.limits.wall = task.limits.wall.min(left);
        let tail = Tail::default();
        let exit = self.sandbox.run_heard(&task, tail.listener(), cancel);
        let (exit, was_full) = self.watched(step, exit, &tail).await;
        let exit = exit.map_err(|source| EnvironmentError::Sandbox { step: step.to_owned(), source })?;
        match was_full {
            _ if exit.cancelled => Err(EnvironmentError::Cancelled),
            // A step that failed says so itself, with what it was at.
            true if succeeded(&exit) => Err(EnvironmentError::DiskFull {
                step: step.to_owned(),
                cache: self.watch.cache.to_owned(),
                log: log_of(&exit),
            }),
            _ => Ok(exit),
        }
    }

    /// Waits for a step's end with a sign of life now and then. Whether the disk was full at any look.
    async fn watched(
        &self,
        step: &str,
        exit: RunFuture<'_>,
        tail: &Tail,
    ) -> (Result<Exit, crate::sandbox::SandboxError>, bool) {
        const LOOK: Duration = Duration::from_millis(200);
        let (began, mut said) = (Instant::now(), Instant::now());
        let mut was_full = false;
        tokio::pin!(exit);
        let exit = loop {
            tokio::select! {
                biased;
                exit = &mut exit => break exit,
                () = tokio::time::sleep(LOOK.min(self.watch.every)) => {}
            }
            was_full |= self.is_full();
            if said.elapsed() >= self.watch.every {
                said = Instant::now();
                let left = self.deadline.until.saturating_duration_since(said);
                let pulse = Pulse::new(self.deadline.phase(), step, began.elapsed(), left, tail);
                (self.watch.progress)(&pulse.to_string());
            }
        };
        (exit, was_full || self.is_full())
    }

    fn is_full(&self) -> bool {
        free(self.watch.cache).is_some_and(|free| free < NOTHING_LEFT)
    }
}

/// Free bytes where a folder lies; `None` when the system does not say.
fn free(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether a step that was allowed to fail did so for want of room.
pub(super) fn says_disk_full(exit: &Exit) -> bool {
    let text = String::from_utf8_lossy(&log_of(exit)).to_lowercase();
    DISK_SIGNS.iter().any(|sign| text.contains(sign))
}

/// Whether a task succeeded.
pub(super) fn succeeded(exit: &Exit) -> bool {
    exit.end == End::Exited(0) && !exit.timed_out && !exit.out_of_memory
}

/// What a task wrote, standard output first.
pub(super) fn log_of(exit: &Exit) -> Vec<u8> {
    let mut log = exit.stdout.bytes.clone();
    if !log.is_empty() && !log.ends_with(b"\n") && !exit.stderr.bytes.is_empty() {
        log.push(b'\n');
    }
    log.extend_from_slice(&exit.stderr.bytes);
    let dropped = exit.stdout.dropped + exit.stderr.dropped;
    if dropped > 0 {
        log.extend_from_slice(format!("\n({dropped} bytes more were not kept)\n").as_bytes());
    }
    log
}

/// The error of a step that did not succeed. `earlier` is the log before it.
pub(super) fn failure(
    phase: Phase,
    step: &str,
    command: &[String],
    task: &Task,
    exit: &Exit,
    earlier: &[u8],
) -> EnvironmentError {
    let own = log_of(exit);
    let text = String::from_utf8_lossy(&own);
    let end = match exit.end {
        _ if exit.timed_out => StepEnd::TimedOut(task.limits.wall.max(Duration::from_secs(1)).as_secs()),
        _ if exit.out_of_memory => StepEnd::OutOfMemory,
        End::Exited(code) => StepEnd::Exited(code),
        End::Signaled(signal) => StepEnd::Signaled(signal),
    };
    EnvironmentError::Step {
        phase,
        step: step.to_owned(),
        command: command.iter().map(|argument| shortened(argument)).collect(),
        end,
        tail: tail(&text),
        reason: reason(&text, task.network, exit.timed_out),
        log: [earlier, &own].concat(),
    }
}

fn reason(text: &str, network: Network, timed_out: bool) -> InfraReason {
    let text = text.to_lowercase();
    let has = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if has(&DISK_SIGNS) {
        InfraReason::Disk
    } else if timed_out {
        InfraReason::Deadline
    } else if network == Network::Host && has(&NETWORK_SIGNS) {
        InfraReason::Network
    } else {
        InfraReason::Environment
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// An argument for people: scripts are cut after their first words.
fn shortened(argument: &str) -> String {
    const MOST: usize = 60;
    let line = argument.trim().lines().next().unwrap_or_default();
    if line.len() == argument.trim().len() && line.chars().count() <= MOST {
        return argument.to_owned();
    }
    format!("{}…", line.chars().take(MOST).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_pin_is_the_environments_fault_and_a_dead_index_the_networks() {
        let pin = "ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0)\n\
                   ERROR: No matching distribution found for six==99";
        let dead = "WARNING: Retrying after connection broken by 'NewConnectionError(...: Failed to establish a new \
                    connection: [Errno -3] Temporary failure in name resolution')'\nERROR: No matching distribution found";
        assert_eq!(reason(pin, Network::Host, false), InfraReason::Environment);
        assert_eq!(reason(dead, Network::Host, false), InfraReason::Network);
        assert_eq!(reason("", Network::Host, true), InfraReason::Deadline);
        assert_eq!(reason("connection refused", Network::None, false), InfraReason::Environment);
        assert_eq!(reason("OSError: [Errno 28] No space left on device", Network::None, false), InfraReason::Disk);
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        let text: String = (0..100).map(|i| format!("line {i}\n\n")).collect();
        let shown = tail(&text);
        assert!(shown.starts_with("line 88\n") && shown.ends_with("line 99"), "{shown}");
        assert_eq!(shortened("\nimport x\nprint(x)\n"), "import x…");
        assert_eq!(shortened("--flag=1"), "--flag=1");
    }
}
