//! Paths inside a repository's tree: relative, `/`-separated bytes that can name nothing outside the tree.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path inside a repository's tree. Git paths are bytes, so this is too.
///
/// A value of this type is safe to join to a directory: it is relative, has no empty, `.` or `..` part, no NUL, and no
/// part that is `.git` or that a common file system takes for `.git`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreePath(Vec<u8>);

/// Why some bytes are not a path inside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It starts with `/`.
    #[error("it is absolute")]
    Absolute,
    /// One of its parts is `..`.
    #[error("it goes up with `..`")]
    Parent,
    /// One of its parts is git's own folder, or a spelling that some file system takes for it.
    #[error("it names git's own folder")]
    GitFolder,
    /// It has no parts, an empty one or a `.`, or holds a NUL byte.
    #[error("it is not a well-formed path")]
    Malformed,
}

impl TreePath {
    /// Checks and takes over the bytes of a path.
    pub fn new(path: impl Into<Vec<u8>>) -> Result<Self, PathProblem> {
        let path = path.into();
        if path.first() == Some(&b'/') {
            return Err(PathProblem::Absolute);
        }
        if path.contains(&0) {
            return Err(PathProblem::Malformed);
        }
        for part in path.split(|b| *b == b'/') {
            match part {
                b"" | b"." => return Err(PathProblem::Malformed),
                b".." => return Err(PathProblem::Parent),
                part if is_git_folder(part) => return Err(PathProblem::GitFolder),
                _ => {}
            }
        }
        Ok(Self(path))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as text, where it is UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The path for the file system, relative.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The path for the file system, relative and owned.
    pub fn to_path_buf(&self) -> PathBuf {
        self.as_path().to_path_buf()
    }

    /// Whether no Linux file system takes it: parts have at most 255 bytes, whole paths 4095, of which some are for the
    /// folder that it is joined to.
    pub(super) fn is_too_long(&self) -> bool {
        self.0.len() > 3000 || self.0.split(|b| *b == b'/').any(|part| part.len() > 255)
    }

    /// The folders that the path lies in, outermost first, without itself.
    pub fn ancestors(&self) -> impl Iterator<Item = TreePath> + '_ {
        self.0.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| Self(self.0[..i].to_vec()))
    }

    /// Whether the path lies below `folder`.
    pub fn is_below(&self, folder: &TreePath) -> bool {
        self.0.len() > folder.0.len() && self.0.starts_with(&folder.0) && self.0[folder.0.len()] == b'/'
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreePath({})", self.0.escape_ascii())
    }
}

/// Whether one part of a path is git's own folder: `.git` in any letter case, or a spelling that NTFS (8.3 name,
/// trailing dots and spaces, streams) or HFS+ (ignored code points) resolves to it. What the tree of a commit may hold
/// is decided by git's own rules (`core.protectNTFS`, `core.protectHFS`), which these follow.
fn is_git_folder(part: &[u8]) -> bool {
    // The code points that HFS+ ignores in names, as UTF-8: U+200C..200F, U+202A..202E, U+206A..206F, U+FEFF.
    let mut plain = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some(&first) = rest.first() {
        match rest {
            [0xe2, 0x80, 0x8c..=0x8f | 0xaa..=0xae, ..] | [0xe2, 0x81, 0xaa..=0xaf, ..] | [0xef, 0xbb, 0xbf, ..] => {
                rest = &rest[3..];
            }
            _ => {
                plain.push(first.to_ascii_lowercase());
                rest = &rest[1..];
            }
        }
    }
    let name = plain.split(|b| *b == b':' || *b == b'\\').next().unwrap_or_default();
    let end = name.iter().rposition(|b| *b != b'.' && *b != b' ').map_or(0, |i| i + 1);
    matches!(&name[..end], b".git" | b"git~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_tree_or_touch_git_are_refused() {
        for (path, problem) in [
            ("/etc/passwd", PathProblem::Absolute),
            ("../x", PathProblem::Parent),
            ("a/../../x", PathProblem::Parent),
            (".git/config", PathProblem::GitFolder),
            ("a/.GiT", PathProblem::GitFolder),
            ("a/.git /hooks", PathProblem::GitFolder),
            ("GIT~1/config", PathProblem::GitFolder),
            (".git::$INDEX_ALLOCATION/x", PathProblem::GitFolder),
            (".g\u{200c}it/x", PathProblem::GitFolder),
            (".git\\config", PathProblem::GitFolder),
            ("", PathProblem::Malformed),
            ("a//b", PathProblem::Malformed),
            ("./a", PathProblem::Malformed),
            ("a/", PathProblem::Malformed),
            ("a\0b", PathProblem::Malformed),
        ] {
            assert_eq!(TreePath::new(path), Err(problem), "{path:?}");
        }
    }

    #[test]
    fn ordinary_names_pass() {
        for path in [".gitignore", ".github/x", "a/git", "..a/b..", "a b/c\"d", "é/ü", ".git_x", "x.git", "a\\b"] {
            assert!(TreePath::new(path).is_ok(), "{path}");
        }
        assert!(TreePath::new(vec![0xff, b'/', 0xfe]).is_ok());
    }

    #[test]
    fn ancestors_and_below() {
        let path = TreePath::new("a/b/c").unwrap();
        let up: Vec<String> = path.ancestors().map(|p| p.to_string()).collect();
        assert_eq!(up, ["a", "a/b"]);
        assert!(path.is_below(&TreePath::new("a/b").unwrap()));
        assert!(!TreePath::new("ab/c").unwrap().is_below(&TreePath::new("a").unwrap()));
    }
}
