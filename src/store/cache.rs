//! The cache folder: versioned buckets that can be deleted at any time; a format change bumps a bucket's name, so that an
//! old cache is ignored and never misread.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::StoreError;

/// A bucket of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// Clones and unbundled repositories.
    Repositories,
    /// Leak-free trees of commits.
    Snapshots,
    /// Environment layers.
    Layers,
    /// Temporary files of running programs.
    Scratch,
}

impl Bucket {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Repositories, Self::Snapshots, Self::Layers, Self::Scratch];

    /// The folder's name.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Repositories => "repositories-v1",
            Self::Snapshots => "snapshots-v1",
            Self::Layers => "layers-v1",
            Self::Scratch => "scratch-v1",
        }
    }

    /// The bucket's folder in this cache.
    pub fn path(self, cache: &Path) -> PathBuf {
        cache.join(self.folder())
    }
}

/// What one bucket, or a folder of an older format, holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The folder.
    pub path: PathBuf,
    /// Bytes on disk, each file counted once.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

/// What lies in the cache, folder by folder; nothing when there is no cache.
///
/// # Errors
/// When it cannot be listed.
pub fn usage(cache: &Path) -> Result<Vec<Usage>, StoreError> {
    if !cache.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs_err::read_dir(cache)? {
        let path = entry?.path();
        let (mut bytes, mut files) = (0, 0);
        for entry in walkdir::WalkDir::new(&path).into_iter().filter_map(Result::ok) {
            if let Ok(metadata) = entry.metadata() {
                bytes += std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
                files += u64::from(metadata.is_file());
            }
        }
        found.push(Usage { path, bytes, files });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Entries of the cache (a snapshot, a layer, a clone) that nobody used for `unused`.
///
/// Using an entry touches its folder, so the folder's modification time is the time of last use.
///
/// # Errors
/// When the cache cannot be listed.
pub fn stale(cache: &Path, unused: Duration, now: SystemTime) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    for bucket in Bucket::ALL {
        let folder = bucket.path(cache);
        if !folder.is_dir() {
            continue;
        }
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            let age = entry.metadata()?.modified().ok().and_then(|m| now.duration_since(m).ok());
            if age.is_some_and(|age| age >= unused) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
