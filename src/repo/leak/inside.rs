//! The inventory of a `.git`, by plain listing and reading: every file in it is known, looked at, or a finding.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::Oid;

use super::files::{self, LIMIT, place};
use super::finding::{Later, LeakKind};
use super::inventory::Inventory;
use super::names::{self, GitEntry, ids_in, shown};
use super::{config, index_file, tables};
use crate::repo::raw;

/// The commit that `HEAD` leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// This one.
    At(Oid),
    /// A branch without a commit.
    Unborn,
    /// Nobody can tell.
    Unreadable,
}

/// What the index has, apart from what is judged.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Paths where git does not expect a file.
    pub skipped: BTreeSet<Vec<u8>>,
    /// All ids of its entries.
    pub ids: Vec<Oid>,
}

/// One `.git`, or the private part of a linked work tree.
pub(super) struct GitDir<'a> {
    /// The checkout, for places.
    pub root: &'a Path,
    pub dir: PathBuf,
}

/// How many files of a folder that git does not make are looked into.
const LOOKED_INTO: usize = 10_000;

impl GitDir<'_> {
    fn place(&self, path: &Path) -> String {
        place(self.root, path)
    }

    fn take(&self, path: &Path, inventory: &mut Inventory) -> Option<Vec<u8>> {
        inventory.taken(files::read(path, LIMIT), &self.place(path))
    }

    /// Where `HEAD` is, by the files alone.
    pub(super) fn head(&self) -> Head {
        let Some(text) = files::read(&self.dir.join("HEAD"), 1 << 16).bytes() else { return Head::Unreadable };
        let mut name = match reference(&text) {
            Some(Reference::Id(id)) => return Head::At(id),
            Some(Reference::Name(name)) => name,
            None => return Head::Unreadable,
        };
        // git gives up after five steps, too.
        for _ in 0..5 {
            if name.split(|b| *b == b'/').any(|part| part == b"..") || !name.starts_with(b"refs/") {
                return Head::Unreadable;
            }
            match files::read(&self.dir.join(std::ffi::OsStr::from_bytes(&name)), 1 << 16) {
                files::Content::Bytes(text) => match reference(&text) {
                    Some(Reference::Id(id)) => return Head::At(id),
                    Some(Reference::Name(next)) => name = next,
                    None => return Head::Unreadable,
                },
                files::Content::Absent => {
                    let packed = files::read(&self.dir.join("packed-refs"), LIMIT).bytes().unwrap_or_default();
                    let found = packed_refs(&packed).find(|(_, _, packed)| *packed == name.as_slice());
                    return found.map_or(Head::Unborn, |(_, id, _)| Head::At(id));
                }
                files::Content::Refused(_) => return Head::Unreadable,
            }
        }
        Head::Unreadable
    }

    /// Looks at everything but objects, index and packages.
    pub(super) fn look(&self, inventory: &mut Inventory) {
        let entries = match files::list(&self.dir) {
            Ok(entries) => entries,
            Err(e) => return inventory.damaged(self.place(&self.dir), e.to_string()),
        };
        for entry in entries {
            let (name, path) = (entry.file_name(), entry.path());
            let at = self.place(&path);
            match names::git_entry(name.as_bytes()) {
                GitEntry::Known => self.known(name.as_bytes(), &path, inventory),
                GitEntry::PseudoRef => {
                    let text = self.take(&path, inventory).unwrap_or_default();
                    if String::from_utf8_lossy(&text).split_whitespace().any(config::has_secret) {
                        let what = "an address with a password or token in it";
                        inventory.find(LeakKind::Credential, &at, Later::Possible, what);
                    }
                    let ids = ids_in(&text).map(|(_, id)| id).collect();
                    inventory.lead(LeakKind::PseudoRef, at, format!("`{}`", shown(name.as_bytes())), ids);
                }
                GitEntry::Operation => {
                    let what = format!("`{}` of an unfinished operation", shown(name.as_bytes()));
                    inventory.lead_anyway(LeakKind::Operation, at, what, self.ids_below(&path));
                }
                GitEntry::Message => {
                    let text = self.take(&path, inventory).unwrap_or_default();
                    if !text.trim_ascii().is_empty() {
                        let what = format!("it says: {}", raw::subject(&text));
                        inventory.find(LeakKind::Message, at, Later::Possible, what);
                    }
                }
                GitEntry::Unknown => self.unknown(&path, inventory),
            }
        }
    }

    fn known(&self, name: &[u8], path: &Path, inventory: &mut Inventory) {
        let at = self.place(path);
        match name {
            b"config" | b"config.worktree" => {
                let text = self.take(path, inventory).unwrap_or_default();
                let remarks = config::remarks(&text, &at);
                inventory.findings.extend(remarks.findings);
                inventory.notes.extend(remarks.notes);
                if let Some(elsewhere) = remarks.work_tree {
                    let what = format!("the work tree is {}, and not this folder", shown(elsewhere.as_bytes()));
                    inventory.find(LeakKind::GitFile, at, Later::Possible, what);
                }
            }
            b"HEAD" if self.head() == Head::Unreadable => inventory.damaged(at, "nobody can tell where it leads"),
            b"HEAD" => {}
            b"refs" => self.refs(path, inventory),
            b"packed-refs" => {
                let text = self.take(path, inventory).unwrap_or_default();
                for (line, id, name) in packed_refs(&text) {
                    inventory.refs += 1;
                    let what = format!("`{}`", shown(name));
                    inventory.lead(names::ref_kind(name), format!("{at} line {line}"), what, vec![id]);
                }
            }
            b"logs" => self.reflogs(path, inventory),
            b"hooks" => {
                for hook in inventory.listed(path, &at) {
                    if !hook.file_name().as_bytes().ends_with(b".sample") {
                        let what = "git runs it; the check did not";
                        inventory.find(LeakKind::Hook, self.place(&hook.path()), Later::Possible, what);
                    }
                }
            }
            b"info" => self.info(path, inventory),
            b"description" => {
                let text = self.take(path, inventory).unwrap_or_default();
                if !names::is_usual_description(&text) {
                    inventory.find(LeakKind::Message, at, Later::Possible, format!("it says: {}", raw::subject(&text)));
                }
            }
            b"branches" | b"remotes" => {
                for remote in inventory.listed(path, &at) {
                    let what = format!("the remote `{}` in the old form", shown(remote.file_name().as_bytes()));
                    inventory.find(LeakKind::Remote, self.place(&remote.path()), Later::Possible, what);
                }
            }
            b"shallow" => {
                let text = self.take(path, inventory).unwrap_or_default();
                let ids: Vec<Oid> = ids_in(&text).map(|(_, id)| id).collect();
                if !ids.is_empty() {
                    inventory.notes.push(format!("{at}: the history is cut off at {} commits", ids.len()));
                }
                inventory.lead(LeakKind::Shallow, at, "commits where the history is cut off", ids);
            }
            b"modules" => self.modules(path, inventory),
            b"worktrees" => {
                for tree in inventory.listed(path, &at) {
                    let private = GitDir { root: self.root, dir: tree.path() };
                    let target = files::read(&private.dir.join("gitdir"), 1 << 16).bytes().unwrap_or_default();
                    let what = format!("the work tree at {}", shown(target.trim_ascii()));
                    let ids = match private.head() {
                        Head::At(id) => vec![id],
                        _ => Vec::new(),
                    };
                    inventory.lead_anyway(LeakKind::LinkedWorktree, self.place(&private.dir), what, ids);
                    private.look(inventory);
                    private.index(inventory);
                }
            }
            b"index.lock" => {
                let what = "an index that was being written";
                inventory.find(LeakKind::UnknownFile, at, Later::Possible, what);
            }
            // `index`, `objects` and `lfs` are looked at by themselves.
            _ => {}
        }
    }

    fn refs(&self, folder: &Path, inventory: &mut Inventory) {
        for step in walkdir::WalkDir::new(folder).sort_by_file_name() {
            let Some(entry) = inventory.walked(step, &self.place(folder)) else { continue };
            if entry.file_type().is_dir() {
                continue;
            }
            let at = self.place(entry.path());
            let Some(text) = self.take(entry.path(), inventory) else { continue };
            let name = [b"refs/".as_slice(), below(folder, entry.path())].concat();
            inventory.refs += 1;
            match reference(&text) {
                Some(Reference::Id(id)) => {
                    let kind = names::ref_kind(&name);
                    let mut ids = vec![id];
                    // The name of a replacement is the id of what it stands for; what is seen is what it leads to.
                    if kind == LeakKind::Replace {
                        ids.extend(name.rsplit(|b| *b == b'/').next().and_then(raw::oid));
                        inventory.lead_anyway(kind, at, format!("`{}`", shown(&name)), ids);
                    } else {
                        inventory.lead(kind, at, format!("`{}`", shown(&name)), ids);
                    }
                }
                // Where it leads is a ref of its own.
                Some(Reference::Name(_)) => {}
                None => inventory.damaged(at, format!("`{}` is no ref", shown(&name))),
            }
        }
    }

    fn reflogs(&self, folder: &Path, inventory: &mut Inventory) {
        for step in walkdir::WalkDir::new(folder).sort_by_file_name() {
            let Some(entry) = inventory.walked(step, &self.place(folder)) else { continue };
            if entry.file_type().is_dir() {
                continue;
            }
            let at = self.place(entry.path());
            let Some(text) = self.take(entry.path(), inventory) else { continue };
            let name = below(folder, entry.path());
            let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
            let ids: Vec<Oid> =
                lines.clone().flat_map(|l| l.splitn(3, |b| *b == b' ').take(2).filter_map(raw::oid)).collect();
            let there = self.dir.join(std::ffi::OsStr::from_bytes(name)).exists();
            let gone = if there || name == b"HEAD" { "" } else { ", which is gone or packed" };
            let what = format!("{} entries of `{}`{gone}", lines.count(), shown(name));
            inventory.lead(LeakKind::Reflog, at, what, ids);
        }
    }

    fn info(&self, folder: &Path, inventory: &mut Inventory) {
        for entry in inventory.listed(folder, &self.place(folder)) {
            let (name, path) = (entry.file_name(), entry.path());
            let at = self.place(&path);
            let Some(text) = self.take(&path, inventory) else { continue };
            match name.as_bytes() {
                b"exclude" | b"attributes" | b"sparse-checkout" => {
                    if names::rules(&text) > 0 {
                        inventory.notes.push(format!("{at} has {} rules of its own", names::rules(&text)));
                    }
                }
                b"grafts" => {
                    let ids = ids_in(&text).map(|(_, id)| id).collect();
                    inventory.lead_anyway(
                        LeakKind::Grafts,
                        at,
                        "parents that git takes in place of the real ones",
                        ids,
                    );
                }
                b"refs" => {
                    let ids = ids_in(&text).map(|(_, id)| id).collect();
                    inventory.lead(LeakKind::OtherRef, at, "a list of refs for plain web servers", ids);
                }
                _ => inventory.find(LeakKind::UnknownFile, at, Later::Possible, "nothing that git makes"),
            }
        }
    }

    fn modules(&self, folder: &Path, inventory: &mut Inventory) {
        let mut walk = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter();
        while let Some(step) = walk.next() {
            let Some(entry) = inventory.walked(step, &self.place(folder)) else { continue };
            if entry.file_type().is_dir() && is_git_dir(entry.path()) {
                let module = GitDir { root: self.root, dir: entry.path().to_path_buf() };
                let what = match module.head() {
                    Head::At(id) => format!("its `HEAD` is {id}; its history and refs are not looked at"),
                    _ => "its history and refs are not looked at".to_owned(),
                };
                inventory.find(LeakKind::Submodule, self.place(entry.path()), Later::Possible, what);
                walk.skip_current_dir();
            }
        }
    }

    /// The index: what differs from what is allowed is judged by its ids.
    pub(super) fn index(&self, inventory: &mut Inventory) -> Staged {
        let path = self.dir.join("index");
        let at = self.place(&path);
        let mut staged = Staged::default();
        let Some(data) = self.take(&path, inventory) else { return staged };
        let Some(index) = index_file::parse(&data) else {
            inventory.damaged(at, "it is no index, or is cut off");
            return staged;
        };
        if index.split {
            inventory.damaged(at.clone(), "a part of it is in another file, which is not read");
        }
        for entry in index.entries {
            if entry.skipped {
                staged.skipped.insert(entry.path);
            }
            staged.ids.push(entry.id);
        }
        inventory.lead(LeakKind::Index, &at, "staged contents", staged.ids.clone());
        inventory.lead(LeakKind::Index, &at, "its cache of trees", index.trees);
        let resolved = index.resolved.into_iter().map(|(_, id)| id).collect();
        inventory.lead(LeakKind::Index, &at, "sides of conflicts that were resolved", resolved);
        staged
    }

    fn unknown(&self, path: &Path, inventory: &mut Inventory) {
        let at = self.place(path);
        let name = path.file_name().unwrap_or_default().as_bytes();
        let mut count: u64 = 0;
        for entry in walkdir::WalkDir::new(path).sort_by_file_name().into_iter().flatten().take(LOOKED_INTO) {
            if !entry.file_type().is_file() {
                continue;
            }
            count += 1;
            if let Some((kind, what)) = special(entry.path()) {
                inventory.find(kind, self.place(entry.path()), Later::Possible, what);
            }
        }
        if name.starts_with(b"sharedindex.") {
            return inventory.find(LeakKind::Index, at, Later::Possible, "a part of an index");
        }
        let plain = special(path).is_none();
        if plain || count > 1 {
            let what =
                if count > 1 { format!("a folder with {count} files") } else { "nothing that git makes".to_owned() };
            inventory.lead_anyway(LeakKind::UnknownFile, at, what, self.ids_below(path));
        }
    }

    /// The ids in all files at or below a path, as far as they are small.
    fn ids_below(&self, path: &Path) -> Vec<Oid> {
        let files = walkdir::WalkDir::new(path).into_iter().flatten().filter(|e| e.file_type().is_file());
        let text = files.take(LOOKED_INTO).filter_map(|entry| files::read(entry.path(), 1 << 20).bytes());
        text.flat_map(|text| ids_in(&text).map(|(_, id)| id).collect::<Vec<_>>()).collect()
    }
}

/// Whether a folder is a `.git` or a bare repository.
pub(super) fn is_git_dir(path: &Path) -> bool {
    path.join("HEAD").symlink_metadata().is_ok() && path.join("objects").is_dir() && path.join("refs").is_dir()
}

/// What a file is that may carry a repository or a change: by its beginning, or its name.
pub(super) fn special(path: &Path) -> Option<(LeakKind, String)> {
    if !path.symlink_metadata().is_ok_and(|m| m.is_file()) {
        return None;
    }
    let start = files::start(path, 4096).unwrap_or_default();
    if let Some(refs) = tables::bundle_refs(&start) {
        let names: Vec<String> = refs.iter().take(3).map(|(id, name)| format!("{name} at {id}")).collect();
        return Some((LeakKind::Bundle, format!("{} refs: {}", refs.len(), names.join(", "))));
    }
    if let Some(objects) = tables::pack_objects(&start) {
        return Some((LeakKind::StrayPack, format!("a pack of {objects} objects")));
    }
    let name = path.file_name().unwrap_or_default().as_bytes().to_ascii_lowercase();
    if start.starts_with(b"\xfftOc") || name.ends_with(b".bundle") {
        return Some((LeakKind::StrayPack, "an index of a pack, or a broken bundle".to_owned()));
    }
    let patch = [b".patch".as_slice(), b".diff", b".orig", b".rej", b".mbox"].iter().any(|end| name.ends_with(end));
    let starts = start.starts_with(b"diff --git ") || start.starts_with(b"From ") && start.get(45..46) == Some(b" ");
    (patch || starts).then(|| (LeakKind::PatchFile, format!("it starts with: {}", raw::subject(&start))))
}

enum Reference {
    Id(Oid),
    Name(Vec<u8>),
}

/// The content of a ref's file.
fn reference(text: &[u8]) -> Option<Reference> {
    let text = text.trim_ascii();
    if let Some(name) = text.strip_prefix(b"ref:") {
        return Some(Reference::Name(name.trim_ascii().to_vec()));
    }
    raw::oid(text).map(Reference::Id)
}

/// Line, id and name of each packed ref.
fn packed_refs(text: &[u8]) -> impl Iterator<Item = (usize, Oid, &[u8])> {
    text.split(|b| *b == b'\n').enumerate().filter_map(|(at, line)| {
        let id = raw::oid(line.get(..40)?)?;
        Some((at + 1, id, line.get(41..)?.trim_ascii_end()))
    })
}

fn below<'p>(folder: &Path, path: &'p Path) -> &'p [u8] {
    path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_followed_through_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        let git = GitDir { root: dir.path(), dir: dir.path().to_path_buf() };
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let write = |name: &str, text: &str| {
            fs_err::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs_err::write(dir.path().join(name), text).unwrap();
        };
        assert_eq!(git.head(), Head::Unreadable);
        write("HEAD", "ref: refs/heads/main\n");
        assert_eq!(git.head(), Head::Unborn);
        write("packed-refs", &format!("# pack-refs with: peeled\n{id} refs/heads/main\n^{id}\n"));
        assert_eq!(git.head(), Head::At(Oid::from_str(id).unwrap()));
        write("refs/heads/main", "ref: refs/heads/main");
        assert_eq!(git.head(), Head::Unreadable, "a circle");
        write("HEAD", "ref: refs/../../x");
        assert_eq!(git.head(), Head::Unreadable, "out of the folder");
        write("HEAD", id);
        assert_eq!(git.head(), Head::At(Oid::from_str(id).unwrap()));
    }

    #[test]
    fn files_that_carry_changes_are_seen_by_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let kind = |name: &str, text: &[u8]| {
            fs_err::write(dir.path().join(name), text).unwrap();
            special(&dir.path().join(name)).map(|(kind, _)| kind)
        };
        assert_eq!(kind("a", b"# v2 git bundle\n\nPACK"), Some(LeakKind::Bundle));
        assert_eq!(kind("b", b"PACK\0\0\0\x02\0\0\0\x01"), Some(LeakKind::StrayPack));
        assert_eq!(kind("c.ORIG", b"x"), Some(LeakKind::PatchFile));
        assert_eq!(kind("d", b"diff --git a/x b/x\n"), Some(LeakKind::PatchFile));
        assert_eq!(kind("e", b"From 4b825dc642cb6eb9a060e54bf8d69288fbee4904 Mon"), Some(LeakKind::PatchFile));
        assert_eq!(kind("f", b"From here on\n"), None);
    }
}
