//! Running one step in the sandbox and saying what went wrong.

use std::path::Path;
use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::definition::Definition;
use super::error::{EnvironmentError, Phase, StepEnd};
use super::failure::{is_of_the_network, says};
use super::pulse::{Pulse, Tail};
use super::trouble::FailureKind;
use crate::model::InfraReason;
use crate::sandbox::{End, Exit, Network, RunFuture, Sandbox, Task};

/// How many of a failed step's last lines an error shows.
const TAIL_LINES: usize = 12;

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
    /// Whether a disk is full.
    pub is_full: fn(&Path) -> bool,
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
        // Whatever it says itself: programs go on where a file could not be written, and fail in ways of their own.
        let disk_full = |log| EnvironmentError::DiskFull {
            phase: self.deadline.phase(),
            step: step.to_owned(),
            cache: self.watch.cache.to_owned(),
            log,
        };
        match exit {
            Ok(exit) if exit.cancelled => Err(EnvironmentError::Cancelled),
            Ok(exit) if was_full => Err(disk_full(log_of(&exit))),
            Ok(exit) => Ok(exit),
            Err(error) if was_full => Err(disk_full(error.to_string().into_bytes())),
            Err(source) => Err(EnvironmentError::Sandbox { step: step.to_owned(), source }),
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
        (self.watch.is_full)(self.watch.cache)
    }
}

/// Whether a step of a package client, which was allowed to fail, says that it did so for want of room.
pub(super) fn says_disk_full(definition: &Definition, exit: &Exit) -> bool {
    says(definition, FailureKind::Disk, &String::from_utf8_lossy(&log_of(exit)))
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
    definition: &Definition,
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
        reason: reason(definition, &text, task.network, exit.timed_out),
        log: [earlier, &own].concat(),
    }
}

/// What kind of infra a failed step is. Only the client of a package index is believed what it says of the network and of
/// disks: without network a step runs code of others, which can write what it likes.
fn reason(definition: &Definition, text: &str, network: Network, timed_out: bool) -> InfraReason {
    let is_client = network == Network::Host;
    if is_client && says(definition, FailureKind::Disk, text) {
        InfraReason::Disk
    } else if timed_out {
        InfraReason::Deadline
    } else if is_client && is_of_the_network(definition, text) {
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
    use crate::environment::recorder::{Recorder, broken, exit};
    use crate::environment::{Failure, Stage};

    fn task(network: Network) -> Task {
        Task {
            argv: vec!["x".to_owned()],
            cwd: "/".into(),
            variables: std::collections::BTreeMap::new(),
            root: crate::sandbox::Root::Host,
            mounts: Vec::new(),
            limits: crate::sandbox::Limits::default(),
            network,
            result_channel: false,
        }
    }

    /// Runs one step on a disk that is full, or not.
    async fn ran(
        answer: fn(&Task) -> Result<Exit, crate::sandbox::SandboxError>,
        is_full: fn(&Path) -> bool,
    ) -> Result<Exit, EnvironmentError> {
        let (sandbox, cancel) = (Recorder::answering(answer), tokio_util::sync::CancellationToken::new());
        let deadline = Deadline::new(Phase::Build, Duration::from_secs(60), &cancel);
        let watch = Watch { every: Duration::from_secs(30), progress: &|_| {}, cache: Path::new("/cache"), is_full };
        Runner { sandbox: &*sandbox, deadline: &deadline, watch }.run("install", &task(Network::None)).await
    }

    #[tokio::test]
    async fn the_look_at_the_disk_decides_and_not_what_a_step_says() {
        let full: fn(&Path) -> bool = |_| true;
        let roomy: fn(&Path) -> bool = |_| false;
        for answer in [
            (|_| Ok(exit(0, "all is well"))) as fn(&Task) -> Result<Exit, crate::sandbox::SandboxError>,
            |_| Ok(exit(1, "error: something else")),
            broken,
        ] {
            let error = ran(answer, full).await.unwrap_err();
            let failure = Failure::of_error(&error, None);
            assert_eq!(
                (failure.kind, failure.stage, failure.reason),
                (FailureKind::Disk, Stage::Build, InfraReason::Disk)
            );
            assert_eq!(failure.step, "install");
        }
        assert!(ran(|_| Ok(exit(1, "No space left on device")), roomy).await.is_ok());
        assert!(matches!(ran(broken, roomy).await, Err(EnvironmentError::Sandbox { .. })));
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
