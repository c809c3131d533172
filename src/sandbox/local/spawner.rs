//! Where helpers come from: one small process per redgreen process, from which each helper is forked.
//!
//! To execute the binary again for each run would cost a third of the whole overhead: the dynamic linker has to put some
//! ten thousand addresses right each time. A fork of a process that has done that, and nothing else, starts in the same
//! state. The forked helper is redgreen's own child, as if redgreen had started it.

use std::collections::HashMap;
use std::io::{IoSlice, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use super::protocol::SPAWNER_ARG;

/// The spawners of this process, by the binary that they run. They end when this process does.
static SPAWNERS: Mutex<Option<HashMap<PathBuf, Spawner>>> = Mutex::new(None);

/// Starts a helper with its control socket on descriptor 0 and these pipes on 1 and 2.
pub fn start(binary: &Path, control: &OwnedFd, out: &OwnedFd, err: &OwnedFd) -> std::io::Result<Helper> {
    let mut spawners = SPAWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let spawners = spawners.get_or_insert_default();
    if let Some(spawner) = spawners.get_mut(binary) {
        match spawner.fork([control, out, err]) {
            Ok(helper) => return Ok(helper),
            // Somebody killed it (the kernel may, for want of memory): there is another one to be had.
            Err(_) => drop(spawners.remove(binary)),
        }
    }
    let mut spawner = Spawner::start(binary)?;
    let helper = spawner.fork([control, out, err])?;
    spawners.insert(binary.to_owned(), spawner);
    Ok(helper)
}

struct Spawner {
    child: Child,
    /// Requests and answers. When our end closes, the spawner ends.
    socket: UnixStream,
}

impl Spawner {
    fn start(binary: &Path) -> std::io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let child = Command::new(binary)
            .arg0("redgreen-sandbox")
            .arg(SPAWNER_ARG)
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of the terminal are for redgreen to act on.
            .process_group(0)
            .spawn()?;
        Ok(Self { child, socket })
    }

    fn fork(&mut self, descriptors: [&OwnedFd; 3]) -> std::io::Result<Helper> {
        let descriptors = descriptors.map(AsFd::as_fd);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(b"f")], &mut ancillary, SendFlags::NOSIGNAL)?;
        let mut answer = [0; 4];
        self.socket.read_exact(&mut answer)?;
        // A negative number is an error's.
        match i32::from_le_bytes(answer) {
            pid @ 1.. => Ok(Helper { pid: Pid::from_raw(pid) }),
            errno => Err(std::io::Error::from_raw_os_error(-errno)),
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A helper that runs. It does not outlive its handle, and leaves no zombie.
pub struct Helper {
    /// `None` once it was waited for: the number may be somebody else's then.
    pid: Option<Pid>,
}

impl Helper {
    /// Waits for its end.
    pub fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let gone = || std::io::Error::from_raw_os_error(libc::ECHILD);
        let pid = self.pid.ok_or_else(gone)?;
        loop {
            match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                other => {
                    self.pid = None;
                    let (_, status) = other?.ok_or_else(gone)?;
                    return Ok(ExitStatus::from_raw(status.as_raw()));
                }
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = self.wait();
        }
    }
}
