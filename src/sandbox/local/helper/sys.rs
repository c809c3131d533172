//! The system calls that neither std nor rustix offers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sandbox::End;

/// `clone(2)` without a new stack: returns like `fork`, 0 in the child. Only for single-threaded processes.
pub fn clone(flags: i32) -> io::Result<i32> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: no stack and no thread-local storage are given, so this is `fork` with namespaces; the process has one
    // thread, so the child may go on with all its memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(pid).map_err(io::Error::other) }
}

/// Sets mount attributes on the whole tree of a detached mount (`mount_setattr(2)`, Linux 5.12).
pub fn mount_setattr(tree: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a constant C string and the structure outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A child that ended.
#[derive(Debug, Clone, Copy)]
pub struct Reaped {
    /// Which.
    pub pid: i32,
    /// How.
    pub end: End,
    /// CPU seconds, with those of its waited-for children.
    pub cpu_seconds: f64,
}

/// Waits for `pid` (-1: any child). `None`: nothing yet (only without `block`).
pub fn wait(pid: i32, block: bool) -> io::Result<Option<Reaped>> {
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is a valid value of that plain C structure.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let options = if block { 0 } else { libc::WNOHANG } | libc::__WALL;
        // SAFETY: both pointers are to live locals.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        if reaped < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if reaped == 0 {
            return Ok(None);
        }
        return Ok(Some(Reaped { pid: reaped, end: end_of(status), cpu_seconds: cpu_of(&usage) }));
    }
}

/// The end in a wait status.
fn end_of(status: i32) -> End {
    if libc::WIFEXITED(status) { End::Exited(libc::WEXITSTATUS(status)) } else { End::Signaled(libc::WTERMSIG(status)) }
}

fn cpu_of(usage: &libc::rusage) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "microseconds of one process fit a double")]
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Sends a signal; a process that is gone is fine.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: plain system call.
    unsafe { libc::kill(pid, signal) };
}

/// Makes the current cgroup the root of what this process and its children can see.
pub fn new_cgroup_namespace() -> io::Result<()> {
    // SAFETY: plain system call; nothing else of the process changes.
    if unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes on exec every descriptor from 3 up.
pub fn close_all_on_exec() -> io::Result<()> {
    // SAFETY: plain system call; nothing is closed before exec.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends this process at once, without running anything that the parent's copy would run, too.
pub fn exit(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// The signals that PID 1 waits for.
pub struct SignalWait {
    set: libc::sigset_t,
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// A child ended.
    Child,
    /// The supervisor, from outside the PID namespace, wants the tree killed.
    KillRequest,
    /// The time was over, or it was somebody else's signal.
    Nothing,
}

impl SignalWait {
    /// Blocks SIGCHLD and SIGTERM, so that they wait to be fetched.
    pub fn new() -> Self {
        // SAFETY: an all-zero set is valid, and is initialised by sigemptyset before use.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointers are to a live local; null asks for no old mask.
        unsafe {
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGCHLD);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        Self { set }
    }

    /// Waits for the next signal, at most `milliseconds`.
    pub fn next(&self, milliseconds: i64) -> Arrived {
        let time = libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: (milliseconds % 1000) * 1_000_000 };
        // SAFETY: an all-zero siginfo is a valid value of that plain C structure.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are to live locals.
        let signal = unsafe { libc::sigtimedwait(&raw const self.set, &raw mut info, &raw const time) };
        match signal {
            libc::SIGCHLD => Arrived::Child,
            // A sender outside our PID namespace has no number here. Whoever is inside must not end the run.
            // SAFETY: si_pid is valid for signals sent by kill(2).
            libc::SIGTERM if info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0 => Arrived::KillRequest,
            _ => Arrived::Nothing,
        }
    }
}

/// Gives the command default signal dispositions and an empty mask, whatever this process inherited.
pub fn reset_signals() {
    // SAFETY: signal numbers that cannot be set are refused, which is fine; the set is a live local.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Brings the loopback interface of this network namespace up.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: an all-zero request is valid; the name fits; the socket is closed below.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        if result == 0 { Ok(()) } else { Err(error) }
    }
}
