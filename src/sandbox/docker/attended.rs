//! A seat for somebody who attends a container's command: bytes carried between their stream and the container's.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::container::LogOutput;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::OptionalActions;
use tokio::sync::mpsc;

/// How long the thread that reads what is typed sleeps at most before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// The seat.
pub struct Attended {
    out: std::fs::File,
    typed: mpsc::Receiver<Option<Vec<u8>>>,
    over: Arc<AtomicBool>,
    size: Option<(u16, u16)>,
    reading: bool,
}

impl Attended {
    /// Begins to read. A terminal is set to raw: the container's own does the rest.
    pub fn new(stream: OwnedFd) -> std::io::Result<Self> {
        if let Ok(mut settings) = rustix::termios::tcgetattr(&stream) {
            settings.make_raw();
            rustix::termios::tcsetattr(&stream, OptionalActions::Now, &settings)?;
        }
        let input = std::fs::File::from(stream.try_clone()?);
        let (sender, typed) = mpsc::channel(4);
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        std::thread::spawn(move || read(input, &sender, &stop));
        Ok(Self { out: stream.into(), typed, over, size: None, reading: true })
    }

    /// What was typed next; an inner `None` is the end of it. Never comes back after that.
    pub async fn typed(&mut self) -> Option<Option<Vec<u8>>> {
        if !self.reading {
            return std::future::pending().await;
        }
        let typed = self.typed.recv().await.flatten();
        self.reading = typed.is_some();
        Some(typed)
    }

    /// Shows what the command wrote. That nobody looks any more is no mistake.
    pub async fn show(&mut self, output: &LogOutput) {
        let _ = self.out.write_all(output.as_ref()).and_then(|()| self.out.flush());
    }

    /// Height and width of the terminal, where they are others than at the last look.
    pub fn new_size(&mut self) -> Option<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(&self.out).ok()?;
        let size = (size.ws_row, size.ws_col);
        (size.0 > 0 && self.size.replace(size) != Some(size)).then_some(size)
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn read(mut input: std::fs::File, out: &mpsc::Sender<Option<Vec<u8>>>, over: &AtomicBool) {
    let mut buffer = [0; 8192];
    let time = Timespec::try_from(LOOK).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 100_000_000 });
    while !over.load(Ordering::Relaxed) {
        let fd = input.as_fd();
        match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            _ => {}
        }
        match input.read(&mut buffer) {
            Ok(length @ 1..) => {
                if out.blocking_send(Some(buffer[..length].to_vec())).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => {
                let _ = out.blocking_send(None);
                return;
            }
        }
    }
}
