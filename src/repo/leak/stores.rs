//! The object stores of a checkout: every pack, loose object and alternate, by plain listing.
//!
//! libgit2 gets to see a *view* of them: a folder of ours with links to the packs and loose objects that were found to be
//! regular files. So it follows no alternates, reads no cache that the checkout brought, and opens no pipe.

use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid};

use super::Watch;
use super::error::LeakError;
use super::files::{self, LIMIT, place};
use super::finding::Later;
use super::finding::LeakKind;
use super::inventory::Inventory;
use super::names::ids_in;
use super::tables;

/// One object at one place. An object that lies at two places has two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub id: Oid,
    /// Index into [`Objects::sources`].
    pub source: u32,
}

/// Where objects lie.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// A pack, or the folder of a store's loose objects.
    pub place: String,
}

/// All objects.
pub(super) struct Objects {
    /// Sorted by id: about 24 bytes an object are all that is kept.
    pub rows: Vec<Row>,
    pub sources: Vec<Source>,
    odb: git2::Odb<'static>,
    view: tempfile::TempDir,
}

/// Why an object's content was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Absent,
    Damaged,
}

/// An object that is read as a whole (commits, trees, tags) may have so many bytes.
const LARGEST_READ: usize = 256 << 20;

/// Alternates may lead to alternates, so deep and no deeper (git's own limit).
const DEEPEST: usize = 5;

impl Objects {
    /// Lists the store at `objects` and its alternates.
    pub(super) fn gather(
        root: &Path,
        objects: &Path,
        scratch: &Path,
        inventory: &mut Inventory,
        watch: &mut Watch<'_>,
    ) -> Result<Self, LeakError> {
        fs_err::create_dir_all(scratch)?;
        let view = tempfile::Builder::new().prefix("leak-check-").tempdir_in(scratch)?;
        let odb = git2::Odb::new().map_err(LeakError::git("make an object database"))?;
        let mut gathered = Self { rows: Vec::new(), sources: Vec::new(), odb, view };
        let mut stores = vec![(objects.to_path_buf(), 0)];
        let mut at = 0;
        while let Some((store, depth)) = stores.get(at).cloned() {
            let folder = gathered.view.path().join(at.to_string());
            fs_err::create_dir_all(folder.join("pack"))?;
            let mut listing = Listing { root, view: &folder, gathered: &mut gathered, inventory, watch };
            listing.store(&store)?;
            let next = listing.alternates(&store);
            for other in next {
                if depth < DEEPEST && other.is_dir() && !stores.iter().any(|(known, _)| *known == other) {
                    stores.push((other, depth + 1));
                }
            }
            let folder = folder.to_str().ok_or(LeakError::Scratch)?;
            gathered.odb.add_disk_alternate(folder).map_err(LeakError::git("read the objects"))?;
            at += 1;
        }
        gathered.rows.sort_unstable();
        gathered.rows.shrink_to_fit();
        Ok(gathered)
    }

    /// The rows of one object.
    pub(super) fn range(&self, id: Oid) -> std::ops::Range<usize> {
        let start = self.rows.partition_point(|row| row.id < id);
        let more = self.rows[start..].iter().take_while(|row| row.id == id).count();
        start..start + more
    }

    pub(super) fn has(&self, id: Oid) -> bool {
        !self.range(id).is_empty()
    }

    /// Kind and size of an object.
    pub(super) fn header(&self, id: Oid) -> Result<(usize, ObjectType), Unread> {
        if !self.has(id) {
            return Err(Unread::Absent);
        }
        self.odb.read_header(id).map_err(|_| Unread::Damaged)
    }

    /// An object's kind and content, which fit its id.
    pub(super) fn read(&self, id: Oid) -> Result<(ObjectType, Vec<u8>), Unread> {
        if self.header(id)?.0 > LARGEST_READ {
            return Err(Unread::Damaged);
        }
        let object = self.odb.read(id).map_err(|_| Unread::Damaged)?;
        match Oid::hash_object(object.kind(), object.data()) {
            Ok(found) if found == id => Ok((object.kind(), object.data().to_vec())),
            _ => Err(Unread::Damaged),
        }
    }

    /// The full id of an object from its first digits; `None` where none or several fit.
    pub(super) fn by_prefix(&self, hex: &str) -> Option<Oid> {
        let low = Oid::from_str(&format!("{hex:0<40}")).ok()?;
        let start = self.rows.partition_point(|row| row.id < low);
        let mut fit = self.rows[start..].iter().take_while(|row| row.id.to_string().starts_with(hex)).map(|r| r.id);
        let first = fit.next()?;
        fit.all(|other| other == first).then_some(first)
    }
}

struct Listing<'a, 'w> {
    root: &'a Path,
    view: &'a Path,
    gathered: &'a mut Objects,
    inventory: &'a mut Inventory,
    watch: &'a mut Watch<'w>,
}

impl Listing<'_, '_> {
    fn source(&mut self, place: String) -> u32 {
        self.gathered.sources.push(Source { place });
        u32::try_from(self.gathered.sources.len() - 1).unwrap_or(u32::MAX)
    }

    fn place(&self, path: &Path) -> String {
        place(self.root, path)
    }

    fn unknown(&mut self, path: &Path, what: &str) {
        let place = self.place(path);
        self.inventory.find(LeakKind::UnknownFile, place, Later::Possible, what);
    }

    fn store(&mut self, store: &Path) -> Result<(), LeakError> {
        let loose = format!("{} (loose objects)", self.place(store));
        let loose = self.source(loose);
        for entry in self.inventory.listed(store, &place(self.root, store)) {
            let (name, path) = (entry.file_name(), entry.path());
            let folder = entry.file_type().is_ok_and(|t| t.is_dir());
            match name.as_bytes() {
                b"pack" if folder => self.packs(&path)?,
                b"info" if folder => self.info(&path),
                [a, b] if folder && a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => self.loose(&path, loose)?,
                _ => self.unknown(&path, "no part of an object store; a broken fetch leaves objects in such places"),
            }
        }
        Ok(())
    }

    fn loose(&mut self, folder: &Path, source: u32) -> Result<(), LeakError> {
        let name = folder.file_name().unwrap_or_default().as_bytes();
        let view = self.view.join(folder.file_name().unwrap_or_default());
        fs_err::create_dir(&view)?;
        for entry in files::list(folder)? {
            let path = entry.path();
            let id = crate::repo::raw::oid(&[name, entry.file_name().as_bytes()].concat());
            let Some(id) = id.filter(|_| entry.file_type().is_ok_and(|t| t.is_file())) else {
                self.unknown(&path, "no loose object; an interrupted write leaves a part of one");
                continue;
            };
            match loose_problem(&path, id) {
                None => {
                    symlink(&path, view.join(entry.file_name()))?;
                    self.gathered.rows.push(Row { id, source });
                }
                Some(problem) => {
                    let place = self.place(&path);
                    self.inventory.damaged(place, problem);
                }
            }
            (self.watch)("objects listed", self.gathered.rows.len() as u64);
        }
        Ok(())
    }

    fn packs(&mut self, folder: &Path) -> Result<(), LeakError> {
        let entries = files::list(folder)?;
        let names: std::collections::BTreeSet<_> = entries.iter().map(fs_err::DirEntry::file_name).collect();
        for entry in &entries {
            let (name, path) = (entry.file_name(), entry.path());
            let place = self.place(&path);
            let bytes = name.as_bytes();
            let with = |end: &[u8]| {
                let stem = bytes.rsplitn(2, |b| *b == b'.').nth(1).unwrap_or_default();
                names.contains(&std::ffi::OsString::from_vec([stem, end].concat()))
            };
            if !entry.file_type().is_ok_and(|t| t.is_file()) {
                if bytes == b"multi-pack-index.d" {
                    for layer in files::list(&path)? {
                        self.table(&layer.path(), LeakKind::MultiPackIndex);
                    }
                } else {
                    self.unknown(&path, "no regular file");
                }
            } else if bytes == b"multi-pack-index" {
                self.table(&path, LeakKind::MultiPackIndex);
            } else if bytes.ends_with(b".idx") && with(b".pack") {
                self.pack(&path)?;
            } else if bytes.ends_with(b".pack") && with(b".idx") {
                // Counted with its index.
            } else if bytes.ends_with(b".idx") {
                self.table(&path, LeakKind::PackIndex);
            } else if bytes.ends_with(b".pack") || files::start(&path, 4).is_ok_and(|start| start == b"PACK") {
                let objects = files::start(&path, 12).ok().and_then(|start| tables::pack_objects(&start));
                let what = objects.map_or_else(
                    || "a pack without an index".to_owned(),
                    |n| format!("a pack of {n} objects without an index"),
                );
                self.inventory.find(LeakKind::StrayPack, place, Later::Possible, what);
            } else if bytes.ends_with(b".promisor") || bytes.ends_with(b".keep") {
                let text = self.inventory.taken(files::read(&path, 16 << 20), &place).unwrap_or_default();
                let ids = ids_in(&text).map(|(_, id)| id).collect();
                self.inventory.lead(LeakKind::PackIndex, place, "a note beside a pack", ids);
            } else if [b".rev".as_slice(), b".bitmap", b".mtimes"].iter().any(|end| bytes.ends_with(end)) {
                // Positions in a pack, no ids.
                if !with(b".pack") && !bytes.starts_with(b"multi-pack-index") {
                    self.inventory.find(
                        LeakKind::UnknownFile,
                        place,
                        Later::Possible,
                        "a table of a pack that is gone",
                    );
                }
            } else {
                self.unknown(&path, "no part of a pack; an interrupted fetch leaves such files");
            }
        }
        Ok(())
    }

    fn pack(&mut self, index: &Path) -> Result<(), LeakError> {
        let pack = index.with_extension("pack");
        let place = self.place(&pack);
        let Some(data) = self.inventory.taken(files::read(index, u64::MAX), &self.place(index)) else {
            return Ok(());
        };
        let start = files::start(&pack, 12)?;
        let Some(ids) = tables::pack_index(&data) else {
            let place = self.place(index);
            self.inventory.damaged(place, "no index of a pack");
            return Ok(());
        };
        match tables::pack_objects(&start) {
            Some(count) if count == ids.len() => {}
            Some(count) => {
                let what = format!("it has {count} objects, and its index {}", ids.len());
                self.inventory.damaged(place.clone(), what);
            }
            None => self.inventory.damaged(place.clone(), "no pack"),
        }
        let source = self.source(place);
        let rows = ids.into_iter().map(|id| Row { id, source });
        self.gathered.rows.extend(rows);
        let name = format!("pack-{source:040}");
        symlink(&pack, self.view.join("pack").join(format!("{name}.pack")))?;
        symlink(index, self.view.join("pack").join(format!("{name}.idx")))?;
        (self.watch)("objects listed", self.gathered.rows.len() as u64);
        Ok(())
    }

    /// The ids of a table beside the packs.
    fn table(&mut self, path: &Path, kind: LeakKind) {
        let place = self.place(path);
        let Some(data) = self.inventory.taken(files::read(path, u64::MAX), &place) else { return };
        let ids = if kind == LeakKind::PackIndex { tables::pack_index(&data) } else { tables::chunked(&data) };
        match ids {
            Some(ids) => {
                let what = if kind == LeakKind::PackIndex { "an index of a pack that is gone" } else { kind.what() };
                self.inventory.lead(kind, place, what, ids);
            }
            None => self.inventory.damaged(place, format!("no {}", kind.name())),
        }
    }

    fn info(&mut self, folder: &Path) {
        for entry in self.inventory.listed(folder, &place(self.root, folder)) {
            let (name, path) = (entry.file_name(), entry.path());
            match name.as_bytes() {
                b"packs" | b"alternates" => {}
                b"commit-graph" => self.table(&path, LeakKind::CommitGraph),
                b"commit-graphs" => {
                    let layers = self.inventory.listed(&path, &place(self.root, &path));
                    for layer in layers {
                        if layer.file_name().as_bytes() != b"commit-graph-chain" {
                            self.table(&layer.path(), LeakKind::CommitGraph);
                        }
                    }
                }
                b"http-alternates" => {
                    let place = self.place(&path);
                    self.inventory.find(
                        LeakKind::Alternates,
                        place,
                        Later::Possible,
                        "addresses of other object stores",
                    );
                }
                _ => self.unknown(&path, "no part of an object store"),
            }
        }
    }

    /// The stores that a store's `info/alternates` names.
    fn alternates(&mut self, store: &Path) -> Vec<PathBuf> {
        let path = store.join("info").join("alternates");
        let place = self.place(&path);
        let Some(text) = self.inventory.taken(files::read(&path, 1 << 20), &place) else { return Vec::new() };
        let mut found = Vec::new();
        for line in text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii) {
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let line = line.strip_prefix(b"\"").and_then(|l| l.strip_suffix(b"\"")).unwrap_or(line);
            let other = store.join(std::ffi::OsStr::from_bytes(line));
            let there = fs_err::canonicalize(&other);
            let what = format!(
                "the objects of {} are visible here{}",
                super::names::shown(line),
                if there.is_ok() { "" } else { "; there is nothing now" }
            );
            self.inventory.find(LeakKind::Alternates, &place, Later::Possible, what);
            found.extend(there);
        }
        found
    }
}

/// What is wrong with a loose object: its content must be what its name says.
fn loose_problem(path: &Path, id: Oid) -> Option<String> {
    let mut data = Vec::new();
    let read = fs_err::File::open(path)
        .and_then(|file| flate2::read::ZlibDecoder::new(file).take(LIMIT + 1).read_to_end(&mut data));
    if let Err(e) = read {
        return Some(format!("it cannot be unpacked: {e}"));
    }
    if data.len() as u64 > LIMIT {
        return Some(format!("it is larger than {} MiB", LIMIT >> 20));
    }
    let wrong = || Some("its content is not what its name says".to_owned());
    let Some(end) = data.iter().position(|b| *b == 0) else { return wrong() };
    let kind = match data[..end].split(|b| *b == b' ').next() {
        Some(b"commit") => ObjectType::Commit,
        Some(b"tree") => ObjectType::Tree,
        Some(b"blob") => ObjectType::Blob,
        Some(b"tag") => ObjectType::Tag,
        _ => return wrong(),
    };
    match Oid::hash_object(kind, &data[end + 1..]) {
        Ok(found) if found == id => None,
        _ => wrong(),
    }
}
