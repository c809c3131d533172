//! A set of changes as the text of a unified diff, and what somebody changed in a work tree.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use git2::{DiffFormat, DiffOptions, Index, IndexEntry, IndexTime, Odb, Oid};

use super::base::{BaseTree, EntryKind};
use super::changes::{Change, ChangeSet, FileContent, FileMode};
use super::error::RepoError;
use super::patch::MAX_FILE;
use super::path::TreePath;
use super::repository::initialise;
use super::tree::TreeReader;

/// What new files are left out of a work tree's changes wherever they lie: what running and building leaves behind.
const LEFT_BEHIND: &str = "__pycache__/\n*.pyc\n.pytest_cache/\nnode_modules/\ntarget/\n";

impl ChangeSet {
    /// The set as a unified diff from `base`, in git's form, binary files too. Applied to `base` it gives the set again.
    ///
    /// # Errors
    /// When the base cannot be read.
    pub fn to_patch(&self, base: &dyn BaseTree) -> Result<Vec<u8>, RepoError> {
        initialise();
        let place = Path::new("memory");
        let failed = |step: &'static str| RepoError::git(step, place);
        let odb = Odb::new().map_err(failed("make a store of objects"))?;
        odb.add_new_mempack_backend(1).map_err(failed("make a store of objects"))?;
        let git = git2::Repository::from_odb(odb).map_err(failed("make a store of objects"))?;
        let mut old = Index::new().map_err(failed("make an index"))?;
        let mut new = Index::new().map_err(failed("make an index"))?;
        let add = |index: &mut Index, path: &TreePath, file: &FileContent| {
            let id = git.blob(&file.content).map_err(failed("store a file"))?;
            index.add(&entry(path, file.mode, id, file.content.len())).map_err(failed("enter a file"))
        };
        for (path, change) in &self.changes {
            if let Some(file) = base.read(path)? {
                add(&mut old, path, &file)?;
            }
            if let Change::Write(file) = change {
                add(&mut new, path, file)?;
            }
        }
        let tree = |index: &mut Index| {
            let id = index.write_tree_to(&git).map_err(failed("store a tree"))?;
            git.find_tree(id).map_err(failed("read a tree"))
        };
        let (old, new) = (tree(&mut old)?, tree(&mut new)?);
        let mut options = DiffOptions::new();
        options.show_binary(true).include_typechange(true).id_abbrev(40);
        let diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options));
        let diff = diff.map_err(failed("compare two trees"))?;
        let mut text = Vec::new();
        let printed = diff.print(DiffFormat::Patch, |_, _, line| {
            if matches!(line.origin(), '+' | '-' | ' ') {
                text.push(line.origin() as u8);
            }
            text.extend_from_slice(line.content());
            true
        });
        printed.map_err(failed("write a diff"))?;
        Ok(text)
    }

    /// Only what happens at these paths.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&TreePath) -> bool) -> Self {
        let kept = self.changes.iter().filter(|(path, _)| wanted(path));
        Self { changes: kept.map(|(path, change)| (path.clone(), change.clone())).collect() }
    }
}

fn entry(path: &TreePath, mode: FileMode, id: Oid, size: usize) -> IndexEntry {
    let zero = IndexTime::new(0, 0);
    IndexEntry {
        ctime: zero,
        mtime: zero,
        dev: 0,
        ino: 0,
        mode: mode.to_git(),
        uid: 0,
        gid: 0,
        file_size: u32::try_from(size).unwrap_or(u32::MAX),
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_vec(),
    }
}

/// What is otherwise in the folder `work` than in `base`, whose files it once held: new, changed and removed files, links
/// and modes, byte by byte. Nothing of the folder's own `.git` is looked at. New files that the base's root `.gitignore`
/// leaves out, or that running and building leaves behind, are no change; nor are files that a snapshot left out.
///
/// # Errors
/// When something cannot be read, a file is larger than a patch may hold, or a name is none that a tree may have.
pub fn changes_in(base: &TreeReader, work: &Path) -> Result<ChangeSet, RepoError> {
    initialise();
    let mut known: BTreeMap<TreePath, (FileMode, String)> = BTreeMap::new();
    for entry in base.entries()? {
        if let EntryKind::File(mode) = entry.kind {
            known.insert(entry.path, (mode, entry.id));
        }
    }
    let ignored = Ignored::new(base)?;
    let mut set = ChangeSet::default();
    let mut seen = BTreeSet::new();
    let walk = walkdir::WalkDir::new(work).follow_links(false).into_iter();
    for entry in walk.filter_entry(|entry| entry.depth() != 1 || entry.file_name() != ".git") {
        let entry = entry.map_err(std::io::Error::from)?;
        let kind = entry.file_type();
        if !(kind.is_file() || kind.is_symlink()) {
            continue;
        }
        let Ok(inside) = entry.path().strip_prefix(work) else { continue };
        let Ok(path) = TreePath::new(inside.as_os_str().as_bytes()) else {
            // A nested `.git` and the like: no tree can hold it.
            continue;
        };
        let old = known.get(&path);
        if old.is_none() && ignored.has(&path) {
            continue;
        }
        let file = read(entry.path(), kind.is_symlink())?;
        let same = old.is_some_and(|(mode, id)| {
            *mode == file.mode
                && Oid::hash_object(git2::ObjectType::Blob, &file.content).is_ok_and(|own| own.to_string() == *id)
        });
        seen.insert(path.clone());
        if !same {
            set.changes.insert(path, Change::Write(file));
        }
    }
    for path in known.into_keys().filter(|path| !seen.contains(path)) {
        // What the snapshot never had is not removed.
        if base.read(&path).is_ok_and(|file| file.is_some_and(|file| file.unwritable(&path).is_none())) {
            set.changes.insert(path, Change::Remove);
        }
    }
    Ok(set)
}

fn read(path: &Path, is_link: bool) -> Result<FileContent, RepoError> {
    if is_link {
        let target = fs_err::read_link(path)?;
        return Ok(FileContent { mode: FileMode::Symlink, content: target.as_os_str().as_bytes().to_vec() });
    }
    let meta = fs_err::symlink_metadata(path)?;
    if meta.len() > MAX_FILE {
        let said = format!("`{}` has {} bytes, more than a patch may hold", path.display(), meta.len());
        return Err(RepoError::Io(std::io::Error::new(std::io::ErrorKind::FileTooLarge, said)));
    }
    let mode = if meta.permissions().mode() & 0o100 != 0 { FileMode::Executable } else { FileMode::Regular };
    Ok(FileContent { mode, content: fs_err::read(path)? })
}

/// Which new files are left out.
struct Ignored(git2::Repository);

impl Ignored {
    fn new(base: &TreeReader) -> Result<Self, RepoError> {
        let failed = |step: &'static str| RepoError::git(step, Path::new("memory"));
        let odb = Odb::new().map_err(failed("make a store of objects"))?;
        let git = git2::Repository::from_odb(odb).map_err(failed("make a store of objects"))?;
        let own = match TreePath::new(".gitignore") {
            Ok(path) => base.read(&path)?.map(|file| String::from_utf8_lossy(&file.content).into_owned()),
            Err(_) => None,
        };
        let rules = format!("{LEFT_BEHIND}{}", own.unwrap_or_default());
        git.add_ignore_rule(&rules).map_err(failed("read the rules of what is ignored"))?;
        Ok(Self(git))
    }

    fn has(&self, path: &TreePath) -> bool {
        let whole = std::iter::once(path.to_path_buf());
        let above = path.ancestors().map(|up| {
            let mut folder = up.to_path_buf().into_os_string();
            folder.push("/");
            folder.into()
        });
        whole.chain(above).any(|path: std::path::PathBuf| self.0.is_path_ignored(&path).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{MemoryTree, apply_patch};

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn file(mode: FileMode, content: &[u8]) -> FileContent {
        FileContent { mode, content: content.to_vec() }
    }

    #[test]
    fn a_set_as_a_patch_gives_the_set_again() {
        let mut base = MemoryTree::default();
        for (name, content) in
            [("a.py", &b"one\r\ntwo\nthree"[..]), ("gone", b"x\n"), ("same", b"s\n"), ("bin", b"\0\x01")]
        {
            base.files.insert(path(name), file(FileMode::Regular, content));
        }
        let mut set = ChangeSet::default();
        let mut write = |name: &str, mode, content: &[u8]| {
            set.changes.insert(path(name), Change::Write(file(mode, content)));
        };
        write("a.py", FileMode::Regular, b"one\r\n2\nthree");
        write("new dir/ä.txt", FileMode::Regular, b"hello");
        write("bin", FileMode::Regular, b"\0\x02\x03");
        write("same", FileMode::Executable, b"s\n");
        write("link", FileMode::Symlink, b"a.py");
        write("empty", FileMode::Regular, b"");
        set.changes.insert(path("gone"), Change::Remove);
        let patch = set.to_patch(&base).unwrap();
        let again = apply_patch(&base, &patch).unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&patch)));
        assert_eq!(again.changes, set, "{}", String::from_utf8_lossy(&patch));
        assert!(ChangeSet::default().to_patch(&base).unwrap().is_empty());
    }

    #[test]
    fn what_was_changed_in_a_work_tree_is_found_whatever_its_git_says() {
        let place = tempfile::tempdir().unwrap();
        let git = git2::Repository::init(place.path().join("source")).unwrap();
        let work = place.path().join("work");
        fs_err::create_dir_all(work.join("lib")).unwrap();
        let mut index = git.index().unwrap();
        for (name, content) in
            [("lib/a.py", "a\n"), ("lib/b.py", "b\n"), (".gitignore", "*.log\nout/\n"), ("c.txt", "c\r\n")]
        {
            let id = git.blob(content.as_bytes()).unwrap();
            index.add(&entry(&path(name), FileMode::Regular, id, content.len())).unwrap();
            fs_err::write(work.join(name), content).unwrap();
        }
        let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
        let who = git2::Signature::now("a", "a@b").unwrap();
        let commit = git.commit(None, &who, &who, "m", &tree, &[]).unwrap().to_string();
        let base = crate::repo::Repository::open(&place.path().join("source")).unwrap().tree_of(&commit).unwrap();
        assert_eq!(changes_in(&base, &work).unwrap(), ChangeSet::default());
        fs_err::write(work.join("lib/a.py"), "a2\n").unwrap();
        fs_err::remove_file(work.join("lib/b.py")).unwrap();
        fs_err::create_dir_all(work.join("lib/__pycache__")).unwrap();
        fs_err::create_dir_all(work.join(".git/info")).unwrap();
        fs_err::create_dir_all(work.join("out")).unwrap();
        for name in ["new.py", "x.log", "out/y", "lib/__pycache__/a.cpython-311.pyc", ".git/info/exclude"] {
            fs_err::write(work.join(name), "*\n").unwrap();
        }
        std::os::unix::fs::symlink("lib/a.py", work.join("link")).unwrap();
        let found = changes_in(&base, &work).unwrap();
        let names: Vec<String> = found.paths().map(ToString::to_string).collect();
        assert_eq!(names, ["lib/a.py", "lib/b.py", "link", "new.py"]);
        assert_eq!(found.changes[&path("lib/b.py")], Change::Remove);
    }
}
