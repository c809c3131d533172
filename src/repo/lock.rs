//! Work that only one process may do at a time, and whose result appears whole or not at all.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};

use super::error::RepoError;
use crate::fault;

/// An exclusive lock on a file beside what is being made. It goes with the process, however that ends.
pub(super) struct Lock(std::fs::File);

impl Lock {
    /// Waits for the lock on `path`, whose folder is made if need be.
    pub(super) fn take(path: &Path) -> Result<Self, RepoError> {
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        let (file, path) = fs_err::OpenOptions::new().create(true).append(true).open(path)?.into_parts();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => file.lock().map_err(|e| named(&e, &path))?,
            Err(TryLockError::Error(e)) => return Err(named(&e, &path).into()),
        }
        fault::point("repo.lock.taken");
        Ok(Self(file))
    }

    /// The locked file. A child process that inherits it holds the lock, too.
    pub(super) fn file(&self) -> &std::fs::File {
        &self.0
    }
}

fn named(error: &std::io::Error, path: &Path) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("failed to lock `{}`: {error}", path.display()))
}

/// A path beside another: `a/b` and `.lock` give `a/b.lock`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes a folder tree or file, which need not be there.
pub(super) fn remove_all(path: &Path) -> Result<(), RepoError> {
    match fs_err::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(fs_err::remove_dir_all(path)?),
        Ok(_) => Ok(fs_err::remove_file(path)?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Waits until everything that was written to the file system of `path` is on the disk, so that no name or marker that
/// is given afterwards can outlive a crash of the machine that the content did not.
pub(super) fn settle(path: &Path) -> Result<(), RepoError> {
    Ok(rustix::fs::syncfs(fs_err::File::open(path)?.file()).map_err(std::io::Error::from)?)
}

/// Makes the folder `path` once, among all processes: `make` fills a temporary sibling, which is then renamed.
pub(super) fn make_once(
    path: &Path,
    make: impl FnOnce(&Path, &Lock) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    if path.is_dir() {
        return Ok(());
    }
    let lock = Lock::take(&beside(path, ".lock"))?;
    if path.is_dir() {
        return Ok(());
    }
    // Under the lock nobody else has this name; what lies there is a dead process's.
    let temporary = beside(path, ".tmp");
    remove_all(&temporary)?;
    let made = make(&temporary, &lock).and_then(|()| {
        fault::point("repo.clone.made");
        settle(&temporary)?;
        fault::point("repo.clone.synced");
        fs_err::rename(&temporary, path)?;
        fault::point("repo.clone.renamed");
        Ok(())
    });
    if made.is_err() {
        remove_all(&temporary)?;
    }
    made
}
