//! The supervisor: outside of the sandbox, between redgreen and PID 1.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
};

use super::super::cgroup::{Cgroup, KEEP_PROCESSES};
use super::super::cleanup;
use super::super::failure::{Failure, Step};
use super::super::protocol::{Ended, InitMessage, Job, Privilege, Report};
use super::disk::Disk;
use super::ids::{map_ids, write_id_file};
use super::init::Init;
use super::sys;
use crate::fault;
use crate::sandbox::{End, Network};

/// How often the cgroup's counters are read while a command runs.
const LOOK: Duration = Duration::from_millis(50);
/// How long PID 1 may take to kill its tree before it is killed itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long setting up may take; a copied workspace needs some of it.
const SET_UP: Duration = Duration::from_secs(120);

/// Runs one job from the control socket on descriptor 0.
pub fn main() -> ExitCode {
    // Rust's own handles keep using 0; ours moves away from it, and close-on-exec.
    let Ok(control) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10) else { return ExitCode::from(2) };
    let mut control = UnixStream::from(control);
    let Ok(null) = rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return ExitCode::from(2);
    };
    if rustix::stdio::dup2_stdin(&null).is_err() {
        return ExitCode::from(2);
    }
    let Ok((job, result)) = receive(&mut control) else { return ExitCode::from(2) };
    fault::point("helper.job.received");
    let report = run(&job, &control, result, &null).unwrap_or_else(Report::from);
    cleanup::remove_work_dirs(&job);
    fault::point("helper.workdirs.removed");
    let sent = serde_json::to_vec(&report).ok().and_then(|text| control.write_all(&text).ok());
    fault::point("helper.report.sent");
    if sent.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads the job, and the result channel's descriptor that comes with it.
fn receive(control: &mut UnixStream) -> std::io::Result<(Job, Option<OwnedFd>)> {
    let mut length = [0; 8];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        &*control,
        &mut [std::io::IoSliceMut::new(&mut length)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    if message.bytes != length.len() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let mut result = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            result = descriptors.next();
        }
    }
    let length = usize::try_from(u64::from_le_bytes(length)).map_err(std::io::Error::other)?;
    let mut text = vec![0; length];
    control.read_exact(&mut text)?;
    let (job, faults) = serde_json::from_slice(&text)?;
    fault::arm_helper(faults);
    Ok((job, result))
}

fn run(job: &Job, control: &UnixStream, result: Option<OwnedFd>, null: &OwnedFd) -> Result<Report, Failure> {
    let group = match &job.cgroup {
        None => None,
        Some(plan) => Some(Cgroup::create(plan, &job.name, &job.task.limits).step(|| "make the cgroup".to_owned())?),
    };
    let outcome = start(job, control, result, null, group.as_ref()).map(|mut supervisor| supervisor.watch());
    if let Some(group) = &group {
        group.remove();
        fault::point("helper.cgroup.removed");
    }
    outcome?
}

/// Makes PID 1 in its namespaces and lets it go.
fn start<'a>(
    job: &'a Job,
    control: &'a UnixStream,
    result: Option<OwnedFd>,
    null: &OwnedFd,
    group: Option<&'a Cgroup>,
) -> Result<Supervisor<'a>, Failure> {
    let join = group.map(Cgroup::join_files).transpose().step(|| "open the cgroup".to_owned())?.unwrap_or_default();
    let (sync, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .step(|| "make a socket pair".to_owned())?;
    let init = sys::clone(namespaces(job)).step(|| "make the namespaces".to_owned())?;
    if init == 0 {
        // The copies of the parent's descriptors: the control socket's would keep the lifeline from breaking.
        // SAFETY: this process never touches the parent's handle again; `main` does not return here.
        unsafe { libc::close(std::os::fd::AsRawFd::as_raw_fd(control)) };
        drop(sync);
        Init { job, sync: theirs, result, join }.main();
    }
    fault::point("helper.init.cloned");
    drop((theirs, result, join));
    let disk = Disk::new(&job.task);
    let supervisor =
        Supervisor { job, control, sync, init, group, started: None, workspace: String::new(), kill: None, disk };
    let released = supervisor.release(null);
    if released.is_err() {
        supervisor.bury();
    }
    released.map(|()| supervisor)
}

/// The namespaces of a job, as flags of `clone(2)`.
fn namespaces(job: &Job) -> i32 {
    let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    if job.privilege != Privilege::Bare {
        flags |= libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        if job.task.network == Network::None {
            flags |= libc::CLONE_NEWNET;
        }
    }
    if job.privilege == Privilege::User {
        flags |= libc::CLONE_NEWUSER;
    }
    flags
}

/// Why the tree was told to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Deadline,
    Cancelled,
    OutOfMemory,
    OverDisk,
}

struct Supervisor<'a> {
    job: &'a Job,
    control: &'a UnixStream,
    sync: OwnedFd,
    init: i32,
    group: Option<&'a Cgroup>,
    started: Option<Instant>,
    workspace: String,
    kill: Option<(Cause, Instant)>,
    disk: Disk,
}

impl Supervisor<'_> {
    fn release(&self, null: &OwnedFd) -> Result<(), Failure> {
        // Only the sandbox holds the pipes from here on, so that their end is its end.
        rustix::stdio::dup2_stdout(null).step(|| "close the output pipes".to_owned())?;
        rustix::stdio::dup2_stderr(null).step(|| "close the output pipes".to_owned())?;
        if self.job.privilege == Privilege::User {
            // The kernel asks an unprivileged user to give up changing groups first.
            write_id_file(&format!("/proc/{}/setgroups", self.init), "deny")?;
            map_ids(self.init, self.job.owner)?;
        }
        rustix::net::send(&self.sync, b"x", SendFlags::NOSIGNAL).step(|| "release the sandbox".to_owned())?;
        fault::point("helper.init.released");
        Ok(())
    }

    /// Watches until nothing is left of the sandbox.
    fn watch(&mut self) -> Result<Report, Failure> {
        let begin = Instant::now();
        let mut told = None;
        while told.is_none() {
            let end = self.deadline(begin);
            match self.poll(end)? {
                Event::Message(message) => match message {
                    InitMessage::Started { workspace } => {
                        self.started = Some(Instant::now());
                        self.workspace = workspace;
                        fault::point("helper.command.started");
                    }
                    other => told = Some(other),
                },
                Event::Gone => break,
                Event::LifelineBroken => self.tell_to_die(Cause::Cancelled),
                Event::Time => {}
            }
            if Instant::now() >= end {
                if self.started.is_none() && self.kill.is_none() {
                    self.bury();
                    return Err(Failure { step: "set the sandbox up in time".to_owned(), errno: libc::ETIMEDOUT });
                }
                self.tell_to_die(Cause::Deadline);
            }
            if self.group.is_some_and(|group| group.oom_kills() > 0) {
                self.tell_to_die(Cause::OutOfMemory);
            }
            if self.disk.is_over() {
                self.tell_to_die(Cause::OverDisk);
            }
        }
        let seconds = self.started.map_or(0.0, |start| start.elapsed().as_secs_f64());
        let cpu = self.bury();
        fault::point("helper.tree.buried");
        self.report(told, seconds, cpu)
    }

    fn deadline(&self, begin: Instant) -> Instant {
        let far = Duration::from_secs(366 * 24 * 3600);
        match (self.kill, self.started) {
            (Some((_, since)), _) => since + GRACE,
            (None, Some(start)) => start + self.job.task.limits.wall.min(far),
            (None, None) => begin + SET_UP,
        }
    }

    /// Waits for something to happen, at most until `end` or the next look at the cgroup.
    fn poll(&self, end: Instant) -> Result<Event, Failure> {
        let mut left = end.saturating_duration_since(Instant::now());
        if self.group.is_some() || self.disk.watches() {
            left = left.min(LOOK);
        }
        let mut polled = vec![PollFd::new(&self.sync, PollFlags::IN)];
        // Once told, a broken lifeline has nothing new to say.
        if self.kill.is_none() {
            polled.push(PollFd::new(self.control, PollFlags::IN));
        }
        let time = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match rustix::event::poll(&mut polled, Some(&time)) {
            Err(rustix::io::Errno::INTR) => return Ok(Event::Time),
            other => other.step(|| "watch the sandbox".to_owned())?,
        };
        if !polled[0].revents().is_empty() {
            let mut text = vec![0; 64 * 1024];
            let length = match rustix::net::recv(&self.sync, &mut text[..], RecvFlags::empty()) {
                Ok((_, length)) => length,
                Err(_) => 0,
            };
            return Ok(serde_json::from_slice(&text[..length]).map_or(Event::Gone, Event::Message));
        }
        Ok(if polled.get(1).is_some_and(|fd| !fd.revents().is_empty()) { Event::LifelineBroken } else { Event::Time })
    }

    /// Tells PID 1 to kill its tree; the second time kills PID 1, and thereby everything.
    fn tell_to_die(&mut self, cause: Cause) {
        match self.kill {
            None => {
                self.kill = Some((cause, Instant::now()));
                sys::kill(self.init, libc::SIGTERM);
            }
            Some((first, since)) if since.elapsed() >= GRACE => {
                sys::kill(self.init, libc::SIGKILL);
                if let Some(group) = self.group {
                    group.kill();
                }
                // Gone within the next grace, or stuck in the kernel, where nobody can help.
                self.kill = Some((first, Instant::now()));
            }
            Some(_) => {}
        }
    }

    /// Kills and reaps PID 1. The CPU seconds of all that was waited for.
    fn bury(&self) -> f64 {
        sys::kill(self.init, libc::SIGKILL);
        sys::wait(self.init, true).ok().flatten().map_or(0.0, |reaped| reaped.cpu_seconds)
    }

    fn report(&self, told: Option<InitMessage>, seconds: f64, cpu: f64) -> Result<Report, Failure> {
        let group_killed = self.group.is_some_and(|group| group.oom_kills() > 0);
        let cause = self.kill.map(|(cause, _)| cause);
        if group_killed && self.group.is_some_and(|group| group.own_limit_was_reached() == Some(false)) {
            return Err(Failure { step: KEEP_PROCESSES.to_owned(), errno: libc::ENOMEM });
        }
        let (end, cpu_limit, watcher_killed, cpu_seconds, peak) = match told {
            Some(InitMessage::Failed(report)) => return Ok(report),
            Some(InitMessage::Ended { end, cpu_limit, out_of_memory, cpu_seconds, peak_memory }) => {
                (end, cpu_limit, out_of_memory, cpu_seconds, peak_memory)
            }
            // PID 1 died: by our hand, or by the kernel's for want of memory.
            _ if cause.is_some() || (group_killed && self.started.is_some()) => {
                (End::Signaled(libc::SIGKILL), false, false, cpu, None)
            }
            _ if group_killed => {
                return Err(Failure { step: "start within the memory limit".to_owned(), errno: libc::ENOMEM });
            }
            _ => {
                return Err(Failure { step: "keep the sandbox's first process alive".to_owned(), errno: libc::ESRCH });
            }
        };
        // The last look is at what stays.
        let over_disk = cause == Some(Cause::OverDisk) || self.disk.measure();
        let end = if over_disk { End::Signaled(libc::SIGKILL) } else { end };
        let word = |is, yes: &str, no: &str| if is { yes.to_owned() } else { no.to_owned() };
        Ok(Report::Ended(Ended {
            end,
            timed_out: cpu_limit || cause == Some(Cause::Deadline),
            out_of_memory: watcher_killed || group_killed,
            cancelled: cause == Some(Cause::Cancelled),
            over_disk,
            seconds,
            cpu_seconds,
            peak_memory: self.group.map_or(peak, Cgroup::peak),
            memory: word(self.group.is_some(), "cgroup", "watcher"),
            pids: word(self.job.cgroup.as_ref().is_some_and(|plan| plan.limits_pids()), "cgroup", "rlimit"),
            workspace: self.workspace.clone(),
        }))
    }
}

enum Event {
    Message(InitMessage),
    Gone,
    LifelineBroken,
    Time,
}
