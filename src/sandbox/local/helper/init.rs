//! PID 1 of the sandbox: builds the root, starts the command, reaps.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use fs_err as fs;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{DumpableBehavior, Signal};

use super::super::failure::{Failure, Step};
use super::super::protocol::{InitMessage, Job, Privilege, Report};
use super::ids::map_ids;
use super::mounts;
use super::payload::Command;
use super::place;
use super::root::{self, Root};
use super::sys::{self, Arrived, SignalWait};
use super::system::System;
use super::watcher::{self, Watcher};
use crate::fault;
use crate::sandbox::{End, Network};

/// What PID 1 gets from the supervisor.
pub struct Init<'a> {
    /// The job.
    pub job: &'a Job,
    /// Messages to the supervisor; its first byte back is the permission to start.
    pub sync: OwnedFd,
    /// The command's end of the result channel.
    pub result: Option<OwnedFd>,
    /// Files of the cgroup to join through.
    pub join: Vec<fs::File>,
}

impl Init<'_> {
    /// Does everything, tells the supervisor, and ends.
    pub fn main(mut self) -> ! {
        let message = self.run().unwrap_or_else(InitMessage::Failed);
        self.send(&message);
        sys::exit(0)
    }

    fn send(&self, message: &InitMessage) {
        // A supervisor that is gone takes us with it.
        let text = serde_json::to_vec(message).unwrap_or_default();
        let _ = rustix::net::send(&self.sync, &text, SendFlags::NOSIGNAL);
    }

    fn run(&mut self) -> Result<InitMessage, Report> {
        let signals = SignalWait::new();
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .step(|| "tie the sandbox to its supervisor".to_owned())?;
        // If the supervisor died before that, nobody gives the permission.
        let mut permission = [0];
        match rustix::net::recv(&self.sync, &mut permission, RecvFlags::empty()) {
            Ok((_, 1)) => {}
            _ => sys::exit(1),
        }
        for mut file in self.join.drain(..) {
            file.write_all(b"0").step(|| "join the cgroup".to_owned())?;
        }
        if self.job.cgroup.is_some() {
            // The group's name would be on view; an older kernel shows it.
            let _ = sys::new_cgroup_namespace();
        }
        fault::point("init.cgroup.joined");
        let workspace = self.set_up()?;
        fault::point("init.root.ready");
        let command = Command::prepare(self.job)?;
        let main = self.start(&command)?;
        self.send(&InitMessage::Started { workspace: workspace.to_owned() });
        Ok(self.reap(&signals, main))
    }

    fn set_up(&self) -> Result<&'static str, Failure> {
        let job = self.job;
        let owner = (job.privilege != Privilege::User).then_some(job.owner);
        root::make_private()?;
        fault::point("init.mounts.private");
        let system = System::open(&job.task.root)?;
        let sources = mounts::open(job)?;
        fault::point("init.sources.opened");
        let root = Root::build(&system, job.task.limits.scratch, job.task.network, owner)?;
        let workspace = mounts::attach(&root, sources)?;
        root.enter()?;
        if job.privilege != Privilege::Bare {
            rustix::system::sethostname(b"redgreen").step(|| "set the host's name".to_owned())?;
            if job.task.network == Network::None {
                sys::loopback_up().step(|| "bring the loopback interface up".to_owned())?;
            }
        }
        // A program may open its own output again by name (`/dev/stderr`), which a foreign pipe would refuse.
        for pipe in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
            place::give(pipe, owner).step(|| "give the pipes to the command".to_owned())?;
        }
        Ok(workspace)
    }

    /// Forks the command and waits until it is one.
    fn start(&mut self, command: &Command<'_>) -> Result<i32, Report> {
        let (mut said, end) = std::io::pipe().step(|| "make a pipe".to_owned())?;
        // Away from the number that the result channel takes in the command's process: why a command did not start would
        // be lost there.
        let saying = rustix::io::fcntl_dupfd_cloexec(&end, OUT_OF_THE_WAY).step(|| "move a pipe".to_owned())?;
        let saying = std::fs::File::from(saying);
        drop(end);
        let (waiting, mut release) = std::io::pipe().step(|| "make a pipe".to_owned())?;
        let flags = if self.job.privilege == Privilege::Root { libc::CLONE_NEWUSER } else { 0 };
        let pid = sys::clone(flags).step(|| "fork in a new user namespace".to_owned())?;
        if pid == 0 {
            drop((said, release));
            self.payload(command, waiting, saying);
        }
        fault::point("init.command.cloned");
        drop((waiting, saying));
        // From here on nobody inside may look into this process or through its descriptors.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .step(|| "hide the sandbox's first process".to_owned())?;
        if self.job.privilege == Privilege::Root {
            map_ids(pid, self.job.owner)?;
        }
        release.write_all(b"x").step(|| "release the command".to_owned())?;
        fault::point("init.command.released");
        self.result = None;
        drop(release);
        let mut text = Vec::new();
        // Ends without a byte when exec closes the other side.
        said.read_to_end(&mut text).step(|| "wait for the command to start".to_owned())?;
        rustix::stdio::dup2_stdout(rustix::stdio::stdin()).step(|| "close the pipes".to_owned())?;
        rustix::stdio::dup2_stderr(rustix::stdio::stdin()).step(|| "close the pipes".to_owned())?;
        if text.is_empty() {
            // The other side closes, too, when its process is killed before it became the command: that says nothing of
            // the command.
            return if became_another_program(pid) {
                Ok(pid)
            } else {
                Err(Report::Setup {
                    step: "keep the command's process alive until it starts".to_owned(),
                    errno: libc::ESRCH,
                })
            };
        }
        let broken = |_| Report::Setup { step: "read why the command did not start".to_owned(), errno: libc::EIO };
        Err(serde_json::from_slice(&text).map_err(broken)?)
    }

    fn payload(&self, command: &Command<'_>, mut waiting: impl Read, mut saying: impl Write) -> ! {
        let mut permission = [0];
        if waiting.read_exact(&mut permission).is_err() {
            sys::exit(1);
        }
        fault::point("init.command.waits");
        let report = command.execute(self.result.as_ref().map(OwnedFd::as_fd));
        let _ = saying.write_all(&serde_json::to_vec(&report).unwrap_or_default());
        sys::exit(127)
    }

    /// Waits for the main process, then kills and reaps the rest.
    fn reap(&self, signals: &SignalWait, main: i32) -> InitMessage {
        let limits = &self.job.task.limits;
        let mut watcher =
            self.job.cgroup.is_none().then(|| Watcher::new(limits.memory, self.job.privilege != Privilege::Bare));
        let period = if watcher.is_some() { watcher::PERIOD } else { 1000 };
        let (mut total, mut killed, mut out_of_memory) = (0.0, false, false);
        let ended = 'wait: loop {
            loop {
                match sys::wait(-1, false) {
                    Ok(Some(reaped)) => {
                        total += reaped.cpu_seconds;
                        if reaped.pid == main {
                            break 'wait reaped;
                        }
                    }
                    Ok(None) => break,
                    // No children at all cannot be before the main one ended.
                    Err(_) => sys::exit(1),
                }
            }
            killed |= signals.next(period) == Arrived::KillRequest;
            if let Some(watcher) = watcher.as_mut().filter(|_| !killed) {
                out_of_memory = watcher.is_over();
                killed |= out_of_memory;
            }
            if killed {
                sys::kill(-1, libc::SIGKILL);
            }
        };
        sys::kill(-1, libc::SIGKILL);
        while let Ok(Some(reaped)) = sys::wait(-1, true) {
            total += reaped.cpu_seconds;
            sys::kill(-1, libc::SIGKILL);
        }
        fault::point("init.tree.reaped");
        // The kernel's two ways to count a process's time differ a little, so the signal is believed. The second one
        // has many senders.
        let cpu_limit = limits.cpu.is_some_and(|limit| match ended.end {
            End::Signaled(libc::SIGXCPU) => true,
            End::Signaled(libc::SIGKILL) => !killed && ended.cpu_seconds >= limit.as_secs_f64(),
            _ => false,
        });
        InitMessage::Ended {
            end: ended.end,
            cpu_limit,
            out_of_memory,
            cpu_seconds: total,
            peak_memory: watcher.map(|watcher| watcher.peak()),
        }
    }
}

/// Whether a child that was not waited for yet has executed a program since it was forked, be it dead or alive.
fn became_another_program(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| flags(&stat))
        .is_none_or(|f| f & FORK_NO_EXEC == 0)
}

/// Descriptors from here on are in nobody's way.
const OUT_OF_THE_WAY: i32 = 20;

/// A process that was forked and has not executed a program since (`PF_FORKNOEXEC` in Linux's `include/linux/sched.h`).
const FORK_NO_EXEC: u32 = 0x40;

/// Field 9 of `/proc/PID/stat`; the command's name in field 2 may hold blanks and brackets.
fn flags(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_the_9th_field() {
        assert_eq!(flags("7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0"), Some(4_194_304));
    }

    #[test]
    fn a_fork_is_told_from_a_program() {
        // This process was started by exec.
        assert!(became_another_program(std::process::id().cast_signed()));
        let child = sys::clone(0).unwrap();
        if child == 0 {
            sys::exit(0);
        }
        // Without waiting for it: a zombie, or not even that yet.
        let forked = !became_another_program(child);
        sys::wait(child, true).unwrap();
        assert!(forked);
    }
}
