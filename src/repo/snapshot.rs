//! `run` snapshots: the exact files of one commit, and a `.git` with one commit that knows nothing else.

use std::path::{Path, PathBuf};

use git2::Oid;
use serde::{Deserialize, Serialize};

use super::base::EntryKind;
use super::changes::{FileContent, FileMode};
use super::error::RepoError;
use super::gitdir::{self, IndexFile, Presence};
use super::lock::{Lock, beside, remove_all, settle};
use super::repository::{Repository, read_blob};
use super::write::{Owner, TreeWriter};
use crate::fault;

/// The time of every file and folder of a snapshot, and of its commit: 2000-01-01 00:00 UTC. Old, so that everything
/// that is made from the tree is newer; constant, so that content alone decides.
pub const SNAPSHOT_TIME: i64 = 946_684_800;

/// Changes when what a snapshot holds changes, so that older ones are made again.
const FORMAT: u32 = 1;

/// A snapshot on disk. It is shared and must not be changed: mount it as an overlay's lower layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its folder.
    pub dir: PathBuf,
    /// The full id of the commit that was asked for.
    pub commit: String,
    /// The id of its tree.
    pub tree: String,
    /// How many files and symlinks it has.
    pub files: usize,
    /// What is not as in a full checkout.
    pub notes: Vec<SnapshotNote>,
}

/// Something that a snapshot has otherwise than a full checkout would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "path")]
pub enum SnapshotNote {
    /// A submodule, which is an empty folder.
    #[error("the submodule `{0}` is empty")]
    EmptySubmodule(String),
    /// A Git LFS pointer, whose content is not fetched.
    #[error("`{0}` is a Git LFS pointer without its content")]
    LfsPointer(String),
    /// A file whose content the mirror lacks (partial mirrors leave large files out); it is left out.
    #[error("`{0}` is left out: the mirror does not have its content")]
    MissingContent(String),
    /// A file that no file system takes, for its name or its link's target; it is left out.
    #[error("`{0}` is left out: its name or its link's target cannot be written")]
    Unwritable(String),
}

/// What lies beside a complete snapshot.
#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
    files: usize,
    notes: Vec<SnapshotNote>,
}

impl Repository {
    /// Makes the `run` snapshot of a commit below `dest_root`, or finds it there.
    ///
    /// It has exactly the files of the commit's tree (no filters, no line-end conversion), all with modes 644 or 755
    /// and the same old time, world-readable, given to `owner` (user, group) when running as root; and a `.git` with
    /// one commit on the branch `main` that has a fixed author, date and message, and no other object, ref, hook or
    /// remote. Trees are kept by `<tree>-<user>-<group>`; a file `….complete` beside a folder says that it is whole.
    /// Two processes may ask at once: one makes it, the other waits.
    pub fn snapshot(&self, commit: &str, dest_root: &Path, owner: (u32, u32)) -> Result<Snapshot, RepoError> {
        let git = self.git()?;
        let commit = self.commit(&git, commit)?;
        let (id, tree) = (commit.id().to_string(), commit.tree_id());
        fs_err::create_dir_all(dest_root)?;
        let dir = dest_root.join(format!("{tree}-{}-{}", owner.0, owner.1));
        let marker_path = beside(&dir, ".complete");
        let found = |marker: Marker| Snapshot {
            dir: dir.clone(),
            commit: id.clone(),
            tree: tree.to_string(),
            files: marker.files,
            notes: marker.notes,
        };
        if let Some(marker) = read_marker(&marker_path, &dir) {
            return Ok(found(marker));
        }
        let _lock = Lock::take(&beside(&dir, ".lock"))?;
        if let Some(marker) = read_marker(&marker_path, &dir) {
            return Ok(found(marker));
        }
        let temporary = beside(&dir, ".tmp");
        for leftover in [&marker_path, &dir, &temporary] {
            remove_all(leftover)?;
        }
        let made = self.write_snapshot(&id, &temporary, owner);
        let marker = match made {
            Ok(marker) => marker,
            Err(error) => {
                // The first error is the one to tell; what stays is removed by the next try.
                let _ = remove_all(&temporary);
                return Err(error);
            }
        };
        fault::point("repo.snapshot.written");
        fs_err::rename(&temporary, &dir)?;
        fault::point("repo.snapshot.renamed");
        let text = serde_json::to_vec(&marker).map_err(std::io::Error::other)?;
        let unfinished = beside(&marker_path, ".tmp");
        fs_err::write(&unfinished, text)?;
        fault::point("repo.marker.written");
        settle(dest_root)?;
        fault::point("repo.snapshot.synced");
        fs_err::rename(&unfinished, &marker_path)?;
        fault::point("repo.marker.renamed");
        Ok(found(marker))
    }

    fn write_snapshot(&self, commit: &str, to: &Path, owner: (u32, u32)) -> Result<Marker, RepoError> {
        fs_err::create_dir_all(to)?;
        let reader = self.tree_of(commit)?;
        let mut writer = TreeWriter::new(to, Owner::of(owner), Some(SNAPSHOT_TIME))?;
        let mut notes = Vec::new();
        let mut index = Vec::new();
        let mut files = 0;
        let listing = reader.listing()?;
        for entry in listing.entries {
            let id = Oid::from_str(&entry.id).map_err(self.failed("read an object id"))?;
            let mut size = 0;
            let mut presence = Presence::Written;
            let mode = match entry.kind {
                EntryKind::Folder => continue,
                EntryKind::Submodule => {
                    writer.folder(entry.path.as_path())?;
                    notes.push(SnapshotNote::EmptySubmodule(entry.path.to_string()));
                    gitdir::SUBMODULE
                }
                EntryKind::File(mode) => 'file: {
                    let content = match read_blob(reader.git(), id, &entry.path, reader.place()) {
                        Err(RepoError::MissingObject { path, .. }) => {
                            notes.push(SnapshotNote::MissingContent(path));
                            presence = Presence::Unknown;
                            break 'file mode.to_git();
                        }
                        read => read?,
                    };
                    let file = FileContent { mode, content };
                    if file.unwritable(&entry.path).is_some() {
                        notes.push(SnapshotNote::Unwritable(entry.path.to_string()));
                        presence = Presence::Unwritten;
                        break 'file mode.to_git();
                    }
                    let content = file.content;
                    if mode != FileMode::Symlink && is_lfs_pointer(&content) {
                        notes.push(SnapshotNote::LfsPointer(entry.path.to_string()));
                    }
                    writer.write(&entry.path, mode, &content)?;
                    files += 1;
                    size = content.len();
                    mode.to_git()
                }
            };
            index.push(IndexFile { path: entry.path, mode, id, size, presence });
        }
        gitdir::write(to, &reader, &listing.trees, index, &writer)?;
        writer.finish()?;
        Ok(Marker { format: FORMAT, files, notes })
    }
}

fn read_marker(path: &Path, dir: &Path) -> Option<Marker> {
    let text = fs_err::read(path).ok()?;
    let marker: Marker = serde_json::from_slice(&text).ok()?;
    (marker.format == FORMAT && dir.is_dir()).then_some(marker)
}

/// Whether a file is a pointer of Git LFS (its specification, version 1: a small text that starts with this line).
fn is_lfs_pointer(content: &[u8]) -> bool {
    content.len() < 1024 && content.starts_with(b"version https://git-lfs.github.com/spec/v1\n")
}
