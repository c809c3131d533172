//! One repository: commits by id, trees, differences.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock};

use git2::{ErrorClass, ErrorCode, ObjectType, Oid, RepositoryOpenFlags};

use super::changes::{Change, ChangeSet, FileContent, FileMode};
use super::error::RepoError;
use super::merged::MainLine;
use super::path::TreePath;
use super::tree::TreeReader;

/// A repository on this machine, opened for reading. It can be shared between threads: each call opens it anew, which
/// costs about a millisecond.
#[derive(Debug, Clone)]
pub struct Repository {
    place: PathBuf,
    pub(super) main_line: Arc<OnceLock<MainLine>>,
}

/// Sets libgit2 up for repositories of strangers, once per process.
pub(super) fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: libgit2 asks that options are not changed while other threads use it. Every use of ours comes
        // through here first, and `Once` lets nobody pass until this has run.
        unsafe {
            // Mirrors are often made by root or another user. libgit2's check protects people who run git by hand in a
            // foreign folder, where its hooks and programs would run; we only read objects, and nothing here starts
            // what a repository's configuration names.
            let _ = git2::opts::set_verify_owner_validation(false);
            // Neither the user's nor the machine's configuration may change what we read.
            for level in [
                git2::ConfigLevel::ProgramData,
                git2::ConfigLevel::System,
                git2::ConfigLevel::XDG,
                git2::ConfigLevel::Global,
            ] {
                let _ = git2::opts::set_search_path(level, "");
            }
        }
        // A mirror's objects are checked by whoever made it; hashing each again halves the speed.
        git2::opts::strict_hash_verification(false);
        // Partial mirrors lack some objects; an index must be able to name them all the same.
        git2::opts::strict_object_creation(false);
    });
}

/// Opens the repository at exactly this path.
pub(super) fn open_at(path: &Path) -> Result<git2::Repository, git2::Error> {
    initialise();
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
    let none: [&Path; 0] = [];
    match git2::Repository::open_ext(path, flags, none) {
        Ok(repository) => Ok(repository),
        Err(_) => git2::Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, none),
    }
}

/// Whether a repository, bare or not, lies at this path.
pub(super) fn is_repository(path: &Path) -> bool {
    path.is_dir() && open_at(path).is_ok()
}

/// The addresses of a repository's remotes.
pub(super) fn remote_addresses(path: &Path) -> Vec<String> {
    let Ok(repository) = open_at(path) else { return Vec::new() };
    let Ok(names) = repository.remotes() else { return Vec::new() };
    let names: Vec<String> = names.iter().flatten().flatten().map(str::to_owned).collect();
    let address = |n: &String| Some(repository.find_remote(n).ok()?.url().ok()?.to_owned());
    names.iter().filter_map(address).collect()
}

impl Repository {
    /// Opens the repository at a path, bare or not.
    pub fn open(path: &Path) -> Result<Self, RepoError> {
        open_at(path).map_err(RepoError::git("open the repository", path))?;
        Ok(Self { place: path.to_path_buf(), main_line: Arc::new(OnceLock::new()) })
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn git(&self) -> Result<git2::Repository, RepoError> {
        open_at(&self.place).map_err(self.failed("open the repository"))
    }

    pub(super) fn failed(&self, step: impl Into<String>) -> impl FnOnce(git2::Error) -> RepoError {
        RepoError::git(step, &self.place)
    }

    /// The full id of a commit, from its full or abbreviated id (4 digits at least). All objects count, packed or
    /// loose, whether a ref leads to them or not. An annotated tag's id gives the commit that it names. Among several
    /// objects whose ids start alike, a single commit wins.
    pub fn resolve(&self, commit: &str) -> Result<String, RepoError> {
        Ok(self.resolve_oid(&self.git()?, commit)?.to_string())
    }

    /// The id of a commit's tree.
    pub fn tree_id(&self, commit: &str) -> Result<String, RepoError> {
        let git = self.git()?;
        Ok(self.commit(&git, commit)?.tree_id().to_string())
    }

    /// The first line of a commit's message.
    pub fn subject(&self, commit: &str) -> Result<String, RepoError> {
        let git = self.git()?;
        let commit = self.commit(&git, commit)?;
        let message = commit.message_bytes();
        let line = message.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    }

    /// The full id of the commit that is checked out, or that `HEAD` leads to in a bare repository.
    pub fn head(&self) -> Result<String, RepoError> {
        let git = self.git()?;
        let head = git.head().and_then(|head| head.peel_to_commit()).map_err(self.failed("look up `HEAD`"))?;
        Ok(head.id().to_string())
    }

    /// The day on which a commit was made, by its committer's clock, in UTC.
    pub fn day(&self, commit: &str) -> Result<jiff::civil::Date, RepoError> {
        let git = self.git()?;
        let seconds = self.commit(&git, commit)?.time().seconds();
        // A time that no calendar has is as good as none: the epoch.
        let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        Ok(jiff::tz::Offset::UTC.to_datetime(time).date())
    }

    /// Whether a commit is in `from..to`: reachable from `to` and not from `from`.
    pub fn is_in_range(&self, commit: &str, from: &str, to: &str) -> Result<bool, RepoError> {
        let git = self.git()?;
        let [commit, from, to] = [commit, from, to].map(|id| self.resolve_oid(&git, id));
        let (commit, from, to) = (commit?, from?, to?);
        let reaches = |descendant: git2::Oid| {
            let same = descendant == commit;
            Ok::<bool, RepoError>(
                same || git.graph_descendant_of(descendant, commit).map_err(self.failed("walk the history"))?,
            )
        };
        Ok(reaches(to)? && !reaches(from)?)
    }

    /// A reader of a commit's files.
    pub fn tree_of(&self, commit: &str) -> Result<TreeReader, RepoError> {
        let git = self.git()?;
        let commit = self.commit(&git, commit)?;
        let (id, tree) = (commit.id().to_string(), commit.tree_id());
        drop(commit);
        Ok(TreeReader::new(git, self.place.clone(), id, tree))
    }

    /// What changes from the snapshot of one commit to that of another. Renames come as a removal and a new file.
    /// Submodules, and files whose content the mirror lacks or that cannot be written, are not in snapshots
    /// ([`super::SnapshotNote`]) and count as absent here too.
    pub fn changes_between(&self, from: &str, to: &str) -> Result<ChangeSet, RepoError> {
        let git = self.git()?;
        let tree = |commit| self.commit(&git, commit)?.tree().map_err(self.failed("read a tree"));
        let (old, new) = (tree(from)?, tree(to)?);
        let mut options = git2::DiffOptions::new();
        options.include_typechange(true).ignore_submodules(false).skip_binary_check(true);
        let diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options));
        let diff = diff.map_err(self.failed("compare two trees"))?;
        let odb = git.odb().map_err(self.failed("read the objects"))?;
        let has = |id| odb.exists(id);
        let mut set = ChangeSet::default();
        for delta in diff.deltas() {
            let side = |file: &git2::DiffFile<'_>| {
                let mode = FileMode::from_git(u32::from(file.mode()));
                Some((file.path_bytes()?.to_vec(), mode.filter(|_| file.exists())?, file.id()))
            };
            let (old, new) = (side(&delta.old_file()), side(&delta.new_file()));
            let checked = |path: Vec<u8>| {
                let text = String::from_utf8_lossy(&path).into_owned();
                TreePath::new(path).map_err(|problem| RepoError::UnsafeTree {
                    commit: to.to_owned(),
                    path: text,
                    problem,
                })
            };
            if let Some((path, ..)) = old.filter(|(_, _, id)| has(*id)) {
                set.changes.insert(checked(path)?, Change::Remove);
            }
            if let Some((path, mode, id)) = new {
                let path = checked(path)?;
                match read_blob(&git, id, &path, &self.place) {
                    Ok(content) => {
                        let file = FileContent { mode, content };
                        if file.unwritable(&path).is_none() {
                            set.changes.insert(path, Change::Write(file));
                        }
                    }
                    Err(RepoError::MissingObject { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(set)
    }

    pub(super) fn commit<'g>(&self, git: &'g git2::Repository, id: &str) -> Result<git2::Commit<'g>, RepoError> {
        let oid = self.resolve_oid(git, id)?;
        git.find_commit(oid).map_err(self.failed(format!("read commit {oid}")))
    }

    pub(super) fn resolve_oid(&self, git: &git2::Repository, commit: &str) -> Result<Oid, RepoError> {
        let hex = commit.trim().to_ascii_lowercase();
        if !(4..=40).contains(&hex.len()) || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(RepoError::BadCommitId { commit: commit.to_owned() });
        }
        let missing = || RepoError::NoSuchCommit { commit: commit.to_owned(), place: self.place.clone() };
        match git.find_object_by_prefix(&hex, None) {
            Ok(object) => self.peel(&object, commit),
            Err(e) if e.code() == ErrorCode::Ambiguous => self.only_commit(git, commit, &hex),
            Err(e) if e.code() == ErrorCode::NotFound => Err(missing()),
            Err(e) => Err(self.failed(format!("look up `{commit}`"))(e)),
        }
    }

    fn peel(&self, object: &git2::Object<'_>, commit: &str) -> Result<Oid, RepoError> {
        let kind = object.kind().map_or("an unknown object", |k| k.str());
        let place = self.place.clone();
        match object.peel_to_commit() {
            Ok(found) => Ok(found.id()),
            // The tag is there, what it names is not.
            Err(e) if object.kind() == Some(ObjectType::Tag) && e.code() == ErrorCode::NotFound => {
                Err(RepoError::NoSuchCommit { commit: commit.to_owned(), place })
            }
            Err(_) => Err(RepoError::NotACommit { commit: commit.to_owned(), kind: kind.to_owned(), place }),
        }
    }

    /// Several objects start like this: the only commit among them, or else an error that lists the commits.
    fn only_commit(&self, git: &git2::Repository, commit: &str, hex: &str) -> Result<Oid, RepoError> {
        let failed = || self.failed("list the objects");
        let odb = git.odb().map_err(failed())?;
        let mut found = Vec::new();
        odb.foreach(|id| {
            if id.to_string().starts_with(hex) {
                found.push(*id);
            }
            true
        })
        .map_err(failed())?;
        found.sort();
        found.dedup();
        let is_commit = |id: &Oid| odb.read_header(*id).is_ok_and(|(_, kind)| kind == ObjectType::Commit);
        let commits: Vec<Oid> = found.iter().copied().filter(is_commit).collect();
        match (commits.as_slice(), found.first()) {
            ([one], _) => Ok(*one),
            ([], Some(first)) => {
                let kind = odb.read_header(*first).map_or("an unknown object", |(_, kind)| kind.str());
                let (commit, kind) = (commit.to_owned(), kind.to_owned());
                Err(RepoError::NotACommit { commit, kind, place: self.place.clone() })
            }
            ([], None) => Err(RepoError::NoSuchCommit { commit: commit.to_owned(), place: self.place.clone() }),
            (several, _) => Err(RepoError::AmbiguousCommit {
                commit: commit.to_owned(),
                candidates: several.iter().map(Oid::to_string).collect(),
                place: self.place.clone(),
            }),
        }
    }
}

/// The content of a blob; a missing object is told apart from other errors.
pub(super) fn read_blob(git: &git2::Repository, id: Oid, path: &TreePath, place: &Path) -> Result<Vec<u8>, RepoError> {
    match git.find_blob(id) {
        Ok(blob) => Ok(blob.content().to_vec()),
        Err(e) => Err(missing_or(e, id, &path.to_string(), place)),
    }
}

pub(super) fn missing_or(error: git2::Error, id: Oid, path: &str, place: &Path) -> RepoError {
    if error.code() == ErrorCode::NotFound && error.class() == ErrorClass::Odb {
        RepoError::MissingObject { path: path.to_owned(), id: id.to_string(), place: place.to_path_buf() }
    } else {
        RepoError::git(format!("read `{path}`"), place)(error)
    }
}
