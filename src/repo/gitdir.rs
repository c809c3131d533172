//! The `.git` of a snapshot: one branch, objects in one pack, an index that agrees with the files.

use std::path::Path;

use git2::{IndexEntry, IndexTime, Oid, RepositoryInitOptions, Signature, Time};
use walkdir::WalkDir;

use super::error::RepoError;
use super::lock::remove_all;
use super::past::Past;
use super::path::TreePath;
use super::snapshot::SNAPSHOT_TIME;
use super::tree::TreeReader;
use super::write::TreeWriter;

/// One line of the index.
pub(super) struct IndexFile {
    pub path: TreePath,
    pub mode: u32,
    pub id: Oid,
    pub size: usize,
    pub presence: Presence,
}

/// Whether a file of the tree is in the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Written,
    /// Its content is known, but it could not be written.
    Unwritten,
    /// Its content is not known.
    Unknown,
}

/// The mode of a submodule in trees and indexes.
pub(super) const SUBMODULE: u32 = 0o160_000;

/// The index flag that tells git not to expect a file (`git update-index --skip-worktree`).
const SKIP_WORKTREE: u16 = 1 << 14;

/// Only sizes and whole seconds are compared with the index: owners, inodes and change times differ in every overlay.
const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = false
\tcheckstat = minimal
\ttrustctime = false
\tautocrlf = false
";

/// Whoever commits in a `review` snapshot does so under this name: the user's configuration is not there.
const IDENTITY: &str = "[user]
\tname = redgreen
\temail = redgreen@localhost
";

/// What the branch of a snapshot leads to.
pub(super) enum Tip<'a> {
    /// One new commit of the tree, with a fixed author, date and message.
    Single,
    /// An existing commit with all that came before it.
    Past(&'a Past),
}

/// Writes `.git` into the snapshot at `root`.
pub(super) fn write(
    root: &Path,
    reader: &TreeReader,
    trees: &[Oid],
    files: Vec<IndexFile>,
    tip: &Tip<'_>,
    writer: &TreeWriter,
) -> Result<(), RepoError> {
    let git_dir = root.join(".git");
    let commit =
        fill(root, &git_dir, reader, trees, files, tip).map_err(RepoError::git("write the snapshot's `.git`", root))?;
    let mut config = CONFIG.to_owned();
    if let Tip::Past(past) = tip {
        config.push_str(IDENTITY);
        if !past.shallow.is_empty() {
            let lines: String = past.shallow.iter().map(|id| format!("{id}\n")).collect();
            fs_err::write(git_dir.join("shallow"), lines)?;
        }
    }
    fs_err::write(git_dir.join("config"), config)?;
    fs_err::write(git_dir.join("HEAD"), "ref: refs/heads/main\n")?;
    fs_err::write(git_dir.join("refs").join("heads").join("main"), format!("{commit}\n"))?;
    // What the template of a new repository brings along.
    for extra in ["hooks", "info", "description", "logs"] {
        remove_all(&git_dir.join(extra))?;
    }
    // Whoever owns the snapshot must be able to change it, others to read it; times say nothing of when it was made.
    for entry in WalkDir::new(&git_dir).contents_first(true) {
        let entry = entry.map_err(std::io::Error::from)?;
        let mode = if entry.file_type().is_dir() { 0o755 } else { 0o644 };
        fs_err::set_permissions(entry.path(), std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        writer.settle(entry.path())?;
    }
    // Later than the files, or git would take every entry for one that changed while the index was written.
    writer.stamp(&git_dir.join("index"), 10)
}

fn fill(
    root: &Path,
    git_dir: &Path,
    reader: &TreeReader,
    trees: &[Oid],
    files: Vec<IndexFile>,
    tip: &Tip<'_>,
) -> Result<Oid, git2::Error> {
    let mut options = RepositoryInitOptions::new();
    options.external_template(false).initial_head("main").no_reinit(true);
    let repository = git2::Repository::init_opts(root, &options)?;
    // The objects come from the mirror by an alternate that exists in this process only.
    let odb = repository.odb()?;
    let objects = reader.git().commondir().join("objects");
    odb.add_disk_alternate(&objects.to_string_lossy())?;
    let commit = match tip {
        Tip::Past(past) => past.tip,
        Tip::Single => {
            // libgit2 looks for deltas in every pack that it writes, which takes most of the time. Above the size of a
            // big file it does not; it reads that size from the first of these keys (1.9), where the second is meant.
            // One tree has hardly any deltas; a history has little else.
            for key in ["pack.deltaCacheSize", "core.bigFileThreshold"] {
                repository.config()?.set_i64(key, 1)?;
            }
            let who = Signature::new("redgreen", "redgreen@localhost", &Time::new(SNAPSHOT_TIME, 0))?;
            let root_tree = repository.find_tree(*trees.first().unwrap_or(&Oid::ZERO_SHA1))?;
            repository.commit(None, &who, &who, "Snapshot\n", &root_tree, &[])?
        }
    };
    let mut pack = repository.packbuilder()?;
    // With several threads the same objects can give other bytes.
    pack.set_threads(1);
    match tip {
        Tip::Single => pack.insert_object(commit, None)?,
        Tip::Past(past) => {
            for (id, name) in &past.objects {
                pack.insert_object(*id, name.as_deref())?;
            }
        }
    }
    // An index leads to files alone: folders' objects would be left dangling beside it.
    for tree in trees.iter().filter(|_| matches!(tip, Tip::Single)) {
        pack.insert_object(*tree, None)?;
    }
    for file in files.iter().filter(|f| f.mode != SUBMODULE && f.presence != Presence::Unknown) {
        let name = String::from_utf8_lossy(file.path.as_bytes());
        pack.insert_object(file.id, Some(&*name).filter(|_| matches!(tip, Tip::Past(_))))?;
    }
    pack.write(&git_dir.join("objects").join("pack"), 0o644)?;
    if matches!(tip, Tip::Single) {
        remove_loose(git_dir, commit);
    }

    let mut index = repository.index()?;
    let time = i32::try_from(SNAPSHOT_TIME).unwrap_or_default();
    for file in files {
        index.add(&IndexEntry {
            ctime: IndexTime::new(time, 0),
            mtime: IndexTime::new(time, 0),
            dev: 0,
            ino: 0,
            mode: file.mode,
            uid: 0,
            gid: 0,
            // git keeps the low 32 bits.
            file_size: (file.size & 0xffff_ffff) as u32,
            id: file.id,
            flags: 0,
            flags_extended: if file.presence == Presence::Written { 0 } else { SKIP_WORKTREE },
            path: file.path.as_bytes().to_vec(),
        })?;
    }
    index.write()?;
    Ok(commit)
}

/// The commit was written as a loose object before it was packed.
fn remove_loose(git_dir: &Path, commit: Oid) {
    let hex = commit.to_string();
    let folder = git_dir.join("objects").join(&hex[..2]);
    // If it stays, nothing is wrong: the object is in the pack as well.
    let _ = fs_err::remove_file(folder.join(&hex[2..]));
    let _ = fs_err::remove_dir(folder);
}
