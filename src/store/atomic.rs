//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::StoreError;
use crate::fault;

/// How the names of files begin that are not whole yet.
pub(super) const TEMPORARY: &str = ".tmp-";

/// Writes `bytes` to `path`: a temporary file beside it, fsync, rename, fsync of the folder. Parents are made.
///
/// # Errors
/// What the file system says, with the path.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let at = |error: std::io::Error| {
        // The name of the temporary file, which the error may end with, helps nobody.
        let text = error.to_string();
        let text = text.split(" at path ").next().unwrap_or_default();
        std::io::Error::new(error.kind(), format!("could not write `{}`: {text}", path.display()))
    };
    fs_err::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder).map_err(at)?;
    fault::point("store.file.made");
    file.write_all(bytes).map_err(at)?;
    fault::point("store.file.written");
    file.as_file().sync_all().map_err(at)?;
    fault::point("store.file.synced");
    // tempfile makes private files; what we write is for everybody who may read the folder.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).map_err(at)?;
    file.persist(path).map_err(|e| at(e.error))?;
    fault::point("store.file.renamed");
    fs_err::File::open(folder)?.sync_all()?;
    fault::point("store.folder.synced");
    Ok(())
}

/// Writes a value as indented JSON with a final newline.
///
/// # Errors
/// As [`write_atomic`], or when the value has no JSON form.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write_atomic(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.json");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"two").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"two");
        assert_eq!(fs_err::read_dir(dir.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_path() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("file"), "x").unwrap();
        let error = write_atomic(&dir.path().join("file/below"), b"x").unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
