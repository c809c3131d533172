//! Mount points inside the private root, reached without ever following a symbolic link.
//!
//! Part of what lies under a mount point is the repository's own tree, so a path in it may be a link that points
//! anywhere; the process that mounts may be root and still sees the host.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use super::sys;
use crate::fault;

/// A path below a root, without `.` or `..`: what is left of an absolute path without its `/`.
pub fn below_root(target: &Path) -> io::Result<PathBuf> {
    let rest = target.strip_prefix("/").map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    below(rest)
}

/// The same of a relative path. Empty, absolute and climbing paths are refused with `EINVAL`.
pub fn below(path: &Path) -> io::Result<PathBuf> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && path.components().next().is_some() {
        Ok(path.components().collect())
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// Opens a path below `dir` as a mere place. A symbolic link in it is `ELOOP`.
pub fn open(dir: impl AsFd, path: impl rustix::path::Arg, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(dir, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), resolve)
}

/// Whom directories made in a task's own file systems belong to; `None`: whoever makes them.
pub type Owner = Option<(u32, u32)>;

/// Gives a place to the command's user.
pub fn give(place: impl AsFd, owner: Owner) -> rustix::io::Result<()> {
    match owner {
        Some((uid, gid)) => {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::chownat(place, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
        }
        None => Ok(()),
    }
}

/// Makes a directory and its parents (mode 755) below `root` and opens it.
///
/// What is made in another file system than `root`'s own lies in a task's mount and belongs to `owner`.
pub fn make_dir(root: &OwnedFd, path: &Path, owner: Owner) -> rustix::io::Result<OwnedFd> {
    let own = rustix::fs::fstat(root)?.st_dev;
    let mut at = root.try_clone().map_err(|_| Errno::MFILE)?;
    for part in path {
        at = match open(&at, part, OFlags::DIRECTORY) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o755))?;
                let made = open(&at, part, OFlags::DIRECTORY)?;
                if rustix::fs::fstat(&at)?.st_dev != own {
                    give(&made, owner)?;
                }
                made
            }
            other => other?,
        };
    }
    Ok(at)
}

/// Makes a place of the same kind as what is to be mounted on it (directory or file) and opens it.
pub fn make_place(root: &OwnedFd, path: &Path, directory: bool, owner: Owner) -> rustix::io::Result<OwnedFd> {
    if directory {
        return make_dir(root, path, owner);
    }
    let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or(OsStr::new("")));
    let parent = make_dir(root, parent, owner)?;
    match open(&parent, name, OFlags::empty()) {
        Err(Errno::NOENT) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
            open(&parent, name, OFlags::empty())
        }
        other => other,
    }
}

/// A detached copy of the mounts at and below `path`.
pub fn detached(dir: impl AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    rustix::mount::open_tree(
        dir,
        path,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE,
    )
}

/// Makes a detached mount and all below it read-only, without set-user-id programs and device files.
pub fn read_only(tree: &OwnedFd) -> io::Result<()> {
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    sys::mount_setattr(tree.as_fd(), set, true)
}

/// Makes a detached mount and all below it writable as far as it is, without set-user-id programs and device files.
pub fn harmless(tree: &OwnedFd) -> io::Result<()> {
    sys::mount_setattr(tree.as_fd(), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, true)
}

/// Attaches a mount at a place.
pub fn attach(tree: &OwnedFd, place: &OwnedFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", place, "", flags)?;
    fault::point("init.mount.attached");
    Ok(())
}

/// Whether an open file is a directory.
pub fn is_dir(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory)
}

/// A short path to an open file, free of characters that mean something in mount options.
pub fn fd_path(file: &OwnedFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens a host path as a mere place, following links as usual.
pub fn open_host(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_below_a_root() {
        assert_eq!(below_root(Path::new("/a//b/./c/")).unwrap(), Path::new("a/b/c"));
        for bad in ["a", "", "/", "/a/../b", "/.."] {
            assert!(below_root(Path::new(bad)).is_err(), "{bad}");
        }
        for bad in ["/a", "", "..", "a/../../b", "."] {
            assert!(below(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_link_on_the_way_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let root = open_host(dir.path()).unwrap();
        assert_eq!(make_dir(&root, Path::new("link/x"), None).unwrap_err(), Errno::LOOP);
        assert!(make_dir(&root, Path::new("a/b"), None).is_ok());
        assert!(dir.path().join("a/b").is_dir());
        make_place(&root, Path::new("a/file"), false, None).unwrap();
        assert!(dir.path().join("a/file").is_file());
    }
}
