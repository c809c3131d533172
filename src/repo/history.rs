//! Questions about a repository's history: common commits, ranges, references, and differences as text.

use git2::{DiffFormat, DiffOptions, ErrorCode, Oid, Sort};

use super::error::RepoError;
use super::repository::Repository;

/// A difference as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffText {
    /// A unified diff with git's headers; bytes that are no UTF-8 are replaced.
    Whole(String),
    /// It is longer than was asked for.
    TooLong,
}

impl Repository {
    /// Whether a commit is here, by its full or abbreviated id.
    pub fn has(&self, commit: &str) -> bool {
        self.resolve(commit).is_ok()
    }

    /// The best common commit of two; `None` where they have no history in common.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, RepoError> {
        let git = self.git()?;
        match git.merge_base(self.resolve_oid(&git, one)?, self.resolve_oid(&git, other)?) {
            Ok(id) => Ok(Some(id.to_string())),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(self.failed("find the common history")(e)),
        }
    }

    /// Whether `commit` is `of`, or in its history.
    pub fn is_ancestor(&self, commit: &str, of: &str) -> Result<bool, RepoError> {
        let git = self.git()?;
        let (commit, of) = (self.resolve_oid(&git, commit)?, self.resolve_oid(&git, of)?);
        Ok(commit == of || git.graph_descendant_of(of, commit).map_err(self.failed("walk the history"))?)
    }

    /// The commit that a reference (`refs/heads/main`) leads to; `None` where there is no such reference.
    pub fn reference(&self, name: &str) -> Result<Option<String>, RepoError> {
        let git = self.git()?;
        let found = git.find_reference(name).and_then(|r| r.peel_to_commit());
        match found {
            Ok(commit) => Ok(Some(commit.id().to_string())),
            Err(e) if matches!(e.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec | ErrorCode::Peel) => Ok(None),
            Err(e) => Err(self.failed(format!("look up `{name}`"))(e)),
        }
    }

    /// The commits of `from..to`, parents before children; of more than `most` the last ones.
    pub fn range(&self, from: &str, to: &str, most: usize) -> Result<Vec<String>, RepoError> {
        let git = self.git()?;
        let (from, to) = (self.resolve_oid(&git, from)?, self.resolve_oid(&git, to)?);
        let walk = || -> Result<Vec<Oid>, git2::Error> {
            let mut walk = git.revwalk()?;
            walk.set_sorting(Sort::TOPOLOGICAL)?;
            walk.push(to)?;
            walk.hide(from)?;
            walk.take(most).collect()
        };
        let ids = walk().map_err(self.failed("walk the history"))?;
        Ok(ids.into_iter().rev().map(|id| id.to_string()).collect())
    }

    /// The ids of a commit's parents.
    pub fn parents(&self, commit: &str) -> Result<Vec<String>, RepoError> {
        let git = self.git()?;
        Ok(self.commit(&git, commit)?.parent_ids().map(|id| id.to_string()).collect())
    }

    /// A commit's whole message; bytes that are no UTF-8 are replaced.
    pub fn message(&self, commit: &str) -> Result<String, RepoError> {
        let git = self.git()?;
        Ok(String::from_utf8_lossy(self.commit(&git, commit)?.message_bytes()).into_owned())
    }

    /// When a commit's content was written, by its author's clock, and when it was made, by its committer's. A time that
    /// no calendar has is the epoch.
    pub fn times(&self, commit: &str) -> Result<(jiff::Timestamp, jiff::Timestamp), RepoError> {
        let git = self.git()?;
        let commit = self.commit(&git, commit)?;
        let time = |time: git2::Time| jiff::Timestamp::from_second(time.seconds()).unwrap_or_default();
        Ok((time(commit.author().when()), time(commit.time())))
    }

    /// The difference between two commits' trees as `git diff` writes it, with renames; at most `most` bytes.
    pub fn diff_text(&self, from: &str, to: &str, most: usize) -> Result<DiffText, RepoError> {
        let git = self.git()?;
        let tree = |commit| self.commit(&git, commit)?.tree().map_err(self.failed("read a tree"));
        let (old, new) = (tree(from)?, tree(to)?);
        let failed = || self.failed("compare two trees");
        let mut options = DiffOptions::new();
        options.include_typechange(true);
        let mut diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options)).map_err(failed())?;
        diff.find_similar(None).map_err(failed())?;
        let mut text = Vec::new();
        let printed = diff.print(DiffFormat::Patch, |_, _, line| {
            if matches!(line.origin(), '+' | '-' | ' ') {
                text.push(line.origin() as u8);
            }
            text.extend_from_slice(line.content());
            text.len() <= most
        });
        match printed {
            Ok(()) => Ok(DiffText::Whole(String::from_utf8_lossy(&text).into_owned())),
            Err(_) if text.len() > most => Ok(DiffText::TooLong),
            Err(e) => Err(failed()(e)),
        }
    }
}
