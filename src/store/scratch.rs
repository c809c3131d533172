//! A process's own folder of temporary files in the cache, and the end of those whose process is dead.
//!
//! Whose a folder is, a lock says: the owner holds one on a file in it for as long as it lives. A lock ends with its
//! process, however that ends, is seen from every container and PID namespace that shares the cache, and is never mistaken
//! for another's, as process numbers are. A lock that can be taken therefore means a dead owner; where a file system has
//! no locks, nothing is taken away.

use std::path::{Path, PathBuf};

use super::StoreError;
use super::cache::Bucket;
use super::lock::{self, Taken};
use super::reap;
use crate::fault;

/// How the names of processes' folders begin.
pub(super) const PREFIX: &str = "process-";
/// The file in a process's folder that its owner has locked.
pub(super) const OWNER: &str = "owner.lock";
/// Held while folders are made and looked through, so that none is seen before it has an owner.
const DOOR: &str = "door.lock";

/// A folder for the temporary files of this process, below the cache's bucket for them. Gone when dropped; when the
/// process dies, the next start takes it away.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    cache: PathBuf,
    _owner: std::fs::File,
}

impl Scratch {
    /// Makes the folder, and takes away what dead processes left in this cache: their folders, and half-made entries of
    /// the other buckets. A live process's are never touched.
    ///
    /// # Errors
    /// When the cache cannot be written. That a leftover cannot be taken away is no error.
    pub fn new(cache: &Path) -> Result<Self, StoreError> {
        let bucket = Bucket::Scratch.path(cache);
        fs_err::create_dir_all(&bucket)?;
        reap(cache);
        let door = lock::wait(&bucket.join(DOOR))?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&bucket)?.keep();
        fault::point("scratch.folder.made");
        let owner = lock::wait(&folder.join(OWNER))?;
        fault::point("scratch.owner.locked");
        drop(door);
        // What is below is given to the sandbox's user, who must be able to reach it.
        fs_err::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(Self { folder, cache: cache.to_owned(), _owner: owner })
    }

    /// The cache that it lies in.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.folder);
        // A sandbox whose redgreen was killed shortly before this one started may have ended only now.
        reap(&self.cache);
    }
}

/// Takes away what dead processes left in a cache. Nothing of this is worth an error.
fn reap(cache: &Path) {
    for (folder, _owner) in ownerless(&Bucket::Scratch.path(cache)) {
        remove(&folder);
    }
    reap::half_made(cache);
}

/// The folders of dead processes, each with the lock that says so, which keeps others away.
fn ownerless(bucket: &Path) -> Vec<(PathBuf, std::fs::File)> {
    let Ok(_door) = lock::wait(&bucket.join(DOOR)) else { return Vec::new() };
    let entries = fs_err::read_dir(bucket).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    folders
        .filter_map(|entry| match lock::try_take(&entry.path().join(OWNER)) {
            Ok(Taken::Ours(file)) => Some((entry.path(), file)),
            _ => None,
        })
        .collect()
}

/// Removes a folder. Its lock goes last: without one that is held, another start tries again.
fn remove(folder: &Path) {
    let_go_of_mounts(folder);
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != OWNER {
            reap::remove(&entry.path());
        }
    }
    let empty = fs_err::read_dir(folder).is_ok_and(|entries| entries.count() <= 1);
    if empty {
        // One that stays is found by the next start.
        let _ = fs_err::remove_file(folder.join(OWNER));
        let _ = fs_err::remove_dir(folder);
    }
}

/// Lets go of what is mounted below a folder: memory that a process had mounted for a container and died.
fn let_go_of_mounts(folder: &Path) {
    // The kernel tells mount points without the links by which we may have got at the cache.
    let Ok(folder) = fs_err::canonicalize(folder) else { return };
    let text = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The last ones lie on top of the others.
    for place in mounts_below(&text, &folder).iter().rev() {
        let _ = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH);
    }
}

/// The mount points below a folder, by the text of `/proc/self/mountinfo`, in which odd characters are octal numbers.
fn mounts_below(text: &str, folder: &Path) -> Vec<PathBuf> {
    let plain = |field: &str| {
        let mut out = Vec::new();
        let mut rest = field.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            let number =
                after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
            match number {
                Some(number) if byte == b'\\' => {
                    out.push(number);
                    rest = &after[3..];
                }
                _ => {
                    out.push(byte);
                    rest = after;
                }
            }
        }
        PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(out))
    };
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(plain);
    points.filter(|point| point.starts_with(folder) && point != folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_folder_are_found_by_their_plain_names() {
        let text = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    90 22 0:50 / /c/process-a/docker-1/memory rw,nosuid - tmpfs tmpfs rw\n\
                    91 22 0:51 / /c/process-a\\040b/memory rw - tmpfs tmpfs rw\n\
                    92 22 0:52 / /c/process-ab rw - tmpfs tmpfs rw\n";
        let below = |folder: &str| mounts_below(text, Path::new(folder));
        assert_eq!(below("/c/process-a"), [Path::new("/c/process-a/docker-1/memory")]);
        assert_eq!(below("/c/process-a b"), [Path::new("/c/process-a b/memory")]);
        assert!(below("/c/process-ab").is_empty());
    }

    fn processes(cache: &Path) -> Vec<PathBuf> {
        let entries = fs_err::read_dir(Bucket::Scratch.path(cache)).unwrap().map(|e| e.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }

    #[test]
    fn a_dead_owners_folder_goes_and_a_live_ones_stays() {
        let dir = tempfile::tempdir().unwrap();
        let live = Scratch::new(dir.path()).unwrap();
        fs_err::create_dir(live.path().join("instance-a")).unwrap();
        let bucket = Bucket::Scratch.path(dir.path());
        let dead = bucket.join("process-dead");
        fs_err::create_dir_all(dead.join("rebuild-x/y")).unwrap();
        fs_err::set_permissions(dead.join("rebuild-x"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        // Killed between the folder and its lock.
        fs_err::create_dir(bucket.join("process-young")).unwrap();
        let other = Scratch::new(dir.path()).unwrap();
        let mut left = processes(dir.path());
        left.sort();
        let mut expected = [live.path().to_owned(), other.path().to_owned()];
        expected.sort();
        assert_eq!(left, expected);
        assert!(live.path().join("instance-a").is_dir());
        drop((live, other));
        assert!(processes(dir.path()).is_empty());
    }

    #[test]
    fn memory_that_a_dead_process_had_mounted_is_let_go_of_also_behind_a_link() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        let memory = Bucket::Scratch.path(&real).join("process-dead/docker-1/memory");
        fs_err::create_dir_all(&memory).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let flags = rustix::mount::MountFlags::NOSUID;
        rustix::mount::mount("tmpfs", &memory, "tmpfs", flags, c"size=1m").unwrap();
        let mounted = || {
            let text = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
            mounts_below(&text, &dir.path().canonicalize().unwrap()).len()
        };
        assert_eq!(mounted(), 1);
        drop(Scratch::new(&link).unwrap());
        let left = mounted();
        if left > 0 {
            rustix::mount::unmount(&memory, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
        assert_eq!(left, 0);
        assert!(processes(&real).is_empty());
    }
}
