//! What the cache holds, entry by entry, and making room in it: what was not used for longest goes first, and never what
//! a live process uses or makes.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::StoreError;
use super::cache::{self, Bucket, remove_entry};
use super::lock::{self, Taken};
use super::reap::GONE;
use super::uses::{Closed, used_by_live};

/// What an entry is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A clone, or an unpacked bundle.
    Repository,
    /// The tree of a commit.
    Tree,
    /// A layer of environments.
    Layer,
    /// A base that environments stand on.
    Base,
}

impl EntryKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Repository, Self::Tree, Self::Layer, Self::Base];

    /// Its string form, one of a closed set.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Tree => "tree",
            Self::Layer => "layer",
            Self::Base => "base",
        }
    }

    fn bucket(self) -> Bucket {
        match self {
            Self::Repository => Bucket::Repositories,
            Self::Tree => Bucket::Snapshots,
            Self::Layer => Bucket::Layers,
            Self::Base => Bucket::Bases,
        }
    }
}

/// Something whole in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes on disk. A file with several names counts once in the whole cache.
    pub bytes: u64,
    /// When it was used last.
    pub last_used: SystemTime,
    /// Whether a live process uses it.
    pub in_use: bool,
}

/// All whole entries of a cache, the one that was not used for longest first.
///
/// # Errors
/// When the cache cannot be listed.
pub fn entries(cache: &Path) -> Result<Vec<CacheEntry>, StoreError> {
    entries_with(cache, &Sizes::default())
}

/// Sizes of entries that were measured before: whole trees and layers do not change.
#[derive(Debug, Default)]
pub struct Sizes(Mutex<HashMap<PathBuf, (u64, u64)>>);

impl Sizes {
    fn of(&self, kind: EntryKind, path: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
        let Some(id) = fs_err::metadata(path).ok().map(|data| data.ino()) else { return 0 };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = known.get(path).filter(|(known, _)| *known == id && kind != EntryKind::Repository) {
            return *bytes;
        }
        let bytes = size(path, seen);
        known.insert(path.to_owned(), (id, bytes));
        bytes
    }
}

fn entries_with(cache: &Path, sizes: &Sizes) -> Result<Vec<CacheEntry>, StoreError> {
    let used = used_by_live(cache);
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for kind in EntryKind::ALL {
        for path in paths(cache, kind)? {
            // What others took away meanwhile is not there.
            let Ok(last_used) = fs_err::metadata(cache::last_use(&path)).and_then(|m| m.modified()) else { continue };
            let bytes = sizes.of(kind, &path, &mut seen);
            let in_use = used.contains(&path);
            found.push(CacheEntry { kind, path, bytes, last_used, in_use });
        }
    }
    found.sort_by(|a, b| (a.last_used, &a.path).cmp(&(b.last_used, &b.path)));
    Ok(found)
}

/// The places of whole entries of one kind; what is being made is none.
fn paths(cache: &Path, kind: EntryKind) -> Result<Vec<PathBuf>, StoreError> {
    let bucket = kind.bucket();
    let folder = bucket.path(cache);
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    let walk = walkdir::WalkDir::new(&folder).min_depth(bucket.depth()).max_depth(bucket.depth()).sort_by_file_name();
    for entry in walk {
        let entry = entry.map_err(std::io::Error::from)?;
        let name = entry.file_name().to_string_lossy();
        let is_whole = match kind {
            EntryKind::Tree => cache::marker(entry.path()).is_file(),
            EntryKind::Repository => !name.ends_with(".tmp"),
            EntryKind::Layer | EntryKind::Base => !name.starts_with('.'),
        };
        if entry.file_type().is_dir() && is_whole {
            found.push(entry.into_path());
        }
    }
    Ok(found)
}

/// Bytes on disk below a folder; files whose other names were `seen` already do not count.
fn size(folder: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
    let walk = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    let bytes = walk.filter_map(|entry| {
        let data = entry.metadata().ok()?;
        let is_new = data.is_dir() || data.nlink() < 2 || seen.insert((data.dev(), data.ino()));
        is_new.then(|| data.blocks().saturating_mul(512))
    });
    bytes.fold(0, u64::saturating_add)
}

/// What is to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Eviction {
    /// Only what nothing used for so long.
    pub older_than: Option<Duration>,
    /// Only until the entries take no more than so many bytes together.
    pub to: Option<u64>,
    /// Only say what would go.
    pub dry_run: bool,
}

/// What went, or would go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evicted {
    /// The entries, in the order in which they went.
    pub gone: Vec<CacheEntry>,
    /// Entries that would have gone, and that a live process uses or makes.
    pub in_use: Vec<PathBuf>,
    /// Bases that would have gone by their age, and that nobody but the one who handed their archive in can make again.
    pub kept: Vec<PathBuf>,
    /// Bytes of all entries before.
    pub before: u64,
    /// Bytes of all entries after.
    pub after: u64,
    /// What could not be taken away, and why.
    pub problems: Vec<String>,
    /// Places of what went beside the cache, see [`evict_beside`].
    pub gone_beside: Vec<usize>,
    /// Places of what would have gone beside it, and is in use.
    pub in_use_beside: Vec<usize>,
}

/// Something beside the cache that goes in the same order: an image at a container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Bytes.
    pub bytes: u64,
    /// When it was used last.
    pub last_used: SystemTime,
    /// Whether somebody uses it.
    pub in_use: bool,
}

/// Takes entries away, the one that was not used for longest first. With neither limit of [`Eviction`] nothing goes.
///
/// # Errors
/// When the cache cannot be listed; an entry that cannot be taken away is a problem in the answer.
pub fn evict(cache: &Path, eviction: &Eviction, now: SystemTime) -> Result<Evicted, StoreError> {
    evict_with(cache, eviction, now, &Sizes::default())
}

/// The same, where it is done again and again.
///
/// # Errors
/// As [`evict`].
pub fn evict_with(cache: &Path, eviction: &Eviction, now: SystemTime, sizes: &Sizes) -> Result<Evicted, StoreError> {
    evict_all(entries_with(cache, sizes)?, &[], &mut |_| Ok(false), cache, eviction, now)
}

/// As [`evict`], with what lies `beside` the cache: its bytes count, and it goes in the same order. `take` takes one away, by
/// its place; `false` when somebody uses it.
///
/// # Errors
/// As [`evict`].
pub fn evict_beside(
    cache: &Path,
    eviction: &Eviction,
    now: SystemTime,
    beside: &[Beside],
    take: &mut dyn FnMut(usize) -> Result<bool, String>,
) -> Result<Evicted, StoreError> {
    let entries = if cache.is_dir() { entries(cache)? } else { Vec::new() };
    evict_all(entries, beside, take, cache, eviction, now)
}

/// One of the things that may go.
enum Candidate {
    Entry(CacheEntry),
    Beside(usize, Beside),
}

impl Candidate {
    fn last_used(&self) -> SystemTime {
        match self {
            Self::Entry(entry) => entry.last_used,
            Self::Beside(_, beside) => beside.last_used,
        }
    }
}

fn evict_all(
    entries: Vec<CacheEntry>,
    beside: &[Beside],
    take: &mut dyn FnMut(usize) -> Result<bool, String>,
    cache: &Path,
    eviction: &Eviction,
    now: SystemTime,
) -> Result<Evicted, StoreError> {
    let bytes = entries.iter().map(|entry| entry.bytes).chain(beside.iter().map(|one| one.bytes));
    let before = bytes.fold(0, u64::saturating_add);
    let mut evicted = Evicted { before, after: before, ..Evicted::default() };
    if *eviction == (Eviction { dry_run: eviction.dry_run, ..Eviction::default() }) {
        return Ok(evicted);
    }
    let mut candidates: Vec<Candidate> = entries.into_iter().map(Candidate::Entry).collect();
    candidates.extend(beside.iter().enumerate().map(|(place, one)| Candidate::Beside(place, *one)));
    // Equal times stay as they are: entries by their path, then the rest by its place.
    candidates.sort_by_key(Candidate::last_used);
    for candidate in candidates {
        if eviction.to.is_some_and(|to| evicted.after <= to) {
            break;
        }
        let age = now.duration_since(candidate.last_used()).unwrap_or_default();
        if eviction.older_than.is_some_and(|limit| age < limit) {
            continue;
        }
        let entry = match candidate {
            Candidate::Entry(entry) => entry,
            Candidate::Beside(place, one) => {
                let gone = match one.in_use {
                    true => Ok(false),
                    false if eviction.dry_run => Ok(true),
                    false => take(place),
                };
                match gone {
                    Ok(true) => {
                        evicted.after = evicted.after.saturating_sub(one.bytes);
                        evicted.gone_beside.push(place);
                    }
                    Ok(false) => evicted.in_use_beside.push(place),
                    Err(problem) => evicted.problems.push(problem),
                }
                continue;
            }
        };
        if entry.kind == EntryKind::Base && is_handed_in(&entry.path) {
            evicted.kept.push(entry.path);
            continue;
        }
        let gone = if entry.in_use {
            Ok(false)
        } else if eviction.dry_run {
            Ok(true)
        } else {
            take_away(cache, entry.kind, &entry.path)
        };
        match gone {
            Ok(true) => {
                evicted.after = evicted.after.saturating_sub(entry.bytes);
                evicted.gone.push(entry);
            }
            Ok(false) => evicted.in_use.push(entry.path),
            Err(error) => evicted.problems.push(error.to_string()),
        }
    }
    Ok(evicted)
}

/// Whether a base was made of an archive that somebody handed in, as its marker says.
fn is_handed_in(base: &Path) -> bool {
    let text = fs_err::read(base.join("base.json")).unwrap_or_default();
    let marker: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    marker["recipe"]["from"].get("archive").is_some()
}

/// Takes one entry away, unless somebody uses or makes it. First it loses its name, so that a half-deleted one is never
/// taken for whole; who dies in between leaves what the next start takes for a half-made entry.
fn take_away(cache: &Path, kind: EntryKind, entry: &Path) -> std::io::Result<bool> {
    let (Some(folder), Some(name)) = (entry.parent(), entry.file_name().and_then(|name| name.to_str())) else {
        return Ok(false);
    };
    let (lock, nameless) = match kind {
        EntryKind::Layer => {
            let locks = Bucket::Layers.path(cache).join("locks");
            fs_err::create_dir_all(&locks)?;
            (locks.join(format!("{name}.lock")), folder.join(format!(".{name}.gone")))
        }
        EntryKind::Base => (folder.join(format!("{name}.lock")), folder.join(format!(".{name}.gone"))),
        EntryKind::Tree | EntryKind::Repository => {
            // Not the name under which one is made: where there are no locks, nobody knows whether its maker lives.
            (folder.join(format!("{name}.lock")), folder.join(format!("{name}{GONE}")))
        }
    };
    let _maker = match lock::try_take(&lock)? {
        Taken::Ours(file) => Some(file),
        Taken::Theirs => return Ok(false),
        Taken::Unknown => None,
    };
    remove_entry(&nameless)?;
    let closed = Closed::new(cache)?;
    if closed.is_used(entry) {
        return Ok(false);
    }
    remove_entry(&cache::marker(entry))?;
    fs_err::rename(entry, &nameless)?;
    drop(closed);
    remove_entry(&nameless)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::{Scratch, Uses};
    use super::*;

    struct Case {
        dir: tempfile::TempDir,
    }

    impl Case {
        /// Three layers of 100 KiB each and a tree, last used so many days ago.
        fn new() -> Self {
            let case = Self { dir: tempfile::tempdir().unwrap() };
            for (name, days) in [("old", 9), ("middle", 5), ("young", 1)] {
                let layer = case.layer(name);
                fs_err::create_dir_all(layer.join("root")).unwrap();
                fs_err::write(layer.join("root/file"), vec![1; 100 << 10]).unwrap();
                ago(&layer, days);
            }
            fs_err::create_dir_all(case.tree().join("x")).unwrap();
            fs_err::write(cache::marker(&case.tree()), "{}").unwrap();
            ago(&cache::marker(&case.tree()), 7);
            fs_err::create_dir_all(Bucket::Snapshots.path(case.cache()).join("half.tmp")).unwrap();
            case
        }

        fn cache(&self) -> &Path {
            self.dir.path()
        }

        fn layer(&self, name: &str) -> PathBuf {
            Bucket::Layers.path(self.cache()).join("python-python").join(name)
        }

        fn tree(&self) -> PathBuf {
            Bucket::Snapshots.path(self.cache()).join("tree-0-0")
        }

        fn evict(&self, older_than: Option<u64>, to: Option<u64>, dry_run: bool) -> Evicted {
            let older_than = older_than.map(|days| Duration::from_secs(days * 86_400));
            evict(self.cache(), &Eviction { older_than, to, dry_run }, SystemTime::now()).unwrap()
        }
    }

    fn ago(path: &Path, days: u64) {
        let time = SystemTime::now() - Duration::from_secs(days * 86_400 + 60);
        std::fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    fn names(evicted: &Evicted) -> Vec<String> {
        evicted.gone.iter().map(|e| e.path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_until_there_is_enough() {
        let case = Case::new();
        let before = case.evict(None, None, false);
        assert!(before.gone.is_empty() && before.before >= 300 << 10);
        let planned = case.evict(None, Some(before.before - (150 << 10)), true);
        assert_eq!(names(&planned), ["old", "tree-0-0", "middle"]);
        assert!(case.layer("old").exists(), "a dry run deletes nothing");
        let done = case.evict(None, Some(before.before - 1), false);
        assert_eq!(names(&done), ["old"]);
        assert!(!case.layer("old").exists() && done.after < before.before && case.tree().exists());
        // Both limits: only what is old enough, even where that is not enough.
        assert_eq!(names(&case.evict(Some(6), Some(0), false)), ["tree-0-0"]);
        assert!(!cache::marker(&case.tree()).exists());
        assert_eq!(names(&case.evict(Some(4), None, false)), ["middle"]);
        assert!(case.layer("young").exists());
        assert!(Bucket::Snapshots.path(case.cache()).join("half.tmp").exists(), "what is being made is no entry");
    }

    #[test]
    fn what_a_live_process_uses_or_makes_stays() {
        let case = Case::new();
        let scratch = Scratch::new(case.cache()).unwrap();
        let held = Uses::new(&scratch).unwrap().hold(&case.layer("old").join("root")).unwrap();
        let lock = Bucket::Layers.path(case.cache()).join("locks/middle.lock");
        fs_err::create_dir_all(lock.parent().unwrap()).unwrap();
        let making = lock::wait(&lock).unwrap();
        let done = case.evict(None, Some(0), false);
        assert_eq!(names(&done), ["tree-0-0", "young"]);
        // Holding an entry is a use of it, so that either may be the one that was used last.
        let mut in_use = done.in_use.clone();
        in_use.sort();
        assert_eq!(in_use, [case.layer("middle"), case.layer("old")]);
        // Without either they go: the two really were what kept them.
        drop((held, making));
        let mut gone = names(&case.evict(None, Some(0), false));
        gone.sort();
        assert_eq!(gone, ["middle", "old"]);
    }

    #[test]
    fn what_is_being_made_anew_stays_when_the_whole_one_goes() {
        let case = Case::new();
        let clone = Bucket::Repositories.path(case.cache()).join("clones-v1/o__r.git");
        let making = [case.tree().with_extension("tmp"), clone.with_extension("git.tmp")];
        for path in [&clone, &making[0], &making[1]] {
            fs_err::create_dir_all(path.join("x")).unwrap();
        }
        ago(&clone, 8);
        let gone = names(&case.evict(None, Some(0), false));
        assert!(["tree-0-0", "o__r.git"].iter().all(|name| gone.contains(&(*name).to_owned())), "{gone:?}");
        assert!(!case.tree().exists() && !clone.exists());
        // Its maker's lock is what says that it is a leftover, and that is for the next start to see.
        assert!(making.iter().all(|path| path.exists()));
    }

    #[test]
    fn bases_go_unless_somebody_handed_their_archive_in() {
        let case = Case::new();
        for (name, from) in [("made", r#"{"debian": {}}"#), ("handed", r#"{"archive": {}}"#)] {
            let base = Bucket::Bases.path(case.cache()).join(name);
            fs_err::create_dir_all(base.join("root")).unwrap();
            fs_err::write(base.join("base.json"), format!(r#"{{"recipe": {{"from": {from}}}}}"#)).unwrap();
            ago(&base, 20);
        }
        let done = case.evict(Some(15), Some(0), false);
        assert_eq!((names(&done), done.kept.len()), (vec!["made".to_owned()], 1));
        assert!(done.kept[0].ends_with("bases-v1/handed") && done.kept[0].is_dir());
    }

    #[test]
    fn what_lies_beside_goes_in_the_same_order() {
        let case = Case::new();
        let now = SystemTime::now();
        let beside = [(8, false), (6, true), (4, false)].map(|(days, in_use)| Beside {
            bytes: 100 << 10,
            last_used: now - Duration::from_secs(days * 86_400),
            in_use,
        });
        let taken = std::cell::RefCell::new(Vec::new());
        let evict = |to, dry_run| {
            let mut take = |place| {
                taken.borrow_mut().push(place);
                Ok(true)
            };
            let eviction = Eviction { older_than: Some(Duration::from_secs(3 * 86_400)), to, dry_run };
            evict_beside(case.cache(), &eviction, now, &beside, &mut take).unwrap()
        };
        let all = evict(None, true);
        assert_eq!((all.gone_beside.as_slice(), all.in_use_beside.as_slice()), (&[0, 2][..], &[1][..]));
        assert!(all.before >= 600 << 10 && taken.borrow().is_empty(), "a dry run takes nothing");
        // The oldest layer, then the oldest beside it: that is enough.
        let some = evict(Some(all.before - (150 << 10)), false);
        assert_eq!(
            (names(&some), some.gone_beside.clone(), taken.borrow().clone()),
            (vec!["old".to_owned()], vec![0], vec![0])
        );
        assert!(some.in_use_beside.is_empty() && case.layer("middle").exists());
        let mut take = |_| Err("no".to_owned());
        let eviction = Eviction { older_than: None, to: Some(0), dry_run: false };
        let failed = evict_beside(case.cache(), &eviction, now, &beside[2..], &mut take).unwrap();
        assert_eq!(failed.problems, ["no"]);
        // Without a cache only that counts.
        let nowhere = case.cache().join("nowhere");
        let bare = evict_beside(&nowhere, &eviction, now, &beside[2..], &mut |_| Ok(true)).unwrap();
        assert_eq!((bare.before, bare.after, nowhere.exists()), (100 << 10, 0, false));
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let case = Case::new();
        let before = entries(case.cache()).unwrap().iter().map(|e| e.bytes).sum::<u64>();
        fs_err::hard_link(case.layer("old").join("root/file"), case.layer("young").join("root/same")).unwrap();
        let after = entries(case.cache()).unwrap().iter().map(|e| e.bytes).sum::<u64>();
        assert!(after < before + (50 << 10), "{before} {after}");
    }
}
