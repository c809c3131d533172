//! What can be wrong with an archive.

use std::path::PathBuf;

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// It is not what it should be, or was damaged.
    #[error("`{archive}` cannot be used: {problem}")]
    Malformed {
        /// The file, with the part of it where one is known.
        archive: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A blob is not the one that its digest names.
    #[error("`{}` is damaged: the blob {digest} {problem}", archive.display())]
    Damaged {
        /// The file.
        archive: PathBuf,
        /// The digest that the blob should have, as `sha256:HEX`.
        digest: String,
        /// What was found.
        problem: String,
    },
    /// It has no part for this machine.
    #[error("`{}` has no image for {wanted}; it has {}", archive.display(), found.join(", "))]
    Platform {
        /// The file.
        archive: PathBuf,
        /// This machine.
        wanted: String,
        /// What there is.
        found: Vec<String>,
    },
    /// The file system said no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl ArchiveError {
    /// Something is wrong with `archive`.
    pub fn malformed(archive: impl std::fmt::Display, problem: impl Into<String>) -> Self {
        Self::Malformed { archive: archive.to_string(), problem: problem.into() }
    }
}
