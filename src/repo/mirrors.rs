//! Looks for a repository in folders of mirrors and of bundles.

use std::path::{Path, PathBuf};

use super::error::RepoError;
use super::name::RepoName;
use super::repository::{is_repository, remote_addresses};

/// A search, with the places that were looked at.
pub(super) struct Search<'a> {
    name: &'a RepoName,
    pub looked: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(name: &'a RepoName) -> Self {
        Self { name, looked: Vec::new() }
    }

    /// The mirror of the repository in the first folder that has one.
    pub(super) fn mirrors(&mut self, folders: &[PathBuf]) -> Result<Option<PathBuf>, RepoError> {
        for folder in folders {
            if let Some(found) = self.mirror_in(folder)? {
                return Ok(Some(found));
            }
            let there = if folder.is_dir() { "no such mirror" } else { "no such folder" };
            self.looked.push(format!("{} ({there})", folder.display()));
        }
        Ok(None)
    }

    fn mirror_in(&self, folder: &Path) -> Result<Option<PathBuf>, RepoError> {
        for wanted in self.name.full_folders() {
            if let Some(found) = one(self.name, candidates(folder, &wanted, as_repository))? {
                return Ok(Some(found));
            }
        }
        let short = self.name.short_folders();
        let mut found: Vec<PathBuf> = short.iter().flat_map(|w| candidates(folder, w, as_repository)).collect();
        // A remote decides; a mirror without one is taken at its folder's word.
        found.retain(|path| self.remote_agrees(path) != Some(false));
        if found.iter().any(|path| self.remote_agrees(path) == Some(true)) {
            found.retain(|path| self.remote_agrees(path) == Some(true));
        }
        if let Some(found) = one(self.name, found)? {
            return Ok(Some(found));
        }
        Ok(as_repository(folder).filter(|path| self.is_itself(folder, path)))
    }

    /// Whether the mirrors' folder is itself the repository: by its remote, or by its own name.
    fn is_itself(&self, folder: &Path, repository: &Path) -> bool {
        if let Some(agrees) = self.remote_agrees(repository) {
            return agrees;
        }
        let Ok(full) = fs_err::canonicalize(folder) else { return false };
        let wanted = self.name.full_folders().into_iter().chain(self.name.short_folders());
        let tail = full.to_string_lossy().to_ascii_lowercase();
        wanted.into_iter().any(|w| tail.ends_with(&format!("/{}", w.to_ascii_lowercase())))
    }

    fn remote_agrees(&self, repository: &Path) -> Option<bool> {
        let addresses = remote_addresses(repository);
        (!addresses.is_empty()).then(|| addresses.iter().any(|a| self.name.is_address(a)))
    }

    /// The bundle of the repository in the first folder that has one.
    pub(super) fn bundles(&mut self, folders: &[PathBuf]) -> Result<Option<PathBuf>, RepoError> {
        for folder in folders {
            for wanted in self.name.bundles() {
                let file = |path: &Path| path.is_file().then(|| path.to_path_buf());
                if let Some(found) = one(self.name, candidates(folder, &wanted, file))? {
                    return Ok(Some(found));
                }
            }
            self.looked.push(format!("{} (no such bundle)", folder.display()));
        }
        Ok(None)
    }
}

/// The repository at a path, or in `repo` or `repo.git` below it.
fn as_repository(path: &Path) -> Option<PathBuf> {
    [path.to_path_buf(), path.join("repo"), path.join("repo.git")].into_iter().find(|p| is_repository(p))
}

/// What is at `wanted` below `folder`: exactly, or else everything that differs in letter case only.
fn candidates(folder: &Path, wanted: &str, accept: impl Fn(&Path) -> Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(exact) = accept(&folder.join(wanted)) {
        return vec![exact];
    }
    let mut at = vec![folder.to_path_buf()];
    for part in wanted.split('/') {
        let entries = at.iter().filter_map(|f| fs_err::read_dir(f).ok()).flatten().flatten();
        at = entries.filter(|e| e.file_name().eq_ignore_ascii_case(part)).map(|e| e.path()).collect();
    }
    at.sort();
    at.iter().filter_map(|p| accept(p)).collect()
}

fn one(name: &RepoName, mut found: Vec<PathBuf>) -> Result<Option<PathBuf>, RepoError> {
    if found.len() > 1 {
        return Err(RepoError::AmbiguousRepository { repo: name.full(), candidates: found });
    }
    Ok(found.pop())
}
