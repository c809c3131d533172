//! The fallback for file systems and kernels without a usable overlayfs: all layers copied on top of each other.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use fs_err as fs;

/// Copies one layer over what is in `to` already: later layers win, overlayfs's marks for removed files and replaced
/// directories are obeyed, times are kept (compiled caches are checked against them). Links are never followed.
pub fn layer(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let data = entry.metadata()?;
        let kind = data.file_type();
        let there = target.symlink_metadata().ok();
        let keeps = kind.is_dir() && there.as_ref().is_some_and(std::fs::Metadata::is_dir) && !is_opaque(&source);
        if there.is_some() && !keeps {
            remove(&target)?;
        }
        if kind.is_dir() {
            if !keeps {
                fs::create_dir(&target)?;
            }
            layer(&source, &target)?;
            fs::set_permissions(&target, data.permissions())?;
        } else if kind.is_symlink() {
            fs::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            // Copies the mode, too; shares blocks where the file system can.
            fs::copy(&source, &target)?;
        } else if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            // A character device 0/0 is the mark of a removed file. Others have no place in a tree of sources.
            continue;
        }
        keep_owner_and_times(&target, &data)?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Whether a directory of this layer replaces, rather than joins, the ones below it.
fn is_opaque(dir: &Path) -> bool {
    ["trusted.overlay.opaque", "user.overlay.opaque"].into_iter().any(|name| {
        let mut value = [0_u8; 2];
        rustix::fs::lgetxattr(dir, name, &mut value[..]).is_ok_and(|length| length == 1 && value[0] == b'y')
    })
}

fn keep_owner_and_times(target: &Path, data: &std::fs::Metadata) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
    // Only root can give files away; for a user they are already the only owner that a mount could show as writable.
    let _ = std::os::unix::fs::lchown(target, Some(data.uid()), Some(data.gid()));
    let times = Timestamps {
        last_access: Timespec { tv_sec: data.atime(), tv_nsec: data.atime_nsec() },
        last_modification: Timespec { tv_sec: data.mtime(), tv_nsec: data.mtime_nsec() },
    };
    Ok(rustix::fs::utimensat(CWD, target, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn layers_are_copied_on_top_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, text) in [("low/a", "low"), ("low/d/x", "x"), ("low/was-dir/y", "y"), ("top/a", "top")] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        }
        fs::write(path("top/was-dir"), "now a file").unwrap();
        fs::os::unix::fs::symlink("/nowhere", path("top/link")).unwrap();
        fs::set_permissions(path("low/d/x"), std::fs::Permissions::from_mode(0o750)).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        std::fs::File::open(path("low/d/x")).unwrap().set_modified(old).unwrap();

        fs::create_dir(path("out")).unwrap();
        layer(&path("low"), &path("out")).unwrap();
        layer(&path("top"), &path("out")).unwrap();

        assert_eq!(fs::read_to_string(path("out/a")).unwrap(), "top");
        assert_eq!(fs::read_to_string(path("out/was-dir")).unwrap(), "now a file");
        assert_eq!(fs::read_link(path("out/link")).unwrap(), Path::new("/nowhere"));
        let data = fs::metadata(path("out/d/x")).unwrap();
        assert_eq!((data.permissions().mode() & 0o777, data.modified().unwrap()), (0o750, old));
    }

    #[test]
    fn a_link_below_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["outside", "low", "top/d", "out"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::os::unix::fs::symlink(path("outside"), path("low/d")).unwrap();
        fs::write(path("top/d/f"), "f").unwrap();
        layer(&path("low"), &path("out")).unwrap();
        layer(&path("top"), &path("out")).unwrap();
        assert!(fs::read_dir(path("outside")).unwrap().next().is_none());
        assert!(path("out/d").symlink_metadata().unwrap().is_dir());
    }
}
