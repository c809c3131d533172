//! The private root: system directories read-only (the host's, or a base's), a choice of `/etc`, and memory for the rest.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fs_err as fs;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::super::failure::{Failure, Step};
use super::place::{self, Owner};
use super::system::System;
use super::{etc, proc, sys};
use crate::fault;
use crate::sandbox::Network;

/// Where the memory-backed file system for all that is written is mounted while the root is built.
pub const SCRATCH: &str = ".scratch";
/// Where overlays are mounted before they are moved to their place.
pub const STAGING: &str = ".staging";

/// The root under construction; it is the current directory.
pub struct Root {
    /// The root's directory.
    pub dir: OwnedFd,
    /// Whom files for the command are given to.
    pub owner: Owner,
}

/// Makes mounts private to this namespace.
pub fn make_private() -> Result<(), Failure> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(|| "make the mounts private".to_owned())
}

impl Root {
    /// Builds the root on a new memory-backed file system, and enters its directory. Host paths stay visible until
    /// [`Root::enter`], apart from those below the directory that it is mounted over; open them before.
    pub fn build(system: &System, scratch: u64, network: Network, owner: Owner) -> Result<Self, Failure> {
        let resolver = (network == Network::Host).then(etc::Resolver::read);
        // Some directory that every system has; nothing of the host is reached through it any more.
        let base = ["/tmp", "/var/tmp", "/mnt", "/run"]
            .into_iter()
            .find(|dir| Path::new(dir).is_dir())
            .ok_or(io::Error::from_raw_os_error(libc::ENOENT))
            .step(|| "find a directory to mount the root on".to_owned())?;
        mount_tmpfs(base, "size=64m,mode=755").step(|| format!("mount the root on `{base}`"))?;
        rustix::process::chdir(base).step(|| "enter the root".to_owned())?;
        let dir = rustix::fs::openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .step(|| "open the root".to_owned())?;
        let root = Self { dir, owner };
        system.attach(&root)?;
        for name in ["sys", "run", "run/redgreen", "var", "home"] {
            mkdir(name)?;
        }
        rustix::fs::symlinkat("/tmp", &root.dir, "var/tmp").step(|| "make the link `/var/tmp`".to_owned())?;
        etc::fill(&root, system, resolver.as_ref())?;
        root.scratch(scratch)?;
        root.devices()?;
        proc::mount(&root)?;
        fault::point("init.proc.mounted");
        mkdir(STAGING)?;
        Ok(root)
    }

    /// Binds a host path at the same or another place, read-only.
    pub fn bind(&self, source: &Path, target: &Path) -> Result<(), Failure> {
        let step = || format!("bind `{}` at `/{}`", source.display(), target.display());
        let tree = place::detached(CWD, source).step(step)?;
        place::read_only(&tree).step(step)?;
        let at = place::make_place(&self.dir, target, place::is_dir(&tree), self.owner).step(step)?;
        place::attach(&tree, &at).step(step)
    }

    /// One memory-backed file system, limited as a whole, for `/tmp`, home, `/dev/shm` and the overlays' uppers.
    fn scratch(&self, size: u64) -> Result<(), Failure> {
        // 0 would mean no limit. An inode costs kernel memory that is counted nowhere else.
        let size = size.max(1 << 20);
        let inodes = (size / 4096).max(1 << 16);
        mkdir(SCRATCH)?;
        mount_tmpfs(SCRATCH, &format!("size={size},nr_inodes={inodes},mode=755"))
            .step(|| "mount memory for what is written".to_owned())?;
        mkdir("dev")?;
        for (name, target, mode) in
            [("tmp", "tmp", 0o1777), ("home", "home/redgreen", 0o755), ("shm", "dev/shm", 0o1777)]
        {
            let step = || format!("make `/{target}`");
            self.scratch_dir(name, mode)?;
            let tree = place::detached(CWD, format!("{SCRATCH}/{name}")).step(step)?;
            let at = place::make_dir(&self.dir, Path::new(target), None).step(step)?;
            place::attach(&tree, &at).step(step)?;
        }
        Ok(())
    }

    /// A new directory of the command's in the memory-backed file system.
    pub fn scratch_dir(&self, name: &str, mode: u32) -> Result<OwnedFd, Failure> {
        let path = format!("{SCRATCH}/{name}");
        let step = || format!("make the directory `{name}`");
        rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o755)).step(step)?;
        rustix::fs::chmodat(CWD, &path, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty()).step(step)?;
        let dir = place::open(&self.dir, &path, OFlags::DIRECTORY).step(step)?;
        place::give(&dir, self.owner).step(step)?;
        Ok(dir)
    }

    /// The few device files that programs need, and no terminal.
    fn devices(&self) -> Result<(), Failure> {
        for name in ["null", "zero", "full", "random", "urandom"] {
            let step = || format!("bind `/dev/{name}`");
            let tree = place::detached(CWD, format!("/dev/{name}")).step(step)?;
            // Writing to the device works all the same; its file's times and mode are the host's.
            sys::mount_setattr(tree.as_fd(), libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID, true).step(step)?;
            let at = place::make_place(&self.dir, &Path::new("dev").join(name), false, None).step(step)?;
            place::attach(&tree, &at).step(step)?;
        }
        for (name, to) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            rustix::fs::symlinkat(to, &self.dir, Path::new("dev").join(name)).step(|| format!("make `/dev/{name}`"))?;
        }
        Ok(())
    }

    /// Makes this the root of the process, lets go of the host's, and closes it for writing.
    pub fn enter(&self) -> Result<(), Failure> {
        rustix::mount::unmount(SCRATCH, UnmountFlags::DETACH).step(|| "let go of the staging places".to_owned())?;
        // The overlays have moved away. Not recursively: what is still mounted here by mistake must not be emptied.
        let staged = fs::read_dir(STAGING).step(|| "list the staging places".to_owned())?;
        for entry in staged {
            entry.and_then(|entry| fs::remove_dir(entry.path())).step(|| "remove a staging place".to_owned())?;
        }
        for name in [SCRATCH, STAGING] {
            rustix::fs::unlinkat(&self.dir, name, rustix::fs::AtFlags::REMOVEDIR)
                .step(|| format!("remove `/{name}`"))?;
        }
        rustix::process::pivot_root(".", ".").step(|| "change the root".to_owned())?;
        fault::point("init.root.changed");
        // The old root now lies on top of the new one at the same place.
        rustix::mount::unmount(".", UnmountFlags::DETACH).step(|| "let go of the host's root".to_owned())?;
        rustix::process::chdir("/").step(|| "enter the new root".to_owned())?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
        rustix::mount::mount_remount("/", flags, "").step(|| "make the root read-only".to_owned())
    }
}

/// Makes a directory in the root under construction.
pub fn mkdir(path: &str) -> Result<(), Failure> {
    rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755)).step(|| format!("make the directory `/{path}`"))
}

fn mount_tmpfs(target: &str, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", target, "tmpfs", flags, options.as_c_str())?;
    fault::point("init.memory.mounted");
    Ok(())
}
