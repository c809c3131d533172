//! The system directories of the private root: the host's, or those of a base's unpacked folder.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::OpenTreeFlags;

use super::super::failure::{Failure, Step};
use super::place;
use super::root::Root;
use crate::sandbox;

/// The host's system directories that every sandbox has.
const OF_HOST: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// A base's: nothing in it is somebody's own, so `/opt` may hold the toolchain.
const OF_BASE: [&str; 8] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"];

/// Where system directories come from; open, as the host's paths may be covered while the root is built.
pub enum System {
    /// The host's own.
    Host,
    /// A base.
    Base {
        /// Its folder.
        dir: OwnedFd,
    },
}

impl System {
    /// Opens a task's root. Must run while the host's paths are all visible.
    pub fn open(root: &sandbox::Root) -> Result<Self, Failure> {
        match root {
            sandbox::Root::Host => Ok(Self::Host),
            sandbox::Root::Base { folder: None, digest, .. } => Err(Failure {
                step: format!("enter the base {digest}: it has no unpacked folder for the embedded sandbox"),
                errno: libc::ENOENT,
            }),
            sandbox::Root::Base { folder: Some(folder), .. } => {
                let step = || format!("open the base `{}`", folder.display());
                let dir = place::open_host(folder).step(step)?;
                if !place::is_dir(&dir) {
                    return Err(Failure { step: step(), errno: libc::ENOTDIR });
                }
                Ok(Self::Base { dir })
            }
        }
    }

    /// `/usr`, and `/bin`, `/lib` and their like: links where the system has links.
    pub fn attach(&self, root: &Root) -> Result<(), Failure> {
        match self {
            Self::Host => {
                let host =
                    rustix::fs::openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                        .step(|| "open the host's root".to_owned())?;
                OF_HOST.iter().try_for_each(|name| entry(&host, Path::new(name), Path::new(name), root))
            }
            Self::Base { dir } => {
                OF_BASE.iter().try_for_each(|name| entry(dir, Path::new(name), Path::new(name), root))
            }
        }
    }
}

/// Brings the entry `name` of a directory to the place `target`, read-only; a link as the link that it is, and what is
/// not there not at all. No link is followed on this side: a base's may point anywhere.
pub fn entry(dir: &OwnedFd, name: &Path, target: &Path, root: &Root) -> Result<(), Failure> {
    let step = || format!("bring in `/{}`", target.display());
    let kind = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        other => FileType::from_raw_mode(other.step(step)?.st_mode),
    };
    match kind {
        FileType::Symlink => {
            let to = rustix::fs::readlinkat(dir, name, Vec::new()).step(step)?;
            rustix::fs::symlinkat(to, &root.dir, target).step(step)
        }
        FileType::Directory | FileType::RegularFile => {
            let tree = detached(dir, name).step(step)?;
            place::read_only(&tree).step(step)?;
            let at = place::make_place(&root.dir, target, kind == FileType::Directory, root.owner).step(step)?;
            place::attach(&tree, &at).step(step)
        }
        _ => Ok(()),
    }
}

/// The names in a folder of a directory, which is not followed where it is a link; none where there is no folder.
pub fn names(dir: &OwnedFd, folder: &str) -> io::Result<Vec<PathBuf>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = match rustix::fs::openat(dir, folder, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut out = Vec::new();
    for entry in rustix::fs::Dir::new(open)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            out.push(PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)));
        }
    }
    out.sort();
    Ok(out)
}

fn detached(dir: &OwnedFd, name: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::mount::open_tree(
        dir,
        name,
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW,
    )
}
