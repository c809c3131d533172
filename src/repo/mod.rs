//! Repositories, snapshots and patches. git2 in process; the `git` program only for the network and for bundles.
//!
//! Everything here blocks; callers on an async runtime use `spawn_blocking`.

mod base;
mod beside;
mod changes;
mod difference;
mod error;
mod gitdir;
mod handout;
mod history;
pub mod leak;
mod lock;
mod merged;
mod mirrors;
mod name;
mod past;
mod patch;
mod path;
mod program;
mod raw;
mod repository;
mod snapshot;
mod sources;
mod text;
mod tree;
mod write;

pub use base::{BaseTree, EntryKind, MemoryTree};
pub use beside::renew_beside;
pub use changes::{Change, ChangeSet, FileContent, FileMode};
pub use difference::{LineChange, line_changes, show_change};
pub use error::RepoError;
pub use handout::{HandOut, HandOutError};
pub use history::DiffText;
pub use patch::{
    Applied, ApplyMethod, Escape, MAX_FILE, MAX_PATCH, Normalised, PatchError, apply_patch, normalise_patch,
};
pub use path::{PathProblem, TreePath};
pub use repository::Repository;
pub use snapshot::{SNAPSHOT_TIME, Snapshot, SnapshotMode, SnapshotNote};
pub use sources::{RepoSources, Retries};
pub use text::changes_in;
pub use tree::{TreeEntry, TreeReader};
