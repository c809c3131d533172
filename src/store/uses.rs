//! Which entries of the cache live processes use, so that nobody deletes them.
//!
//! Each process lists what it uses in a file in its own folder of the cache ([`Scratch`]), which ends to count when the
//! process does: then nobody holds the folder's lock any more. Whoever deletes an entry closes a gate for the moment in
//! which it reads all lists and takes the entry's name away; whoever begins to use one passes that gate, and looks whether
//! the entry is still there. So an entry is either listed before the look, or gone before its use.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::cache::{Bucket, entry_of, used};
use super::lock::{self, Taken};
use super::scratch::{OWNER, PREFIX, Scratch};

/// The list in a process's folder.
const LIST: &str = "uses";
/// The gate, in the bucket of processes' folders.
const GATE: &str = "gate.lock";

/// What this process uses of a cache. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Uses(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cache: PathBuf,
    list: Mutex<List>,
}

#[derive(Debug)]
struct List {
    file: std::fs::File,
    counts: BTreeMap<PathBuf, usize>,
}

/// An entry that nobody deletes as long as this is there.
#[derive(Debug)]
pub struct Held {
    uses: Uses,
    entry: PathBuf,
}

impl Uses {
    /// An empty list of the process that `scratch` belongs to.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn new(scratch: &Scratch) -> std::io::Result<Self> {
        let file = lock::open(&scratch.path().join(LIST))?;
        let list = Mutex::new(List { file, counts: BTreeMap::new() });
        // Callers may have got at an entry by another name of the cache.
        Ok(Self(Arc::new(Inner { cache: fs_err::canonicalize(scratch.cache())?, list })))
    }

    /// Says that this process uses the entry in which `path` lies, from now until the answer is dropped. `None` when it is not
    /// there, or is no entry of the cache: then there is nothing to hold.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub fn hold(&self, path: &Path) -> std::io::Result<Option<Held>> {
        let _gate = lock::wait_shared(&gate(&self.0.cache))?;
        let Ok(path) = path.canonicalize() else { return Ok(None) };
        let Some(entry) = entry_of(&self.0.cache, &path) else { return Ok(None) };
        self.list(&entry)?;
        used(&self.0.cache, &entry);
        Ok(Some(Held { uses: self.clone(), entry }))
    }

    fn list(&self, entry: &Path) -> std::io::Result<()> {
        let mut list = self.0.list.lock().unwrap_or_else(PoisonError::into_inner);
        let count = list.counts.get(entry).copied().unwrap_or_default();
        if count == 0 {
            write(&mut list.file, '+', &self.0.cache, entry)?;
        }
        list.counts.insert(entry.to_owned(), count + 1);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut list = self.uses.0.list.lock().unwrap_or_else(PoisonError::into_inner);
        let count = list.counts.get(&self.entry).copied().unwrap_or_default();
        if count > 1 {
            list.counts.insert(self.entry.clone(), count - 1);
        } else {
            list.counts.remove(&self.entry);
            // Otherwise it counts as used for as long as this process lives.
            let _ = write(&mut list.file, '-', &self.uses.0.cache, &self.entry);
        }
    }
}

fn gate(cache: &Path) -> PathBuf {
    Bucket::Scratch.path(cache).join(GATE)
}

fn write(file: &mut std::fs::File, sign: char, cache: &Path, entry: &Path) -> std::io::Result<()> {
    let inside = entry.strip_prefix(cache).unwrap_or(entry);
    file.write_all(format!("{sign}{}\n", inside.display()).as_bytes())
}

/// The gate, closed: no process begins to use an entry. With it, all entries that live processes use.
pub(super) struct Closed {
    used: BTreeSet<PathBuf>,
    _gate: std::fs::File,
}

impl Closed {
    /// Closes the gate and reads the lists.
    pub fn new(cache: &Path) -> std::io::Result<Self> {
        let bucket = Bucket::Scratch.path(cache);
        fs_err::create_dir_all(&bucket)?;
        let gate = lock::wait(&bucket.join(GATE))?;
        Ok(Self { used: used_by_live(cache), _gate: gate })
    }

    /// Whether a live process uses this entry.
    pub fn is_used(&self, entry: &Path) -> bool {
        self.used.contains(entry)
    }
}

/// What live processes use, as of now.
pub(super) fn used_by_live(cache: &Path) -> BTreeSet<PathBuf> {
    let mut used = BTreeSet::new();
    for folder in fs_err::read_dir(Bucket::Scratch.path(cache)).into_iter().flatten().flatten() {
        if !folder.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let owner = folder.path().join(OWNER);
        // A dead process's lock can be taken. Where there are no locks everything that is listed counts.
        let is_dead = || matches!(lock::try_take(&owner), Ok(Taken::Ours(_)));
        let Ok(text) = fs_err::read_to_string(folder.path().join(LIST)) else { continue };
        if !owner.exists() || is_dead() {
            continue;
        }
        let mut own = BTreeSet::new();
        for line in text.lines() {
            match line.split_at_checked(1) {
                Some(("+", inside)) => _ = own.insert(cache.join(inside)),
                Some(("-", inside)) => _ = own.remove(&cache.join(inside)),
                _ => {}
            }
        }
        used.extend(own);
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_counts_as_used_until_its_last_holder_or_the_process_ends() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        let layer = Bucket::Layers.path(cache).join("python-python/d");
        fs_err::create_dir_all(layer.join("root")).unwrap();
        let scratch = Scratch::new(cache).unwrap();
        let uses = Uses::new(&scratch).unwrap();
        let first = uses.hold(&layer.join("root")).unwrap().unwrap();
        let second = uses.hold(&layer).unwrap().unwrap();
        assert!(Closed::new(cache).unwrap().is_used(&layer));
        drop(first);
        assert!(Closed::new(cache).unwrap().is_used(&layer));
        drop(second);
        assert!(!Closed::new(cache).unwrap().is_used(&layer));
        assert!(uses.hold(&Bucket::Layers.path(cache).join("python-python/gone")).unwrap().is_none());
        assert!(uses.hold(Path::new("/usr/lib")).unwrap().is_none());

        // A process that died with its list: its lock is nobody's.
        let _held = uses.hold(&layer).unwrap();
        let dead = Bucket::Scratch.path(cache).join("process-dead");
        fs_err::create_dir_all(&dead).unwrap();
        fs_err::write(dead.join(OWNER), "").unwrap();
        fs_err::copy(scratch.path().join(LIST), dead.join(LIST)).unwrap();
        assert!(Closed::new(cache).unwrap().is_used(&layer));
        drop((_held, uses, scratch));
        assert!(!Closed::new(cache).unwrap().is_used(&layer));
    }
}
