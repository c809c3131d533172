//! What overlayfs would show of layers that lie on top of each other, and changes to the topmost one as overlayfs would
//! make them. No mount is needed: the engine makes the mount, or nobody does.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

use crate::sandbox::local::below;

/// Layers, topmost first.
#[derive(Debug, Clone)]
pub struct Merged {
    layers: Vec<PathBuf>,
}

/// What is at a path.
#[derive(Debug, Clone)]
pub enum Found {
    /// A directory, and the layers' directories that it consists of, topmost first.
    Directory(Vec<PathBuf>),
    /// Anything else, on the host.
    Other(PathBuf),
}

impl Found {
    /// The topmost path on the host.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(parts) => parts.first().map_or(Path::new(""), PathBuf::as_path),
            Self::Other(path) => path,
        }
    }
}

impl Merged {
    /// Of these layers, topmost first.
    pub fn new(layers: Vec<PathBuf>) -> Self {
        Self { layers }
    }

    /// The root.
    pub fn root(&self) -> Found {
        Found::Directory(self.layers.clone())
    }

    /// What is at a path relative to the root. No link is followed: nothing is found behind one.
    pub fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        let mut found = self.root();
        for part in path {
            let Found::Directory(parts) = found else { return Ok(None) };
            match entry(&parts, part)? {
                Some(next) => found = next,
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// Everything in a directory, by name.
    pub fn list(&self, parts: &[PathBuf]) -> io::Result<BTreeMap<OsString, Found>> {
        let mut names = BTreeSet::new();
        for part in parts {
            for item in fs::read_dir(part)? {
                names.insert(item?.file_name());
            }
        }
        let mut all = BTreeMap::new();
        for name in names {
            if let Some(found) = entry(parts, &name)? {
                all.insert(name, found);
            }
        }
        Ok(all)
    }

    /// Removes `path`, and then the directories above it that are left empty, by changes to the topmost layer, as
    /// overlayfs does. What is not there, or behind a link, is left alone.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let path = below(path)?;
        if self.find(&path)?.is_none() {
            return Ok(());
        }
        self.remove_one(&path)?;
        for parent in path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty()) {
            match self.find(parent)? {
                Some(Found::Directory(parts)) if self.list(&parts)?.is_empty() => self.remove_one(parent)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn remove_one(&self, path: &Path) -> io::Result<()> {
        let Some((top, lower)) = self.layers.split_first() else { return Ok(()) };
        let own = top.join(path);
        match own.symlink_metadata() {
            Ok(data) if data.is_dir() => fs::remove_dir_all(&own)?,
            Ok(_) => fs::remove_file(&own)?,
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        if Self::new(lower.to_vec()).find(path)?.is_some() {
            self.copy_up_parents(path)?;
            let mode = Mode::empty();
            rustix::fs::mknodat(CWD, &own, FileType::CharacterDevice, mode, rustix::fs::makedev(0, 0))?;
        }
        Ok(())
    }

    /// Makes the directories above `path` in the topmost layer, as they are in the layers below.
    fn copy_up_parents(&self, path: &Path) -> io::Result<()> {
        let Some(top) = self.layers.first() else { return Ok(()) };
        let mut parents: Vec<&Path> =
            path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()).collect();
        parents.reverse();
        for parent in parents {
            let own = top.join(parent);
            if own.symlink_metadata().is_ok() {
                continue;
            }
            let Some(Found::Directory(parts)) = self.find(parent)? else { continue };
            let Some(from) = parts.first() else { continue };
            let data = fs::metadata(from)?;
            fs::create_dir(&own)?;
            // Only root can give files away.
            let _ = std::os::unix::fs::lchown(&own, Some(data.uid()), Some(data.gid()));
            fs::set_permissions(&own, data.permissions())?;
            keep_times(&own, &data)?;
        }
        Ok(())
    }

    /// Makes a place for a mount at `path` in the topmost layer where there is none: a directory or an empty file of
    /// `owner`'s, and directories on the way. A link on the way is refused with `ELOOP`.
    pub fn make_place(&self, path: &Path, directory: bool, owner: (u32, u32)) -> io::Result<()> {
        let path = below(path)?;
        let Some(top) = self.layers.first() else { return Ok(()) };
        let mut at = PathBuf::new();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            let is_directory = directory || parts.peek().is_some();
            match self.find(&at)? {
                Some(Found::Directory(_)) if is_directory => {}
                Some(Found::Other(file)) if !file.is_symlink() && !is_directory => {}
                Some(Found::Other(file)) if file.is_symlink() => return Err(errno(libc::ELOOP)),
                Some(Found::Other(_)) => return Err(errno(libc::ENOTDIR)),
                Some(Found::Directory(_)) => return Err(errno(libc::EISDIR)),
                None => {
                    self.copy_up_parents(&at)?;
                    let own = top.join(&at);
                    let mode = if is_directory {
                        fs::create_dir(&own)?;
                        0o755
                    } else {
                        fs::File::create_new(&own)?;
                        0o644
                    };
                    fs::set_permissions(&own, std::fs::Permissions::from_mode(mode))?;
                    give(&own, owner)?;
                }
            }
        }
        Ok(())
    }
}

/// Gives a path to a user, where it is not theirs already.
pub fn give(path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    let data = path.symlink_metadata()?;
    if (data.uid(), data.gid()) == (uid, gid) {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
}

/// What the layers' directories `parts` show by a name.
fn entry(parts: &[PathBuf], name: &OsStr) -> io::Result<Option<Found>> {
    let mut directories = Vec::new();
    for part in parts {
        let path = part.join(name);
        let data = match path.symlink_metadata() {
            Ok(data) => data,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(error),
        };
        if data.is_dir() {
            let opaque = is_opaque(&path);
            directories.push(path);
            if opaque {
                break;
            }
        } else if directories.is_empty() && !is_whiteout(&data) {
            return Ok(Some(Found::Other(path)));
        } else {
            // Hides what is below, and is hidden by a directory above.
            break;
        }
    }
    Ok((!directories.is_empty()).then_some(Found::Directory(directories)))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The mark of a removed file: a character device 0/0.
fn is_whiteout(data: &std::fs::Metadata) -> bool {
    data.file_type().is_char_device() && data.rdev() == 0
}

/// Whether a directory of a layer replaces, rather than joins, the ones below it.
fn is_opaque(directory: &Path) -> bool {
    ["trusted.overlay.opaque", "user.overlay.opaque"].into_iter().any(|name| {
        let mut value = [0_u8; 2];
        rustix::fs::lgetxattr(directory, name, &mut value[..]).is_ok_and(|length| length == 1 && value[0] == b'y')
    })
}

fn keep_times(path: &Path, data: &std::fs::Metadata) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: data.atime(), tv_nsec: data.atime_nsec() },
        last_modification: Timespec { tv_sec: data.mtime(), tv_nsec: data.mtime_nsec() },
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Layers(tempfile::TempDir);

    impl Layers {
        /// A top without anything, `middle` and `bottom`.
        fn new() -> Self {
            let layers = Self(tempfile::tempdir().unwrap());
            for name in ["top", "middle", "bottom"] {
                fs::create_dir(layers.path(name)).unwrap();
            }
            layers
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn whiteout(&self, name: &str) {
            let dev = rustix::fs::makedev(0, 0);
            rustix::fs::mknodat(CWD, self.path(name), FileType::CharacterDevice, Mode::empty(), dev).unwrap();
        }

        fn merged(&self) -> Merged {
            Merged::new(vec![self.path("top"), self.path("middle"), self.path("bottom")])
        }

        /// All files with their text, and empty directories.
        fn tree(&self) -> Vec<String> {
            fn walk(merged: &Merged, parts: &[PathBuf], at: &str, out: &mut Vec<String>) {
                let list = merged.list(parts).unwrap();
                if list.is_empty() {
                    out.push(format!("{at}/"));
                }
                for (name, found) in list {
                    let at = format!("{at}/{}", name.to_str().unwrap());
                    match found {
                        Found::Directory(parts) => walk(merged, &parts, &at, out),
                        Found::Other(path) => {
                            out.push(format!("{at}={}", fs::read_to_string(path).unwrap_or_default()))
                        }
                    }
                }
            }
            let merged = self.merged();
            let mut out = Vec::new();
            let Found::Directory(parts) = merged.root() else { unreachable!() };
            walk(&merged, &parts, "", &mut out);
            out
        }
    }

    #[test]
    fn layers_hide_and_join_as_overlayfs_has_it() {
        let layers = Layers::new();
        layers.write("bottom/a", "bottom");
        layers.write("middle/a", "middle");
        layers.write("bottom/d/x", "x");
        layers.write("middle/d/y", "y");
        layers.write("bottom/gone", "");
        layers.whiteout("middle/gone");
        layers.write("bottom/was-dir/z", "");
        layers.write("middle/was-dir", "file");
        layers.write("bottom/was-file", "");
        layers.write("middle/was-file/in", "in");
        assert_eq!(layers.tree(), ["/a=middle", "/d/x=x", "/d/y=y", "/was-dir=file", "/was-file/in=in"]);
    }

    #[test]
    fn removal_takes_parents_left_empty_and_marks_what_is_below() {
        let layers = Layers::new();
        for name in ["bottom/a/b/c", "bottom/keep", "middle/a/b/d", "bottom/e/f", "bottom/e/g"] {
            layers.write(name, "");
        }
        std::os::unix::fs::symlink("/etc", layers.path("bottom/link")).unwrap();
        fs::set_permissions(layers.path("bottom/e"), std::fs::Permissions::from_mode(0o751)).unwrap();
        let merged = layers.merged();
        for path in ["a/b/c", "e/f", "link/passwd", "missing/x"] {
            merged.remove(Path::new(path)).unwrap();
        }
        assert_eq!(layers.tree(), ["/a/b/d=", "/e/g=", "/keep=", "/link="]);
        assert_eq!(fs::metadata(layers.path("top/e")).unwrap().mode() & 0o777, 0o751);
        merged.remove(Path::new("a/b/d")).unwrap();
        assert_eq!(layers.tree(), ["/e/g=", "/keep=", "/link="]);
        assert!(layers.path("bottom/a/b/c").exists() && layers.path("middle/a/b/d").exists());
        for bad in ["../x", "/etc/passwd", "", "a/../../x"] {
            assert!(merged.remove(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn places_for_mounts_are_made_in_the_topmost_layer_only() {
        let layers = Layers::new();
        layers.write("bottom/deps/have", "");
        std::os::unix::fs::symlink("/etc", layers.path("bottom/link")).unwrap();
        let merged = layers.merged();
        let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        merged.make_place(Path::new("deps/x/y"), true, own).unwrap();
        merged.make_place(Path::new("deps/have"), false, own).unwrap();
        merged.make_place(Path::new("one/file"), false, own).unwrap();
        assert!(layers.path("top/deps/x/y").is_dir() && layers.path("top/one/file").is_file());
        assert!(!layers.path("top/deps/have").exists() && !layers.path("bottom/one").exists());
        let error = merged.make_place(Path::new("link/x"), true, own).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    }
}
