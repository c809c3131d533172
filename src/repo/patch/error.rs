//! Why a patch was refused.

use std::fmt;

use super::ApplyMethod;
use crate::repo::error::RepoError;

/// Why a patch was not applied. Nothing of it is applied then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// It is not a patch, or breaks off.
    #[error("the patch is malformed at line {line}: {problem}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// No method could apply it.
    #[error("the patch does not apply: {}", list(.attempts))]
    DoesNotApply {
        /// Every method that was tried and what it ran into, in order.
        attempts: Vec<(ApplyMethod, String)>,
    },
    /// It would change something outside the tree, or git's own folder.
    #[error("the patch would leave the tree: `{path}` {how}")]
    Escapes {
        /// The path as the patch has it.
        path: String,
        /// How it would.
        how: Escape,
    },
    /// It says that a binary file changes without saying how.
    #[error(
        "the patch changes the binary file `{path}` but does not hold its content; make it with `git diff --binary`"
    )]
    UnsupportedBinary {
        /// The file.
        path: String,
    },
    /// It, or what it makes, is larger than any honest patch.
    #[error("{what} has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The patch or the file.
        what: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The tree that it is for could not be read: no fault of the patch.
    #[error(transparent)]
    Base(#[from] RepoError),
}

/// How a patch would leave the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Escape {
    /// By an absolute path.
    Absolute,
    /// By `..`.
    Parent,
    /// Into git's own folder.
    GitFolder,
    /// Through this symbolic link, of the tree or made by the same patch.
    Symlink(String),
}

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute => f.write_str("is an absolute path"),
            Self::Parent => f.write_str("goes up with `..`"),
            Self::GitFolder => f.write_str("lies in git's own folder"),
            Self::Symlink(link) => write!(f, "lies behind the symbolic link `{link}`"),
        }
    }
}

fn list(attempts: &[(ApplyMethod, String)]) -> String {
    // Methods that ran into the same thing are named together.
    let mut groups: Vec<(String, &str)> = Vec::new();
    for (method, message) in attempts {
        match groups.last_mut() {
            Some((methods, last)) if last == message => methods.push_str(&format!(", {method}")),
            _ => groups.push((method.to_string(), message)),
        }
    }
    groups.iter().map(|(methods, message)| format!("{methods}: {message}")).collect::<Vec<_>>().join("; ")
}
