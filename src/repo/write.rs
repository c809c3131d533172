//! Writes files of a tree into a directory: exact modes whatever the umask, owner and times set.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::changes::FileMode;
use super::error::RepoError;
use super::path::TreePath;
use crate::fault;

/// Whom files are given to. Only root can give files away; for anybody else they stay their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner(Option<(u32, u32)>);

impl Owner {
    pub(super) fn of((user, group): (u32, u32)) -> Self {
        let root = rustix::process::geteuid().is_root();
        let own = user == 0 && group == rustix::process::getegid().as_raw();
        Self((root && !own).then_some((user, group)))
    }

    pub(super) fn apply(self, path: &Path) -> std::io::Result<()> {
        match self.0 {
            Some((user, group)) => lchown(path, Some(user), Some(group)).map_err(|e| named(e, "give away", path)),
            None => Ok(()),
        }
    }
}

/// Adds what was done and the path to an error of a call that `fs_err` does not wrap.
fn named(error: std::io::Error, what: &str, path: &Path) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("failed to {what} `{}`: {error}", path.display()))
}

/// Writes files below one directory, which nobody else changes meanwhile.
pub(super) struct TreeWriter {
    root: PathBuf,
    owner: Owner,
    time: Option<i64>,
    folders: BTreeSet<PathBuf>,
    last_folder: Option<PathBuf>,
}

impl TreeWriter {
    /// `time` (seconds since 1970) is given to everything that is written; `None` leaves the present.
    pub(super) fn new(root: &Path, owner: Owner, time: Option<i64>) -> Result<Self, RepoError> {
        Ok(Self { root: root.to_path_buf(), owner, time, folders: BTreeSet::new(), last_folder: None })
    }

    /// Writes one file, which must not be there yet, and the folders that it lies in.
    pub(super) fn write(&mut self, path: &TreePath, mode: FileMode, content: &[u8]) -> Result<(), RepoError> {
        let full = self.root.join(path.as_path());
        if let Some(parent) = path.as_path().parent() {
            self.folder(parent)?;
        }
        match mode {
            FileMode::Symlink => fs_err::os::unix::fs::symlink(OsStr::from_bytes(content), &full)?,
            FileMode::Regular | FileMode::Executable => {
                let bits = mode.to_git() & 0o777;
                let mut options = fs_err::OpenOptions::new();
                fs_err::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), bits);
                let mut file = options.open(&full)?;
                file.write_all(content)?;
                file.set_permissions(std::fs::Permissions::from_mode(bits))?;
            }
        }
        fault::point("repo.tree.file");
        self.settle(&full)
    }

    /// Makes an empty folder and those that it lies in.
    pub(super) fn folder(&mut self, relative: &Path) -> Result<(), RepoError> {
        if self.last_folder.as_deref() == Some(relative) {
            return Ok(());
        }
        let mut at = PathBuf::new();
        for part in relative.components() {
            at.push(part);
            if self.folders.insert(at.clone()) {
                let full = self.root.join(&at);
                fs_err::create_dir(&full)?;
                fs_err::set_permissions(&full, std::fs::Permissions::from_mode(0o755))?;
                self.owner.apply(&full)?;
            }
        }
        self.last_folder = Some(relative.to_path_buf());
        Ok(())
    }

    /// Gives owner and time to one path.
    pub(super) fn settle(&self, full: &Path) -> Result<(), RepoError> {
        self.owner.apply(full)?;
        self.stamp(full, 0)
    }

    /// Gives a path the writer's time plus `later` seconds.
    pub(super) fn stamp(&self, full: &Path, later: i64) -> Result<(), RepoError> {
        if let Some(time) = self.time {
            set_time(full, time + later)?;
        }
        Ok(())
    }

    /// Gives the folders their times, which every file written into them changed. The root is one of them.
    pub(super) fn finish(self) -> Result<(), RepoError> {
        for folder in self.folders.iter().rev() {
            self.stamp(&self.root.join(folder), 0)?;
        }
        fs_err::set_permissions(&self.root, std::fs::Permissions::from_mode(0o755))?;
        self.settle(&self.root)
    }
}

fn set_time(path: &Path, seconds: i64) -> std::io::Result<()> {
    let at = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: at, last_modification: at };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| named(e.into(), "set the time of", path))
}
