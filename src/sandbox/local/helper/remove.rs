//! Removing paths from a freshly mounted overlay.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::place;

/// Removes `path` below `root`, and then the directories above it that are left empty, `root` itself excepted.
///
/// Climbing and absolute paths are refused. No link is followed: what lies behind one is not below `root`, so such a
/// path is not there, and neither is a missing one; both are fine.
pub fn remove(root: &OwnedFd, path: &Path) -> std::io::Result<()> {
    let path = place::below(path)?;
    match remove_one(root, &path) {
        Ok(()) => {}
        Err(error) if is_absent(error) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    for parent in path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty()) {
        let (dir, name) = open_parent(root, parent)?;
        match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_absent(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

fn remove_one(root: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
    let (dir, name) = open_parent(root, path)?;
    match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
        // std's walk does not follow links either; `name` is one plain component.
        Err(Errno::ISDIR) => std::fs::remove_dir_all(Path::new(&place::fd_path(&dir)).join(name))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        other => other,
    }
}

/// The open parent of a path, and its last component.
fn open_parent<'a>(root: &OwnedFd, path: &'a Path) -> rustix::io::Result<(OwnedFd, &'a OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((place::open(root, parent, OFlags::DIRECTORY)?, name))
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a/b/c", "a/keep", "d/e/f/g", "top"] {
            let path = dir.path().join("root").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        fs::write(dir.path().join("outside"), "").unwrap();
        fs::os::unix::fs::symlink("..", dir.path().join("root/up")).unwrap();
        let root = place::open_host(&dir.path().join("root")).unwrap();
        (dir, root)
    }

    #[test]
    fn parents_left_empty_go_too() {
        let (dir, root) = tree();
        for path in ["a/b/c", "d/e/f/g", "top"] {
            remove(&root, Path::new(path)).unwrap();
        }
        let mut left: Vec<_> =
            fs::read_dir(dir.path().join("root")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a", "up"]);
        assert!(dir.path().join("root/a/keep").exists() && !dir.path().join("root/a/b").exists());
    }

    #[test]
    fn what_is_absent_or_behind_a_link_is_left_alone() {
        let (dir, root) = tree();
        for path in ["nowhere", "nowhere/x", "top/x", "up/outside"] {
            remove(&root, Path::new(path)).unwrap();
        }
        assert!(dir.path().join("outside").exists() && dir.path().join("root/top").exists());
        remove(&root, Path::new("up")).unwrap();
        assert!(!dir.path().join("root/up").is_symlink() && dir.path().join("outside").exists());
    }

    #[test]
    fn directories_go_whole_and_climbing_is_refused() {
        let (dir, root) = tree();
        remove(&root, Path::new("d/e")).unwrap();
        assert!(!dir.path().join("root/d").exists());
        for path in ["/etc/hosts", "../outside", "a/../../outside", ""] {
            assert!(remove(&root, Path::new(path)).is_err(), "{path}");
        }
        assert!(dir.path().join("outside").exists());
    }
}
