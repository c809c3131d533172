//! Careful reading of strangers' files: regular files only, never through a link at the end, never more than a limit.

use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::names::shown;

/// How much of one file is read at most.
pub(super) const LIMIT: u64 = 512 << 20;

/// What came of reading a file.
pub(super) enum Content {
    /// Nothing is there.
    Absent,
    /// Its bytes.
    Bytes(Vec<u8>),
    /// Why it was not read.
    Refused(String),
}

impl Content {
    /// The bytes, or none.
    pub(super) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Absent | Self::Refused(_) => None,
        }
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> Content {
    let meta = match fs_err::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Content::Absent,
        Err(e) => return Content::Refused(e.to_string()),
    };
    if !meta.is_file() {
        return Content::Refused("it is no regular file".to_owned());
    }
    if meta.len() > limit {
        return Content::Refused(format!("it is larger than {} MiB", limit >> 20));
    }
    match start(path, limit) {
        Ok(bytes) => Content::Bytes(bytes),
        Err(e) => Content::Refused(e.to_string()),
    }
}

/// The first `limit` bytes of a file that is known to be a regular one.
pub(super) fn start(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The entries of a folder by name, sorted; an empty list where there is none. What stands in its place, be it a link to
/// a folder, is an error: nobody has looked there then.
pub(super) fn list(folder: &Path) -> std::io::Result<Vec<fs_err::DirEntry>> {
    match fs_err::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(std::io::Error::new(ErrorKind::NotADirectory, "it is a link or a file, and no folder")),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    }
    let mut entries = fs_err::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs_err::DirEntry::file_name);
    Ok(entries)
}

/// A path as text, relative to `root` where it lies below it.
pub(super) fn place(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    if relative.as_os_str().is_empty() { ".".to_owned() } else { shown(relative.as_os_str().as_bytes()) }
}
