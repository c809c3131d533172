//! A run's own folder on the host: the names by which the engine finds what it mounts, and memory for what is written.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use super::merged::give;
use crate::fault;

/// Where memory is mounted in a run's folder.
const MEMORY: &str = "memory";

/// A folder that is gone with everything in it when it is dropped.
#[derive(Debug)]
pub struct RunFolder {
    folder: TempDir,
    /// Whether memory is mounted in it.
    memory: bool,
}

impl RunFolder {
    /// Makes one below `scratch`. With `memory` a memory-backed file system of so many bytes is mounted in it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(scratch: &Path, memory: Option<u64>) -> io::Result<Self> {
        fs::create_dir_all(scratch)?;
        let folder = tempfile::Builder::new().prefix("docker-").tempdir_in(scratch)?;
        fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let mut made = Self { folder, memory: false };
        let place = made.place();
        fs::create_dir(&place)?;
        fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755))?;
        if let Some(size) = memory {
            // 0 would mean no limit. An inode costs kernel memory that is counted nowhere else.
            let size = size.max(1 << 20);
            let options = CString::new(format!("size={size},nr_inodes={},mode=755", (size / 4096).max(1 << 16)))?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            rustix::mount::mount("tmpfs", &place, "tmpfs", flags, options.as_c_str())?;
            made.memory = true;
            fault::point("docker.memory.mounted");
        }
        Ok(made)
    }

    /// Whether what is written goes to memory of limited size.
    pub fn is_memory(&self) -> bool {
        self.memory
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join(MEMORY)
    }

    /// A new directory of `owner`'s for what a command writes.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn directory(&self, name: &str, mode: u32, owner: (u32, u32)) -> io::Result<PathBuf> {
        let path = self.place().join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        give(&path, owner)?;
        Ok(path)
    }

    /// A short name, free of characters that mean something in mount options, for a path of the host.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn alias(&self, name: &str, path: &Path) -> io::Result<PathBuf> {
        let link = self.folder.path().join(name);
        fs::os::unix::fs::symlink(path, &link)?;
        Ok(link)
    }

    /// Lets go of the memory: what the container has mounted by now stays its own until it ends.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.memory) {
            let _ = rustix::mount::unmount(self.place(), UnmountFlags::DETACH);
        }
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        self.release();
        open_up(self.folder.path());
        // `TempDir` removes the rest.
    }
}

/// Makes every directory removable by its owner: a command may have closed some.
pub fn open_up(folder: &Path) {
    if rustix::process::geteuid().is_root() {
        return;
    }
    // Not by a walker: those read a directory before they hand it out.
    let mut closed = vec![folder.to_owned()];
    while let Some(directory) = closed.pop() {
        let _ = fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        closed.extend(below.map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let root = rustix::process::geteuid().is_root();
        let folder = RunFolder::new(scratch.path(), root.then_some(1 << 20)).unwrap();
        let upper = folder.directory("upper0", 0o700, own).unwrap();
        fs::create_dir_all(upper.join("closed/in")).unwrap();
        fs::set_permissions(upper.join("closed"), std::fs::Permissions::from_mode(0o0)).unwrap();
        folder.alias("l0", Path::new("/odd,:place")).unwrap();
        if root {
            let error = fs::write(upper.join("big"), vec![0; 2 << 20]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        drop(folder);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&scratch.path().display().to_string()));
    }
}
