//! The cache folder: versioned buckets that can be deleted at any time; a format change bumps a bucket's name, so that an
//! old cache is ignored and never misread.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
    /// Root file systems that environments stand on.
    Bases,
    /// Temporary files of running programs.
    Scratch,
}

impl Bucket {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Repositories, Self::Snapshots, Self::Layers, Self::Bases, Self::Scratch];

    /// The folder's name.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Repositories => "repositories-v1",
            Self::Snapshots => "snapshots-v1",
            Self::Layers => "layers-v1",
            Self::Bases => "bases-v1",
            Self::Scratch => "scratch-v1",
        }
    }

    /// How deep below the bucket's folder its entries lie.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Snapshots | Self::Bases | Self::Scratch => 1,
            Self::Repositories | Self::Layers => 2,
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

/// Says that an entry of the cache was used now. `path` lies in the entry; anything else (a user's mirror, a toolchain)
/// is left alone. That the time cannot be set is no reason to stop: the entry only looks older than it is.
pub fn used(cache: &Path, path: &Path) {
    let Some(entry) = entry_of(cache, path) else { return };
    if let Ok(file) = fs_err::File::open(last_use(&entry)) {
        let _ = file.file().set_modified(SystemTime::now());
    }
}

/// The entry of the cache in which `path` lies.
pub(super) fn entry_of(cache: &Path, path: &Path) -> Option<PathBuf> {
    let in_bucket = |b: &Bucket| path.strip_prefix(b.path(cache)).ok().map(|inside| (*b, inside));
    let (bucket, inside) = Bucket::ALL.iter().find_map(in_bucket)?;
    let entry: PathBuf = inside.components().take(bucket.depth()).collect();
    let whole = entry.components().count() == bucket.depth();
    whole.then(|| bucket.path(cache).join(entry))
}

/// What carries the time of an entry's last use: the marker beside it, as the times of a snapshot's own files are
/// constant; else the entry itself.
pub(super) fn last_use(entry: &Path) -> PathBuf {
    let marker = marker(entry);
    if marker.is_file() { marker } else { entry.to_owned() }
}

/// The file that says that the entry beside it is whole.
pub(super) fn marker(entry: &Path) -> PathBuf {
    let mut name = entry.as_os_str().to_owned();
    name.push(".complete");
    name.into()
}

/// Deletes a folder or file, which need not be there.
pub(super) fn remove_entry(entry: &Path) -> std::io::Result<()> {
    let kind = match fs_err::symlink_metadata(entry) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if kind.is_dir() {
        open_up(entry);
        fs_err::remove_dir_all(entry)
    } else {
        fs_err::remove_file(entry)
    }
}

/// Lets the owner read and change every folder: an install, or a command, may have closed some.
fn open_up(folder: &Path) {
    // Not by a walker: those read a folder before they hand it out.
    let mut closed = vec![folder.to_owned()];
    while let Some(folder) = closed.pop() {
        let _ = fs_err::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let entries = fs_err::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        closed.extend(below.map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_put_down_to_the_entry_in_which_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
        let snapshots = Bucket::Snapshots.path(cache);
        let layers = Bucket::Layers.path(cache).join("rust-build");
        for folder in [snapshots.join("a"), snapshots.join("b"), layers.join("c/root"), layers.join("d")] {
            fs_err::create_dir_all(folder).unwrap();
        }
        let marked = [snapshots.join("a.complete"), snapshots.join("b.complete")];
        for file in &marked {
            fs_err::write(file, "").unwrap();
        }
        for path in marked.iter().chain(&[layers.join("c"), layers.join("d")]) {
            std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        used(cache, &snapshots.join("b/src"));
        used(cache, &layers.join("c/root"));
        used(cache, Path::new("/somewhere/else"));
        let is_old = |entry: &Path| fs_err::metadata(last_use(entry)).unwrap().modified().unwrap() == long_ago;
        let old = [snapshots.join("a"), snapshots.join("b"), layers.join("c"), layers.join("d")].map(|e| is_old(&e));
        assert_eq!(old, [true, false, false, true]);
        assert_eq!(entry_of(cache, &layers), None);
    }

    /// As somebody who is not root, whom closed folders keep out: a thread of ours can be that by itself.
    #[test]
    fn an_entry_with_closed_folders_goes() {
        let dir = tempfile::tempdir().unwrap();
        let nobody = rustix::process::Uid::from_raw(54_321);
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(dir.path(), Some(nobody.as_raw()), None).unwrap();
        }
        let entry = dir.path().join("entry");
        let work = || {
            if is_root {
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            fs_err::create_dir_all(entry.join("closed/in/side")).unwrap();
            for folder in ["closed/in", "closed"] {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
                fs_err::set_permissions(entry.join(folder), mode).unwrap();
            }
            remove_entry(&entry).unwrap();
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        assert!(!entry.exists());
    }
}
