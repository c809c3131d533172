//! What a build phase left above the snapshot: unchanged copies go, changes of tracked files are named.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::layers::remove_tree;

/// The names under which overlayfs marks a folder that hides what lies below it.
const OPAQUE: [&str; 2] = ["user.overlay.opaque", "trusted.overlay.opaque"];

/// Cleans `upper`, which lay above `snapshot` while the project was built.
///
/// Everything in `snapshot` but its `.git` is tracked. Copies that equal the tracked file are removed, as are changes
/// of tracked files named in `restore`; what `.git` got (a refreshed index) is removed too. Gives the paths of all
/// other tracked files that were changed, replaced or removed, sorted. Untracked outputs stay.
pub(super) fn settle(upper: &Path, snapshot: &Path, restore: &[String]) -> io::Result<Vec<String>> {
    let mut changed = Vec::new();
    let git = upper.join(".git");
    if git.symlink_metadata().is_ok_and(|m| m.is_dir()) {
        remove_tree(&git)?;
    } else if git.symlink_metadata().is_ok() {
        fs_err::remove_file(&git)?;
    }
    folder(upper, snapshot, Path::new(""), restore, &mut changed)?;
    changed.sort();
    Ok(changed)
}

/// Moves what a build that began at `began` wrote to just after the newest file of `snapshot`, keeping the order.
///
/// Build tools compare times. A patch must be newer than what was built from the head, also when the patch was laid
/// out before the environment was built (or built again after the cache was cleared).
pub(super) fn age(upper: &Path, snapshot: &Path, began: SystemTime) -> io::Result<()> {
    // Some tools copy times in whole seconds: what was made in the second in which the build began is the build's.
    let fraction = began.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since_epoch| since_epoch.subsec_nanos());
    let began = began - Duration::from_nanos(fraction.into());
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in walkdir::WalkDir::new(snapshot) {
        let entry = entry.map_err(io::Error::from)?;
        if !entry.file_type().is_dir() {
            newest = newest.max(entry.metadata().map_err(io::Error::from)?.modified()?);
        }
    }
    for entry in walkdir::WalkDir::new(upper).min_depth(1).contents_first(true) {
        let entry = entry.map_err(io::Error::from)?;
        let modified = entry.metadata().map_err(io::Error::from)?.modified()?;
        // A time before the build was set on purpose (an unpacked archive).
        let Ok(into_build) = modified.duration_since(began) else { continue };
        let Ok(since_epoch) = (newest + into_build).duration_since(SystemTime::UNIX_EPOCH) else { continue };
        if newest + into_build < modified {
            let time = rustix::fs::Timespec {
                tv_sec: i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: since_epoch.subsec_nanos().into(),
            };
            let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(rustix::fs::CWD, entry.path(), &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .map_err(io::Error::from)?;
        }
    }
    Ok(())
}

/// Removes the outputs in `upper` whose names match one of `globs`, and the folders that are left empty by it.
pub(super) fn drop_outputs(upper: &Path, globs: &[String]) -> io::Result<()> {
    if globs.is_empty() {
        return Ok(());
    }
    let mut set = globset::GlobSetBuilder::new();
    for glob in globs {
        set.add(globset::Glob::new(glob).map_err(io::Error::other)?);
    }
    let set = set.build().map_err(io::Error::other)?;
    for entry in walkdir::WalkDir::new(upper).min_depth(1).contents_first(true) {
        let entry = entry.map_err(io::Error::from)?;
        if entry.file_type().is_file() && set.is_match(entry.file_name()) {
            fs_err::remove_file(entry.path())?;
            let parents = entry.path().ancestors().skip(1).take_while(|parent| *parent != upper);
            for parent in parents {
                if is_opaque(parent) || fs_err::read_dir(parent)?.next().is_some() {
                    break;
                }
                fs_err::remove_dir(parent)?;
            }
        }
    }
    Ok(())
}

fn folder(upper: &Path, tracked: &Path, below: &Path, restore: &[String], changed: &mut Vec<String>) -> io::Result<()> {
    let mut seen = Vec::new();
    for entry in fs_err::read_dir(upper)? {
        let name = entry?.file_name();
        let (path, old, relative) = (upper.join(&name), tracked.join(&name), below.join(&name));
        seen.push(name);
        let meta = fs_err::symlink_metadata(&path)?;
        let Ok(old_meta) = old.symlink_metadata() else {
            if is_whiteout(&meta) {
                fs_err::remove_file(&path)?;
            }
            continue;
        };
        if meta.is_dir() && old_meta.is_dir() {
            let opaque = is_opaque(&path);
            folder(&path, &old, &relative, restore, changed)?;
            // An opaque folder stays even when it is empty: it says that what was below is gone.
            if !opaque && fs_err::read_dir(&path)?.next().is_none() {
                fs_err::remove_dir(&path)?;
            }
        } else if same(&path, &meta, &old, &old_meta)?
            || (!meta.is_dir() && !old_meta.is_dir() && restored(&relative, restore))
        {
            fs_err::remove_file(&path)?;
        } else if old_meta.is_dir() {
            name_all(&old, &relative, changed)?;
        } else {
            changed.push(relative.display().to_string());
        }
    }
    if is_opaque(upper) {
        for entry in fs_err::read_dir(tracked)? {
            let name = entry?.file_name();
            let is_git = below == Path::new("") && name == OsStr::new(".git");
            if !is_git && !seen.contains(&name) {
                name_all(&tracked.join(&name), &below.join(&name), changed)?;
            }
        }
    }
    Ok(())
}

fn restored(path: &Path, restore: &[String]) -> bool {
    path.file_name().is_some_and(|name| restore.iter().any(|known| name == known.as_str()))
}

fn is_whiteout(meta: &std::fs::Metadata) -> bool {
    meta.file_type().is_char_device() && meta.rdev() == 0
}

pub(super) fn is_opaque(path: &Path) -> bool {
    OPAQUE.iter().any(|name| {
        let mut value = [0_u8; 1];
        rustix::fs::lgetxattr(path, *name, &mut value[..]).is_ok_and(|length| length == 1 && value[0] == b'y')
    })
}

/// Whether two files have the same kind, content and execute permission.
fn same(a: &Path, a_meta: &std::fs::Metadata, b: &Path, b_meta: &std::fs::Metadata) -> io::Result<bool> {
    if a_meta.is_symlink() && b_meta.is_symlink() {
        return Ok(fs_err::read_link(a)? == fs_err::read_link(b)?);
    }
    let runs = |meta: &std::fs::Metadata| meta.permissions().mode() & 0o100 != 0;
    if !a_meta.is_file() || !b_meta.is_file() || a_meta.len() != b_meta.len() || runs(a_meta) != runs(b_meta) {
        return Ok(false);
    }
    let (mut a, mut b) = (fs_err::File::open(a)?, fs_err::File::open(b)?);
    let (mut left, mut right) = (vec![0_u8; 64 * 1024], Vec::new());
    loop {
        let count = a.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        right.resize(count, 0);
        match b.read_exact(&mut right) {
            Ok(()) if left[..count] == right[..] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Names every file at and below a path.
fn name_all(path: &Path, relative: &Path, changed: &mut Vec<String>) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(path) {
        let entry = entry.map_err(io::Error::from)?;
        if !entry.file_type().is_dir() {
            let rest = entry.path().strip_prefix(path).unwrap_or(Path::new(""));
            let full: PathBuf = if rest.as_os_str().is_empty() { relative.to_owned() } else { relative.join(rest) };
            changed.push(full.display().to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Trees {
        _folder: tempfile::TempDir,
        upper: PathBuf,
        snapshot: PathBuf,
    }

    fn trees(snapshot: &[(&str, &str)], upper: &[(&str, &str)]) -> Trees {
        let folder = tempfile::tempdir().unwrap();
        let write = |root: &str, files: &[(&str, &str)]| {
            let root = folder.path().join(root);
            fs_err::create_dir(&root).unwrap();
            for (name, text) in files {
                fs_err::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                fs_err::write(root.join(name), text).unwrap();
            }
            root
        };
        let (snapshot, upper) = (write("snapshot", snapshot), write("upper", upper));
        Trees { _folder: folder, upper, snapshot }
    }

    fn left(upper: &Path) -> Vec<String> {
        let mut out = Vec::new();
        name_all(upper, Path::new(""), &mut out).unwrap();
        out.sort();
        out
    }

    #[test]
    fn untracked_outputs_stay_and_unchanged_copies_go() {
        let t = trees(
            &[("setup.py", "x"), ("pkg/a.py", "a"), ("pkg/sub/b.py", "b"), (".git/index", "old")],
            &[
                ("setup.py", "x"),
                ("pkg/a.py", "a"),
                ("pkg/sub/b.py", "b"),
                ("p.egg-info/PKG-INFO", "i"),
                (".git/index", "new"),
            ],
        );
        assert_eq!(settle(&t.upper, &t.snapshot, &[]).unwrap(), Vec::<String>::new());
        assert_eq!(left(&t.upper), ["p.egg-info/PKG-INFO"]);
        assert!(!t.upper.join("pkg").exists() && !t.upper.join(".git").exists());
    }

    #[test]
    fn changes_of_content_mode_and_kind_are_named() {
        let t = trees(
            &[("a", "1"), ("b", "1"), ("c", "1"), ("d/x", "1"), ("d/y/z", "1"), ("e", "1")],
            &[("a", "2"), ("b", "1"), ("d", "now a file"), ("new", "n")],
        );
        fs_err::set_permissions(t.upper.join("b"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("a", t.upper.join("c")).unwrap();
        assert_eq!(settle(&t.upper, &t.snapshot, &[]).unwrap(), ["a", "b", "c", "d/x", "d/y/z"]);
    }

    #[test]
    fn a_lock_brought_up_to_date_is_put_back() {
        let t = trees(
            &[("Cargo.lock", "1"), ("sub/Cargo.lock", "1")],
            &[("Cargo.lock", "2"), ("sub/Cargo.lock", "22"), ("target/x", "")],
        );
        assert!(settle(&t.upper, &t.snapshot, &["Cargo.lock".to_owned()]).unwrap().is_empty());
        assert_eq!(left(&t.upper), ["target/x"]);
    }

    #[test]
    fn outputs_that_would_go_stale_are_dropped_with_their_folders() {
        let t =
            trees(&[], &[("a/__pycache__/m.cpython-311.pyc", ""), ("b/m.pyc", ""), ("b/m.so", ""), ("c.pyc.txt", "")]);
        drop_outputs(&t.upper, &[]).unwrap();
        assert_eq!(left(&t.upper).len(), 4);
        drop_outputs(&t.upper, &["*.pyc".to_owned()]).unwrap();
        assert_eq!(left(&t.upper), ["b/m.so", "c.pyc.txt"]);
        assert!(!t.upper.join("a").exists());
        assert!(drop_outputs(&t.upper, &["[".to_owned()]).is_err());
    }

    #[test]
    fn what_was_built_is_older_than_any_patch_and_in_order() {
        let second = std::time::Duration::from_secs;
        let (old, began) = (SystemTime::UNIX_EPOCH + second(1000), SystemTime::UNIX_EPOCH + second(5_000_000));
        let t = trees(&[("a.c", "")], &[("out/a.o", ""), ("out/a", ""), ("out/unpacked", "")]);
        let set = |path: PathBuf, time| {
            fs_err::OpenOptions::new().write(true).open(path).unwrap().file().set_modified(time).unwrap();
        };
        set(t.snapshot.join("a.c"), old);
        set(t.upper.join("out/a.o"), began + second(2));
        set(t.upper.join("out/a"), began + second(3));
        set(t.upper.join("out/unpacked"), began - second(9));
        age(&t.upper, &t.snapshot, began).unwrap();
        let time = |name: &str| fs_err::metadata(t.upper.join(name)).unwrap().modified().unwrap();
        assert_eq!(time("out/a.o"), old + second(2));
        assert_eq!(time("out/a"), old + second(3));
        assert_eq!(time("out/unpacked"), began - second(9));
    }

    #[test]
    fn a_time_in_whole_seconds_is_of_the_build_that_began_in_that_second() {
        let second = std::time::Duration::from_secs;
        let (old, whole) = (SystemTime::UNIX_EPOCH + second(1000), SystemTime::UNIX_EPOCH + second(5_000_000));
        let t = trees(&[("a.c", "")], &[("a.so", "")]);
        for (path, time) in [(t.snapshot.join("a.c"), old), (t.upper.join("a.so"), whole)] {
            fs_err::OpenOptions::new().write(true).open(path).unwrap().file().set_modified(time).unwrap();
        }
        age(&t.upper, &t.snapshot, whole + std::time::Duration::from_millis(700)).unwrap();
        assert_eq!(fs_err::metadata(t.upper.join("a.so")).unwrap().modified().unwrap(), old);
    }

    #[test]
    fn what_an_opaque_folder_hides_is_gone() {
        let t = trees(&[("pkg/a.py", "a"), ("pkg/b.py", "b")], &[("pkg/a.py", "a")]);
        let set = rustix::fs::lsetxattr(t.upper.join("pkg"), OPAQUE[0], b"y", rustix::fs::XattrFlags::empty());
        // A file system without user attributes (an old tmpfs) can't have such folders.
        if set.is_ok() {
            assert_eq!(settle(&t.upper, &t.snapshot, &[]).unwrap(), ["pkg/b.py"]);
        }
    }
}
