//! Files of lines that grow: each line is whole or not there.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::StoreError;

/// A JSON Lines file that is open for more lines. Each is one write, flushed to the disk before [`LineFile::append`]
/// returns.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LineFile {
    /// Opens the file, making it and its folder where they are missing, and gives the lines that it holds. Half a line at
    /// its end, which a process left that died while it wrote, is cut off.
    ///
    /// # Errors
    /// What the file system says, and when the file is no text.
    pub fn open(path: &Path) -> Result<(Self, String), StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs_err::create_dir_all(folder)?;
        }
        let mut file = fs_err::OpenOptions::new().read(true).append(true).create(true).open(path)?.into_parts().0;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
            file.seek(SeekFrom::End(0))?;
            bytes.truncate(whole);
        }
        let text = String::from_utf8(bytes).map_err(|_| StoreError::Malformed {
            path: path.to_owned(),
            problem: "it is no text in UTF-8".to_owned(),
        })?;
        Ok((Self { path: path.to_owned(), file: Mutex::new(file) }, text))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// What the file system says, or when the row has no JSON form.
    pub fn append<T: serde::Serialize>(&self, row: &T) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(row)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |error: std::io::Error| {
            std::io::Error::new(error.kind(), format!("could not write `{}`: {error}", self.path.display()))
        };
        file.write_all(&line).map_err(at)?;
        file.sync_data().map_err(at)?;
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn half_a_line_at_the_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/lines.jsonl");
        let (file, text) = LineFile::open(&path).unwrap();
        assert_eq!(text, "");
        file.append(&json!({"n": 1})).unwrap();
        drop(file);
        fs_err::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"n\": 2").unwrap();
        let (file, text) = LineFile::open(&path).unwrap();
        assert_eq!(text, "{\"n\":1}\n");
        file.append(&json!({"n": 3})).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":3}\n");
    }
}
