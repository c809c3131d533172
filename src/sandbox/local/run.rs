//! redgreen's side of one run: starts the helper, gives it the job, reads the pipes to their ends.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use super::protocol::{Job, Report};
use super::spawner;
use crate::fault;
use crate::sandbox::{Captured, Listener, SandboxError, Token};

/// How long the helper may take beyond the wall-clock limit: to set up, to kill, to clean up.
const BEYOND: Duration = Duration::from_secs(180);
/// How long pipes may stay open when the helper is gone. Everything that held them is dead by then.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// What the helper said, and what the command wrote.
#[derive(Debug)]
pub struct Ran {
    pub report: Report,
    pub stdout: Captured,
    pub stderr: Captured,
    pub result: Captured,
    /// What went into the result channel before the command started.
    pub token: Option<Token>,
}

/// Where what a command writes goes beside its capture.
#[derive(Default)]
pub struct Ends {
    /// The command's standard input, output and error, where they are not captured.
    pub stream: Option<OwnedFd>,
    /// Who is told while it runs.
    pub listener: Option<Listener>,
}

/// Runs one job; blocks. When the other end of `wake` closes, the run is cancelled.
pub fn run(helper: &Path, job: &Job, wake: &OwnedFd, ends: Ends) -> Result<Ran, SandboxError> {
    let Ends { stream, listener } = ends;
    let broken = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| SandboxError::Helper(format!("could not {what}: {error}"))
    };
    let (control, theirs) = UnixStream::pair().map_err(broken("make a socket pair"))?;
    let ([stdout, stderr], [out, err]) = outputs(stream).map_err(broken("make a pipe"))?;
    let channel =
        if job.task.result_channel { Some(channel().map_err(broken("make the result channel"))?) } else { None };
    let (result, result_end, token) = channel.map_or((None, None, None), |(r, end, t)| (Some(r), Some(end), Some(t)));
    let mut child =
        spawner::start(helper, &theirs.into(), &out, &err).map_err(broken(&format!("start `{}`", helper.display())))?;
    drop((out, err));
    fault::point("sandbox.helper.spawned");
    send(&control, job, result_end.as_ref().map(AsFd::as_fd)).map_err(broken("give the sandbox's helper its job"))?;
    fault::point("sandbox.job.sent");
    drop(result_end);
    let mut pipes = Pipes {
        control: Some(control),
        answer: Vec::new(),
        streams: [stdout, stderr, result],
        captured: Default::default(),
        cap: usize::try_from(job.task.limits.output).unwrap_or(usize::MAX),
        listener,
    };
    let deadline = Instant::now() + job.task.limits.wall.min(Duration::from_secs(366 * 24 * 3600)) + BEYOND;
    pipes.read(Some(wake), deadline).map_err(broken("read from the sandbox"))?;
    if pipes.control.is_some() {
        return Err(SandboxError::Helper("it did not answer in time and was killed".to_owned()));
    }
    let status = child.wait().map_err(broken("wait for the sandbox's helper"))?;
    pipes.read(None, Instant::now() + AFTERWARDS).map_err(broken("read from the sandbox"))?;
    let report = serde_json::from_slice(&pipes.answer).map_err(|_| {
        let said = String::from_utf8_lossy(&pipes.captured[1].bytes).trim().to_owned();
        SandboxError::Helper(format!("it ended without an answer ({status}) {said}"))
    })?;
    fault::point("sandbox.answer.read");
    let [stdout, stderr, result] = pipes.captured;
    Ok(Ran { report, stdout, stderr, result, token })
}

/// Both ends of a result channel: redgreen's and the command's. A socket, unlike a pipe, can't be opened again by its
/// name in `/proc`. The token waits in it; nothing else ever goes that way.
fn channel() -> std::io::Result<(File, UnixStream, Token)> {
    let token = Token::fresh()?;
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.write_all(format!("{}\n", token.as_str()).as_bytes())?;
    ours.shutdown(std::net::Shutdown::Write)?;
    Ok((OwnedFd::from(ours).into(), theirs, token))
}

/// Where standard output and error are read, and what the helper gets for them.
fn outputs(stream: Option<OwnedFd>) -> std::io::Result<([Option<File>; 2], [OwnedFd; 2])> {
    if let Some(stream) = stream {
        let second = stream.try_clone()?;
        return Ok(([None, None], [stream, second]));
    }
    let (stdout, out) = std::io::pipe()?;
    let (stderr, err) = std::io::pipe()?;
    let file = |end: std::io::PipeReader| Some(File::from(OwnedFd::from(end)));
    Ok(([file(stdout), file(stderr)], [out.into(), err.into()]))
}

/// Sends the job; the first bytes carry the result channel's descriptor.
fn send(control: &UnixStream, job: &Job, result: Option<std::os::fd::BorrowedFd<'_>>) -> std::io::Result<()> {
    let text = serde_json::to_vec(&(job, fault::setting()))?;
    let length = (text.len() as u64).to_le_bytes();
    let descriptors: Vec<_> = result.into_iter().collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    rustix::net::sendmsg(control, &[IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut control = control;
    control.write_all(&text)
}

/// Everything that is read from while a command runs.
struct Pipes {
    /// `None` when the helper closed it.
    control: Option<UnixStream>,
    answer: Vec<u8>,
    /// Standard output, standard error, result channel; `None` when closed.
    streams: [Option<File>; 3],
    captured: [Captured; 3],
    cap: usize,
    listener: Option<Listener>,
}

impl Pipes {
    /// Reads until the helper closed its socket or, when it has, until all streams are closed.
    fn read(&mut self, mut wake: Option<&OwnedFd>, deadline: Instant) -> std::io::Result<()> {
        let draining = self.control.is_none();
        let mut buffer = vec![0; 64 * 1024];
        while if draining { self.streams.iter().any(Option::is_some) } else { self.control.is_some() } {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let (mut polled, mut which) = (Vec::new(), Vec::new());
            for (number, fd) in self.streams.iter().enumerate() {
                if let Some(fd) = fd {
                    polled.push(PollFd::new(fd, PollFlags::IN));
                    which.push(From::Stream(number));
                }
            }
            if let Some(control) = &self.control {
                polled.push(PollFd::new(control, PollFlags::IN));
                which.push(From::Control);
            }
            if let Some(wake) = wake {
                polled.push(PollFd::new(wake, PollFlags::IN));
                which.push(From::Wake);
            }
            let time = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            match rustix::event::poll(&mut polled, Some(&time)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let ready: Vec<From> =
                polled.iter().zip(which).filter(|(fd, _)| !fd.revents().is_empty()).map(|(_, from)| from).collect();
            for from in ready {
                match from {
                    From::Stream(number) => self.read_stream(number, &mut buffer)?,
                    From::Control => self.read_control(&mut buffer),
                    From::Wake => {
                        // The lifeline breaks; the answer still comes the other way.
                        wake = None;
                        if let Some(control) = &self.control {
                            let _ = control.shutdown(std::net::Shutdown::Write);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn read_stream(&mut self, number: usize, buffer: &mut [u8]) -> std::io::Result<()> {
        let Some(stream) = &mut self.streams[number] else { return Ok(()) };
        match stream.read(buffer) {
            Ok(0) => self.streams[number] = None,
            Ok(length) => {
                self.captured[number].keep(&buffer[..length], self.cap);
                if let Some(listener) = self.listener.as_ref().filter(|_| number != RESULT) {
                    listener(&buffer[..length]);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // A socket whose other end was closed with the token unread.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => self.streams[number] = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn read_control(&mut self, buffer: &mut [u8]) {
        let Some(control) = &mut self.control else { return };
        match control.read(buffer) {
            Ok(length @ 1..) => self.answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Closed, or reset because the helper died.
            _ => self.control = None,
        }
    }
}

enum From {
    Stream(usize),
    Control,
    Wake,
}

/// The result channel among the streams: nobody but the caller hears of it.
const RESULT: usize = 2;

/// A pipe whose read end wakes [`run`] when the write end closes.
pub fn wake_pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe()?;
    Ok((read.into(), write.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_are_kept_and_the_rest_is_counted() {
        let mut captured = Captured::default();
        captured.keep(b"abc", 5);
        captured.keep(b"defg", 5);
        captured.keep(b"h", 5);
        assert_eq!(captured, Captured { bytes: b"abcde".to_vec(), dropped: 3 });
    }
}
