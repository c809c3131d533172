//! Folders of the cache as layers of an image, and back: what an overlay marks as gone becomes a whiteout.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use super::error::TransferError;
use crate::environment::archive::{ArchiveError, Kind, Node, OPAQUE, Part, Tree, WHITEOUT};
use crate::environment::tracked::is_opaque;

/// The marks of a folder that hides what is below it: of an overlay that root mounted, and of another user's.
const MARKS: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

/// A folder's content at a path of an image. All of it belongs to root there.
pub(super) fn of_folder(folder: &Path, at: &Path) -> Result<Tree, TransferError> {
    let mut tree = Tree::default();
    let unfit =
        |path: &Path, problem: &str| TransferError::Unfit { path: path.to_owned(), problem: problem.to_owned() };
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(std::io::Error::from)?;
        let path = entry.path();
        let inside = path.strip_prefix(folder).unwrap_or(Path::new(""));
        let target = if inside == Path::new("") { at.to_owned() } else { at.join(inside) };
        if entry.depth() > 0 && entry.file_name().as_bytes().starts_with(WHITEOUT) {
            return Err(unfit(path, "its name would be taken for a mark that a file is gone"));
        }
        let meta = fs_err::symlink_metadata(path)?;
        let kind = meta.file_type();
        let node = |kind, mode| Node {
            kind,
            mode,
            uid: 0,
            gid: 0,
            time: u64::try_from(meta.mtime()).unwrap_or_default(),
            nanos: u32::try_from(meta.mtime_nsec()).unwrap_or_default(),
        };
        let permissions = meta.permissions().mode() & 0o777;
        if kind.is_dir() {
            insert(&mut tree, target.clone(), node(Kind::Folder, permissions))?;
            if is_opaque(path) {
                insert(&mut tree, target.join(OsStr::from_bytes(OPAQUE)), mark()?)?;
            }
        } else if kind.is_file() {
            insert(&mut tree, target, node(Kind::File(Part::of_path(path.to_owned(), &meta)), permissions))?;
        } else if kind.is_symlink() {
            insert(&mut tree, target, node(Kind::Link(fs_err::read_link(path)?), 0o777))?;
        } else if kind.is_char_device() && meta.rdev() == 0 {
            let mut name = OsString::from(OsStr::from_bytes(WHITEOUT));
            name.push(entry.file_name());
            insert(&mut tree, target.with_file_name(name), mark()?)?;
        }
        // Sockets and pipes are of no use to anybody else.
    }
    Ok(tree)
}

/// A layer that is one symbolic link.
pub(super) fn of_link(at: &Path, to: &Path) -> Result<Tree, TransferError> {
    let mut tree = Tree::default();
    let node = Node { kind: Kind::Link(to.to_owned()), mode: 0o777, uid: 0, gid: 0, time: 0, nanos: 0 };
    insert(&mut tree, at.to_owned(), node)?;
    Ok(tree)
}

fn insert(tree: &mut Tree, path: PathBuf, node: Node) -> Result<(), ArchiveError> {
    tree.insert(path, node, "a layer of the cache")
}

/// The empty file that a whiteout is.
fn mark() -> std::io::Result<Node> {
    let nothing = Part::whole(Path::new("/dev/null"))?;
    Ok(Node { kind: Kind::File(nothing), mode: 0o644, uid: 0, gid: 0, time: 0, nanos: 0 })
}

/// Puts what lies at a path of a layer back into a folder of the cache, which belongs to `owner`.
pub(super) fn restore(
    tree: &Tree,
    at: &Path,
    folder: &Path,
    owner: (u32, u32),
    go: &dyn Fn() -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut folders: Vec<(PathBuf, &Node)> = Vec::new();
    let mut files = std::collections::HashMap::new();
    for (path, node) in tree.iter() {
        go()?;
        let Ok(inside) = path.strip_prefix(at) else { continue };
        let target = if inside == Path::new("") { folder.to_owned() } else { folder.join(inside) };
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        if name == OPAQUE {
            let hides = target.parent().unwrap_or(folder);
            let mark = if rustix::process::geteuid().is_root() { MARKS[0] } else { MARKS[1] };
            rustix::fs::lsetxattr(hides, mark, b"y", XattrFlags::empty())?;
            continue;
        }
        if let Some(gone) = name.strip_prefix(WHITEOUT) {
            let target = target.with_file_name(OsStr::from_bytes(gone));
            rustix::fs::mknodat(CWD, &target, FileType::CharacterDevice, Mode::empty(), 0)?;
            continue;
        }
        match &node.kind {
            Kind::Folder => {
                if !target.is_dir() {
                    fs_err::create_dir(&target)?;
                }
                folders.push((target, node));
                continue;
            }
            Kind::Link(to) => std::os::unix::fs::symlink(to, &target)?,
            Kind::File(part) => {
                if let Some(first) = files.get(&part.place()).filter(|_| part.length() > 0) {
                    fs_err::hard_link(first, &target)?;
                    continue;
                }
                let mut file = fs_err::OpenOptions::new().write(true).create_new(true).open(&target)?;
                std::io::copy(&mut part.clone(), &mut file)?;
                file.set_permissions(std::fs::Permissions::from_mode(node.mode))?;
                files.insert(part.place(), target.clone());
            }
        }
        give(&target, node, owner)?;
    }
    // Last, and from within: filling a folder changes its time, and one that may not be written to cannot be filled.
    for (target, node) in folders.iter().rev() {
        fs_err::set_permissions(target, std::fs::Permissions::from_mode(node.mode))?;
        give(target, node, owner)?;
    }
    Ok(())
}

fn give(path: &Path, node: &Node, owner: (u32, u32)) -> std::io::Result<()> {
    let meta = fs_err::symlink_metadata(path)?;
    if (meta.uid(), meta.gid()) != owner {
        std::os::unix::fs::lchown(path, Some(owner.0), Some(owner.1))?;
    }
    let time = Timespec { tv_sec: i64::try_from(node.time).unwrap_or(i64::MAX), tv_nsec: node.nanos.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::archive::{TarWriter, Whiteouts};

    fn go() -> std::io::Result<()> {
        Ok(())
    }

    #[test]
    fn a_folder_comes_back_as_it_was_with_its_marks() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs_err::create_dir_all(from.join("a/b")).unwrap();
        fs_err::write(from.join("a/b/run.sh"), "echo").unwrap();
        fs_err::set_permissions(from.join("a/b/run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
        fs_err::hard_link(from.join("a/b/run.sh"), from.join("second")).unwrap();
        fs_err::write(from.join("empty"), "").unwrap();
        std::os::unix::fs::symlink("../nowhere", from.join("a/link")).unwrap();
        rustix::fs::mknodat(CWD, from.join("gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        let mark = if rustix::process::geteuid().is_root() { MARKS[0] } else { MARKS[1] };
        // A file system in memory may have no such marks.
        let marks = rustix::fs::lsetxattr(from.join("a/b"), mark, b"y", XattrFlags::empty()).is_ok();
        let exact = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(946_684_801, 123_456_789);
        fs_err::File::open(from.join("a/b/run.sh")).unwrap().file().set_modified(exact).unwrap();

        let bytes = |folder: &Path| {
            let mut writer = TarWriter::new(Vec::new());
            writer.add_tree(&of_folder(folder, Path::new("env/x")).unwrap(), &go).unwrap();
            writer.finish().unwrap()
        };
        let first = bytes(&from);
        let file = dir.path().join("layer.tar");
        fs_err::write(&file, &first).unwrap();
        let mut tree = Tree::default();
        tree.put(&Part::whole(&file).unwrap(), "layer.tar", Whiteouts::Keep).unwrap();
        let to = dir.path().join("to");
        fs_err::create_dir(&to).unwrap();
        let meta = fs_err::metadata(&to).unwrap();
        restore(&tree, Path::new("env/x"), &to, (meta.uid(), meta.gid()), &go).unwrap();
        assert_eq!(bytes(&to), first);
        assert_eq!(fs_err::metadata(to.join("a/b/run.sh")).unwrap().modified().unwrap(), exact);
        assert_eq!(fs_err::metadata(to.join("second")).unwrap().nlink(), 2);
        assert!(fs_err::symlink_metadata(to.join("gone")).unwrap().file_type().is_char_device());
        assert_eq!(is_opaque(&to.join("a/b")), marks);
    }

    #[test]
    fn a_name_that_is_a_mark_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join(".wh.x"), "").unwrap();
        assert!(of_folder(dir.path(), Path::new("x")).is_err());
    }
}
