//! A seat for somebody who attends a container's command: bytes carried between their stream and the container's.
//!
//! Both ways have a thread of their own, and nothing here makes a run wait for the person: not one who does not look at
//! what is shown, nor a command that does not read what is typed.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::OptionalActions;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::sync::oneshot;

/// How long the thread that reads what is typed sleeps at most before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last of the output may take to be shown.
pub const LAST_SHOWN: Duration = Duration::from_secs(5);
/// How many pieces wait each way.
const WAITING: usize = 4;

/// The seat.
pub struct Attended {
    stream: std::fs::File,
    shown: mpsc::Sender<Bytes>,
    all_shown: oneshot::Receiver<()>,
    stop: Stop,
    size: Option<(u16, u16)>,
}

/// What is typed there: an inner `None` is the end of it.
pub struct Typed(mpsc::Receiver<Option<Vec<u8>>>);

impl Attended {
    /// Begins to read. A terminal is set to raw: the container's own does the rest.
    pub fn new(stream: OwnedFd) -> std::io::Result<(Self, Typed)> {
        if let Ok(mut settings) = rustix::termios::tcgetattr(&stream) {
            settings.make_raw();
            rustix::termios::tcsetattr(&stream, OptionalActions::Now, &settings)?;
        }
        let input = std::fs::File::from(stream.try_clone()?);
        let mut out = std::fs::File::from(stream.try_clone()?);
        let (sender, typed) = mpsc::channel(WAITING);
        let over = Arc::new(AtomicBool::new(false));
        let stop = Stop(over.clone());
        std::thread::Builder::new().spawn(move || read(input, &sender, &over))?;
        let (shown, mut to_show) = mpsc::channel::<Bytes>(WAITING);
        let (done, all_shown) = oneshot::channel();
        std::thread::Builder::new().spawn(move || {
            while let Some(piece) = to_show.blocking_recv() {
                // That nobody looks any more is no mistake.
                let _ = out.write_all(&piece).and_then(|()| out.flush());
            }
            let _ = done.send(());
        })?;
        Ok((Self { stream: stream.into(), shown, all_shown, stop, size: None }, Typed(typed)))
    }

    /// Waits until one more piece can be shown.
    pub async fn room(&self) -> Option<OwnedPermit<Bytes>> {
        self.shown.clone().reserve_owned().await.ok()
    }

    /// Height and width of the terminal, where they are others than at the last look.
    pub fn new_size(&mut self) -> Option<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(&self.stream).ok()?;
        let size = (size.ws_row, size.ws_col);
        (size.0 > 0 && self.size.replace(size) != Some(size)).then_some(size)
    }

    /// Waits a while until all is shown.
    pub async fn finish(self) {
        let Self { shown, all_shown, stop, .. } = self;
        drop((shown, stop));
        let _ = tokio::time::timeout(LAST_SHOWN, all_shown).await;
    }
}

/// Ends the thread that reads, also where the run breaks off.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Carries what is typed to a command's input, and never ends by itself. A command that reads no more is no mistake.
pub async fn carry(typed: Option<Typed>, input: &mut (impl AsyncWrite + Unpin)) -> Infallible {
    if let Some(Typed(mut typed)) = typed {
        while let Some(Some(bytes)) = typed.recv().await {
            if input.write_all(&bytes).await.is_ok() {
                let _ = input.flush().await;
            }
        }
        let _ = input.shutdown().await;
    }
    std::future::pending().await
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
