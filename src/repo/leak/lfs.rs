//! Contents of Git LFS beside a repository.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::files::place;
use super::finding::{Later, LeakKind};
use super::inventory::Inventory;
use super::known::{Known, Read, Tree};
use crate::repo::snapshot::is_lfs_pointer;

/// The contents (SHA-256, as pointers name them) that a tree's pointers ask for.
fn asked_for(tree: Option<&Tree>, read: &Read<'_>) -> HashSet<Vec<u8>> {
    let files = tree.into_iter().flat_map(|t| t.files.values());
    let pointers = files.filter_map(|file| read(file.id)).map(|(_, data)| data).filter(|data| is_lfs_pointer(data));
    let id = |data: Vec<u8>| {
        let line = data.split(|b| *b == b'\n').find_map(|l| l.strip_prefix(b"oid sha256:"))?;
        Some(line.trim_ascii().to_vec())
    };
    pointers.filter_map(id).collect()
}

/// Looks at `.git/lfs`.
pub(super) fn look(root: &Path, git_dir: &Path, known: &Known, read: &Read<'_>, inventory: &mut Inventory) {
    let folder = git_dir.join("lfs");
    if !folder.is_dir() {
        return;
    }
    let allowed = asked_for(known.files.as_ref(), read);
    let merged = asked_for(known.merged_files.as_ref(), read);
    for step in walkdir::WalkDir::new(&folder).sort_by_file_name() {
        let Some(entry) = inventory.walked(step, &place(root, &folder)) else { continue };
        if entry.file_type().is_dir() || allowed.contains(entry.file_name().as_bytes()) {
            continue;
        }
        let at = place(root, entry.path());
        let object = entry.path().starts_with(folder.join("objects"));
        if object && merged.contains(entry.file_name().as_bytes()) {
            let what = "a pointer of the merged commit asks for it";
            inventory.find(LeakKind::LfsObject, at, Later::Certain, what);
        } else if object {
            let what = "no pointer of the commit to review asks for it";
            inventory.find(LeakKind::LfsObject, at, Later::Possible, what);
        } else {
            inventory.find(LeakKind::LfsObject, at, Later::Possible, "a file that Git LFS left behind");
        }
    }
}
