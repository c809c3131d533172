//! Hands a snapshot out to a folder of the caller's choice: checked for leaks before anybody sees it.

use std::path::{Path, PathBuf};

use super::error::RepoError;
use super::leak::{LeakCheck, LeakError, LeakMode, LeakReport, Watch};
use super::lock::{Lock, beside, remove_all, settle};
use super::repository::Repository;
use super::snapshot::{Snapshot, SnapshotMode};

/// A snapshot that somebody wants to have.
#[derive(Debug, Clone)]
pub struct HandOut<'a> {
    /// The full repository.
    pub repository: &'a Repository,
    /// What its `.git` is to hold.
    pub mode: &'a SnapshotMode,
    /// The commit to review.
    pub commit: &'a str,
    /// The commit that addressed the review, where it is known; the check looks for what only it has.
    pub merged: Option<&'a str>,
    /// The project's name.
    pub project: &'a str,
    /// The folder to make.
    pub out: &'a Path,
    /// A folder for locks and temporary files.
    pub scratch: &'a Path,
    /// Who is to own it (user, group) when running as root.
    pub owner: (u32, u32),
}

/// Why a snapshot was not handed out. Nothing is left at its place then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandOutError {
    /// Something is there already.
    #[error("`{0}` is there already; name a folder that is not there, or remove it")]
    Exists(PathBuf),
    /// The path has no name or no folder that it lies in.
    #[error("`{0}` is no place for a snapshot; name a folder that is not there yet")]
    NoPlace(PathBuf),
    /// The snapshot was made and shows something later, which is a fault of redgreen's.
    #[error("the snapshot shows something later than the commit to review, and was not handed out")]
    Leaks(Box<LeakReport>),
    /// The snapshot could not be made.
    #[error(transparent)]
    Repository(#[from] RepoError),
    /// The snapshot could not be checked.
    #[error("the snapshot could not be checked, and was not handed out: {0}")]
    Check(#[from] LeakError),
    /// The file system's answer; its message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl HandOutError {
    /// Whether the machine is to blame, and not what was asked.
    pub fn is_infra(&self) -> bool {
        match self {
            Self::Exists(_) | Self::NoPlace(_) => false,
            Self::Leaks(_) | Self::Io(_) => true,
            Self::Repository(error) => error.is_infra(),
            Self::Check(error) => error.is_infra(),
        }
    }
}

impl HandOut<'_> {
    /// Makes the snapshot beside its place, checks it as `redgreen leak-check` does, and moves it there in one step: a
    /// folder that is there is whole and clean. What a dead process left is removed by the next try for the same place.
    ///
    /// # Errors
    /// When the place is taken, the snapshot cannot be made, or the check finds anything or cannot be made.
    pub fn make(&self, watch: &mut Watch<'_>) -> Result<(Snapshot, LeakReport), HandOutError> {
        let no_place = || HandOutError::NoPlace(self.out.to_path_buf());
        let (name, parent) = (self.out.file_name().ok_or_else(no_place)?, self.out.parent().ok_or_else(no_place)?);
        fs_err::create_dir_all(parent)?;
        let parent = fs_err::canonicalize(parent)?;
        let out = parent.join(name);
        let key = crate::model::digest_bytes(out.as_os_str().as_encoded_bytes());
        let _lock = Lock::take(&self.scratch.join(format!("snapshot-{}.lock", &key.as_str()[..32])))?;
        if out.symlink_metadata().is_ok() {
            return Err(HandOutError::Exists(out));
        }
        let hidden = [std::ffi::OsStr::new("."), name].into_iter().collect::<std::ffi::OsString>();
        let temporary = beside(&parent.join(hidden), ".redgreen-part");
        remove_all(&temporary)?;
        let made = self.checked(&temporary, watch).and_then(|done| {
            settle(&temporary)?;
            fs_err::rename(&temporary, &out)?;
            Ok(done)
        });
        match made {
            Ok((snapshot, report)) => Ok((Snapshot { dir: out, ..snapshot }, report)),
            Err(error) => {
                // The first error is the one to tell; what stays is removed by the next try.
                let _ = remove_all(&temporary);
                Err(error)
            }
        }
    }

    fn checked(&self, to: &Path, watch: &mut Watch<'_>) -> Result<(Snapshot, LeakReport), HandOutError> {
        let snapshot = self.repository.write_snapshot(self.mode, self.commit, to, self.owner)?;
        let check = LeakCheck {
            path: to,
            mode: if snapshot.base.is_some() { LeakMode::Review } else { LeakMode::Run },
            head: Some(&snapshot.commit),
            base: snapshot.base.as_deref(),
            merged: self.merged,
            reference: Some(self.repository),
            project: Some(self.project),
            packages: &[],
            scratch: self.scratch,
        };
        let report = check.make(watch)?;
        if report.findings.is_empty() { Ok((snapshot, report)) } else { Err(HandOutError::Leaks(Box::new(report))) }
    }
}
