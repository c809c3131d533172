//! What lies beside a removed file is made to look changed.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::RepoError;
use super::write::Owner;

/// Copies the files that lie beside each of `removed` in `tree` into `layer`, where they are not there yet, so that they
/// have the present time. A file that is gone has no time: a build that asks only which file is the newest (a build
/// script of cargo's without `rerun-if-changed`, a wildcard in a makefile) would not notice, and what was built from it
/// would stay. Where nothing is beside, the files of the folder above are taken.
///
/// `removed` are the paths that [`ChangeSet::materialise`](super::ChangeSet::materialise) gave for that layer.
pub fn renew_beside(removed: &[PathBuf], tree: &Path, layer: &Path, owner: (u32, u32)) -> Result<(), RepoError> {
    let gone: BTreeSet<&Path> = removed.iter().map(PathBuf::as_path).collect();
    let owner = Owner::of(owner);
    let mut done = BTreeSet::new();
    for path in removed {
        for folder in path.ancestors().skip(1) {
            if !done.insert(folder) || renew_files(folder, &gone, tree, layer, owner)? {
                break;
            }
        }
    }
    Ok(())
}

/// Renews the files of one folder; `false` when it has none that stay.
fn renew_files(
    folder: &Path,
    gone: &BTreeSet<&Path>,
    tree: &Path,
    layer: &Path,
    owner: Owner,
) -> Result<bool, RepoError> {
    let mut some = false;
    // Where a file or link is in the folder's place the removed ones are hidden, and are not named.
    let Ok(entries) = fs_err::read_dir(tree.join(folder)) else { return Ok(false) };
    for entry in entries {
        let entry = entry?;
        let relative = folder.join(entry.file_name());
        if !entry.file_type()?.is_file() || gone.contains(relative.as_path()) {
            continue;
        }
        some = true;
        let target = layer.join(&relative);
        if target.symlink_metadata().is_ok() {
            continue;
        }
        let mut at = layer.to_path_buf();
        for part in folder {
            at.push(part);
            if at.symlink_metadata().is_err() {
                fs_err::create_dir(&at)?;
                fs_err::set_permissions(&at, std::fs::Permissions::from_mode(0o755))?;
                owner.apply(&at)?;
            }
        }
        // Keeps the mode and not the time.
        fs_err::copy(entry.path(), &target)?;
        owner.apply(&target)?;
    }
    Ok(some)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn files_beside_a_removed_one_are_new_and_the_same() {
        let (tree, layer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for path in ["top", "a/gone", "a/beside", "a/changed", "a/deeper/x", "b/c/gone", "b/file"] {
            let path = tree.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(&path, path.to_str().unwrap()).unwrap();
            fs_err::File::open(&path).unwrap().file().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        std::os::unix::fs::symlink("beside", tree.path().join("a/link")).unwrap();
        fs_err::create_dir(layer.path().join("a")).unwrap();
        fs_err::write(layer.path().join("a/changed"), "by the patch").unwrap();
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        renew_beside(&["a/gone".into(), "b/c/gone".into()], tree.path(), layer.path(), owner).unwrap();
        let files = walkdir::WalkDir::new(layer.path()).sort_by_file_name().into_iter().map(Result::unwrap);
        let files: Vec<_> = files.filter(|e| !e.file_type().is_dir()).collect();
        let names: Vec<_> = files.iter().map(|e| e.path().strip_prefix(layer.path()).unwrap()).collect();
        assert_eq!(names, ["a/beside", "a/changed", "b/file"].map(Path::new));
        assert_eq!(fs_err::read_to_string(layer.path().join("a/changed")).unwrap(), "by the patch");
        let beside = layer.path().join("a/beside");
        assert_eq!(fs_err::read(&beside).unwrap(), fs_err::read(tree.path().join("a/beside")).unwrap());
        assert!(fs_err::metadata(&beside).unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH);
    }
}
