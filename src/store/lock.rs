//! Locks on files. They end with the process that holds them, however that ends.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::fault;

/// What came of trying a lock.
pub(super) enum Taken {
    /// It is held until this is dropped.
    Ours(File),
    /// Somebody has it.
    Theirs,
    /// This file system has no locks.
    Unknown,
}

/// Opens the file of a lock, making it where it is missing.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    Ok(fs_err::OpenOptions::new().create(true).append(true).open(path)?.into_parts().0)
}

/// Tries the lock on `path` without waiting.
pub(super) fn try_take(path: &Path) -> std::io::Result<Taken> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Taken::Ours(file)),
        Err(TryLockError::WouldBlock) => Ok(Taken::Theirs),
        Err(TryLockError::Error(_)) => Ok(Taken::Unknown),
    }
}

/// Waits for the lock on `path`. On a file system without locks nobody waits for anybody.
pub(super) fn wait(path: &Path) -> std::io::Result<File> {
    let file = open(path)?;
    match file.lock() {
        Err(error) if error.kind() != std::io::ErrorKind::Unsupported => Err(error),
        _ => {
            fault::point("store.lock.taken");
            Ok(file)
        }
    }
}

/// Waits for a lock on `path` that others may hold at the same time, and that keeps [`wait`]'s away.
pub(super) fn wait_shared(path: &Path) -> std::io::Result<File> {
    let file = open(path)?;
    match file.lock_shared() {
        Err(error) if error.kind() != std::io::ErrorKind::Unsupported => Err(error),
        _ => Ok(file),
    }
}
