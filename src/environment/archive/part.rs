//! A part of a file as a reader of its own: an entry of an archive inside of an archive, or a file of a folder.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Some bytes of a file. Copies share the file, and each has its own position.
#[derive(Debug, Clone)]
pub struct Part {
    source: Source,
    at: u64,
    length: u64,
    position: u64,
    /// The file of a path, once it was read from.
    opened: Option<Arc<std::fs::File>>,
}

#[derive(Debug, Clone)]
enum Source {
    /// A file that stays open.
    Open(Arc<std::fs::File>),
    /// A file that is opened when it is read: a folder may have more of them than a process may have open.
    Path { path: Arc<PathBuf>, device: u64, inode: u64 },
}

/// Where bytes lie. Equal places are the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In an open file, from here on.
    Open(usize, u64),
    /// The file with this device and inode.
    File(u64, u64),
}

impl Part {
    /// A whole file, which stays open.
    pub fn whole(path: &Path) -> std::io::Result<Self> {
        let file = fs_err::File::open(path)?.into_parts().0;
        let length = file.metadata()?.len();
        Ok(Self { source: Source::Open(Arc::new(file)), at: 0, length, position: 0, opened: None })
    }

    /// A whole file, which is opened when it is read. `meta` is the file's own, of no link.
    pub fn of_path(path: PathBuf, meta: &std::fs::Metadata) -> Self {
        let source = Source::Path { path: Arc::new(path), device: meta.dev(), inode: meta.ino() };
        Self { source, at: 0, length: meta.len(), position: 0, opened: None }
    }

    /// Some of it; `None` where it is not so long.
    pub fn slice(&self, at: u64, length: u64) -> Option<Self> {
        let end = at.checked_add(length)?;
        let slice = Self { source: self.source.clone(), at: self.at + at, length, position: 0, opened: None };
        (end <= self.length).then_some(slice)
    }

    /// How long it is, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where it lies.
    pub fn place(&self) -> Place {
        match &self.source {
            Source::Open(file) => Place::Open(Arc::as_ptr(file) as usize, self.at),
            Source::Path { device, inode, .. } => Place::File(*device, *inode),
        }
    }

    fn file(&mut self) -> std::io::Result<Arc<std::fs::File>> {
        match (&self.source, &self.opened) {
            (Source::Open(file), _) | (_, Some(file)) => Ok(file.clone()),
            (Source::Path { path, .. }, None) => {
                let file = Arc::new(fs_err::File::open(path.as_path())?.into_parts().0);
                self.opened = Some(file.clone());
                Ok(file)
            }
        }
    }
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        if most == 0 {
            return Ok(0);
        }
        let read = self.file()?.read_at(&mut buffer[..most], self.at + self.position)?;
        self.position += read as u64;
        // It became shorter under us.
        if read == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
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
        let named = Part::of_path(path.clone(), &fs_err::metadata(&path).unwrap());
        assert_eq!(std::io::read_to_string(named.clone()).unwrap(), "0123456789");
        fs_err::hard_link(&path, folder.path().join("y")).unwrap();
        let second = folder.path().join("y");
        assert_eq!(named.place(), Part::of_path(second.clone(), &fs_err::metadata(&second).unwrap()).place());
        // The file became shorter under us.
        fs_err::write(&path, "0").unwrap();
        assert!(std::io::read_to_string(inner).is_err());
    }
}
