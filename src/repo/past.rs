//! What came before a commit: the commits of its history and all that they hold, as far as a mirror has it.

use std::collections::HashSet;

use git2::{ErrorCode, ObjectType, Oid};

use super::error::RepoError;
use super::raw;
use super::repository::Repository;
use super::snapshot::SnapshotNote;

/// A commit with everything that it reaches.
pub(super) struct Past {
    /// The commit.
    pub tip: Oid,
    /// How many commits there are, the tip among them.
    pub commits: u64,
    /// Every object once, in an order that depends on the history alone, with the name of its first place (which
    /// groups objects that are likely alike).
    pub objects: Vec<(Oid, Option<String>)>,
    /// The commits whose parents the mirror lacks, sorted.
    pub shallow: Vec<Oid>,
    /// How many trees and blobs the mirror lacks.
    pub missing: u64,
}

impl Repository {
    /// The history up to `base`, or up to its last common commit with `commit`.
    pub(super) fn past(&self, base: &str, commit: &str, notes: &mut Vec<SnapshotNote>) -> Result<Past, RepoError> {
        let git = self.git()?;
        let (asked, head) = (self.resolve_oid(&git, base)?, self.resolve_oid(&git, commit)?);
        let tip = self.base_of(&git, asked, head)?;
        if tip != asked {
            notes.push(SnapshotNote::OtherBase(asked.to_string()));
        }
        let past = self.walk(&git, tip)?;
        if !past.shallow.is_empty() {
            notes.push(SnapshotNote::ShallowHistory(past.shallow.len().to_string()));
        }
        if past.missing > 0 {
            notes.push(SnapshotNote::MissingHistory(past.missing.to_string()));
        }
        Ok(past)
    }

    /// A commit's first parent: for a commit of the main branch, what was there before it.
    ///
    /// # Errors
    /// When the commit is missing.
    pub fn first_parent(&self, commit: &str) -> Result<Option<String>, RepoError> {
        let git = self.git()?;
        Ok(self.commit(&git, commit)?.parent_id(0).ok().map(|id| id.to_string()))
    }

    /// The commit from which a pull request with this head began: its last common commit with `base`, or else with what
    /// `merged`, a commit of the main branch, came after. `None` where that is the head itself, or nothing common is there.
    ///
    /// # Errors
    /// When a commit is missing, or the history cannot be read.
    pub fn fork_point(
        &self,
        head: &str,
        base: Option<&str>,
        merged: Option<&str>,
    ) -> Result<Option<String>, RepoError> {
        let git = self.git()?;
        let head = self.resolve_oid(&git, head)?;
        let before = match (base, merged) {
            (Some(base), _) => Some(self.resolve_oid(&git, base)?),
            (None, Some(merged)) => self.commit(&git, merged)?.parent_id(0).ok(),
            (None, None) => None,
        };
        let Some(before) = before else { return Ok(None) };
        match git.merge_base(before, head) {
            Ok(id) => Ok((id != head).then(|| id.to_string())),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(self.failed("find the common history")(e)),
        }
    }

    /// The commit up to which history comes before `head`: `base` where it is an ancestor, else their merge base.
    pub(super) fn base_of(&self, git: &git2::Repository, base: Oid, head: Oid) -> Result<Oid, RepoError> {
        let merge_base = match git.merge_base(base, head) {
            Ok(id) => id,
            Err(e) if e.code() == ErrorCode::NotFound => {
                let (base, commit, place) = (base.to_string(), head.to_string(), self.place().to_path_buf());
                return Err(RepoError::UnrelatedBase { base, commit, place });
            }
            Err(e) => return Err(self.failed("find the common history")(e)),
        };
        if merge_base == head {
            return Err(RepoError::NothingToReview { base: base.to_string(), commit: head.to_string() });
        }
        Ok(merge_base)
    }

    fn walk(&self, git: &git2::Repository, tip: Oid) -> Result<Past, RepoError> {
        let odb = git.odb().map_err(self.failed("read the objects"))?;
        let mut past = Past { tip, commits: 0, objects: Vec::new(), shallow: Vec::new(), missing: 0 };
        let mut seen: HashSet<Oid> = HashSet::from([tip]);
        let mut trees: Vec<Oid> = Vec::new();
        let mut next = std::collections::VecDeque::from([tip]);
        while let Some(id) = next.pop_front() {
            let object = odb.read(id).map_err(self.failed(format!("read commit {id}")))?;
            let commit = raw::commit(object.data()).filter(|_| object.kind() == ObjectType::Commit);
            let commit = commit.ok_or_else(|| self.malformed("commit", id))?;
            past.commits += 1;
            past.objects.push((id, None));
            trees.push(commit.tree);
            // Parents are taken from the commit itself: grafts and replacements are the mirror's own business.
            let mut cut = false;
            for parent in commit.parents {
                if !odb.exists(parent) {
                    cut = true;
                } else if seen.insert(parent) {
                    next.push_back(parent);
                }
            }
            if cut {
                past.shallow.push(id);
            }
        }
        past.shallow.sort();
        for tree in trees {
            if seen.insert(tree) {
                self.walk_tree(&odb, tree, &mut seen, &mut past)?;
            }
        }
        Ok(past)
    }

    /// Everything below one tree that was not seen yet. A stack of its own: trees of strangers can be deep.
    fn walk_tree(
        &self,
        odb: &git2::Odb<'_>,
        root: Oid,
        seen: &mut HashSet<Oid>,
        past: &mut Past,
    ) -> Result<(), RepoError> {
        let mut next = vec![(root, None)];
        while let Some((id, name)) = next.pop() {
            let object = match odb.read(id) {
                Ok(object) => object,
                Err(e) if e.code() == ErrorCode::NotFound => {
                    past.missing += 1;
                    continue;
                }
                Err(e) => return Err(self.failed(format!("read tree {id}"))(e)),
            };
            let entries = raw::tree(object.data()).filter(|_| object.kind() == ObjectType::Tree);
            let entries = entries.ok_or_else(|| self.malformed("tree", id))?;
            past.objects.push((id, name));
            for entry in entries {
                if entry.is_submodule() || !seen.insert(entry.id) {
                    continue;
                }
                let name = Some(String::from_utf8_lossy(entry.name).into_owned()).filter(|n| !n.contains('\0'));
                if entry.is_tree() {
                    next.push((entry.id, name));
                } else if odb.exists(entry.id) {
                    past.objects.push((entry.id, name));
                } else {
                    past.missing += 1;
                }
            }
        }
        Ok(())
    }

    fn malformed(&self, kind: &str, id: Oid) -> RepoError {
        RepoError::MalformedObject { kind: kind.to_owned(), id: id.to_string(), place: self.place().to_path_buf() }
    }
}
