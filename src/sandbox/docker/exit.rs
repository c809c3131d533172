//! From a container's end to the task's.

use bollard::models::ContainerState;

use super::counters::Counters;
use crate::sandbox::{End, Limits};

/// Why a container was killed by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Wall clock.
    Deadline,
    /// The caller's token.
    Cancelled,
    /// More on disk than the limit.
    OverDisk,
    /// The kernel killed something in it for want of memory, and the rest goes, too.
    OutOfMemory,
}

/// How a command ended, as far as the engine and the cgroup tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// The main process's end.
    pub end: End,
    /// Wall-clock or CPU limit.
    pub timed_out: bool,
    /// Memory limit.
    pub out_of_memory: bool,
    /// The kernel killed in the container for want of memory, and not for the container's own limit.
    pub by_the_machine: bool,
    /// The caller's token.
    pub cancelled: bool,
    /// Wall-clock seconds by the engine's own clock; `None` where it did not say.
    pub seconds: Option<f64>,
}

/// Reads a container's last state and its exit code.
pub fn ending(state: &ContainerState, code: i64, cause: Option<Cause>, limits: &Limits, counters: &Counters) -> Ending {
    let code = i32::try_from(code).unwrap_or(-1);
    let by_the_machine = counters.is_machines();
    // The engine's word is about the whole container; the cgroup's counter about every process in it. Neither says for
    // whose want a process was killed. Where the cgroup was gone before anyone looked, it counts as the container's own:
    // a limit that is reached in no time must not look like trouble of the machine's.
    let out_of_memory = !by_the_machine && (state.oom_killed.unwrap_or(false) || counters.oom_kills > 0);
    let end = if cause.is_some() { End::Signaled(libc::SIGKILL) } else { end(code) };
    let cpu_limit = limits.cpu.is_some_and(|limit| match end {
        End::Signaled(libc::SIGXCPU) => true,
        // The hard limit's signal, which has other senders: nobody else was seen to send it.
        End::Signaled(libc::SIGKILL) => {
            cause.is_none()
                && !out_of_memory
                && !by_the_machine
                && seconds(state).is_none_or(|wall| wall >= limit.as_secs_f64())
        }
        _ => false,
    });
    Ending {
        end,
        timed_out: cpu_limit || cause == Some(Cause::Deadline),
        out_of_memory,
        by_the_machine,
        cancelled: cause == Some(Cause::Cancelled),
        seconds: seconds(state),
    }
}

/// An engine tells signals by 128 and their number, as shells do; a code that means no deadly signal is a code.
fn end(code: i32) -> End {
    const HARMLESS: [i32; 6] =
        [libc::SIGCHLD, libc::SIGCONT, libc::SIGSTOP, libc::SIGTSTP, libc::SIGURG, libc::SIGWINCH];
    match code - 128 {
        signal @ 1..=31 if !HARMLESS.contains(&signal) => End::Signaled(signal),
        _ => End::Exited(code),
    }
}

/// Seconds between the engine's two times.
fn seconds(state: &ContainerState) -> Option<f64> {
    let time = |text: &Option<String>| text.as_deref()?.parse::<jiff::Timestamp>().ok();
    let (start, end) = (time(&state.started_at)?, time(&state.finished_at)?);
    let took = end.duration_since(start).as_secs_f64();
    (start.as_second() > 0 && took >= 0.0).then_some(took)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(code: i64, oom: bool) -> ContainerState {
        ContainerState {
            exit_code: Some(code),
            oom_killed: Some(oom),
            started_at: Some("2026-11-30T02:52:48.096848184Z".to_owned()),
            finished_at: Some("2026-11-30T02:52:50.596848184Z".to_owned()),
            ..ContainerState::default()
        }
    }

    fn read(state: &ContainerState, cause: Option<Cause>, cpu: Option<u64>) -> Ending {
        let limits = Limits { cpu: cpu.map(Duration::from_secs), ..Limits::default() };
        ending(state, state.exit_code.unwrap(), cause, &limits, &Counters::default())
    }

    #[test]
    fn codes_and_signals_are_told_apart() {
        for (code, wanted) in [
            (0, End::Exited(0)),
            (1, End::Exited(1)),
            (127, End::Exited(127)),
            (128, End::Exited(128)),
            (137, End::Signaled(9)),
            (139, End::Signaled(11)),
            (134, End::Signaled(6)),
            (145, End::Exited(145)),
            (255, End::Exited(255)),
        ] {
            assert_eq!(read(&state(code, false), None, None).end, wanted, "{code}");
        }
    }

    #[test]
    fn memory_time_and_cancellation_have_their_own_words() {
        let oom = read(&state(3, true), None, None);
        assert!(oom.out_of_memory && oom.end == End::Exited(3) && !oom.timed_out);
        let late = read(&state(137, false), Some(Cause::Deadline), None);
        assert!(late.timed_out && !late.cancelled && late.end == End::Signaled(9));
        assert!(read(&state(137, false), Some(Cause::Cancelled), None).cancelled);
        assert!(read(&state(152, false), None, Some(1)).timed_out);
        assert!(read(&state(137, false), None, Some(2)).timed_out);
        assert!(!read(&state(137, false), None, Some(60)).timed_out);
        assert!(!read(&state(137, true), None, Some(1)).timed_out);
        let counted = |own_limit, engine| {
            let counters = Counters { oom_kills: 1, own_limit, ..Counters::default() };
            let read = ending(&state(137, engine), 137, Some(Cause::OutOfMemory), &Limits::default(), &counters);
            (read.out_of_memory, read.by_the_machine)
        };
        for engine in [false, true] {
            assert_eq!(counted(Some(true), engine), (true, false));
            assert_eq!(counted(Some(false), engine), (false, true));
            // Nobody could look any more.
            assert_eq!(counted(None, engine), (true, false));
        }
    }

    #[test]
    fn seconds_are_the_engines() {
        assert_eq!(read(&state(0, false), None, None).seconds, Some(2.5));
        let never = ContainerState { started_at: Some("0001-01-01T00:00:00Z".to_owned()), ..state(0, false) };
        assert_eq!(read(&never, None, None).seconds, None);
    }
}
