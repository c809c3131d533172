//! The store's errors.

use std::path::PathBuf;

/// What can go wrong with a run folder.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system said no; the message names the path.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A file is not what it should be.
    #[error("`{}`: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A folder is not a run.
    #[error("`{}` is not a run folder: it has no `manifest.json`", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A value could not be written as JSON.
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl StoreError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io(e) if matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded))
    }
}
