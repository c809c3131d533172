//! What can go wrong with an export or import.

use std::path::PathBuf;

use crate::environment::archive::ArchiveError;
use crate::environment::{BaseError, EnvironmentError};

/// Why an archive was not written or not taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// An environment without a base has no root file system to travel with.
    #[error("the environment of {instance_id} stands on this machine's own system, which cannot be exported")]
    OnHost {
        /// The instance.
        instance_id: String,
    },
    /// A layer is not in the cache any more.
    #[error("the layer `{}` is not whole; build the environment again", folder.display())]
    NoLayer {
        /// Its folder.
        folder: PathBuf,
    },
    /// A folder holds something that has no place in an image.
    #[error("`{}` cannot be exported: {problem}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The archive is broken.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The archive is an image, but no export of ours.
    #[error(
        "`{}` holds no environments of redgreen; an image is taken as a base: `redgreen env base --from FILE NAME`",
        archive.display()
    )]
    NotOurs {
        /// The file.
        archive: PathBuf,
    },
    /// A layer's recipe does not have the digest that it goes by.
    #[error("`{}` is damaged: the recipe of the layer {digest} has the digest {found}", archive.display())]
    Recipe {
        /// The file.
        archive: PathBuf,
        /// What it goes by.
        digest: String,
        /// What it has.
        found: String,
    },
    /// A base cannot be taken in.
    #[error(transparent)]
    Base(#[from] BaseError),
    /// The cache's layers cannot be read or written.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The file system said no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The caller's token ended it.
    #[error("interrupted")]
    Cancelled,
}
