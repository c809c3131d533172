//! Finds the commit on the default branch that a pull request ended in.

use std::collections::HashMap;

use git2::{Oid, Sort};

use super::error::RepoError;
use super::repository::Repository;
use crate::model::MergedKind;

/// The history of the default branch, read once.
#[derive(Debug, Default)]
pub(super) struct MainLine {
    /// Every commit, parents before children.
    commits: Vec<Commit>,
    index: HashMap<Oid, usize>,
    /// By pull number, the commits whose subject names it as merged, oldest first.
    subjects: HashMap<u64, Vec<(usize, MergedKind)>>,
}

#[derive(Debug)]
struct Commit {
    id: Oid,
    parents: Vec<Oid>,
    /// Whether it is on the line of first parents from the branch's tip.
    first_parent: bool,
}

/// The pull number that a subject names as merged by this very commit.
pub(super) fn merged_pull(subject: &str) -> Option<(u64, MergedKind)> {
    let subject = subject.trim();
    if let Some(rest) = subject.strip_prefix("Merge pull request #") {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
        return Some((digits.parse().ok()?, MergedKind::Merge));
    }
    let (_, number) = subject.strip_suffix(')')?.rsplit_once("(#")?;
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    Some((number.parse().ok().filter(|_| plain)?, MergedKind::Squash))
}

impl Repository {
    /// The commit that pull request `pull`, reviewed at `head`, was merged as, and how; `None` where nothing shows.
    ///
    /// Looked for on the default branch, in this order, among commits that are not part of `head`'s own history:
    /// 1. a merge whose subject is `Merge pull request #N`;
    /// 2. a merge that has the pull request's head (`refs/pull/N/head`) as a parent;
    /// 3. a commit whose subject ends in `(#N)`: a squash, or a merge where it has several parents;
    /// 4. the first commit of the branch's own line that holds the pull request's head, or else `head`.
    pub fn find_merged(&self, pull: u64, head: &str) -> Result<Option<(String, MergedKind)>, RepoError> {
        let git = self.git()?;
        let head = self.resolve_oid(&git, head)?;
        let line = self.main_line(&git)?;
        let pull_head = git.refname_to_id(&format!("refs/pull/{pull}/head")).ok();
        let named = line.subjects.get(&pull).map_or(&[][..], Vec::as_slice);
        let after = |at: &usize| {
            let id = line.commits[*at].id;
            id != head && !git.graph_descendant_of(head, id).unwrap_or(false)
        };
        let of_kind = |wanted: MergedKind| named.iter().find(|(at, kind)| *kind == wanted && after(at));
        let with_parent = |parent: Oid| {
            line.commits.iter().position(|c| c.parents.len() > 1 && c.parents[1..].contains(&parent)).filter(after)
        };
        let merge = of_kind(MergedKind::Merge).map(|(at, _)| *at);
        if let Some(at) = merge.or_else(|| pull_head.and_then(with_parent)) {
            return Ok(Some((line.commits[at].id.to_string(), MergedKind::Merge)));
        }
        if let Some((at, kind)) = of_kind(MergedKind::Squash) {
            let kind = if line.commits[*at].parents.len() > 1 { MergedKind::Merge } else { *kind };
            return Ok(Some((line.commits[*at].id.to_string(), kind)));
        }
        let taken_in = pull_head.and_then(|id| line.first_with(id)).or_else(|| line.first_with(head));
        Ok(taken_in.map(|(id, kind)| (id.to_string(), kind)))
    }

    fn main_line(&self, git: &git2::Repository) -> Result<&MainLine, RepoError> {
        if let Some(line) = self.main_line.get() {
            return Ok(line);
        }
        let line = match default_tip(git) {
            Some(tip) => MainLine::read(git, tip).map_err(self.failed("read the default branch"))?,
            None => MainLine::default(),
        };
        Ok(self.main_line.get_or_init(|| line))
    }
}

/// The default branch's tip: what HEAD names, or the usual names, or the only branch.
fn default_tip(git: &git2::Repository) -> Option<Oid> {
    let head = git.head().ok().and_then(|h| h.peel_to_commit().ok());
    let named = || {
        ["main", "master", "trunk", "develop"].iter().find_map(|n| git.refname_to_id(&format!("refs/heads/{n}")).ok())
    };
    let only = || {
        let mut branches = git.branches(Some(git2::BranchType::Local)).ok()?.flatten();
        let first = branches.next()?.0.get().target();
        if branches.next().is_none() { first } else { None }
    };
    head.map(|c| c.id()).or_else(named).or_else(only)
}

impl MainLine {
    fn read(git: &git2::Repository, tip: Oid) -> Result<Self, git2::Error> {
        let mut walk = git.revwalk()?;
        walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME | Sort::REVERSE)?;
        walk.push(tip)?;
        let mut line = Self::default();
        for id in walk {
            let id = id?;
            let commit = git.find_commit(id)?;
            let message = commit.message_bytes();
            let subject = message.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default();
            let at = line.commits.len();
            if let Some((pull, kind)) = merged_pull(&String::from_utf8_lossy(subject)) {
                line.subjects.entry(pull).or_default().push((at, kind));
            }
            line.index.insert(id, at);
            line.commits.push(Commit { id, parents: commit.parent_ids().collect(), first_parent: false });
        }
        let mut next = Some(tip);
        while let Some(&at) = next.and_then(|id| line.index.get(&id)) {
            line.commits[at].first_parent = true;
            next = line.commits[at].parents.first().copied();
        }
        Ok(line)
    }

    /// The first commit of the branch's own line whose history holds `id`.
    fn first_with(&self, id: Oid) -> Option<(Oid, MergedKind)> {
        let start = *self.index.get(&id)?;
        let mut holds = vec![false; self.commits.len()];
        for (at, commit) in self.commits.iter().enumerate().skip(start) {
            let parent_holds = |p: &Oid| self.index.get(p).is_some_and(|i| holds[*i]);
            holds[at] = commit.id == id || commit.parents.iter().any(parent_holds);
            if holds[at] && commit.first_parent {
                // On the line without a merge: it was pushed, and it is itself what the pull request ended in.
                let kind = if commit.id == id { MergedKind::BranchHead } else { MergedKind::Merge };
                return Some((commit.id, kind));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_that_name_a_pull_request() {
        for (subject, want) in [
            ("Merge pull request #12 from a/b", Some((12, MergedKind::Merge))),
            ("Fix it (#7)", Some((7, MergedKind::Squash))),
            ("Revert \"Fix it (#7)\" (#9)", Some((9, MergedKind::Squash))),
            ("Fix #7", None),
            ("Fix (#7) again", None),
            ("Fix (#x)", None),
            ("Fix (#+7)", None),
            ("Merge branch 'a'", None),
        ] {
            assert_eq!(merged_pull(subject), want, "{subject}");
        }
    }
}
