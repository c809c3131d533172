//! What a leak-check says.

use serde::{Serialize, Serializer};

/// The kind of a finding: where something later than the commit to review hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`ABOUT` tells of each")]
pub enum LeakKind {
    Head,
    Branch,
    RemoteBranch,
    PullRef,
    OriginalRef,
    WorktreeRef,
    OtherRef,
    Tag,
    Notes,
    Stash,
    Replace,
    PseudoRef,
    Reflog,
    Operation,
    Commit,
    Tree,
    Blob,
    TagObject,
    Alternates,
    Grafts,
    Shallow,
    Submodule,
    NestedRepository,
    LinkedWorktree,
    Bundle,
    StrayPack,
    PackIndex,
    CommitGraph,
    MultiPackIndex,
    LfsObject,
    Index,
    WorkTree,
    Untracked,
    Bytecode,
    Remote,
    Credential,
    AddressRewrite,
    Hook,
    Message,
    PatchFile,
    GitFile,
    Package,
    PackageCache,
    UnknownFile,
    Damaged,
}

/// Each kind, its name in files and messages, what it is, and how it is removed; `{}` is the place.
const ABOUT: [(LeakKind, &str, &str, &str); 45] = {
    use LeakKind as K;
    const REF: &str = "delete the ref with `git update-ref -d`, then drop its objects: `git reflog expire --expire=now --all` and \
        `git gc --prune=now`";
    const OBJECT: &str =
        "delete every ref, reflog and index entry that leads there, then `git repack -ad` and `git prune --expire=now`";
    const FILE: &str = "delete `{}`";
    [
        (K::Head, "head", "`HEAD` is not where the mode wants it", "move `HEAD` there, or make a new snapshot"),
        (K::Branch, "branch", "a branch", REF),
        (K::RemoteBranch, "remote-branch", "a remote-tracking branch", REF),
        (K::PullRef, "pull-ref", "a pull request's ref", REF),
        (K::OriginalRef, "original-ref", "a ref that a rewrite of history kept (`refs/original`)", REF),
        (
            K::WorktreeRef,
            "worktree-ref",
            "a ref of one work tree (`refs/worktree`, `refs/bisect`, `refs/rewritten`)",
            REF,
        ),
        (K::OtherRef, "other-ref", "another ref, which `git branch` and `git tag` do not show", REF),
        (K::Tag, "tag", "a tag", REF),
        (K::Notes, "notes", "notes on commits", REF),
        (K::Stash, "stash", "a stash", REF),
        (K::Replace, "replace", "an object that git shows in another's place", REF),
        (K::PseudoRef, "pseudo-ref", "a trace of a fetch, merge, reset or pick", FILE),
        (K::Reflog, "reflog", "a record of where a ref was", FILE),
        (K::Operation, "operation", "the state of an unfinished rebase, merge, bisection or sequence", FILE),
        (K::Commit, "commit", "commits that the mode does not allow", OBJECT),
        (K::Tree, "tree", "folders' objects that nothing allowed leads to", OBJECT),
        (K::Blob, "blob", "files' contents that nothing allowed leads to", OBJECT),
        (K::TagObject, "tag-object", "annotated tags", OBJECT),
        (
            K::Alternates,
            "alternates",
            "another object store that git reads as well",
            "copy what is needed (`git repack -ad`), then delete `{}`",
        ),
        (K::Grafts, "grafts", "made-up parents of commits", FILE),
        (K::Shallow, "shallow", "ends of a cut-off history", FILE),
        (K::Submodule, "submodule", "a submodule's own repository", FILE),
        (K::NestedRepository, "nested-repository", "a repository inside the work tree", FILE),
        (
            K::LinkedWorktree,
            "linked-worktree",
            "another work tree of this repository",
            "`git worktree remove`, or delete `{}`",
        ),
        (K::Bundle, "bundle", "a git bundle: a repository in one file", FILE),
        (K::StrayPack, "stray-pack", "packed objects that git does not count among its own", FILE),
        (K::PackIndex, "pack-index", "ids in a file beside a pack", FILE),
        (K::CommitGraph, "commit-graph", "a cache of commits", FILE),
        (K::MultiPackIndex, "multi-pack-index", "a cache of objects", FILE),
        (K::LfsObject, "lfs-object", "contents of Git LFS that no pointer asks for", FILE),
        (K::Index, "index", "staged contents", "`git read-tree` the tree that is wanted, or make a new snapshot"),
        (
            K::WorkTree,
            "work-tree",
            "files that differ from the commit to review",
            "restore them from the commit to review",
        ),
        (K::Untracked, "untracked", "files that the commit to review does not have", FILE),
        (K::Bytecode, "bytecode", "compiled Python of another source", FILE),
        (
            K::Remote,
            "remote",
            "an address that later commits can be fetched from",
            "`git remote remove`, or delete the section from `{}`",
        ),
        (
            K::Credential,
            "credential",
            "a password, token or credential helper",
            "delete the setting from `{}`, and revoke the secret",
        ),
        (K::AddressRewrite, "address-rewrite", "a rule that rewrites addresses", "delete the section from `{}`"),
        (K::Hook, "hook", "a program that git runs, which may hold anything", FILE),
        (K::Message, "message", "a text that git left behind", FILE),
        (K::PatchFile, "patch-file", "a patch, or what an attempt to apply one left", FILE),
        (
            K::GitFile,
            "git-file",
            "a `.git` that points to somewhere else",
            "make it a repository of its own: `git clone --no-local` what is wanted",
        ),
        (K::Package, "package", "the project's own package in a later version", "uninstall it, or delete `{}`"),
        (
            K::PackageCache,
            "package-cache",
            "the project's own package in a package manager's cache",
            "clear the cache, or delete `{}`",
        ),
        (K::UnknownFile, "unknown-file", "something that is no part of a repository as git makes it", FILE),
        (
            K::Damaged,
            "damaged",
            "something that cannot be read, and so not be judged",
            "repair or delete `{}`; `git fsck` tells more",
        ),
    ]
};

impl LeakKind {
    /// All kinds, with their names and what they are.
    pub fn all() -> impl Iterator<Item = (Self, &'static str, &'static str)> {
        ABOUT.iter().map(|(kind, name, what, _)| (*kind, *name, *what))
    }

    fn about(self) -> &'static (Self, &'static str, &'static str, &'static str) {
        // The table has the kinds in their order, which a test holds it to.
        &ABOUT[self as usize]
    }

    /// Its name in files and messages.
    pub fn name(self) -> &'static str {
        self.about().1
    }

    /// What it is.
    pub fn what(self) -> &'static str {
        self.about().2
    }

    fn remove(self, place: &str) -> String {
        self.about().3.replace("{}", place)
    }
}

impl Serialize for LeakKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Whether what was found is later than the commit to review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Later {
    /// It is known to be earlier, but the mode does not allow it.
    No,
    /// It may be: nothing but a date, or nothing at all, says when it was made.
    Possible,
    /// It descends from the commit to review or from the merged one, or holds what only the merged one has.
    Certain,
}

impl Later {
    /// Its name in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Possible => "possible",
            Self::Certain => "certain",
        }
    }
}

/// One commit, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitBrief {
    /// Its full id.
    pub id: String,
    /// The committer's date (RFC 3339, UTC); empty where the object is not there.
    pub date: String,
    /// The first line of its message, cut at 100 characters.
    pub subject: String,
}

/// Something that must not be visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of hiding place it is.
    pub kind: LeakKind,
    /// Where: a path relative to the checkout, or an absolute one outside, with a line or name where that helps.
    /// Bytes that are no text are escaped.
    pub place: String,
    /// Whether it is later than the commit to review.
    pub later: Later,
    /// What is there.
    pub what: String,
    /// How many things of this kind are at this place.
    pub count: u64,
    /// The commits that it shows: the newest 10 at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<CommitBrief>,
    /// How to remove it.
    pub remove: String,
}

impl Finding {
    /// A finding of one thing.
    pub(super) fn new(kind: LeakKind, place: impl Into<String>, later: Later, what: impl Into<String>) -> Self {
        let place = place.into();
        let remove = kind.remove(&place);
        Self { kind, place, later, what: what.into(), count: 1, commits: Vec::new(), remove }
    }

    pub(super) fn count(mut self, count: u64) -> Self {
        self.count = count;
        self
    }

    pub(super) fn commits(mut self, commits: Vec<CommitBrief>) -> Self {
        self.commits = commits;
        self
    }
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Objects in all stores.
    pub objects: u64,
    /// Refs.
    pub refs: u64,
    /// Files of the work tree.
    pub files: u64,
    /// Files of the folders with packages.
    pub packages: u64,
}

/// What a leak-check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeakReport {
    /// Findings by place and kind; empty when the checkout is clean.
    pub findings: Vec<Finding>,
    /// What could not be checked, and what is worth knowing. Notes do not make a checkout unclean.
    pub notes: Vec<String>,
    /// How much was looked at.
    pub checked: Checked,
}

/// Findings of one kind beyond this number are counted and not listed.
const LISTED: usize = 50;

/// Sorts findings and cuts long lists of one kind, which say no more than their number.
pub(super) fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| (b.later, a.kind, &a.place, &a.what).cmp(&(a.later, b.kind, &b.place, &b.what)));
    findings.dedup();
    let mut kept: Vec<Finding> = Vec::new();
    let mut listed: std::collections::BTreeMap<LeakKind, (usize, u64, Later)> = std::collections::BTreeMap::new();
    for finding in findings {
        let entry = listed.entry(finding.kind).or_insert((0, 0, Later::No));
        if entry.0 < LISTED {
            entry.0 += 1;
            kept.push(finding);
        } else {
            entry.1 += finding.count;
            entry.2 = entry.2.max(finding.later);
        }
    }
    for (kind, (_, more, later)) in listed.into_iter().filter(|(_, (_, more, _))| *more > 0) {
        let what = format!("{more} more of this kind, which are not listed");
        kept.push(Finding::new(kind, "…", later, what).count(more));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds_and_every_name_is_its_own() {
        for (at, (kind, name, what, _)) in ABOUT.iter().enumerate() {
            assert_eq!(*kind as usize, at, "{name}");
            assert_eq!((kind.name(), kind.what()), (*name, *what));
        }
        let names: std::collections::BTreeSet<_> = LeakKind::all().map(|(_, name, _)| name).collect();
        assert_eq!(names.len(), ABOUT.len());
    }

    #[test]
    fn a_long_list_is_cut_and_its_rest_counted() {
        let many = (0..200).map(|n| Finding::new(LeakKind::Tag, format!("t{n:03}"), Later::Possible, "x").count(2));
        let one = Finding::new(LeakKind::Blob, "b", Later::Certain, "y");
        let kept = in_order(many.chain([one.clone()]).collect());
        assert_eq!((kept.len(), &kept[0]), (52, &one));
        assert_eq!(kept.iter().map(|f| f.count).sum::<u64>(), 401);
        assert_eq!(kept[51].what, "300 more of this kind, which are not listed");
    }
}
