//! Copy-on-write directories.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{MountFlags, OpenTreeFlags};

use super::super::failure::{Failure, Step};
use super::root::{Root, STAGING, mkdir};
use super::{copy, place};
use crate::fault;

/// The caller's directory for changes, and the one that overlayfs needs beside it.
pub struct Upper {
    pub dir: OwnedFd,
    pub work: OwnedFd,
}

/// The directories of one overlay.
pub struct Layers {
    /// Topmost first.
    pub lowers: Vec<OwnedFd>,
    /// Where changes go; `None`: memory.
    pub upper: Option<Upper>,
    /// Mounted by an unprivileged user, whose marks go to `user.` extended attributes.
    pub user: bool,
    /// Copy without trying.
    pub copy: bool,
}

impl Layers {
    /// Mounts them, not yet at their place. Where overlayfs refuses, all layers are copied into the upper; `true`
    /// says so.
    pub fn mount(self, root: &Root, number: usize) -> Result<(OwnedFd, bool), Failure> {
        let Some(top) = self.lowers.first() else {
            return Err(Failure { step: "mount an overlay without lower directories".to_owned(), errno: libc::EINVAL });
        };
        // The mount's own directory is the upper's, so it gets the topmost lower's mode and the command's owner.
        let mode = rustix::fs::fstat(top).step(|| "look at a lower directory".to_owned())?.st_mode & 0o7777 | 0o700;
        let upper = match self.upper {
            Some(upper) => {
                rustix::fs::chmodat(
                    CWD,
                    place::fd_path(&upper.dir),
                    rustix::fs::Mode::from_raw_mode(mode),
                    rustix::fs::AtFlags::empty(),
                )
                .step(|| "set the mode of the upper directory".to_owned())?;
                place::give(&upper.dir, root.owner).step(|| "give the upper directory to the command".to_owned())?;
                upper
            }
            None => Upper {
                dir: root.scratch_dir(&format!("upper{number}"), mode)?,
                work: root.scratch_dir(&format!("work{number}"), 0o700)?,
            },
        };
        if !self.copy && (!self.user || keeps_marks(&upper.dir)) {
            let staged = format!("{STAGING}/{number}");
            mkdir(&staged)?;
            if overlayfs(&self.lowers, &upper, self.user, &staged).is_ok() {
                let flags = OpenTreeFlags::OPEN_TREE_CLOEXEC;
                let tree = rustix::mount::open_tree(CWD, staged, flags).step(|| "open the overlay".to_owned())?;
                return Ok((tree, false));
            }
        }
        for lower in self.lowers.iter().rev() {
            copy::layer(Path::new(&place::fd_path(lower)), Path::new(&place::fd_path(&upper.dir)))
                .step(|| "copy a lower directory".to_owned())?;
        }
        let tree = place::detached(CWD, place::fd_path(&upper.dir)).step(|| "bind the copy".to_owned())?;
        place::harmless(&tree).step(|| "bind the copy".to_owned())?;
        Ok((tree, true))
    }
}

/// Whether the upper's file system can hold the extended attributes that mark replaced directories. Without them
/// (memory before Linux 6.6) an overlay mounts, but fails later in the middle of somebody's work.
fn keeps_marks(upper: &OwnedFd) -> bool {
    let path = place::fd_path(upper);
    let name = "user.redgreen.probe";
    rustix::fs::setxattr(&path, name, b"y", rustix::fs::XattrFlags::empty())
        .and_then(|()| rustix::fs::removexattr(&path, name))
        .is_ok()
}

/// The mount proper. Layers go by descriptor: short, without characters to escape, and reachable wherever they lie.
///
/// Optional features are off, as they always are for an unprivileged user, so that all mounts behave the same.
fn overlayfs(lowers: &[OwnedFd], upper: &Upper, user: bool, at: &str) -> std::io::Result<()> {
    let lowers: Vec<String> = lowers.iter().map(place::fd_path).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},index=off,{}",
        lowers.join(":"),
        place::fd_path(&upper.dir),
        place::fd_path(&upper.work),
        if user { "userxattr" } else { "redirect_dir=nofollow,metacopy=off" },
    );
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("overlay", at, "overlay", flags, options.as_c_str())?;
    fault::point("init.overlay.mounted");
    Ok(())
}
