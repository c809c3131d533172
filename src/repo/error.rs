//! What can go wrong with repositories.

use std::path::PathBuf;

use super::path::{PathProblem, TreePath};

/// An error of this room, apart from patches ([`super::PatchError`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    /// The name is not `owner/name`.
    #[error("`{repo}` is not a repository's name: {problem} (wanted `owner/name`)")]
    BadName {
        /// What was given.
        repo: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// No place has the repository.
    #[error("repository `{repo}` was not found{}; looked at: {}", if *.offline { " and the network is off" } else { "" },
        list_or_nothing(.looked))]
    NotFound {
        /// The repository.
        repo: String,
        /// Every place that was looked at, and what was there.
        looked: Vec<String>,
        /// Whether a clone was forbidden.
        offline: bool,
    },
    /// Several places could be the repository.
    #[error("repository `{repo}` could be any of {}; name the folder `owner__name`", list_paths(.candidates))]
    AmbiguousRepository {
        /// The repository.
        repo: String,
        /// The folders.
        candidates: Vec<PathBuf>,
    },
    /// No object with this id is there.
    #[error("commit `{commit}` is not in {place}: no ref, pack or loose object has it")]
    NoSuchCommit {
        /// What was asked for.
        commit: String,
        /// The repository's place.
        place: PathBuf,
    },
    /// Several commits have ids that start like this.
    #[error("commit id `{commit}` is ambiguous in {place}: {}", .candidates.join(", "))]
    AmbiguousCommit {
        /// What was asked for.
        commit: String,
        /// The full ids.
        candidates: Vec<String>,
        /// The repository's place.
        place: PathBuf,
    },
    /// The object is not a commit.
    #[error("`{commit}` is a {kind} in {place}, not a commit")]
    NotACommit {
        /// What was asked for.
        commit: String,
        /// What it is.
        kind: String,
        /// The repository's place.
        place: PathBuf,
    },
    /// The text cannot be a commit id.
    #[error("`{commit}` is not a commit id (4 to 40 hex digits)")]
    BadCommitId {
        /// What was given.
        commit: String,
    },
    /// The tree of a commit has a name that must not be written.
    #[error("the tree of `{commit}` has the path `{path}`, which is refused: {problem}")]
    UnsafeTree {
        /// The commit or tree.
        commit: String,
        /// The path.
        path: String,
        /// Why.
        problem: PathProblem,
    },
    /// The tree names an object that the repository lacks.
    #[error("the object {id} of `{path}` is missing in {place}; the mirror is incomplete")]
    MissingObject {
        /// The path inside the tree.
        path: String,
        /// The object.
        id: String,
        /// The repository's place.
        place: PathBuf,
    },
    /// An object is not what it is used as.
    #[error("the object {id} in {place} is used as a {kind}, but is none; the mirror is damaged")]
    MalformedObject {
        /// What it should be.
        kind: String,
        /// The object.
        id: String,
        /// The repository's place.
        place: PathBuf,
    },
    /// Base and commit to review have no history in common.
    #[error(
        "the base `{base}` and `{commit}` have no commit in common in {place}; name the commit that the change was made on"
    )]
    UnrelatedBase {
        /// The base.
        base: String,
        /// The commit to review.
        commit: String,
        /// The repository's place.
        place: PathBuf,
    },
    /// The commit to review comes before the base.
    #[error(
        "there is nothing to review: `{commit}` is a part of the history of the base `{base}`; name an earlier base"
    )]
    NothingToReview {
        /// The base.
        base: String,
        /// The commit to review.
        commit: String,
    },
    /// Two changes of one set cannot both be.
    #[error("`{inner}` cannot be written because `{outer}` is written as a file")]
    ConflictingChanges {
        /// The path that is a file.
        outer: TreePath,
        /// The path below it.
        inner: TreePath,
    },
    /// A bundle needs commits that it does not hold.
    #[error(
        "bundle {bundle} is incomplete: it needs commits that it does not hold; make it with `git bundle create FILE --all`"
    )]
    BundlePrerequisites {
        /// The bundle.
        bundle: PathBuf,
    },
    /// The git program failed.
    #[error("`{command}` failed{}: {message}", .code.map_or_else(String::new, |c| format!(" with exit code {c}")))]
    GitProgram {
        /// The command, without the program's path.
        command: String,
        /// Its exit code; none when it was killed or did not start.
        code: Option<i32>,
        /// The last lines that it wrote.
        message: String,
    },
    /// The git program took too long.
    #[error("`{command}` did not end within {seconds} s and was killed")]
    GitTimeout {
        /// The command.
        command: String,
        /// The deadline.
        seconds: u64,
    },
    /// libgit2's answer.
    #[error("could not {step} in {place}: {source}")]
    Git {
        /// What was being done.
        step: String,
        /// The repository's place.
        place: PathBuf,
        /// libgit2's error.
        #[source]
        source: git2::Error,
    },
    /// The file system's answer; its message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl RepoError {
    pub(super) fn git(step: impl Into<String>, place: &std::path::Path) -> impl FnOnce(git2::Error) -> Self {
        let (step, place) = (step.into(), place.to_path_buf());
        move |source| Self::Git { step, place, source }
    }

    /// Whether the disk is the cause.
    pub fn is_disk(&self) -> bool {
        match self {
            Self::Io(e) => matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded),
            Self::GitProgram { message, .. } => message.contains("No space left on device"),
            _ => false,
        }
    }

    /// Whether trying again later could help: network, disk, file system, a killed program.
    pub fn is_infra(&self) -> bool {
        matches!(self, Self::Io(_) | Self::GitProgram { .. } | Self::GitTimeout { .. })
    }
}

fn list_or_nothing(items: &[String]) -> String {
    if items.is_empty() { "nothing, as no mirrors, bundles or template are set".to_owned() } else { items.join("; ") }
}

fn list_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
}
