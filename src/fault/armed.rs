//! The armed process: counts points, and acts at one of them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::setting::{Act, Setting, What};

/// The file that asks the main process to die: a helper in a PID namespace of its own cannot signal it.
const KILL: &str = "kill";
/// The file that lets waiting processes go on.
const GO: &str = "go";
/// How often files are looked for.
const LOOK: Duration = Duration::from_millis(1);

static ARMED: OnceLock<Armed> = OnceLock::new();

struct Armed {
    setting: Setting,
    /// Stays usable when the helper's root is another.
    folder: OwnedFd,
    /// In a helper: how it learns of the main process's end; `None` there: it has ended already.
    main: Option<Option<OwnedFd>>,
}

/// Says that a step is done. Does nothing unless the process was armed.
#[inline]
pub fn point(name: &'static str) {
    if cfg!(debug_assertions)
        && let Some(armed) = ARMED.get()
    {
        armed.reached(name);
    }
}

/// What this process was armed with, for its helpers.
pub fn setting() -> Option<&'static Setting> {
    if cfg!(debug_assertions) { ARMED.get().map(|armed| &armed.setting) } else { None }
}

/// Arms the main process; builds without `debug_assertions` ignore it.
///
/// # Errors
/// When the folder cannot be opened.
pub fn arm(setting: Setting) -> std::io::Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let folder = open(&setting.folder)?;
    if setting.act.as_ref().is_some_and(|act| matches!(act.what, What::Main | What::Both)) {
        let folder = folder.try_clone()?;
        std::thread::spawn(move || {
            wait_for(&folder, KILL);
            die()
        });
    }
    // Only the first call counts: a process is armed once.
    let _ = ARMED.set(Armed { setting, folder, main: None });
    Ok(())
}

/// Arms a helper with what the main process was armed with. That it cannot be done disarms it: no test passes then.
pub fn arm_helper(setting: Option<Setting>) {
    let Some(setting) = setting.filter(|_| cfg!(debug_assertions)) else { return };
    let main = i32::try_from(setting.main).ok().and_then(Pid::from_raw);
    let main = main.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Ok(folder) = open(&setting.folder) {
        let _ = ARMED.set(Armed { setting, folder, main: Some(main) });
    }
}

impl Armed {
    fn reached(&self, name: &str) {
        // A file that cannot be written means a test that cannot pass; nothing else hangs on it.
        let Ok(count) = self.count(name) else { return };
        if let Some(Act { what, .. }) = self.setting.act.as_ref().filter(|act| act.point == name && act.nth == count) {
            self.act(*what);
        }
    }

    /// Counts the point, over all processes: what is appended in one write has its place.
    fn count(&self, name: &str) -> rustix::io::Result<u64> {
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(0o644))?;
        rustix::io::write(&file, b".")?;
        rustix::fs::seek(&file, SeekFrom::Current(0))
    }

    fn act(&self, what: What) {
        match (what, &self.main) {
            (What::Wait, _) => wait_for(&self.folder, GO),
            (What::Own, _) | (What::Main | What::Both, None) => die(),
            (What::Main | What::Both, Some(main)) => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                let asked = rustix::fs::openat(&self.folder, KILL, flags, Mode::from_raw_mode(0o644)).is_ok();
                if let Some(main) = main.as_ref().filter(|_| asked) {
                    // Readable when the process has ended. An interrupted wait is taken up again.
                    let mut ended = [PollFd::new(main, PollFlags::IN)];
                    while rustix::event::poll(&mut ended, None).is_err() {}
                }
                if what == What::Both {
                    die();
                }
            }
        }
    }
}

fn open(folder: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, folder, flags, Mode::empty())?;
    // Out of the way of the descriptors that have a meaning.
    Ok(rustix::io::fcntl_dupfd_cloexec(folder.as_fd(), 20)?)
}

fn wait_for(folder: &OwnedFd, file: &str) {
    while rustix::fs::statat(folder, file, AtFlags::empty()).is_err() {
        std::thread::sleep(LOOK);
    }
}

/// Ends the process with nothing of it run any more.
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    // PID 1 of a namespace cannot kill itself by a signal; to end at once is the same to everybody else.
    // SAFETY: does not return.
    unsafe { libc::_exit(137) }
}
