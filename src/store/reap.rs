//! Half-made entries of the cache's buckets whose makers are dead.
//!
//! Each bucket makes its entries under a name that says so, while the maker holds the lock of the entry: `X.tmp` and
//! `X.complete.tmp` with `X.lock` (trees of commits, clones, unpacked bundles), `.DIGEST.NUMBER` with `locks/DIGEST.lock`
//! (environment layers) or `DIGEST.lock` (bases). A tree without its marker is not whole either. Where the lock can be taken, nobody makes the
//! entry, and while it is held nobody starts to. What eviction has begun to take away is called `X.gone.tmp`, and goes with
//! `X.lock`, too.

use std::path::{Path, PathBuf};

use super::cache::{Bucket, remove_entry};
use super::lock::{self, Taken};

/// How the names of trees and clones end that eviction has begun to take away.
pub(super) const GONE: &str = ".gone.tmp";

/// The entry that a half-made one, or one that is half taken away, is of.
fn entry_of(name: &str) -> Option<&str> {
    name.strip_suffix(GONE).or_else(|| name.strip_suffix(".complete.tmp")).or_else(|| name.strip_suffix(".tmp"))
}

/// Takes away all half-made entries of a cache. What cannot be taken away waits for the next start.
pub(super) fn half_made(cache: &Path) {
    let snapshots = Bucket::Snapshots.path(cache);
    for path in entries(&snapshots) {
        let (Some(folder), Some(name)) = (path.parent(), name(&path)) else { continue };
        let unmarked = || path.is_dir() && !folder.join(format!("{name}.complete")).exists();
        if let Some(entry) = entry_of(name) {
            remove_if_nobodys(&path, &folder.join(format!("{entry}.lock")), || true);
        } else if unmarked() {
            remove_if_nobodys(&path, &folder.join(format!("{name}.lock")), unmarked);
        }
    }
    for path in entries(&Bucket::Repositories.path(cache)).iter().flat_map(|kind| entries(kind)) {
        if let (Some(folder), Some(entry)) = (path.parent(), name(&path).and_then(entry_of)) {
            remove_if_nobodys(&path, &folder.join(format!("{entry}.lock")), || true);
        }
    }
    let drafted = |path: &Path| Some(name(path)?.strip_prefix('.')?.split_once('.')?.0.to_owned());
    let bases = Bucket::Bases.path(cache);
    for path in entries(&bases) {
        if let Some(digest) = drafted(&path) {
            remove_if_nobodys(&path, &bases.join(format!("{digest}.lock")), || true);
        }
    }
    let layers = Bucket::Layers.path(cache);
    for path in entries(&layers).iter().flat_map(|kind| entries(kind)) {
        if let Some(digest) = drafted(&path) {
            remove_if_nobodys(&path, &layers.join("locks").join(format!("{digest}.lock")), || true);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs_err::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// `still`: whether it is a leftover, asked again under the lock.
fn remove_if_nobodys(path: &Path, lock: &Path, still: impl Fn() -> bool) {
    if let Ok(Taken::Ours(_lock)) = lock::try_take(lock)
        && still()
    {
        remove(path);
    }
}

/// Removes a folder or file; a sandbox that is just dying may still write to it, so it is tried for a moment.
pub(super) fn remove(path: &Path) {
    for wait in [0, 20, 100, 300] {
        std::thread::sleep(std::time::Duration::from_millis(wait));
        if remove_entry(path).is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: PathBuf) -> PathBuf {
        fs_err::create_dir_all(path.join("inside")).unwrap();
        path
    }

    #[test]
    fn half_made_entries_go_unless_their_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let snapshots = Bucket::Snapshots.path(dir.path());
        let clones = Bucket::Repositories.path(dir.path()).join("clones-v1");
        let layers = Bucket::Layers.path(dir.path());
        let bases = Bucket::Bases.path(dir.path());
        let dead = [
            make(snapshots.join("a.tmp")),
            make(snapshots.join("unmarked")),
            make(snapshots.join("a.gone.tmp")),
            make(clones.join("o__r.git.tmp")),
            make(clones.join("o__r.git.gone.tmp")),
            make(layers.join("python-python/.d1.77")),
            make(bases.join(".b1.77")),
        ];
        let live = [
            make(snapshots.join("b.tmp")),
            make(snapshots.join("c")),
            make(clones.join("o__live.git.tmp")),
            make(clones.join("o__live.git.gone.tmp")),
            make(layers.join("python-python/.d2.77")),
            make(bases.join(".b2.77")),
        ];
        let whole = [
            make(snapshots.join("w")),
            make(clones.join("o__w.git")),
            make(layers.join("python-python/d3")),
            make(bases.join("b3")),
        ];
        make(layers.join("locks"));
        fs_err::write(snapshots.join("a.complete.tmp"), "{").unwrap();
        fs_err::write(snapshots.join("w.complete"), "{}").unwrap();
        let locks = [
            snapshots.join("b.lock"),
            snapshots.join("c.lock"),
            clones.join("o__live.git.lock"),
            layers.join("locks/d2.lock"),
            bases.join("b2.lock"),
        ];
        let held: Vec<_> = locks.iter().map(|path| lock::wait(path).unwrap()).collect();
        half_made(dir.path());
        assert!(dead.iter().all(|path| !path.exists()) && !snapshots.join("a.complete.tmp").exists());
        assert!(live.iter().chain(&whole).all(|path| path.is_dir()));
        drop(held);
        half_made(dir.path());
        assert!(live.iter().all(|path| !path.exists()) && whole.iter().all(|path| path.is_dir()));
    }
}
