//! Reads the files of a commit.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, Oid};

use super::base::{BaseTree, EntryKind};
use super::changes::{FileContent, FileMode};
use super::error::RepoError;
use super::path::TreePath;
use super::repository::{missing_or, read_blob};

/// The tree of one commit.
pub struct TreeReader {
    git: git2::Repository,
    place: PathBuf,
    commit: String,
    tree: Oid,
}

/// One entry of a tree that is not a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Where it is.
    pub path: TreePath,
    /// A file, a symlink or a submodule.
    pub kind: EntryKind,
    /// Its object's id: a blob, or a submodule's commit.
    pub id: String,
}

/// A whole tree.
#[derive(Default)]
pub(super) struct Listing {
    pub entries: Vec<TreeEntry>,
    pub trees: Vec<Oid>,
}

impl TreeReader {
    pub(super) fn new(git: git2::Repository, place: PathBuf, commit: String, tree: Oid) -> Self {
        Self { git, place, commit, tree }
    }

    /// The commit's full id.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// The tree's id.
    pub fn id(&self) -> String {
        self.tree.to_string()
    }

    pub(super) fn git(&self) -> &git2::Repository {
        &self.git
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Every file, symlink and submodule, in git's order.
    pub fn entries(&self) -> Result<Vec<TreeEntry>, RepoError> {
        Ok(self.listing()?.entries)
    }

    /// The entries, and the ids of all the trees that they are in.
    pub(super) fn listing(&self) -> Result<Listing, RepoError> {
        let mut listing = Listing::default();
        self.walk(self.tree, &mut Vec::new(), &mut listing)?;
        Ok(listing)
    }

    fn walk(&self, tree: Oid, prefix: &mut Vec<u8>, listing: &mut Listing) -> Result<(), RepoError> {
        listing.trees.push(tree);
        let at = || String::from_utf8_lossy(prefix).into_owned();
        let tree = self.git.find_tree(tree).map_err(|e| missing_or(e, tree, &at(), &self.place))?;
        let length = prefix.len();
        for entry in tree.iter() {
            prefix.extend_from_slice(entry.name_bytes());
            match kind_of(entry.filemode()) {
                Some(EntryKind::Folder) => {
                    // The name is checked before anything below it is.
                    self.path(prefix)?;
                    prefix.push(b'/');
                    self.walk(entry.id(), prefix, listing)?;
                }
                Some(kind) => {
                    listing.entries.push(TreeEntry { path: self.path(prefix)?, kind, id: entry.id().to_string() });
                }
                None => {}
            }
            prefix.truncate(length);
        }
        Ok(())
    }

    fn path(&self, bytes: &[u8]) -> Result<TreePath, RepoError> {
        TreePath::new(bytes).map_err(|problem| RepoError::UnsafeTree {
            commit: self.commit.clone(),
            path: String::from_utf8_lossy(bytes).into_owned(),
            problem,
        })
    }

    fn entry(&self, path: &TreePath) -> Result<Option<(EntryKind, Oid)>, RepoError> {
        let failed = |e| missing_or(e, self.tree, &path.to_string(), &self.place);
        let tree = self.git.find_tree(self.tree).map_err(failed)?;
        match tree.get_path(path.as_path()) {
            Ok(entry) => Ok(kind_of(entry.filemode()).map(|kind| (kind, entry.id()))),
            // A part of the path that is a file is no error either: there is nothing below it.
            Err(e) if e.code() == ErrorCode::NotFound && e.class() == git2::ErrorClass::Tree => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }
}

impl BaseTree for TreeReader {
    fn kind(&self, path: &TreePath) -> Result<Option<EntryKind>, RepoError> {
        Ok(self.entry(path)?.map(|(kind, _)| kind))
    }

    fn read(&self, path: &TreePath) -> Result<Option<FileContent>, RepoError> {
        match self.entry(path)? {
            Some((EntryKind::File(mode), id)) => {
                let content = read_blob(&self.git, id, path, &self.place)?;
                Ok(Some(FileContent { mode, content }))
            }
            _ => Ok(None),
        }
    }

    fn files_below(&self, path: &TreePath) -> Result<Vec<TreePath>, RepoError> {
        let Some((EntryKind::Folder, id)) = self.entry(path)? else { return Ok(Vec::new()) };
        let mut prefix = path.as_bytes().to_vec();
        prefix.push(b'/');
        let mut listing = Listing::default();
        self.walk(id, &mut prefix, &mut listing)?;
        let files = listing.entries.into_iter().filter(|e| matches!(e.kind, EntryKind::File(_)));
        Ok(files.map(|e| e.path).collect())
    }
}

fn kind_of(mode: i32) -> Option<EntryKind> {
    let mode = mode.cast_unsigned();
    match mode & 0o170_000 {
        0o040_000 => Some(EntryKind::Folder),
        0o160_000 => Some(EntryKind::Submodule),
        _ => FileMode::from_git(mode).map(EntryKind::File),
    }
}
