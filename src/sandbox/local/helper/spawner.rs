//! The process that helpers are forked from.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use super::{seccomp, supervisor, sys};

/// Forks a helper for each request on descriptor 0, until that closes.
///
/// It never sees a job, a task's file or anything else of a run: each helper starts from the state that this process had
/// at its own start.
pub fn main() -> ExitCode {
    // The same for all, and some of the time that a run takes.
    let _ = seccomp::filters();
    loop {
        let descriptors = match receive() {
            Ok(Some(descriptors)) => descriptors,
            Ok(None) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::from(2),
        };
        // The caller's child and not ours: the caller waits for it.
        let answer = match sys::clone(libc::CLONE_PARENT) {
            Ok(0) => return become_helper(descriptors),
            Ok(pid) => pid,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        drop(descriptors);
        let sent = rustix::net::send(rustix::stdio::stdin(), &answer.to_le_bytes(), SendFlags::NOSIGNAL);
        if sent.is_err() {
            return ExitCode::FAILURE;
        }
    }
}

/// The control socket and the output pipes of one helper; `None` when nobody asks any more.
fn receive() -> std::io::Result<Option<[OwnedFd; 3]>> {
    let mut byte = [0];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let received = rustix::net::recvmsg(
            rustix::stdio::stdin(),
            &mut [IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        match received {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    if message.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    descriptors.try_into().map(Some).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

fn become_helper([control, out, err]: [OwnedFd; 3]) -> ExitCode {
    let ready = rustix::process::setpgid(None, None)
        .and_then(|()| rustix::stdio::dup2_stdin(&control))
        .and_then(|()| rustix::stdio::dup2_stdout(&out))
        .and_then(|()| rustix::stdio::dup2_stderr(&err));
    drop((control, out, err));
    match ready {
        Ok(()) => supervisor::main(),
        Err(_) => ExitCode::from(2),
    }
}
