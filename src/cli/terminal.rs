//! A seat for a command in the sandbox: this process's standard input and output, through a terminal of the command's
//! own where both are a terminal, and through a plain two-way stream where they are not.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios};
use tokio::signal::unix::{SignalKind, signal};

use crate::sandbox::Seat;

/// How long output that is still on its way may take when the command is gone.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The person's side of a seat.
#[derive(Debug, Clone, Default)]
pub struct Terminal {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    before: Option<Termios>,
    written: Option<Receiver<()>>,
}

impl Terminal {
    /// Opens the seat, and carries what is typed and written from now on. Needs the async runtime for changes of the
    /// window's size.
    pub fn open(&self) -> io::Result<Seat> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        if terminal { self.open_terminal() } else { self.open_stream() }
    }

    /// Waits for the last output and puts the terminal back.
    pub fn close(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = kept.written.take() {
            // It ends by the command's end; nothing more can be done about one that does not.
            let _ = written.recv_timeout(LAST_WORDS);
        }
        if let Some(before) = kept.before.take() {
            let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Drain, &before);
        }
    }

    fn open_stream(&self) -> io::Result<Seat> {
        let (ours, theirs) = UnixStream::pair()?;
        let input = ours.try_clone()?;
        std::thread::spawn(move || {
            carry(io::stdin(), &input);
            let _ = input.shutdown(std::net::Shutdown::Write);
        });
        self.carry_out(ours);
        Ok(Seat { stream: OwnedFd::from(theirs), terminal: false })
    }

    /// Not the person's own terminal: what runs inside could type into that one, or keep it.
    fn open_terminal(&self) -> io::Result<Seat> {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        let name = rustix::pty::ptsname(&master, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::openat(CWD, name.as_c_str(), flags, Mode::empty())?;
        if let Ok(size) = rustix::termios::tcgetwinsize(io::stdin()) {
            rustix::termios::tcsetwinsize(&master, size)?;
        }
        let before = rustix::termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).before = Some(before);

        let mut resized = signal(SignalKind::window_change())?;
        let sized = master.try_clone()?;
        tokio::spawn(async move {
            while resized.recv().await.is_some() {
                if let Ok(size) = rustix::termios::tcgetwinsize(io::stdin()) {
                    let _ = rustix::termios::tcsetwinsize(&sized, size);
                }
            }
        });
        let input = std::fs::File::from(master.try_clone()?);
        std::thread::spawn(move || carry(io::stdin(), &input));
        self.carry_out(std::fs::File::from(master));
        Ok(Seat { stream: slave, terminal: true })
    }

    fn carry_out(&self, from: impl Read + Send + 'static) {
        let (done, written) = channel();
        std::thread::spawn(move || {
            carry(from, io::stdout());
            let _ = done.send(());
        });
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).written = Some(written);
    }
}

/// Carries bytes as they come, until one side is closed.
fn carry(mut from: impl Read, mut to: impl Write) {
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) if to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A terminal whose last user is gone answers with an error.
            _ => return,
        }
    }
}
