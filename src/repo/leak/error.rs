//! Why a leak-check could not be made.

use std::path::PathBuf;

use crate::repo::RepoError;

/// Why a leak-check could not be made. What it finds in a checkout, damage too, is a finding and no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeakError {
    /// There is nothing to check.
    #[error("there is no folder `{0}`; give the path of a checkout")]
    NoFolder(PathBuf),
    /// The commit is in neither place.
    #[error(
        "commit `{commit}` is not in the checkout{}; name its benchmark and instance, or a full repository with \
         `--reference`", if *.reference { " nor in the reference" } else { "" }
    )]
    NoSuchCommit {
        /// What was asked for.
        commit: String,
        /// Whether a reference was looked at too.
        reference: bool,
    },
    /// The base is no ancestor of the head.
    #[error("the base {base} is no part of the history of {head}; name the last commit that both have in common")]
    BaseNotBefore {
        /// The base.
        base: String,
        /// The commit to review.
        head: String,
    },
    /// The scratch folder's name is no text.
    #[error("the scratch folder's path is no UTF-8; name another cache")]
    Scratch,
    /// The reference repository cannot be read.
    #[error(transparent)]
    Reference(#[from] RepoError),
    /// libgit2's answer.
    #[error("could not {step}: {source}")]
    Git {
        /// What was being done.
        step: &'static str,
        /// libgit2's error.
        #[source]
        source: git2::Error,
    },
    /// The file system's answer; its message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl LeakError {
    pub(super) fn git(step: &'static str) -> impl FnOnce(git2::Error) -> Self {
        move |source| Self::Git { step, source }
    }

    /// Whether the machine is to blame, and not what was asked.
    pub fn is_infra(&self) -> bool {
        match self {
            Self::NoFolder(_) | Self::NoSuchCommit { .. } | Self::BaseNotBefore { .. } => false,
            Self::Reference(error) => error.is_infra(),
            Self::Scratch | Self::Git { .. } | Self::Io(_) => true,
        }
    }
}
