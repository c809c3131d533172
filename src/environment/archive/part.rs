//! A part of a file as a reader of its own: an entry of an archive inside of an archive.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Some bytes of a file that stays open. Copies share the file, and each has its own position.
#[derive(Debug, Clone)]
pub struct Part {
    file: Arc<std::fs::File>,
    at: u64,
    length: u64,
    position: u64,
}

impl Part {
    /// A whole file.
    pub fn whole(path: &Path) -> std::io::Result<Self> {
        let file = fs_err::File::open(path)?.into_parts().0;
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), at: 0, length, position: 0 })
    }

    /// Some of it; `None` where it is not so long.
    pub fn slice(&self, at: u64, length: u64) -> Option<Self> {
        let end = at.checked_add(length)?;
        (end <= self.length).then(|| Self { file: self.file.clone(), at: self.at + at, length, position: 0 })
    }

    /// How long it is, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where it begins in its file. Parts of one file with the same beginning and length are the same bytes.
    pub fn place(&self) -> (usize, u64) {
        (Arc::as_ptr(&self.file) as usize, self.at)
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..most], self.at + self.position)?;
        self.position += read as u64;
        if read == 0 && most > 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read)
    }
}

impl Seek for Part {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        self.position = to.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_reads_its_own_bytes_and_is_never_longer_than_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs_err::write(&path, "0123456789").unwrap();
        let whole = Part::whole(&path).unwrap();
        let inner = whole.slice(2, 6).unwrap().slice(1, 3).unwrap();
        assert_eq!(std::io::read_to_string(inner.clone()).unwrap(), "345");
        let mut other = inner.clone();
        other.seek(SeekFrom::End(-1)).unwrap();
        assert_eq!(std::io::read_to_string(&mut other).unwrap(), "5");
        assert_eq!(inner.place(), whole.slice(3, 1).unwrap().place());
        assert!(whole.slice(8, 3).is_none() && whole.slice(u64::MAX, 2).is_none());
        // The file became shorter under us.
        fs_err::write(&path, "0").unwrap();
        assert!(std::io::read_to_string(inner).is_err());
    }
}
