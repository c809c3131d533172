//! A tree of unknown origin, read within bounds: no link is followed, and no file is read beyond a size.

use std::path::{Component, Path, PathBuf};

use fs_err::os::unix::fs::OpenOptionsExt as _;
use serde_json::Value;

/// The largest file that is looked into, in bytes.
const MAX_FILE: u64 = 1024 * 1024;
/// How many files one `*` may stand for.
const MAX_MATCHES: usize = 64;

/// A folder with a project.
#[derive(Debug, Clone, Copy)]
pub(in crate::environment) struct Tree<'a>(pub &'a Path);

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::environment) struct TreeFile {
    /// Its path in the tree.
    pub path: String,
    /// Its text; bytes that are no UTF-8 are replaced.
    pub text: String,
}

impl Tree<'_> {
    /// Whether there is a plain file, not reached through a link. `*` in the name stands for a part of it.
    pub fn has_file(&self, path: &str) -> bool {
        !self.matches(path).is_empty()
    }

    /// The text of a plain file of at most 1 MiB, not reached through a link.
    pub fn read(&self, path: &str) -> Option<String> {
        use std::io::Read as _;
        let place = self.plain(Path::new(path))?;
        // Links are refused once more by the open itself, and nothing blocks on a pipe.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = fs_err::OpenOptions::new().read(true).custom_flags(flags).open(place).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What a TOML or JSON file has at a key, if it can be read and has something there.
    pub fn value(&self, path: &str, key: &[String]) -> Option<Value> {
        TreeFile { path: path.to_owned(), text: self.read(path)? }.value(key)
    }

    /// The files that a path with `*` in its last part stands for, sorted by name.
    pub fn files(&self, path: &str) -> Vec<TreeFile> {
        let read = |path: String| self.read(&path).map(|text| TreeFile { path, text });
        self.matches(path).into_iter().filter_map(read).collect()
    }

    fn matches(&self, path: &str) -> Vec<String> {
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
        if !name.contains('*') {
            return if self.plain(Path::new(path)).is_some_and(|place| is_plain_file(&place)) {
                vec![path.to_owned()]
            } else {
                Vec::new()
            };
        }
        let Some(place) = self.plain(Path::new(folder)) else { return Vec::new() };
        let Ok(entries) = fs_err::read_dir(place) else { return Vec::new() };
        let mut out: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|found| star(name, found))
            .map(|found| if folder.is_empty() { found } else { format!("{folder}/{found}") })
            .collect();
        out.sort();
        out.truncate(MAX_MATCHES);
        out
    }

    /// The place of a path whose parts are all there and no links.
    fn plain(&self, path: &Path) -> Option<PathBuf> {
        let mut place = self.0.to_owned();
        for part in path.components() {
            let Component::Normal(part) = part else { return None };
            place.push(part);
            if place.symlink_metadata().ok()?.is_symlink() {
                return None;
            }
        }
        Some(place)
    }
}

impl TreeFile {
    /// What it has at a key: JSON where its name says so, else TOML.
    pub fn value(&self, key: &[String]) -> Option<Value> {
        let value: Value = if self.path.ends_with(".json") {
            serde_json::from_str(&self.text).ok()?
        } else {
            serde_json::to_value(self.text.parse::<toml::Table>().ok()?).ok()?
        };
        let at = key.iter().try_fold(&value, |value, part| value.get(part))?;
        (!at.is_null()).then(|| at.clone())
    }
}

fn is_plain_file(place: &Path) -> bool {
    place.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Whether `name` is `pattern`, where each `*` stands for any text.
fn star(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, expected) in [
            ("*.yml", "ci.yml", true),
            ("requirements*.txt", "requirements.txt", true),
            ("requirements*.txt", "requirements-dev.txt", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("x", "xy", false),
        ] {
            assert_eq!(star(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn links_pipes_and_large_files_are_not_read() {
        let outside = tempfile::tempdir().unwrap();
        fs_err::write(outside.path().join("secret"), "3.11").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree(folder.path());
        fs_err::write(folder.path().join("plain"), "3.12\n").unwrap();
        fs_err::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
        fs_err::os::unix::fs::symlink(outside.path(), folder.path().join("away")).unwrap();
        fs_err::write(folder.path().join("large"), vec![b'3'; MAX_FILE as usize + 1]).unwrap();
        let (pipe, kind) = (folder.path().join("pipe"), rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, rustix::fs::Mode::RUSR, 0).unwrap();
        assert_eq!(tree.read("plain").as_deref(), Some("3.12\n"));
        for path in ["link", "away/secret", "large", "pipe", "../x", "/etc/passwd", "gone", ""] {
            assert_eq!(tree.read(path), None, "{path}");
        }
        assert!(!tree.has_file("link") && !tree.has_file("pipe") && !tree.has_file("away/*"));
        assert_eq!(tree.files("*").into_iter().map(|file| file.path).collect::<Vec<_>>(), ["plain"]);
    }
}
