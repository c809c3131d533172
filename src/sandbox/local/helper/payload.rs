//! The last steps before the command itself: giving up every right.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::BpfProgram;

use super::super::failure::{Failure, Step};
use super::super::lookup::candidates;
use super::super::protocol::{HOME, INSIDE_ID, Job, Privilege, RESULT_FD, Report, Streams};
use super::sys;
use crate::sandbox::{Limits, OPEN_FILES, RESULT_FD_VARIABLE, TOKEN_FD_VARIABLE};

/// A command in the form that the kernel takes, prepared before the fork.
pub struct Command<'a> {
    job: &'a Job,
    candidates: Vec<CString>,
    argv: Vec<CString>,
    environment: Vec<CString>,
    filters: Vec<BpfProgram>,
    rlimit_pids: bool,
}

impl<'a> Command<'a> {
    /// Checks and converts the task's command.
    pub fn prepare(job: &'a Job) -> Result<Self, Failure> {
        let invalid = |step: &str| Failure { step: step.to_owned(), errno: libc::EINVAL };
        let task = &job.task;
        let program = task.argv.first().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| invalid("start an empty command"))?;
        let text = |text: String| CString::new(text).map_err(|_| invalid("pass on a text with a zero byte"));
        let environment = environment(&task.variables, task.result_channel);
        if environment.keys().any(|name| name.is_empty() || name.contains('=')) {
            return Err(invalid("set a variable with an impossible name"));
        }
        let filters = match job.privilege {
            Privilege::Bare => Vec::new(),
            Privilege::Root | Privilege::User => super::seccomp::filters()
                .map_err(|_| Failure { step: "compile the system-call filter".to_owned(), errno: libc::ENOSYS })?
                .to_vec(),
        };
        Ok(Self {
            job,
            candidates: candidates(program, &task.variables).into_iter().map(text).collect::<Result<_, _>>()?,
            argv: task.argv.iter().cloned().map(text).collect::<Result<_, _>>()?,
            environment: environment
                .into_iter()
                .map(|(name, value)| text(format!("{name}={value}")))
                .collect::<Result<_, _>>()?,
            filters,
            rlimit_pids: job.cgroup.as_ref().is_none_or(|plan| !plan.limits_pids()),
        })
    }

    /// Becomes the command. Comes back only with a reason why not.
    pub fn execute(&self, result: Option<BorrowedFd<'_>>) -> Report {
        match self.give_up_rights(result) {
            Err(failure) => failure.into(),
            Ok(()) => Report::Spawn { program: self.job.task.argv[0].clone(), errno: self.exec() },
        }
    }

    fn give_up_rights(&self, result: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
        rustix::process::setsid().step(|| "start a session".to_owned())?;
        // So that the command dies before us when the machine runs out of memory. It may be forbidden; no harm.
        let _ = fs_err::write("/proc/self/oom_score_adj", "800");
        descriptors(result, self.job.streams).step(|| "arrange the descriptors".to_owned())?;
        limits(&self.job.task.limits, self.rlimit_pids).step(|| "set the resource limits".to_owned())?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        // While there is still the right to do so.
        empty_bounding_set().step(|| "empty the capability bounding set".to_owned())?;
        self.become_user().step(|| "become an unprivileged user".to_owned())?;
        drop_capabilities().step(|| "drop the capabilities".to_owned())?;
        rustix::thread::set_no_new_privs(true).step(|| "forbid new privileges".to_owned())?;
        let cwd = &self.job.task.cwd;
        rustix::process::chdir(cwd).step(|| format!("enter `{}`", cwd.display()))?;
        sys::reset_signals();
        for filter in &self.filters {
            seccompiler::apply_filter(filter)
                .map_err(|_| Failure { step: "install the system-call filter".to_owned(), errno: libc::EINVAL })?;
        }
        Ok(())
    }

    /// The IDs are the namespace's in root mode; an unprivileged caller's namespace has but the one user already.
    fn become_user(&self) -> std::io::Result<()> {
        let (uid, gid) = match self.job.privilege {
            Privilege::User => return Ok(()),
            Privilege::Root => (INSIDE_ID, INSIDE_ID),
            Privilege::Bare => self.job.owner,
        };
        // SAFETY: plain system calls on a single-threaded process.
        let result = unsafe {
            libc::setgroups(0, std::ptr::null()) | libc::setresgid(gid, gid, gid) | libc::setresuid(uid, uid, uid)
        };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    /// Tries each place of the program; the error number of the last try that says most.
    fn exec(&self) -> i32 {
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
        };
        let (argv, environment) = (pointers(&self.argv), pointers(&self.environment));
        let mut said = libc::ENOENT;
        for program in &self.candidates {
            // SAFETY: both arrays end in null and point to strings that live until the call succeeds.
            unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            if errno != libc::ENOENT && errno != libc::ENOTDIR {
                said = errno;
                if errno != libc::EACCES {
                    break;
                }
            }
        }
        said
    }
}

/// The whole environment: the task's variables and ours, ours last.
fn environment(variables: &BTreeMap<String, String>, result_channel: bool) -> BTreeMap<String, String> {
    let mut all = variables.clone();
    all.insert("HOME".to_owned(), HOME.to_owned());
    all.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    if result_channel {
        all.insert(RESULT_FD_VARIABLE.to_owned(), RESULT_FD.to_string());
    } else {
        all.remove(RESULT_FD_VARIABLE);
    }
    // The token waits in the channel itself.
    all.remove(TOKEN_FD_VARIABLE);
    all
}

/// Nothing on 0 (or what is on 2, which is two-way then), the pipes on 1 and 2, the result channel at its number, and
/// everything else closed on exec.
fn descriptors(result: Option<BorrowedFd<'_>>, streams: Streams) -> std::io::Result<()> {
    if streams == Streams::Captured {
        let null = rustix::fs::openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
    } else {
        rustix::stdio::dup2_stdin(rustix::stdio::stderr())?;
    }
    if streams == Streams::Terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    sys::close_all_on_exec()?;
    if let Some(result) = result {
        // SAFETY: whatever has that number is of no use any more; the new descriptor lives on in the command.
        let moved = unsafe {
            if result.as_raw_fd() == RESULT_FD {
                libc::fcntl(RESULT_FD, libc::F_SETFD, 0)
            } else {
                libc::dup2(result.as_raw_fd(), RESULT_FD)
            }
        };
        if moved < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

fn limits(limits: &Limits, pids: bool) -> rustix::io::Result<()> {
    // One byte and not none: the kernel hands the dump of a crashed process to a program of the host's, where one is
    // set, whatever the limit is, unless it is exactly this.
    set(Resource::Core, 1, 1)?;
    set(Resource::Fsize, limits.file_size, limits.file_size)?;
    set(Resource::Nofile, OPEN_FILES.0, OPEN_FILES.1)?;
    set(Resource::Stack, 8 << 20, u64::MAX)?;
    if pids {
        // PID 1 counts among an unprivileged user's own.
        set(Resource::Nproc, limits.pids.saturating_add(1), limits.pids.saturating_add(1))?;
    }
    if let Some(cpu) = limits.cpu {
        // The soft limit's signal can be caught; a second later comes the one that cannot.
        let seconds = cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0);
        set(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    }
    Ok(())
}

/// Sets a limit, as far as what we inherited allows.
fn set(resource: Resource, soft: u64, hard: u64) -> rustix::io::Result<()> {
    let inherited = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = hard.min(inherited);
    let some = |value: u64| (value != u64::MAX).then_some(value);
    rustix::process::setrlimit(resource, Rlimit { current: some(soft.min(hard)), maximum: some(hard) })
}

fn empty_bounding_set() -> rustix::io::Result<()> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the kernel's last one.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn drop_capabilities() -> rustix::io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_variables_win() {
        let own = BTreeMap::from([("HOME".into(), "/x".into()), (RESULT_FD_VARIABLE.into(), "1".into())]);
        let all = environment(&own, true);
        assert_eq!(all["HOME"], HOME);
        assert_eq!(all[RESULT_FD_VARIABLE], "7");
        assert!(!environment(&own, false).contains_key(RESULT_FD_VARIABLE));
        assert_eq!(environment(&BTreeMap::new(), false).into_keys().collect::<Vec<_>>(), ["HOME", "TMPDIR"]);
    }
}
