//! What a container leaves in a directory that must come back: an archive, unpacked into the caller's directory.
//!
//! The archive comes from hostile code by way of an engine, so nothing in it is believed: entries that would land outside,
//! or are neither files, directories nor links, are refused or left out, and what is too much ends it.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use fs_err as fs;
use tar::{Archive, EntryType};

use super::merged::give;

/// How an unpacking ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpacked {
    /// Everything is there.
    Whole,
    /// It was more than the limit; what is there is a part.
    TooMuch,
}

/// Unpacks an engine's archive of one directory into `folder`, whose files then are `owner`'s. `limit` is in bytes.
///
/// # Errors
///
/// The system's, and a broken archive.
pub fn unpack(archive: impl Read, folder: &Path, owner: (u32, u32), limit: u64) -> io::Result<Unpacked> {
    /// What a file costs beside its content, in bytes.
    const PER_FILE: u64 = 4096;
    let mut archive = Archive::new(archive);
    let mut sum: u64 = 0;
    // Times and modes of directories change while things are put into them.
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        // The archive's one directory itself is `folder`.
        let path = inside(&entry.path()?)?.unwrap_or_default();
        sum = sum.saturating_add(entry.size()).saturating_add(PER_FILE);
        if sum > limit {
            return Ok(Unpacked::TooMuch);
        }
        entry.set_preserve_mtime(true);
        entry.set_preserve_permissions(true);
        entry.set_unpack_xattrs(false);
        let at = folder.join(&path);
        match entry.header().entry_type() {
            kind if kind != EntryType::Directory && path.as_os_str().is_empty() => {}
            EntryType::Directory => {
                let mode = entry.header().mode()? & 0o7777;
                let time = entry.header().mtime()?;
                make_directory(folder, &path)?;
                directories.push((path, mode, time));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse | EntryType::Symlink => {
                make_parents(folder, &path)?;
                remove(&at)?;
                entry.unpack(&at)?;
                give(&at, owner)?;
            }
            EntryType::Link => {
                let name = entry.link_name()?.map(|name| name.into_owned()).unwrap_or_default();
                let Some(first) = inside(&name)? else { continue };
                make_parents(folder, &path)?;
                plain_parents(folder, &first)?;
                remove(&at)?;
                std::fs::hard_link(folder.join(first), &at)?;
            }
            _ => {}
        }
    }
    for (path, mode, time) in directories.into_iter().rev() {
        let at = folder.join(&path);
        // Something else may have come in its place, or in a place above it.
        if plain_parents(folder, &path).is_err() || !at.symlink_metadata().is_ok_and(|data| data.is_dir()) {
            continue;
        }
        let path = at;
        give(&path, owner)?;
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time);
        std::fs::File::open(&path)?.set_modified(time)?;
    }
    Ok(Unpacked::Whole)
}

/// An entry's path below the archive's one directory; `None` for that itself.
fn inside(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut parts = path.components().filter(|part| *part != Component::CurDir);
    parts.next();
    let rest: PathBuf = parts.collect();
    if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::Error::other(format!("the engine's archive has an entry `{}`", path.display())));
    }
    Ok((!rest.as_os_str().is_empty()).then_some(rest))
}

/// Makes the directories above a path; a link in a directory's place is refused.
fn make_parents(folder: &Path, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| make_directory(folder, parent))
}

fn make_directory(folder: &Path, path: &Path) -> io::Result<()> {
    let mut at = folder.to_owned();
    for part in path {
        at.push(part);
        match at.symlink_metadata() {
            Ok(data) if data.is_dir() => {}
            Ok(_) => {
                fs::remove_file(&at)?;
                fs::create_dir(&at)?;
            }
            Err(_) => fs::create_dir(&at)?,
        }
    }
    Ok(())
}

/// Refuses a path with a link on the way, which would lead outside.
fn plain_parents(folder: &Path, path: &Path) -> io::Result<()> {
    let mut at = folder.to_owned();
    for part in path.parent().into_iter().flatten() {
        at.push(part);
        if !at.symlink_metadata()?.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Makes `folder` hold exactly what `from` holds, and look like it. `from` is emptied by it.
///
/// # Errors
///
/// The system's.
pub fn replace(folder: &Path, from: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        remove(&entry?.path())?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::rename(entry.path(), folder.join(entry.file_name()))?;
    }
    let data = fs::metadata(from)?;
    give(folder, (data.uid(), data.gid()))?;
    fs::set_permissions(folder, data.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    fn own() -> (u32, u32) {
        (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
    }

    fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut out = Builder::new(Vec::new());
        for (kind, path, text) in entries {
            let mut header = Header::new_ustar();
            header.set_entry_type(*kind);
            header.set_mode(if *kind == EntryType::Directory { 0o755 } else { 0o640 });
            header.set_mtime(1_000_000);
            // As raw bytes: the crate's own setters refuse what hostile archives hold.
            let name = &mut header.as_ustar_mut().unwrap().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            let data: &[u8] = if matches!(kind, EntryType::Regular) { text.as_bytes() } else { b"" };
            if matches!(kind, EntryType::Link | EntryType::Symlink) {
                header.as_ustar_mut().unwrap().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_size(data.len() as u64);
            header.set_cksum();
            out.append(&header, data).unwrap();
        }
        out.into_inner().unwrap()
    }

    #[test]
    fn files_come_back_with_their_times() {
        let folder = tempfile::tempdir().unwrap();
        let made = archive(&[
            (EntryType::Directory, "workspace/", ""),
            (EntryType::Directory, "workspace/d/", ""),
            (EntryType::Regular, "workspace/d/f", "text"),
            (EntryType::Symlink, "workspace/link", "/etc/passwd"),
            (EntryType::Link, "workspace/twice", "workspace/d/f"),
            (EntryType::Char, "workspace/device", ""),
        ]);
        assert_eq!(unpack(&made[..], folder.path(), own(), 1 << 20).unwrap(), Unpacked::Whole);
        let path = |name: &str| folder.path().join(name);
        assert_eq!(fs::read_to_string(path("twice")).unwrap(), "text");
        assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(!path("device").exists());
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        assert_eq!(fs::metadata(path("d/f")).unwrap().modified().unwrap(), time);
        assert_eq!(fs::metadata(path("d")).unwrap().modified().unwrap(), time);
        assert_eq!(unpack(&made[..], folder.path(), own(), 5000).unwrap(), Unpacked::TooMuch);
    }

    #[test]
    fn nothing_lands_outside() {
        let place = tempfile::tempdir().unwrap();
        let (folder, outside) = (place.path().join("in"), place.path().join("out"));
        for hostile in [
            vec![(EntryType::Regular, "workspace/../../x", "x")],
            vec![(EntryType::Symlink, "workspace/l", "../out"), (EntryType::Regular, "workspace/l/x", "x")],
            vec![(EntryType::Symlink, "workspace/l", "../out"), (EntryType::Link, "workspace/x", "workspace/l/secret")],
            vec![(EntryType::Link, "workspace/x", "workspace/../../out/secret")],
            vec![(EntryType::Symlink, "workspace/d", "../out"), (EntryType::Directory, "workspace/d/", "")],
            vec![(EntryType::Directory, "workspace/d/", ""), (EntryType::Symlink, "workspace/d", "../out")],
        ] {
            let _ = fs::remove_dir_all(place.path().join("in"));
            let _ = fs::remove_dir_all(place.path().join("out"));
            fs::create_dir(&folder).unwrap();
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("secret"), "secret").unwrap();
            let mode = fs::metadata(&outside).unwrap().modified().unwrap();
            let made = archive(&hostile);
            let _ = unpack(&made[..], &folder, own(), 1 << 20);
            let names: Vec<_> = fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names, ["secret"], "{hostile:?}");
            assert!(fs::read_to_string(folder.join("x")).ok().as_deref() != Some("secret"), "{hostile:?}");
            assert!(!place.path().join("x").exists());
            assert_eq!(fs::metadata(&outside).unwrap().modified().unwrap(), mode, "{hostile:?}");
        }
    }
}
