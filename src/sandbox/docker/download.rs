//! What a container leaves in a directory that must come back: an archive, unpacked into the caller's directory.
//!
//! The archive comes from hostile code by way of an engine, so nothing in it is believed: entries that would land outside,
//! or are neither files, directories nor links, are refused or left out, and what is too much ends it.

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt;
use tar::{Archive, Entry, EntryType};

use super::folder::open_up;
use super::merged::give;

/// How an unpacking ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpacked {
    /// Everything is there.
    Whole,
    /// It was more than the limit; what is there is a part.
    TooMuch,
}

/// Makes `folder` hold exactly what an engine's archive of one directory holds, as `owner`'s. `limit` is in bytes; where it
/// is more, `folder` holds a part. It is unpacked beside `folder` first, of which nothing stays.
///
/// # Errors
///
/// The system's, and a broken archive; then `folder` is as it was, or holds a part.
pub fn take_in(archive: impl Read, folder: &Path, owner: (u32, u32), limit: u64) -> io::Result<Unpacked> {
    let staged = tempfile::Builder::new().prefix(".back-").tempdir_in(folder.parent().unwrap_or(folder))?;
    let came = unpack(archive, staged.path(), owner, limit).and_then(|unpacked| {
        replace(folder, staged.path())?;
        Ok(unpacked)
    });
    // What did not come to its place may be closed to us, and would stay.
    open_up(staged.path());
    staged.close()?;
    came
}

/// Unpacks an engine's archive of one directory into `folder`, whose files then are `owner`'s. `limit` is in bytes.
///
/// # Errors
///
/// The system's, and a broken archive.
fn unpack(archive: impl Read, folder: &Path, owner: (u32, u32), limit: u64) -> io::Result<Unpacked> {
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
        let at = folder.join(&path);
        match entry.header().entry_type() {
            kind if kind != EntryType::Directory && path.as_os_str().is_empty() => {}
            EntryType::Directory => {
                let mode = entry.header().mode()? & 0o7777;
                let time = entry.header().mtime()?;
                make_directory(folder, &path)?;
                directories.push((path, mode, time));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                make_parents(folder, &path)?;
                remove(&at)?;
                write(&mut entry, &at, owner)?;
            }
            EntryType::Symlink => {
                make_parents(folder, &path)?;
                remove(&at)?;
                entry.set_preserve_mtime(true);
                entry.unpack(&at)?;
                give(&at, owner)?;
            }
            EntryType::Link => {
                let name = entry.link_name()?.map(|name| name.into_owned()).unwrap_or_default();
                let Some(first) = inside(&name)? else { continue };
                // Another name of what was left out, as of a pipe or a socket, is left out with it.
                if first == path || !is_there(folder, &first)? {
                    continue;
                }
                make_parents(folder, &path)?;
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
        // By its handle, which is there whatever the mode says.
        let directory = std::fs::File::open(&path)?;
        give(&path, owner)?;
        directory.set_modified(moment(time))?;
        directory.set_permissions(PermissionsExt::from_mode(mode))?;
    }
    Ok(Unpacked::Whole)
}

/// Writes a file that is not there yet. Its mode comes last and by its handle: a change of the owner takes special bits
/// away, and a file that may not be written could not be given its time by name.
fn write(entry: &mut Entry<'_, impl Read>, at: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    let (mode, time) = (entry.header().mode()? & 0o7777, entry.header().mtime()?);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(at)?.into_parts().0;
    let written = io::copy(entry, &mut file)?;
    if written < entry.size() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("`{}` is cut off", at.display())));
    }
    let data = file.metadata()?;
    if (data.uid(), data.gid()) != (uid, gid) {
        fchown(&file, Some(uid), Some(gid))?;
    }
    file.set_modified(moment(time))?;
    file.set_permissions(PermissionsExt::from_mode(mode))
}

/// So many seconds after 1970; the last moment that there is where an archive says more than that.
fn moment(seconds: u64) -> SystemTime {
    let seconds = seconds.min(u64::from(u32::MAX) << 1);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
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

/// Whether something lies at a path; one with a link on the way is refused.
fn is_there(folder: &Path, path: &Path) -> io::Result<bool> {
    let found = plain_parents(folder, path).and_then(|()| folder.join(path).symlink_metadata());
    match found {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
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
        Ok(data) if data.is_dir() => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Makes `folder` hold exactly what `from` holds, and look like it. `from` is emptied by it.
///
/// # Errors
///
/// The system's.
fn replace(folder: &Path, from: &Path) -> io::Result<()> {
    open(folder, fs::metadata(folder)?.permissions())?;
    for entry in fs::read_dir(folder)? {
        remove(&entry?.path())?;
    }
    // A closed directory has to be read, and written for its `..`; both only for the moment.
    let data = fs::metadata(from)?;
    open(from, data.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = folder.join(entry.file_name());
        let inner = entry.metadata()?;
        if inner.is_dir() {
            open(&entry.path(), inner.permissions())?;
        }
        fs::rename(entry.path(), &to)?;
        if inner.is_dir() {
            fs::set_permissions(&to, inner.permissions())?;
        }
    }
    give(folder, (data.uid(), data.gid()))?;
    fs::set_permissions(folder, data.permissions())
}

/// Lets a directory's owner do everything with it.
fn open(directory: &Path, mode: std::fs::Permissions) -> io::Result<()> {
    let open = std::fs::Permissions::from_mode(mode.mode() | 0o700);
    if open == mode { Ok(()) } else { fs::set_permissions(directory, open) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    fn own() -> (u32, u32) {
        (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
    }

    fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mode = |kind| if kind == EntryType::Directory { 0o755 } else { 0o640 };
        let entries = entries.iter().map(|(kind, path, text)| (*kind, *path, *text, mode(*kind)));
        archive_with(&entries.collect::<Vec<_>>())
    }

    /// The same with modes.
    fn archive_with(entries: &[(EntryType, &str, &str, u32)]) -> Vec<u8> {
        let mut out = Builder::new(Vec::new());
        for (kind, path, text, mode) in entries {
            let mut header = Header::new_ustar();
            header.set_entry_type(*kind);
            header.set_mode(*mode);
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
    fn modes_come_back_whole_also_where_the_owner_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (own, root) = (own(), rustix::process::geteuid().is_root());
        let owner = if root { (60_977, 60_977) } else { own };
        let made = archive_with(&[
            (EntryType::Regular, "workspace/raised", "x", 0o4755),
            (EntryType::Regular, "workspace/fixed", "y", 0o444),
            (EntryType::Regular, "workspace/closed", "z", 0),
        ]);
        assert_eq!(unpack(&made[..], folder.path(), owner, 1 << 20).unwrap(), Unpacked::Whole);
        for (name, mode) in [("raised", 0o4755), ("fixed", 0o444), ("closed", 0)] {
            let data = fs::metadata(folder.path().join(name)).unwrap();
            assert_eq!((data.mode() & 0o7777, data.uid(), data.mtime()), (mode, owner.0, 1_000_000), "{name}");
        }
    }

    #[test]
    fn other_names_of_what_is_left_out_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let made = archive(&[
            (EntryType::Fifo, "workspace/pipe", ""),
            (EntryType::Link, "workspace/same", "workspace/pipe"),
            (EntryType::Link, "workspace/deep/same", "workspace/none/at/all"),
            (EntryType::Link, "workspace/itself", "workspace/itself"),
            (EntryType::Regular, "workspace/after", "text"),
        ]);
        assert_eq!(unpack(&made[..], folder.path(), own(), 1 << 20).unwrap(), Unpacked::Whole);
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["after"]);
    }

    #[test]
    fn an_archive_that_is_cut_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = archive(&[(EntryType::Regular, "workspace/f", &"x".repeat(2000))]);
        assert!(unpack(&made[..1500], folder.path(), own(), 1 << 20).is_err());
    }

    /// As somebody who is not root, whom closed directories keep out: a thread of ours can be that by itself.
    #[test]
    fn closed_directories_come_back_and_go_again_and_nothing_stays_beside() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("kept");
        fs::create_dir(&folder).unwrap();
        let nobody = rustix::process::Uid::from_raw(54_321);
        if rustix::process::geteuid().is_root() {
            for path in [place.path(), &folder] {
                std::os::unix::fs::chown(path, Some(nobody.as_raw()), None).unwrap();
            }
        }
        let closed = |text| {
            archive_with(&[
                (EntryType::Directory, "workspace/", "", 0o555),
                (EntryType::Directory, "workspace/closed/", "", 0),
                (EntryType::Directory, "workspace/fixed/", "", 0o555),
                (EntryType::Directory, "workspace/fixed/inner/", "", 0o111),
                (EntryType::Regular, "workspace/fixed/inner/f", text, 0o400),
            ])
        };
        let work = || {
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            for text in ["one", "two"] {
                assert_eq!(take_in(&closed(text)[..], &folder, owner, 1 << 20).unwrap(), Unpacked::Whole);
                assert_eq!(fs::read_to_string(folder.join("fixed/inner/f")).unwrap(), text);
            }
            for (name, mode) in [("", 0o555), ("closed", 0), ("fixed", 0o555), ("fixed/inner", 0o111)] {
                assert_eq!(fs::metadata(folder.join(name)).unwrap().mode() & 0o7777, mode, "{name}");
            }
            // What ends in the middle.
            let cut = closed("three");
            take_in(&cut[..cut.len() / 2 + 100], &folder, owner, 1 << 20).unwrap_err();
            assert_eq!(take_in(&cut[..], &folder, owner, 3 * 4096).unwrap(), Unpacked::TooMuch);
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        let names: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"]);
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
