//! Where a release's files come from: a folder, zips in it, or a git directory at a revision.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, Tree};

use super::ImportError;

/// A file of a source, as far as it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceFile {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// The source names it, but does not hold it.
    Absent(String),
    /// A Git LFS pointer stands in its place.
    LfsPointer(String),
    /// It is there but cannot be read, or is too large to be what is looked for.
    Unreadable(String),
}

/// A source as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder, or one zip.
    Path(PathBuf),
    /// A git directory (bare or a work tree) and a revision.
    Git {
        /// The directory.
        path: PathBuf,
        /// The revision: a commit id in full or short, or a name.
        revision: String,
    },
}

/// Larger members of a zip are refused: nothing in a release comes near, and a forged one must not fill the memory.
const MAX_MEMBER: u64 = 256 * 1024 * 1024;
/// The same for all members of one zip together.
const MAX_ARCHIVE: u64 = 2 * 1024 * 1024 * 1024;
/// An LFS pointer is a small text file that begins like this.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

impl Source {
    /// Reads `PATH` or `PATH@REV`. A path that exists as a whole is a path, whatever characters it has.
    ///
    /// # Errors
    /// When there is nothing at the path.
    pub fn parse(text: &Path) -> Result<Self, ImportError> {
        if text.exists() {
            return Ok(Self::Path(text.to_owned()));
        }
        let given = text.to_string_lossy();
        match given.rsplit_once('@') {
            Some((path, revision)) if !revision.is_empty() && Path::new(path).is_dir() => {
                Ok(Self::Git { path: PathBuf::from(path), revision: revision.to_owned() })
            }
            _ => Err(ImportError::NotThere(text.to_owned())),
        }
    }

    /// The path without the revision.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) | Self::Git { path, .. } => path,
        }
    }
}

/// Reads all files of a source in the order of their paths, with `/` between parts. A zip's members stand in its place,
/// below a folder of the zip's own name (if they are not already). `wanted` says which files' bytes are needed; others
/// are looked at only far enough to know absent files and LFS pointers.
///
/// Returns the commit as well, where there is one.
///
/// # Errors
/// When the source cannot be listed at all.
pub fn read_source(
    source: &Source,
    wanted: &dyn Fn(&str) -> bool,
    take: &mut dyn FnMut(String, SourceFile),
) -> Result<Option<String>, ImportError> {
    let mut each = |path: String, file: SourceFile| expand(path, file, take);
    match source {
        Source::Path(path) if path.is_file() => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            each(name, SourceFile::Bytes(fs_err::read(path)?));
            Ok(None)
        }
        Source::Path(path) => walk(path, wanted, &mut each).map(|()| None),
        Source::Git { path, revision } => {
            let fail = |error: git2::Error| ImportError::Git {
                path: path.clone(),
                revision: revision.clone(),
                problem: error.message().to_owned(),
            };
            let repository = Repository::open(path).map_err(fail)?;
            let commit =
                repository.revparse_single(revision).and_then(|object| object.peel_to_commit()).map_err(fail)?;
            let tree = commit.tree().map_err(fail)?;
            git_tree(&repository, &tree, "", wanted, &mut each);
            Ok(Some(commit.id().to_string()))
        }
    }
}

fn walk(
    root: &Path,
    wanted: &dyn Fn(&str) -> bool,
    each: &mut dyn FnMut(String, SourceFile),
) -> Result<(), ImportError> {
    // A work tree's own git directory is no part of what it holds.
    let entries = walkdir::WalkDir::new(root).sort_by_file_name().into_iter();
    for entry in entries.filter_entry(|entry| entry.file_name() != ".git") {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.depth() == 0 => return Err(io::Error::from(error).into()),
            Err(error) => {
                let path = error.path().unwrap_or(root).strip_prefix(root).unwrap_or(root).display().to_string();
                each(path, SourceFile::Unreadable(error.to_string()));
                continue;
            }
        };
        // Links are not followed: a release has none.
        if !entry.file_type().is_file() {
            continue;
        }
        let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let parts: Vec<_> = relative.components().map(|c| c.as_os_str().to_string_lossy()).collect();
        let path = parts.join("/");
        let small = entry.metadata().is_ok_and(|m| m.len() < 1024);
        if !small && !is_zip(&path) && !wanted(&path) {
            continue;
        }
        match fs_err::read(entry.path()) {
            Ok(bytes) => each(path, SourceFile::Bytes(bytes)),
            Err(error) => each(path, SourceFile::Unreadable(error.to_string())),
        }
    }
    Ok(())
}

fn git_tree(
    repository: &Repository,
    tree: &Tree<'_>,
    prefix: &str,
    wanted: &dyn Fn(&str) -> bool,
    each: &mut dyn FnMut(String, SourceFile),
) {
    for entry in tree.iter() {
        let path = format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()));
        match entry.kind() {
            Some(ObjectType::Tree) => match repository.find_tree(entry.id()) {
                Ok(tree) => git_tree(repository, &tree, &format!("{path}/"), wanted, each),
                Err(_) => each(path, absent(entry.id())),
            },
            Some(ObjectType::Blob) => match repository.find_blob(entry.id()) {
                Ok(blob) if blob.size() < 1024 || is_zip(&path) || wanted(&path) => {
                    each(path, SourceFile::Bytes(blob.content().to_vec()));
                }
                Ok(_) => {}
                Err(_) => each(path, absent(entry.id())),
            },
            // A submodule's commit is never in the repository that names it.
            _ => {}
        }
    }
}

fn absent(id: Oid) -> SourceFile {
    SourceFile::Absent(format!("the git directory has no object `{id}`"))
}

fn is_zip(path: &str) -> bool {
    path.len() > 4 && path.as_bytes()[path.len() - 4..].eq_ignore_ascii_case(b".zip")
}

fn expand(path: String, file: SourceFile, take: &mut dyn FnMut(String, SourceFile)) {
    let SourceFile::Bytes(bytes) = file else { return take(path, file) };
    if bytes.len() < 1024 && bytes.starts_with(LFS) {
        return take(path, SourceFile::LfsPointer(pointer(&bytes)));
    }
    if !is_zip(&path) {
        return take(path, SourceFile::Bytes(bytes));
    }
    let name = path.rsplit('/').next().unwrap_or(&path);
    let stem = &name[..name.len() - 4];
    if let Err(error) = unzip(&path, stem, bytes, take) {
        take(path, SourceFile::Unreadable(format!("it is no zip that can be read: {error}")));
    }
}

fn pointer(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let fields: Vec<&str> = text.lines().skip(1).filter(|line| !line.is_empty()).collect();
    format!("a Git LFS pointer stands in its place ({})", fields.join(", "))
}

fn unzip(
    path: &str,
    stem: &str,
    bytes: Vec<u8>,
    take: &mut dyn FnMut(String, SourceFile),
) -> Result<(), zip::result::ZipError> {
    let mut archive = zip::ZipArchive::new(io::Cursor::new(bytes))?;
    let mut left = MAX_ARCHIVE;
    for index in 0..archive.len() {
        let mut member = match archive.by_index(index) {
            Ok(member) => member,
            Err(error) => {
                take(format!("{path}#{index}"), SourceFile::Unreadable(error.to_string()));
                continue;
            }
        };
        if !member.is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(member.name_raw()).into_owned();
        let inner = if name.split('/').next() == Some(stem) { name } else { format!("{stem}/{name}") };
        // The declared size is a claim; the reader is cut off by itself.
        let limit = MAX_MEMBER.min(left);
        let mut content = Vec::new();
        let file = match member.by_ref().take(limit + 1).read_to_end(&mut content) {
            Err(error) => SourceFile::Unreadable(format!("in `{path}`: {error}")),
            Ok(read) if read as u64 > limit => {
                SourceFile::Unreadable(format!("in `{path}`: larger than {limit} bytes"))
            }
            Ok(read) => {
                left -= read as u64;
                SourceFile::Bytes(content)
            }
        };
        take(inner, file);
    }
    Ok(())
}
