//! The work tree against the files of the commit to review.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::{ObjectType, Oid};
use walkdir::DirEntry;

use super::Watch;
use super::files::{self, place};
use super::finding::{Later, LeakKind};
use super::inside::{GitDir, Head, Staged, is_git_dir, special};
use super::inventory::Inventory;
use super::known::{Known, Read, Tree, TreeFile};
use super::names::shown;
use super::packages::{Own, compiled_from, source_of};
use crate::repo::snapshot::is_lfs_pointer;

/// Larger files are not hashed where that only tells more of what is a finding anyway, nor tried with other line ends.
const HASHED: u64 = 64 << 20;

/// A look at a work tree.
pub(super) struct WorkTree<'a> {
    pub root: &'a Path,
    /// Whether `.git` at the root is looked at elsewhere.
    pub has_git: bool,
    pub known: &'a Known,
    pub staged: &'a Staged,
    pub own: &'a Own,
    pub read: &'a Read<'a>,
}

/// Files below one folder that the commit to review does not have.
struct Group {
    place: String,
    count: u64,
    first: Vec<String>,
    later: Later,
}

impl WorkTree<'_> {
    /// Looks at every file. Gives their number.
    pub(super) fn look(&self, inventory: &mut Inventory, watch: &mut Watch<'_>) -> u64 {
        let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut groups: BTreeMap<Vec<u8>, Group> = BTreeMap::new();
        let mut inside: Option<Vec<u8>> = None;
        let mut count = 0;
        let mut walk = walkdir::WalkDir::new(self.root).min_depth(1).sort_by_file_name().into_iter();
        while let Some(entry) = walk.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    let at = e.path().map_or_else(String::new, |p| place(self.root, p));
                    inventory.damaged(at, e.to_string());
                    continue;
                }
            };
            let path = entry.path().strip_prefix(self.root).unwrap_or(entry.path()).as_os_str().as_bytes().to_vec();
            if inside.as_ref().is_some_and(|folder| !below(&path, folder)) {
                inside = None;
            }
            let is_folder = entry.file_type().is_dir();
            if entry.file_name() == ".git" {
                if !(entry.depth() == 1 && self.has_git) {
                    self.nested(&entry, inventory);
                }
                if is_folder {
                    walk.skip_current_dir();
                }
                continue;
            }
            if is_folder {
                if is_git_dir(entry.path()) {
                    self.nested(&entry, inventory);
                    walk.skip_current_dir();
                } else if inside.is_none() && !self.expects_folder(&path) {
                    inside = Some(path.clone());
                }
                self.sighting(&entry, inventory);
                continue;
            }
            count += 1;
            watch("files of the work tree", count);
            match self.known.files.as_ref().and_then(|tree| tree.files.get(&path)) {
                Some(file) => {
                    self.compare(&entry, &path, *file, inventory);
                    seen.insert(path);
                }
                None => {
                    let group = inside.clone().unwrap_or_else(|| path.clone());
                    self.untracked(&entry, &path, group, &mut groups, inventory);
                }
            }
        }
        for group in groups.into_values() {
            let what = match group.count {
                1 => "the commit to review does not have it".to_owned(),
                n => format!("{n} files that the commit to review does not have: {} …", group.first.join(", ")),
            };
            inventory.findings.push(
                super::finding::Finding::new(LeakKind::Untracked, group.place, group.later, what).count(group.count),
            );
        }
        if let Some(tree) = &self.known.files {
            self.absent(tree, &seen, inventory);
        }
        count
    }

    fn expects_folder(&self, path: &[u8]) -> bool {
        let Some(tree) = &self.known.files else { return true };
        let start = [path, b"/"].concat();
        tree.files.range(start.clone()..).next().is_some_and(|(file, _)| file.starts_with(&start))
            || tree.submodules.range(start.clone()..).next().is_some_and(|(sub, _)| sub.starts_with(&start))
    }

    fn nested(&self, entry: &DirEntry, inventory: &mut Inventory) {
        let git = GitDir { root: self.root, dir: entry.path().to_path_buf() };
        let what = match git.head() {
            Head::At(id) => format!("its `HEAD` is {id}; its history is not looked at"),
            _ if entry.file_type().is_dir() => "its history is not looked at".to_owned(),
            _ => "it points to a repository elsewhere".to_owned(),
        };
        inventory.find(LeakKind::NestedRepository, place(self.root, entry.path()), Later::Possible, what);
    }

    /// Whether an entry is the project's own package in another version.
    fn sighting(&self, entry: &DirEntry, inventory: &mut Inventory) -> bool {
        match self.own.sighting(entry.path(), entry.file_type().is_dir()) {
            Some((kind, later, what)) => {
                inventory.find(kind, place(self.root, entry.path()), later, what);
                true
            }
            None => false,
        }
    }

    fn compare(&self, entry: &DirEntry, path: &[u8], file: TreeFile, inventory: &mut Inventory) {
        let at = place(self.root, entry.path());
        let kind = entry.file_type();
        let found = match (kind.is_file(), kind.is_symlink()) {
            (true, _) => Oid::hash_file(ObjectType::Blob, entry.path()).map_err(|e| e.to_string()),
            (_, true) => fs_err::read_link(entry.path()).map_err(|e| e.to_string()).and_then(|target| {
                Oid::hash_object(ObjectType::Blob, target.as_os_str().as_bytes()).map_err(|e| e.to_string())
            }),
            _ => {
                return inventory.find(LeakKind::WorkTree, at, Later::Possible, "it is neither a file nor a link");
            }
        };
        let found = match found {
            Ok(found) => found,
            Err(e) => return inventory.damaged(at, e),
        };
        let link = file.mode & 0o170_000 == 0o120_000;
        if found == file.id && link == kind.is_symlink() {
            let executable = entry.metadata().is_ok_and(|m| m.mode() & 0o100 != 0);
            if !link && executable != (file.mode & 0o100 != 0) {
                let what = if executable { "it may be run, and should not" } else { "it should be a program" };
                inventory.find(LeakKind::WorkTree, at, Later::Possible, what);
            }
            return;
        }
        if self.same_but_for_checkout(entry, file) {
            return;
        }
        let what = format!("its content is {found}, and {} in the commit to review", file.id);
        inventory.find(LeakKind::WorkTree, at, self.later(path, found), what);
    }

    /// Whether a file differs only as git's own checkout makes it differ: in line ends, or as the content of an LFS
    /// pointer.
    fn same_but_for_checkout(&self, entry: &DirEntry, file: TreeFile) -> bool {
        let Ok(meta) = entry.metadata() else { return false };
        if !meta.is_file() {
            return false;
        }
        if let Some((_, pointer)) = (self.read)(file.id).filter(|(_, data)| is_lfs_pointer(data)) {
            let size = String::from_utf8_lossy(&pointer).lines().find_map(|l| l.strip_prefix("size ")?.parse().ok());
            return size == Some(meta.len());
        }
        let Some(text) = files::read(entry.path(), HASHED).bytes() else { return false };
        let mut plain = Vec::with_capacity(text.len());
        for (at, byte) in text.iter().enumerate() {
            if !(*byte == b'\r' && text.get(at + 1) == Some(&b'\n')) {
                plain.push(*byte);
            }
        }
        plain.len() < text.len() && Oid::hash_object(ObjectType::Blob, &plain).is_ok_and(|id| id == file.id)
    }

    fn later(&self, path: &[u8], found: Oid) -> Later {
        let merged = self.known.merged_files.as_ref().and_then(|t| t.files.get(path));
        let certain = self.known.later.contains(&found) || merged.is_some_and(|file| file.id == found);
        if certain { Later::Certain } else { Later::Possible }
    }

    fn untracked(
        &self,
        entry: &DirEntry,
        path: &[u8],
        group: Vec<u8>,
        groups: &mut BTreeMap<Vec<u8>, Group>,
        inventory: &mut Inventory,
    ) {
        let at = place(self.root, entry.path());
        if self.sighting(entry, inventory) {
            return;
        }
        if let Some((kind, what)) = special(entry.path()) {
            return inventory.find(kind, at, self.later_content(entry, path), what);
        }
        if let Some(source) = source_of(path).filter(|_| entry.file_type().is_file()) {
            if let Some(why) = self.other_source(entry, &source) {
                inventory.find(LeakKind::Bytecode, at, Later::Possible, why);
            }
            return;
        }
        if self.known.files.is_none() {
            return;
        }
        let later = self.later_content(entry, path);
        let place = place(self.root, &self.root.join(std::ffi::OsStr::from_bytes(&group)));
        let group = groups.entry(group).or_insert(Group { place, count: 0, first: Vec::new(), later });
        group.count += 1;
        group.later = group.later.max(later);
        if group.first.len() < 3 {
            group.first.push(shown(path));
        }
    }

    fn later_content(&self, entry: &DirEntry, path: &[u8]) -> Later {
        let worth = !self.known.later.is_empty() && entry.file_type().is_file();
        if !worth || !entry.metadata().is_ok_and(|m| m.len() <= HASHED) {
            return Later::Possible;
        }
        let id = Oid::hash_file(ObjectType::Blob, entry.path());
        id.map_or(Later::Possible, |id| self.later(path, id))
    }

    /// Why compiled Python may be of another source than the one that lies here.
    fn other_source(&self, entry: &DirEntry, source: &[u8]) -> Option<String> {
        let name = shown(source);
        let header = files::start(entry.path(), 16).unwrap_or_default();
        let Some((time, size)) = compiled_from(&header) else {
            return Some(format!("it does not say from which `{name}` it was compiled"));
        };
        if let Some(tree) = &self.known.files
            && !tree.files.contains_key(source)
        {
            return Some(format!("it was compiled from `{name}`, which the commit to review does not have"));
        }
        let meta = fs_err::symlink_metadata(self.root.join(std::ffi::OsStr::from_bytes(source))).ok();
        let Some(meta) = meta.filter(std::fs::Metadata::is_file) else {
            return Some(format!("it was compiled from `{name}`, which is not here"));
        };
        // Python itself takes it for the source's where both are the same; the low 32 bits are kept.
        let same = (meta.len() & 0xffff_ffff) as u32 == size && (meta.mtime() & 0xffff_ffff) as u32 == time;
        (!same).then(|| {
            format!("it was compiled from a `{name}` of {size} bytes and another time; the one here has {}", meta.len())
        })
    }

    fn absent(&self, tree: &Tree, seen: &BTreeSet<Vec<u8>>, inventory: &mut Inventory) {
        let mut skipped = 0;
        for path in tree.files.keys().filter(|path| !seen.contains(*path)) {
            if self.staged.skipped.contains(path) {
                skipped += 1;
                continue;
            }
            let gone = self.known.merged_files.as_ref().is_some_and(|merged| !merged.files.contains_key(path));
            let later = if gone { Later::Certain } else { Later::Possible };
            inventory.find(
                LeakKind::WorkTree,
                shown(path),
                later,
                "the commit to review has it, and here it is missing",
            );
        }
        if skipped > 0 {
            inventory.notes.push(format!("{skipped} files of the commit to review are left out of the work tree"));
        }
        if tree.missing > 0 {
            inventory.notes.push(format!("{} folders of the commit to review could not be read", tree.missing));
        }
    }
}

fn below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}
