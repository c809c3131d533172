//! A pull request's commits in a repository: which are to be had, what they are read against, and what it was merged as.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::locate::Commits;
use crate::formats::github::{Bag, Pull, PullKey};
use crate::model::MergedKind;
use crate::repo::{BaseTree as _, RepoError, Repository, TreePath};

/// More commits than these of one pull request are not searched.
const MOST_COMMITS: usize = 1000;
/// Larger files are not searched for hunks.
const MOST_TEXT: usize = 8 << 20;

/// What a pull request was merged as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merged {
    pub commit: String,
    pub kind: MergedKind,
    /// Whether its commits were put on the base branch one by one, so that `commit` is only the last of them.
    pub rebased: bool,
}

/// Files that were read, by commit and path.
type Files = BTreeMap<(String, String), Option<Rc<str>>>;

/// One pull request in its repository.
pub(super) struct Ground<'r> {
    repository: &'r Repository,
    /// The commits that the data says are the pull request's own.
    own: BTreeSet<String>,
    /// Where the base branch was, by several accounts.
    anchors: Vec<String>,
    /// The pull request's commits that are to be had, earlier ones first.
    pub candidates: Vec<String>,
    /// The last commit of its branch, where it is to be had.
    pub last: Option<String>,
    pub merged: Option<Merged>,
    files: RefCell<Files>,
    bases: RefCell<BTreeMap<String, Option<String>>>,
}

impl<'r> Ground<'r> {
    pub(super) fn new(repository: &'r Repository, bag: &Bag, key: &PullKey, pull: &Pull) -> Result<Self, RepoError> {
        let details = pull.details.clone().unwrap_or_default();
        let own: BTreeSet<String> = bag.commits_of(key, pull).into_iter().collect();
        let last = match details.head.clone().filter(|head| repository.has(head)) {
            Some(head) => Some(head),
            None => repository.reference(&format!("refs/pull/{}/head", key.number))?,
        };
        let mut ground = Self {
            repository,
            own,
            anchors: Vec::new(),
            candidates: Vec::new(),
            last,
            merged: None,
            files: RefCell::default(),
            bases: RefCell::default(),
        };
        ground.anchors.extend(details.base.clone().filter(|base| repository.has(base)));
        if let Some(name) = &details.base_name {
            for place in ["refs/heads", "refs/remotes/origin"] {
                ground.anchors.extend(repository.reference(&format!("{place}/{name}"))?);
            }
        }
        if ground.anchors.is_empty() {
            ground.anchors.extend(repository.head().ok());
        }
        if details.merged == Some(true) {
            ground.merged = ground.find_merged(&details.merge_commit, key.number)?;
        }
        // Where the base branch was just before: it holds what the branch took in from there, and nothing of the branch.
        if let Some(merged) = ground.merged.as_ref().filter(|m| m.kind != MergedKind::BranchHead && !m.rebased) {
            let before = repository.parents(&merged.commit)?.into_iter().next();
            ground.anchors.extend(before);
        }
        ground.bases.borrow_mut().clear();
        ground.candidates = ground.available(pull)?;
        Ok(ground)
    }

    /// The commits of the pull request that are to be had: first those that are on no branch any more, by the time of
    /// their writing, then those of its branch.
    fn available(&self, pull: &Pull) -> Result<Vec<String>, RepoError> {
        let mut order = Vec::new();
        if let Some(last) = &self.last
            && let Some(base) = self.base(last)
        {
            order = self.repository.range(&base, last, MOST_COMMITS)?;
        }
        let known: BTreeSet<String> = order.iter().cloned().collect();
        let named = pull.comments.iter().flat_map(|c| [&c.original_commit, &c.commit]).flatten();
        let named =
            named.chain(pull.reviews.iter().filter_map(|r| r.commit.as_ref())).chain(&pull.pushed).chain(&self.own);
        let beside: BTreeSet<&String> = named.filter(|commit| !known.contains(*commit)).collect();
        let beside = beside.into_iter().filter(|commit| self.repository.has(commit) && self.base(commit).is_some());
        let mut beside: Vec<(i64, String)> = beside.map(|commit| (self.authored(commit), commit.clone())).collect();
        beside.sort();
        Ok(beside.into_iter().take(MOST_COMMITS).map(|(_, commit)| commit).chain(order).collect())
    }

    fn find_merged(&self, said: &Option<String>, number: u64) -> Result<Option<Merged>, RepoError> {
        let plain = |commit: String, kind| Some(Merged { commit, kind, rebased: false });
        if let Some(commit) = said.as_ref().filter(|commit| self.repository.has(commit)) {
            let commit = self.repository.resolve(commit)?;
            if self.last.as_ref() == Some(&commit) {
                return Ok(plain(commit, MergedKind::BranchHead));
            }
            let parents = self.repository.parents(&commit)?;
            if parents.len() > 1 {
                return Ok(plain(commit, MergedKind::Merge));
            }
            // One commit: all of the pull request, or the last of several that were put there one by one.
            let whole = match (&self.last, parents.first()) {
                (Some(last), Some(before)) => self.is_whole(last, before, &commit)?,
                _ => true,
            };
            let kind = if whole { MergedKind::Squash } else { MergedKind::Unknown };
            return Ok(Some(Merged { commit, kind, rebased: !whole }));
        }
        let Some(last) = &self.last else { return Ok(None) };
        let found = self.repository.find_merged(number, last)?;
        // Merged as nobody knows what: what its branch ended in is the best that there is.
        let (commit, kind) = found.unwrap_or_else(|| (last.clone(), MergedKind::BranchHead));
        Ok(plain(commit, kind))
    }

    /// Whether `before..commit` is all of the pull request that ends in `last`, and not its last step alone.
    fn is_whole(&self, last: &str, before: &str, commit: &str) -> Result<bool, RepoError> {
        let Some(base) = self.base(last) else { return Ok(true) };
        if self.repository.range(&base, last, MOST_COMMITS)?.len() < 2 {
            return Ok(true);
        }
        let of_pull = self.repository.changes_between(&base, last)?;
        let here = self.repository.changes_between(before, commit)?;
        let covers = of_pull.paths().all(|path| here.changes.contains_key(path));
        // Putting commits on a branch one by one keeps their messages.
        let same_words = self.repository.message(last)?.trim() == self.repository.message(commit)?.trim();
        let last_step = match self.repository.parents(last)?.first() {
            Some(parent) => here != of_pull && here == self.repository.changes_between(parent, last)?,
            None => false,
        };
        Ok(covers && !same_words && !last_step)
    }

    fn find_base(&self, commit: &str) -> Result<Option<String>, RepoError> {
        let mut best: Option<String> = None;
        for anchor in &self.anchors {
            let Some(common) = self.repository.merge_base(commit, anchor)? else { continue };
            if common == commit || self.own.contains(&common) {
                continue;
            }
            best = match best {
                Some(best) if !self.repository.is_ancestor(&best, &common)? => Some(best),
                _ => Some(common),
            };
        }
        if best.is_some() || !self.own.contains(commit) {
            return Ok(best);
        }
        // By no account the base branch is apart from it: what its own first commit stands on.
        let mut here = commit.to_owned();
        for _ in 0..MOST_COMMITS {
            match self.repository.parents(&here)?.into_iter().next() {
                Some(parent) if self.own.contains(&parent) => here = parent,
                parent => return Ok(parent.filter(|p| self.repository.has(p))),
            }
        }
        Ok(None)
    }
}

impl Commits for Ground<'_> {
    fn has(&self, commit: &str) -> bool {
        self.repository.has(commit)
    }

    fn file(&self, commit: &str, path: &str) -> Option<Rc<str>> {
        let key = (commit.to_owned(), path.to_owned());
        if let Some(known) = self.files.borrow().get(&key) {
            return known.clone();
        }
        // A commit or file that cannot be read holds nothing that could be found in it.
        let read = || -> Option<Rc<str>> {
            let file = self.repository.tree_of(commit).ok()?.read(&TreePath::new(path).ok()?).ok()??;
            let text = String::from_utf8_lossy(&file.content);
            (file.content.len() <= MOST_TEXT && !file.content.contains(&0)).then(|| Rc::from(text.as_ref()))
        };
        let text = read();
        self.files.borrow_mut().insert(key, text.clone());
        text
    }

    fn base(&self, commit: &str) -> Option<String> {
        if let Some(known) = self.bases.borrow().get(commit) {
            return known.clone();
        }
        let found = self.find_base(commit).ok().flatten();
        self.bases.borrow_mut().insert(commit.to_owned(), found.clone());
        found
    }

    fn authored(&self, commit: &str) -> i64 {
        self.repository.times(commit).map(|(authored, _)| authored.as_second()).unwrap_or_default()
    }
}
