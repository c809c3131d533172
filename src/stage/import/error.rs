//! Why an import gives nothing at all.

use std::io;
use std::path::PathBuf;

/// An import that cannot begin or has nothing to give. Broken rows are not errors: they are named in the summary.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is no such file or folder.
    #[error("there is no file or folder `{0}`; check the path")]
    NotThere(PathBuf),
    /// A revision of a git directory cannot be read.
    #[error("git directory `{path}`: cannot read revision `{revision}`: {problem}; give it as `PATH@REV`")]
    Git {
        /// The git directory.
        path: PathBuf,
        /// The revision.
        revision: String,
        /// What git says.
        problem: String,
    },
    /// Nothing in the source looks like the format.
    #[error("`{path}` holds {problem}")]
    Nothing {
        /// The source.
        path: PathBuf,
        /// What was looked for.
        problem: String,
    },
    /// A whole file is broken.
    #[error("`{path}`: {problem}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The disk says no.
    #[error(transparent)]
    Io(#[from] io::Error),
}
