//! A set of changes to a tree: what a patch, or the way from one commit to another, amounts to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::RepoError;
use super::path::TreePath;
use super::write::{Owner, TreeWriter};
use crate::model::{Digest, digest_bytes};

/// The mode of a file in a tree, as far as git keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileMode {
    /// `100644`
    Regular,
    /// `100755`
    Executable,
    /// `120000`: the content is the link's target.
    Symlink,
}

impl FileMode {
    /// The mode of a git tree entry or diff header; `None` for folders, submodules and anything else. As git does, any
    /// regular mode with the owner's execute bit counts as executable.
    pub fn from_git(mode: u32) -> Option<Self> {
        match mode & 0o170_000 {
            0o100_000 if mode & 0o100 != 0 => Some(Self::Executable),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Symlink),
            _ => None,
        }
    }

    /// The mode as git writes it.
    pub fn to_git(self) -> u32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
        }
    }
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Its mode.
    pub mode: FileMode,
    /// Its bytes; for a symlink the target.
    pub content: Vec<u8>,
}

impl FileContent {
    /// Why no Linux file system takes this file at `path`, where that is so.
    pub(super) fn unwritable(&self, path: &TreePath) -> Option<&'static str> {
        let target = &self.content;
        if path.is_too_long() {
            Some("its name is too long")
        } else if self.mode == FileMode::Symlink
            && (target.is_empty() || target.len() > LONGEST_TARGET || target.contains(&0))
        {
            Some("it is a symbolic link to something that is not a path")
        } else {
            None
        }
    }
}

/// The longest target of a symlink on Linux, in bytes.
const LONGEST_TARGET: usize = 4095;

/// What happens to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The path holds this afterwards.
    Write(FileContent),
    /// The path is gone afterwards.
    Remove,
}

/// Changes by path, relative to some tree. Only real changes are in it: applying a set to its tree and taking the
/// difference gives the set again. Submodules are never in it, as snapshots leave them empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// The changes.
    pub changes: BTreeMap<TreePath, Change>,
}

impl ChangeSet {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The paths that change, sorted by their bytes.
    pub fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.changes.keys()
    }

    /// The set's identity: BLAKE3 over every path, mode and content's digest, each with its length before it.
    pub fn digest(&self) -> Digest {
        let mut manifest = Vec::new();
        let mut field = |bytes: &[u8]| {
            manifest.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            manifest.extend_from_slice(bytes);
        };
        for (path, change) in &self.changes {
            field(path.as_bytes());
            match change {
                Change::Remove => field(b"remove"),
                Change::Write(file) => {
                    field(format!("write {:o}", file.mode.to_git()).as_bytes());
                    field(digest_bytes(&file.content).as_str().as_bytes());
                }
            }
        }
        digest_bytes(&manifest)
    }

    /// Writes the written files below `dir`, an empty directory that becomes a layer over the tree, and gives the paths
    /// that must be removed from the tree under it (for the overlay's `remove`).
    ///
    /// Files and folders get the present time, so that they are newer than anything that was built from the tree
    /// before. `owner` (user, group) is set when running as root. Removals that a written file or folder of the same
    /// layer already hides are left out.
    pub fn materialise(&self, dir: &Path, owner: (u32, u32)) -> Result<Vec<PathBuf>, RepoError> {
        self.check()?;
        let mut writer = TreeWriter::new(dir, Owner::of(owner), None)?;
        let written: Vec<&TreePath> = self.written().map(|(path, _)| path).collect();
        for (path, file) in self.written() {
            writer.write(path, file.mode, &file.content)?;
        }
        writer.finish()?;
        let hidden = |gone: &TreePath| {
            // `written` is sorted by bytes, and everything below a folder lies together.
            let mut below = gone.as_bytes().to_vec();
            below.push(b'/');
            let at = written.partition_point(|w| w.as_bytes() < below.as_slice());
            let parent_of_written = written.get(at).is_some_and(|w| w.is_below(gone));
            parent_of_written || gone.ancestors().any(|up| written.binary_search(&&up).is_ok())
        };
        let removals = self.changes.iter().filter(|(_, change)| **change == Change::Remove);
        Ok(removals.filter(|(path, _)| !hidden(path)).map(|(path, _)| path.to_path_buf()).collect())
    }

    /// The set without what it does at `paths`: there the tree is as it was. A file that comes back needs its folders,
    /// and has no folder in its place: what was written where it cannot be beside that file is left out, too.
    pub fn without(&self, paths: &BTreeSet<TreePath>) -> Self {
        let back: BTreeSet<&TreePath> =
            paths.iter().filter(|path| self.changes.get(path) == Some(&Change::Remove)).collect();
        let in_the_way = |path: &TreePath| {
            path.ancestors().any(|up| back.contains(&up)) || back.iter().any(|file| file.is_below(path))
        };
        let keeps = |path: &TreePath, change: &Change| {
            !paths.contains(path) && (*change == Change::Remove || !in_the_way(path))
        };
        let kept = self.changes.iter().filter(|(path, change)| keeps(path, change));
        Self { changes: kept.map(|(path, change)| (path.clone(), change.clone())).collect() }
    }

    fn written(&self) -> impl Iterator<Item = (&TreePath, &FileContent)> {
        self.changes.iter().filter_map(|(path, change)| match change {
            Change::Write(file) => Some((path, file)),
            Change::Remove => None,
        })
    }

    /// Refuses sets in which one written path lies below another (a write through a symlink, for example).
    fn check(&self) -> Result<(), RepoError> {
        for (path, _) in self.written() {
            for up in path.ancestors() {
                if let Some(Change::Write(_)) = self.changes.get(&up) {
                    return Err(RepoError::ConflictingChanges { outer: up, inner: path.clone() });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn write(mode: FileMode, content: &str) -> Change {
        Change::Write(FileContent { mode, content: content.into() })
    }

    fn set(changes: &[(&str, Change)]) -> ChangeSet {
        ChangeSet { changes: changes.iter().map(|(p, c)| (path(p), c.clone())).collect() }
    }

    #[test]
    fn the_digest_depends_on_every_part() {
        let base = set(&[("a", write(FileMode::Regular, "x"))]);
        let others = [
            set(&[]),
            set(&[("b", write(FileMode::Regular, "x"))]),
            set(&[("a", write(FileMode::Executable, "x"))]),
            set(&[("a", write(FileMode::Regular, "y"))]),
            set(&[("a", Change::Remove)]),
            set(&[("a", write(FileMode::Regular, "x")), ("b", Change::Remove)]),
        ];
        for other in &others {
            assert_ne!(base.digest(), other.digest(), "{other:?}");
        }
        assert_eq!(base.digest(), base.clone().digest());
        assert_eq!(set(&[]).digest().as_str(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    }

    #[test]
    fn a_layer_holds_the_writes_and_names_what_is_left_to_remove() {
        let dir = tempfile::tempdir().unwrap();
        let changes = set(&[
            ("bin/run", write(FileMode::Executable, "#!/bin/sh\n")),
            ("link", write(FileMode::Symlink, "bin/run")),
            ("gone", Change::Remove),
            // `file` becomes a folder, `folder` becomes a file: neither needs a removal.
            ("file", Change::Remove),
            ("file/now", write(FileMode::Regular, "1")),
            ("file.txt", Change::Remove),
            ("folder", write(FileMode::Regular, "2")),
            ("folder/old", Change::Remove),
        ]);
        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let removals = changes.materialise(dir.path(), owner).unwrap();
        assert_eq!(removals, [PathBuf::from("file.txt"), PathBuf::from("gone")]);
        let meta = fs_err::metadata(dir.path().join("bin/run")).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777, 0o755);
        assert!(meta.modified().unwrap() > before);
        assert_eq!(fs_err::read_link(dir.path().join("link")).unwrap(), Path::new("bin/run"));
        assert_eq!(fs_err::read(dir.path().join("file/now")).unwrap(), b"1");
    }

    #[test]
    fn without_some_paths_the_rest_stays_as_far_as_it_can() {
        let regular = || write(FileMode::Regular, "x");
        let changes = set(&[
            ("a.py", regular()),
            ("conftest.py", regular()),
            // A file that becomes a folder, and a folder that becomes a link: the files come back in their places.
            ("setup.cfg", Change::Remove),
            ("setup.cfg/x", regular()),
            ("tests", write(FileMode::Symlink, "evil")),
            ("tests/conftest.py", Change::Remove),
            ("tests/test_a.py", Change::Remove),
            ("testsuite", regular()),
        ]);
        let held = ["conftest.py", "setup.cfg", "tests/conftest.py"].map(path).into_iter().collect();
        let without = changes.without(&held);
        let left: Vec<String> = without.paths().map(ToString::to_string).collect();
        assert_eq!(left, ["a.py", "tests/test_a.py", "testsuite"]);
        assert!(without.check().is_ok());
        assert_eq!(changes.without(&BTreeSet::new()), changes);
    }

    #[test]
    fn nothing_is_written_through_a_link_of_the_same_set() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = outside.path().to_str().unwrap().to_owned();
        let changes = set(&[("l", write(FileMode::Symlink, &target)), ("l/x", write(FileMode::Regular, "x"))]);
        let error = changes.materialise(dir.path(), (0, 0)).unwrap_err();
        assert!(matches!(error, RepoError::ConflictingChanges { .. }), "{error}");
        assert!(fs_err::read_dir(outside.path()).unwrap().next().is_none());
    }
}
