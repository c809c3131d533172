//! The tree that a patch is for.

use std::collections::BTreeMap;

use super::changes::{FileContent, FileMode};
use super::error::RepoError;
use super::path::TreePath;

/// What a tree has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file or symlink.
    File(FileMode),
    /// A folder.
    Folder,
    /// A submodule, which snapshots leave empty.
    Submodule,
}

/// A tree to read from.
pub trait BaseTree {
    /// What is at `path`; `None` where nothing is. Symlinks are not followed.
    fn kind(&self, path: &TreePath) -> Result<Option<EntryKind>, RepoError>;

    /// The content of the file or symlink at `path`; `None` where there is none.
    fn read(&self, path: &TreePath) -> Result<Option<FileContent>, RepoError>;

    /// The files and symlinks below the folder at `path`, at any depth.
    fn files_below(&self, path: &TreePath) -> Result<Vec<TreePath>, RepoError>;
}

/// A tree in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryTree {
    /// Its files. Folders are what the paths imply.
    pub files: BTreeMap<TreePath, FileContent>,
}

impl BaseTree for MemoryTree {
    fn kind(&self, path: &TreePath) -> Result<Option<EntryKind>, RepoError> {
        if let Some(file) = self.files.get(path) {
            return Ok(Some(EntryKind::File(file.mode)));
        }
        Ok(self.files.keys().any(|p| p.is_below(path)).then_some(EntryKind::Folder))
    }

    fn read(&self, path: &TreePath) -> Result<Option<FileContent>, RepoError> {
        Ok(self.files.get(path).cloned())
    }

    fn files_below(&self, path: &TreePath) -> Result<Vec<TreePath>, RepoError> {
        Ok(self.files.keys().filter(|p| p.is_below(path)).cloned().collect())
    }
}
