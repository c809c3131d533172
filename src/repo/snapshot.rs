//! Snapshots of a commit to review, which know nothing that came later.
//!
//! `run`: its exact files, and a `.git` with one commit. `review`: the same files, and a `.git` with the history up to the
//! commit that it is based on, so that the change is uncommitted work.

use std::path::{Path, PathBuf};

use git2::Oid;
use serde::{Deserialize, Serialize};

use super::base::EntryKind;
use super::changes::{FileContent, FileMode};
use super::error::RepoError;
use super::gitdir::{self, IndexFile, Presence, Tip};
use super::lock::{Lock, beside, remove_all, settle};
use super::repository::{Repository, read_blob};
use super::tree::{TreeEntry, TreeReader};
use super::write::{Owner, TreeWriter};
use crate::fault;

/// The time of every file and folder of a snapshot, and of its commit: 2000-01-01 00:00 UTC. Old, so that everything
/// that is made from the tree is newer; constant, so that content alone decides.
pub const SNAPSHOT_TIME: i64 = 946_684_800;

/// Changes when what a snapshot holds changes, so that older ones are made again.
const FORMAT: u32 = 1;

/// What the `.git` of a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotMode {
    /// One commit: for running tests.
    Run,
    /// The history up to this base commit, and the change from there as uncommitted work: for review tools and agents.
    Review {
        /// The base commit, in full or abbreviated.
        base: String,
    },
}

/// A snapshot on disk. One below a root is shared and must not be changed: mount it as an overlay's lower layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its folder.
    pub dir: PathBuf,
    /// The full id of the commit that was asked for.
    pub commit: String,
    /// The id of its tree.
    pub tree: String,
    /// `review` only: the commit that the branch leads to. It is the base that was asked for, or where that is no part
    /// of the commit's history, the last commit that both have in common.
    pub base: Option<String>,
    /// How many commits the `.git` holds.
    pub commits: u64,
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
    /// `review` only: the base that was asked for is no part of the commit's history, so the last common commit is the
    /// base.
    #[error("the base {0} is no part of the history of the commit to review; the last commit of both is the base")]
    OtherBase(String),
    /// `review` only: the mirror is shallow, so the history starts at these commits (their number).
    #[error("the mirror's history is cut off: {0} commits lack their parents")]
    ShallowHistory(String),
    /// `review` only: objects of the history that the mirror lacks (their number).
    #[error("{0} objects of the history are left out: the mirror does not have them")]
    MissingHistory(String),
}

/// What lies beside a complete snapshot.
#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
    #[serde(default)]
    base: Option<String>,
    #[serde(default = "one")]
    commits: u64,
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
        let dir = dest_root.join(format!("{tree}-{}-{}", owner.0, owner.1));
        self.kept(&SnapshotMode::Run, &id, dir, owner)
    }

    /// The place of the `run` snapshot of a commit below `dest_root`, and whether it is whole there. Nothing is written.
    pub fn kept_snapshot(
        &self,
        commit: &str,
        dest_root: &Path,
        owner: (u32, u32),
    ) -> Result<(PathBuf, bool), RepoError> {
        let dir = dest_root.join(format!("{}-{}-{}", self.tree_id(commit)?, owner.0, owner.1));
        let whole = read_marker(&beside(&dir, ".complete"), &dir).is_some();
        Ok((dir, whole))
    }

    /// Makes the `review` snapshot of a commit below `dest_root`, or finds it there.
    ///
    /// Its files are those of a `run` snapshot ([`Self::snapshot`]). Its `.git` has one branch `main`, which leads to
    /// `base` with all of its history: packed from what `base` and the commit's tree reach, and nothing else, with no
    /// remote, reflog, hook or trace of a fetch. The change from `base` is *staged*: the index is the commit's tree.
    /// So `git diff HEAD`, `git diff --cached` and `git status` all show the whole change, new files, links and modes
    /// too, by object ids alone (an unstaged change leaves new files out of `git diff`, and shows others through the
    /// repository's line-end and filter attributes), and what a tool writes itself stays apart, in `git diff`.
    ///
    /// Where `base` is no part of the commit's history, the best common ancestor takes its place, as in a pull
    /// request's diff: what came to `base` since is later. Snapshots are kept by `<base>-<commit>-<user>-<group>`,
    /// marked and locked as `run` snapshots are. One mirror gives the same bytes each time.
    ///
    /// # Errors
    /// [`RepoError::UnrelatedBase`] where the two have no history in common, [`RepoError::NothingToReview`] where the
    /// commit is a part of the base's history.
    pub fn review_snapshot(
        &self,
        base: &str,
        commit: &str,
        dest_root: &Path,
        owner: (u32, u32),
    ) -> Result<Snapshot, RepoError> {
        let (base, commit) = (self.resolve(base)?, self.resolve(commit)?);
        let dir = dest_root.join(format!("{base}-{commit}-{}-{}", owner.0, owner.1));
        self.kept(&SnapshotMode::Review { base }, &commit, dir, owner)
    }

    fn kept(&self, mode: &SnapshotMode, id: &str, dir: PathBuf, owner: (u32, u32)) -> Result<Snapshot, RepoError> {
        if let Some(root) = dir.parent() {
            fs_err::create_dir_all(root)?;
        }
        let tree = self.tree_id(id)?;
        let marker_path = beside(&dir, ".complete");
        let found = |marker: Marker| Snapshot {
            dir: dir.clone(),
            commit: id.to_owned(),
            tree: tree.clone(),
            base: marker.base,
            commits: marker.commits,
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
        let made = self.write_snapshot(mode, id, &temporary, owner);
        let snapshot = match made {
            Ok(snapshot) => snapshot,
            Err(error) => {
                // The first error is the one to tell; what stays is removed by the next try.
                let _ = remove_all(&temporary);
                return Err(error);
            }
        };
        let Snapshot { base, commits, files, notes, .. } = snapshot;
        let marker = Marker { format: FORMAT, base, commits, files, notes };
        fault::point("repo.snapshot.written");
        fs_err::rename(&temporary, &dir)?;
        fault::point("repo.snapshot.renamed");
        let text = serde_json::to_vec(&marker).map_err(std::io::Error::other)?;
        let unfinished = beside(&marker_path, ".tmp");
        fs_err::write(&unfinished, text)?;
        fault::point("repo.marker.written");
        settle(&dir)?;
        fault::point("repo.snapshot.synced");
        fs_err::rename(&unfinished, &marker_path)?;
        fault::point("repo.marker.renamed");
        Ok(found(marker))
    }

    /// Writes a snapshot into the folder `to`, which is empty or not there. It is whole only when this returns.
    pub fn write_snapshot(
        &self,
        mode: &SnapshotMode,
        commit: &str,
        to: &Path,
        owner: (u32, u32),
    ) -> Result<Snapshot, RepoError> {
        let reader = self.tree_of(commit)?;
        let mut notes = Vec::new();
        let past = match mode {
            SnapshotMode::Run => None,
            SnapshotMode::Review { base } => Some(self.past(base, reader.commit(), &mut notes)?),
        };
        fs_err::create_dir_all(to)?;
        let mut writer = TreeWriter::new(to, Owner::of(owner), Some(SNAPSHOT_TIME))?;
        let listing = reader.listing()?;
        let (index, files) = self.write_files(&reader, listing.entries, &mut writer, &mut notes)?;
        let tip = past.as_ref().map_or(Tip::Single, Tip::Past);
        gitdir::write(to, &reader, &listing.trees, index, &tip, &writer)?;
        writer.finish()?;
        Ok(Snapshot {
            dir: to.to_path_buf(),
            commit: reader.commit().to_owned(),
            tree: reader.id(),
            base: past.as_ref().map(|p| p.tip.to_string()),
            commits: past.as_ref().map_or(1, |p| p.commits),
            files,
            notes,
        })
    }

    fn write_files(
        &self,
        reader: &TreeReader,
        entries: Vec<TreeEntry>,
        writer: &mut TreeWriter,
        notes: &mut Vec<SnapshotNote>,
    ) -> Result<(Vec<IndexFile>, usize), RepoError> {
        let mut index = Vec::new();
        let mut files = 0;
        for entry in entries {
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
        Ok((index, files))
    }
}

fn one() -> u64 {
    1
}

fn read_marker(path: &Path, dir: &Path) -> Option<Marker> {
    let text = fs_err::read(path).ok()?;
    let marker: Marker = serde_json::from_slice(&text).ok()?;
    (marker.format == FORMAT && dir.is_dir()).then_some(marker)
}

/// Whether a file is a pointer of Git LFS (its specification, version 1: a small text that starts with this line).
pub(super) fn is_lfs_pointer(content: &[u8]) -> bool {
    content.len() < 1024 && content.starts_with(b"version https://git-lfs.github.com/spec/v1\n")
}
