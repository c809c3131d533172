//! The check itself: inventory, what is known, what is allowed, findings.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid};

use super::error::LeakError;
use super::files;
use super::finding::{Checked, Finding, Later, LeakKind, LeakReport, in_order};
use super::inside::{GitDir, Head, Staged, is_git_dir};
use super::inventory::Inventory;
use super::known::{self, Known, Read};
use super::marks::Marks;
use super::packages::{self, Own};
use super::stores::Objects;
use super::work_tree::WorkTree;
use super::{Watch, lfs};
use crate::repo::{Repository, raw};

/// What a checkout may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeakMode {
    /// One commit, whose tree is that of the commit to review.
    Run,
    /// The base and its history, and the tree of the commit to review as work on top.
    Review,
}

/// A question: does this checkout show anything later than the commit to review?
#[derive(Debug, Clone)]
pub struct LeakCheck<'a> {
    /// The checkout: a folder with a `.git`, a bare repository, or a folder of files alone.
    pub path: &'a Path,
    /// What it may hold.
    pub mode: LeakMode,
    /// The commit to review, in full or abbreviated. Without it, `run` takes the checkout's own `HEAD` at its word, and
    /// `review` does not compare the work tree.
    pub head: Option<&'a str>,
    /// `review`: the base. Without it, the checkout's own `HEAD` is the base.
    pub base: Option<&'a str>,
    /// The commit that addressed the review, where it is known: what only it has is certainly later.
    pub merged: Option<&'a str>,
    /// A full repository, to look commits up in that the checkout does not have.
    pub reference: Option<&'a Repository>,
    /// The project's name (`owner/name` or the package's), beside those that its own files say.
    pub project: Option<&'a str>,
    /// More folders with packages: site-packages, caches of pip, npm and cargo.
    pub packages: &'a [PathBuf],
    /// A folder for temporary links to the checkout's packs.
    pub scratch: &'a Path,
}

/// The `.git` of a checkout.
struct Place {
    /// The folder with `HEAD` and the index.
    private: Option<PathBuf>,
    /// The folder with objects and refs, where it is another.
    common: Option<PathBuf>,
    /// Whether there are files beside the `.git`.
    has_files: bool,
}

impl LeakCheck<'_> {
    /// Makes the check. About 25 bytes of memory for each object of the checkout are held, and more for each commit that
    /// is not allowed.
    ///
    /// # Errors
    /// When there is no such folder, or a commit that was named is nowhere. Damage in the checkout is a finding.
    pub fn make(&self, watch: &mut Watch<'_>) -> Result<LeakReport, LeakError> {
        crate::repo::repository::initialise();
        if !self.path.is_dir() {
            return Err(LeakError::NoFolder(self.path.to_path_buf()));
        }
        let root = fs_err::canonicalize(self.path)?;
        let mut inventory = Inventory::default();
        let place = locate(&root, &mut inventory);
        let git_dirs: Vec<GitDir<'_>> = [&place.private, &place.common]
            .into_iter()
            .flatten()
            .map(|dir| GitDir { root: &root, dir: dir.clone() })
            .collect();
        let store = git_dirs.last().map_or_else(|| root.join(".git/objects"), |git| git.dir.join("objects"));
        let objects = Objects::gather(&root, &store, self.scratch, &mut inventory, watch)?;

        let reference = self.reference.map(Repository::git).transpose()?;
        let odb = reference.as_ref().map(git2::Repository::odb).transpose();
        let odb = odb.map_err(LeakError::git("read the reference's objects"))?;
        let read = |id: Oid| {
            objects.read(id).ok().or_else(|| {
                let object = odb.as_ref()?.read(id).ok()?;
                Some((object.kind(), object.data().to_vec()))
            })
        };
        let at = match git_dirs.first().map(GitDir::head) {
            Some(Head::At(id)) => Some(id),
            _ => None,
        };
        let staged = git_dirs.first().map_or_else(Staged::default, |git| git.index(&mut inventory));
        let known = self.learn(at, &objects, &read, &mut inventory)?;

        let mut marks = Marks::new(&objects);
        let tree_of = |id: &Oid| commit_of(*id, &read).map(|(tree, _)| tree);
        let single = at.filter(|id| tree_of(id) == known.head_tree);
        self.allow(single, &known, &staged, &mut marks, &mut inventory, watch);
        if marks.missing > 0 {
            let note =
                format!("{} objects of what is allowed are not here (a shallow or partial clone)", marks.missing);
            inventory.notes.push(note);
        }
        if let Some(head) = known.head.filter(|head| objects.has(*head)) {
            marks.not_later(head, &mut inventory, watch);
        }
        marks.leftovers(&known, &mut inventory, watch);
        self.judge_head(at, &known, &read, &marks, &mut inventory);

        for git in &git_dirs {
            git.look(&mut inventory);
        }
        if let Some(git) = git_dirs.last() {
            lfs::look(&root, &git.dir, &known, &read, &mut inventory);
        }
        let own = Own::of(known.files.as_ref(), &read, self.project);
        let mut checked = Checked { objects: objects.rows.len() as u64, ..Checked::default() };
        if place.has_files {
            let work_tree = WorkTree {
                root: &root,
                has_git: place.private.is_some(),
                known: &known,
                staged: &staged,
                own: &own,
                read: &read,
            };
            checked.files = work_tree.look(&mut inventory, watch);
        }
        checked.packages = packages::look(&root, self.packages, &own, &mut inventory, watch);
        checked.refs = inventory.refs;
        let mut findings = std::mem::take(&mut inventory.findings);
        findings.extend(inventory.leads.iter().filter_map(|lead| marks.finding(lead, &known)));
        Ok(LeakReport { findings: in_order(findings), notes: inventory.notes, checked })
    }

    /// Finds a commit in the checkout or the reference.
    fn resolve(&self, commit: &str, objects: &Objects, read: &Read<'_>) -> Result<Oid, LeakError> {
        let hex = commit.trim().to_ascii_lowercase();
        let missing = || LeakError::NoSuchCommit { commit: commit.to_owned(), reference: self.reference.is_some() };
        let usable = (4..=40).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let found = if !usable {
            None
        } else if let Some(reference) = self.reference {
            let found = reference.resolve(&hex).ok();
            found.and_then(|id| Oid::from_str(&id).ok()).or_else(|| objects.by_prefix(&hex))
        } else {
            objects.by_prefix(&hex)
        };
        found.filter(|id| matches!(read(*id), Some((ObjectType::Commit, _)))).ok_or_else(missing)
    }

    fn learn(
        &self,
        at: Option<Oid>,
        objects: &Objects,
        read: &Read<'_>,
        inventory: &mut Inventory,
    ) -> Result<Known, LeakError> {
        let mut known =
            Known { head: self.head.map(|c| self.resolve(c, objects, read)).transpose()?, ..Known::default() };
        if known.head.is_none() && self.mode == LeakMode::Run {
            known.head = at;
            if at.is_some() {
                inventory
                    .notes
                    .push("no commit to review was named: `HEAD` of the checkout is taken for it".to_owned());
            }
        }
        let none = HashSet::new();
        if let Some(head) = known.head {
            known.past = known::history(head, &none, read).into_keys().collect();
            let commit = commit_of(head, read);
            known.head_time = commit.and_then(|(_, time)| time);
            known.head_tree = commit.map(|(tree, _)| tree);
            if let Some(root) = known.head_tree {
                let tree = known::tree(root, read);
                known.listed.extend(&tree.ids);
                known.files = Some(tree);
            }
        }
        if self.mode == LeakMode::Review {
            known.base = self.base_of(at, &known, objects, read, inventory)?;
            if let Some(base) = known.base {
                known.base_past = known::history(base, &none, read).into_keys().collect();
                if let Some((root, _)) = commit_of(base, read) {
                    known.listed.extend(known::tree(root, read).ids);
                }
            }
            if known.head.is_none() {
                let note =
                    "no commit to review was named: the work tree is not compared, and what is staged is allowed";
                inventory.notes.push(note.to_owned());
            }
        }
        if let Some(merged) = self.merged {
            match self.resolve(merged, objects, read) {
                Ok(id) => known.learn_later(id, read),
                Err(_) => inventory.notes.push(format!("the merged commit `{merged}` is not at hand")),
            }
        }
        if let Some(reference) = self.reference {
            known.learn_descendants(&tips(reference)?, read);
        }
        Ok(known)
    }

    /// `review`: the base, which must come before the commit to review.
    fn base_of(
        &self,
        at: Option<Oid>,
        known: &Known,
        objects: &Objects,
        read: &Read<'_>,
        inventory: &mut Inventory,
    ) -> Result<Option<Oid>, LeakError> {
        let asked = self.base.map(|c| self.resolve(c, objects, read)).transpose()?;
        let Some(head) = known.head else { return Ok(asked.or(at)) };
        match (asked, self.reference) {
            (Some(base), _) if known.past.contains(&base) => Ok(Some(base)),
            (Some(base), Some(reference)) => {
                let used = reference.base_of(&reference.git()?, base, head)?;
                inventory
                    .notes
                    .push(format!("the base {base} is no part of the history of {head}; {used} is taken for it"));
                Ok(Some(used))
            }
            (Some(base), None) => Err(LeakError::BaseNotBefore { base: base.to_string(), head: head.to_string() }),
            // `HEAD` may be the commit to review itself, with its history.
            (None, _) => Ok(Some(at.filter(|id| known.past.contains(id)).unwrap_or(head))),
        }
    }

    /// `single` is the commit of `HEAD` where its tree is that of the commit to review.
    fn allow(
        &self,
        single: Option<Oid>,
        known: &Known,
        staged: &Staged,
        marks: &mut Marks<'_>,
        inventory: &mut Inventory,
        watch: &mut Watch<'_>,
    ) {
        let tree = known.head_tree;
        match self.mode {
            LeakMode::Run => {
                if let Some(id) = single {
                    marks.allow_one(id);
                }
            }
            LeakMode::Review => {
                if let Some(base) = known.base {
                    marks.allow(base, inventory, watch);
                }
                if tree.is_none() {
                    staged.ids.iter().for_each(|id| marks.allow_one(*id));
                }
            }
        }
        // By its listing, which the reference may have where the checkout does not: an index needs no folders' objects.
        if let Some(root) = tree.filter(|root| marks.has(*root)) {
            marks.allow(root, inventory, watch);
        }
        if let Some(tree) = &known.files {
            tree.ids.iter().for_each(|id| marks.allow_one(*id));
        }
    }

    /// Whether `HEAD` is where the mode wants it.
    fn judge_head(
        &self,
        at: Option<Oid>,
        known: &Known,
        read: &Read<'_>,
        marks: &Marks<'_>,
        inventory: &mut Inventory,
    ) {
        let Some(id) = at else { return };
        let what = match self.mode {
            LeakMode::Run => {
                let tree = commit_of(id, read).map(|(tree, _)| tree);
                if tree.is_some() && tree == known.head_tree {
                    return;
                }
                "the tree of `HEAD` is not that of the commit to review"
            }
            LeakMode::Review if known.base == Some(id) => return,
            LeakMode::Review => "`HEAD` is not the base",
        };
        let later = marks.judge(id, known).unwrap_or(Later::No);
        let commits = marks.brief(id).into_iter().collect();
        inventory.findings.push(Finding::new(LeakKind::Head, "HEAD", later, what).commits(commits));
    }
}

/// The commits that a repository's refs lead to.
fn tips(repository: &Repository) -> Result<Vec<Oid>, LeakError> {
    let git = repository.git()?;
    let references = git.references().map_err(LeakError::git("list the reference's refs"))?;
    Ok(references.flatten().filter_map(|r| Some(r.peel_to_commit().ok()?.id())).collect())
}

/// Tree and committer's time of a commit.
fn commit_of(id: Oid, read: &Read<'_>) -> Option<(Oid, Option<i64>)> {
    let (_, data) = read(id).filter(|(kind, _)| *kind == ObjectType::Commit)?;
    let commit = raw::commit(&data)?;
    Some((commit.tree, commit.time))
}

/// Where the `.git` of a checkout is. One that points elsewhere is followed once.
fn locate(root: &Path, inventory: &mut Inventory) -> Place {
    let dot = root.join(".git");
    let Ok(meta) = fs_err::symlink_metadata(&dot) else {
        if is_git_dir(root) {
            return Place { private: Some(root.to_path_buf()), common: None, has_files: false };
        }
        inventory.notes.push("there is no `.git`: the files alone were checked".to_owned());
        return Place { private: None, common: None, has_files: true };
    };
    let mut private = dot.clone();
    if !meta.is_dir() {
        let target = if meta.is_symlink() {
            fs_err::read_link(&dot).ok()
        } else {
            let text = files::read(&dot, 1 << 16).bytes().unwrap_or_default();
            let path = text.strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii);
            path.map(|p| PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(p)))
        };
        let named = target.as_deref().map_or_else(|| "nowhere".to_owned(), |t| files::place(root, t));
        inventory.find(LeakKind::GitFile, ".git", Later::Possible, format!("it points to {named}"));
        match target.and_then(|t| fs_err::canonicalize(root.join(t)).ok()).filter(|t| t.is_dir()) {
            Some(target) if target.join("HEAD").is_file() => private = target,
            _ => {
                inventory.damaged(".git", "where it points to is no repository");
                return Place { private: None, common: None, has_files: true };
            }
        }
    }
    let text = files::read(&private.join("commondir"), 1 << 16).bytes();
    let common = text.and_then(|text| {
        let path = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text.trim_ascii()).to_owned();
        fs_err::canonicalize(private.join(path)).ok().filter(|p| p.is_dir() && *p != private)
    });
    Place { private: Some(private), common, has_files: true }
}
