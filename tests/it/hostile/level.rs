//! The levels of isolation, and how each is brought about.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use redgreen::sandbox::Sandbox;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};

use crate::support::{Place, binary, is_root};

/// A user that owns nothing on this machine.
pub const OTHER_USER: u32 = 54_321;

/// A level of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Namespaces and a cgroup.
    Full,
    /// Namespaces made by a user without any rights, limits by resource limits and the watcher.
    Userns,
    /// The same made by root where no control groups are mounted.
    UsernsOfRoot,
    /// Containers of an engine of this machine.
    Container,
    /// No isolation.
    None,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Userns | Self::UsernsOfRoot => "userns",
            Self::Container => "container",
            Self::None => "none",
        }
    }

    /// The level's variant for toolchains that lie in a home which is closed to others.
    pub fn with_home(self) -> Self {
        if self == Self::Userns && rustix::process::geteuid().is_root() { Self::UsernsOfRoot } else { self }
    }

    /// Whether this machine has it; says so where it has not.
    pub fn is_here(self) -> bool {
        match self {
            Self::Full => {
                let here = own_level() == "full";
                if !here {
                    crate::support::loudly("LEFT OUT, as no cgroup can be made here: the hostile table at level full");
                }
                here
            }
            Self::Userns | Self::UsernsOfRoot => true,
            Self::Container => crate::docker::is_here(),
            Self::None => is_root("the hostile table without a sandbox"),
        }
    }

    /// The host user that a command of the sandbox is, and its group.
    pub fn owner(self) -> (u32, u32) {
        if self == Self::Userns && rustix::process::geteuid().is_root() {
            (OTHER_USER, OTHER_USER)
        } else {
            sandbox().owner()
        }
    }

    /// `redgreen` in a place, at this level. As root `userns` is had by becoming somebody who may not make cgroups;
    /// the place is given to that user.
    pub fn command(self, place: &Place, arguments: &[&str]) -> Command {
        let mut command = self.as_its_user(place, arguments);
        match self {
            Self::None => command.args(["--sandbox", "none"]),
            Self::Container => command.args(["--sandbox", "docker"]),
            _ => &mut command,
        };
        command
    }

    /// `redgreen report RUN` by the user of this level.
    pub fn command_of_report(self, place: &Place, run: &str) -> Command {
        self.as_its_user(place, &["report", run])
    }

    fn as_its_user(self, place: &Place, arguments: &[&str]) -> Command {
        if self == Self::Container {
            let mut command = crate::docker::score::command(place, arguments);
            command.env("REDGREEN_CACHE", place.join("cache")).env("TMPDIR", place.join("tmp"));
            return command;
        }
        let mut command = place.command(arguments);
        command.env("REDGREEN_CACHE", place.join("cache")).env("TMPDIR", place.join("tmp"));
        if self == Self::Userns && rustix::process::geteuid().is_root() {
            // The build directory may lie where others cannot look, and so may a version manager's interpreters.
            let copy = copied_binary(place);
            let mut other = Command::new(copy);
            other.args(arguments).current_dir(place.path());
            other.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            other.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", place.join("home"));
            for name in ["PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME"] {
                other.env_remove(name);
            }
            other.uid(OTHER_USER).gid(OTHER_USER);
            return other;
        }
        if self == Self::UsernsOfRoot {
            // SAFETY: plain system calls between fork and exec, without memory to allocate.
            unsafe { command.pre_exec(without_control_groups) };
        }
        command
    }

    /// Gives a place to the user that redgreen runs as at this level.
    pub fn give(self, place: &Place) {
        for name in ["cache", "tmp", "home"] {
            fs_err::create_dir_all(place.join(name)).unwrap();
        }
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(place.path(), open).unwrap();
        if self == Self::Userns && rustix::process::geteuid().is_root() {
            for entry in walkdir::WalkDir::new(place.path()) {
                std::os::unix::fs::lchown(entry.unwrap().path(), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
            }
        }
    }
}

/// Lets go of the mounts of control groups, in a mount namespace of the process's own.
fn without_control_groups() -> std::io::Result<()> {
    // SAFETY: plain system calls; the strings are constants.
    let result = unsafe {
        libc::unshare(libc::CLONE_NEWNS)
            | libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            )
            | libc::umount2(c"/sys/fs/cgroup".as_ptr(), libc::MNT_DETACH)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn copied_binary(place: &Place) -> PathBuf {
    let copy = place.join("redgreen-under-test");
    if !copy.exists() {
        // By a program of its own: a descriptor open for writing that a fork of another test inherits would make the
        // copy busy.
        assert!(Command::new("cp").arg(binary()).arg(&copy).status().unwrap().success());
    }
    copy
}

fn sandbox() -> LocalSandbox {
    LocalSandbox::new(LocalConfig::new(Path::new(binary()).to_path_buf(), std::env::temp_dir())).unwrap()
}

fn own_level() -> String {
    sandbox().isolation().level
}
