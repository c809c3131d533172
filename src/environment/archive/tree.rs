//! A file system as an index over the archives that it is made of: layers put on each other, with whiteouts.
//!
//! Nothing is unpacked while layers are put together, so no link of an archive leads anywhere: a name is only a key.
//! Whiteouts are those of the OCI image specification: `.wh.NAME` removes NAME of the layers below, `.wh..wh..opq` all
//! that the layers below have in its folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tar::EntryType;

use super::error::ArchiveError;
use super::part::Part;

/// How the names of whiteouts begin.
pub const WHITEOUT: &[u8] = b".wh.";
/// The whiteout of all that layers below have in its folder.
pub const OPAQUE: &[u8] = b".wh..wh..opq";
/// Other names of this kind are the file system's own, and mean nothing in an archive.
const OWN: &[u8] = b".wh..wh.";
/// More entries than any system has: an archive with more is a mistake or an attack.
const MOST_ENTRIES: usize = 4_000_000;
/// The longest path that Linux takes.
const LONGEST_PATH: usize = 4096;

/// What lies at one path.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits; never set-user-id and its like.
    pub mode: u32,
    /// The user it belongs to.
    pub uid: u64,
    /// The group.
    pub gid: u64,
    /// When it was changed, in seconds since 1970.
    pub time: u64,
    /// And nanoseconds.
    pub nanos: u32,
}

/// What becomes of whiteouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whiteouts {
    /// What they stand for is removed.
    Apply,
    /// They are files like others.
    Keep,
}

/// What lies at a path.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A file with these bytes. Files with the same [`Part::place`] are links of one another.
    File(Part),
    /// A symbolic link.
    Link(PathBuf),
}

/// A file system: its nodes by path, relative to its root. A path's parents are folders of it.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
}

impl Tree {
    /// All nodes, each folder before what is in it.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_path(), node))
    }

    /// One node.
    pub fn get(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The bytes of a file, where there is one of at most `most` bytes.
    pub fn read(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let Kind::File(part) = &self.get(path)?.kind else { return None };
        let mut bytes = Vec::new();
        (part.length() <= most).then(|| std::io::Read::read_to_end(&mut part.clone(), &mut bytes).ok()).flatten()?;
        Some(bytes)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Keeps what `keep` says of; what lies in a folder that goes, goes with it.
    pub fn retain(&mut self, mut keep: impl FnMut(&Path, &Node) -> bool) {
        let mut gone: Option<PathBuf> = None;
        self.nodes.retain(|path, node| {
            if gone.as_ref().is_some_and(|gone| path.starts_with(gone)) {
                return false;
            }
            let stays = keep(path, node);
            if !stays {
                gone = Some(path.clone());
            }
            stays
        });
    }

    /// Changes nodes.
    pub fn change(&mut self, mut change: impl FnMut(&Path, &mut Node)) {
        self.nodes.iter_mut().for_each(|(path, node)| change(path, node));
    }

    /// Puts a tar archive on top. `name` is the archive's, for errors.
    ///
    /// # Errors
    /// [`ArchiveError::Malformed`]: broken, cut off, or with names that lead out of it.
    pub fn put(&mut self, layer: &Part, name: &str, whiteouts: Whiteouts) -> Result<(), ArchiveError> {
        let bad = |problem: String| ArchiveError::malformed(name, problem);
        let mut archive = tar::Archive::new(layer.clone());
        let mut own = BTreeMap::new();
        let (mut removed, mut emptied) = (Vec::new(), Vec::new());
        let mut count = 0;
        for entry in archive.entries_with_seek().map_err(|e| bad(e.to_string()))? {
            // What the reader says may quote what it read, which can be anything.
            let mut entry = entry.map_err(|e| bad(format!("not a tar archive, or cut off ({})", e.kind())))?;
            let exact = exact_time(&mut entry);
            count += 1;
            if count > MOST_ENTRIES {
                return Err(bad(format!("more than {MOST_ENTRIES} entries")));
            }
            let raw = entry.path_bytes();
            let shown = String::from_utf8_lossy(&raw).into_owned();
            let Some(path) = plain(&raw) else {
                return Err(bad(format!("the entry `{shown}` leads out of it")));
            };
            let Some(last) = path.file_name().map(OsStr::as_bytes) else { continue };
            let apply = whiteouts == Whiteouts::Apply;
            if apply && last == OPAQUE {
                emptied.push(path.parent().unwrap_or(Path::new("")).to_owned());
                continue;
            }
            if let Some(hidden) = last.strip_prefix(WHITEOUT).filter(|_| apply && !last.starts_with(OWN)) {
                removed.push(path.with_file_name(OsStr::from_bytes(hidden)));
                continue;
            }
            let header = entry.header();
            let kind = match header.entry_type() {
                EntryType::Directory => Kind::Folder,
                EntryType::Regular | EntryType::Continuous => {
                    let part = layer.slice(entry.raw_file_position(), entry.size());
                    Kind::File(part.ok_or_else(|| bad(format!("it is cut off in the entry `{shown}`")))?)
                }
                EntryType::Symlink => {
                    let to = entry.link_name_bytes().unwrap_or_default();
                    Kind::Link(PathBuf::from(OsStr::from_bytes(&to)))
                }
                EntryType::Link => {
                    let to = entry.link_name_bytes().unwrap_or_default();
                    let target = plain(&to).and_then(|to| own.get(&to).or_else(|| self.nodes.get(&to)).cloned());
                    match target {
                        // A link to a folder cannot be, and a device was not taken.
                        Some(Node { kind: Kind::Folder, .. }) => continue,
                        Some(node) => {
                            own.insert(path, node);
                            continue;
                        }
                        None => {
                            let to = String::from_utf8_lossy(&to);
                            return Err(bad(format!("the entry `{shown}` is a link to `{to}`, which is not there")));
                        }
                    }
                }
                EntryType::GNUSparse => return Err(bad(format!("the entry `{shown}` is a sparse file"))),
                // Devices and pipes are nobody's business; the rest describes other entries.
                _ => continue,
            };
            // Writers leave these empty where they know nothing.
            let number = |what: std::io::Result<u64>| what.unwrap_or_default();
            let (time, nanos) = match exact {
                Some(exact) => exact,
                None => (number(header.mtime()), 0),
            };
            let node = Node {
                kind,
                mode: header.mode().map_err(|e| bad(format!("the entry `{shown}`: {e}")))? & 0o777,
                uid: number(header.uid()),
                gid: number(header.gid()),
                time,
                nanos,
            };
            own.insert(path, node);
        }
        for folder in emptied {
            self.remove_below(&folder);
        }
        for path in removed {
            self.remove(&path);
        }
        for (path, node) in own {
            self.insert(path, node, name)?;
        }
        Ok(())
    }

    /// Puts one node in; parents that are not there are made.
    ///
    /// # Errors
    /// When a parent of it in the same layer is no folder.
    pub fn insert(&mut self, path: PathBuf, node: Node, name: &str) -> Result<(), ArchiveError> {
        let mut at = PathBuf::new();
        for part in path.parent().unwrap_or(Path::new("")) {
            at.push(part);
            match self.nodes.get(&at) {
                Some(Node { kind: Kind::Folder, .. }) => {}
                None => drop(self.nodes.insert(at.clone(), folder())),
                Some(_) => {
                    let problem = format!("`{}` lies in `{}`, which is no folder", path.display(), at.display());
                    return Err(ArchiveError::malformed(name, problem));
                }
            }
        }
        if !matches!(node.kind, Kind::Folder) {
            self.remove_below(&path);
        }
        self.nodes.insert(path, node);
        Ok(())
    }

    fn remove(&mut self, path: &Path) {
        self.nodes.remove(path);
        self.remove_below(path);
    }

    fn remove_below(&mut self, folder: &Path) {
        // All that begins with the folder's path lies together, as paths are ordered by their parts.
        let after = std::ops::Bound::Excluded(folder.to_owned());
        let below: Vec<PathBuf> = self
            .nodes
            .range((after, std::ops::Bound::Unbounded))
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(folder))
            .cloned()
            .collect();
        for path in below {
            self.nodes.remove(&path);
        }
    }
}

/// A folder that an archive did not name.
fn folder() -> Node {
    Node { kind: Kind::Folder, mode: 0o755, uid: 0, gid: 0, time: 0, nanos: 0 }
}

/// The time in an entry's extended header, which has parts of seconds.
fn exact_time(entry: &mut tar::Entry<'_, impl std::io::Read>) -> Option<(u64, u32)> {
    let extensions = entry.pax_extensions().ok()??;
    let text = extensions.flatten().find(|e| e.key_bytes() == b"mtime")?.value().ok()?.to_owned();
    let (seconds, rest) = text.split_once('.').unwrap_or((&text, ""));
    let digits: String = rest.chars().chain(std::iter::repeat('0')).take(9).collect();
    Some((seconds.parse().ok()?, digits.parse().ok()?))
}

/// The path of an entry, relative to the root; empty for the root itself, `None` for what leads out or is too long.
fn plain(raw: &[u8]) -> Option<PathBuf> {
    if raw.len() > LONGEST_PATH || raw.contains(&0) {
        return None;
    }
    let mut out = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(raw)).components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}
