//! Child processes that do not outlive us.
//!
//! The sandbox's helper watches over itself; this is for programs of others that are started outside of a sandbox (git,
//! a toolchain's own program).

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

/// The kernel kills the child when the thread that starts it ends, also when that thread's process is killed. Wait for
/// the child on the same thread. What the child starts itself is not killed.
pub fn dies_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before that. In another PID namespace the parent has no number.
        match rustix::process::getppid() {
            Some(parent) if parent != us => Err(std::io::Error::from(rustix::io::Errno::SRCH)),
            _ => Ok(()),
        }
    };
    // SAFETY: two system calls; nothing is allocated and no lock is taken between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// The child, and what it starts, keeps this descriptor open. It must stay open until the child was started.
pub fn inherits(command: &mut Command, descriptor: &OwnedFd) {
    let number = descriptor.as_raw_fd();
    let keep = move || {
        // SAFETY: a plain system call on a number; one that is not open is refused.
        let result = unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: one system call; nothing is allocated and no lock is taken between fork and exec.
    unsafe { command.pre_exec(keep) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Pid;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    fn is_running(pid: Pid) -> bool {
        let stat = fs_err::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    /// Starts `sleep` from a thread that ends at once.
    fn started_by_a_thread_that_ended(tie: bool) -> std::process::Child {
        let start = move || {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null());
            if tie {
                dies_with_us(&mut command);
            }
            command.spawn().unwrap()
        };
        std::thread::spawn(start).join().unwrap()
    }

    #[test]
    fn a_tied_child_ends_with_its_starter_and_another_does_not() {
        let mut free = started_by_a_thread_that_ended(false);
        let mut tied = started_by_a_thread_that_ended(true);
        let start = Instant::now();
        while is_running(Pid::from_child(&tied)) {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        tied.wait().unwrap();
        assert!(is_running(Pid::from_child(&free)));
        free.kill().unwrap();
        free.wait().unwrap();
    }

    #[test]
    fn a_child_holds_the_lock_that_it_inherits() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs_err::File::create(dir.path().join("x.lock")).unwrap().into_parts().0;
        file.lock().unwrap();
        let other = std::fs::File::open(dir.path().join("x.lock")).unwrap();
        let mut command = Command::new("sleep");
        let descriptor = OwnedFd::from(file);
        inherits(command.arg("600").stdin(Stdio::null()), &descriptor);
        let mut child = command.spawn().unwrap();
        drop(descriptor);
        assert!(other.try_lock().is_err());
        child.kill().unwrap();
        child.wait().unwrap();
        // A child that another test is starting at this moment has every descriptor until it executes its program.
        let start = Instant::now();
        while other.try_lock().is_err() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
