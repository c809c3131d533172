//! Writing a [`Tree`]: as a tar archive that is the same for the same tree, and as a folder.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

use super::part::{Part, Place};
use super::tree::{Kind, Node, Tree};

/// Writes tar archives that are the same for the same input: nothing but what is given goes into a header.
pub struct TarWriter<W: Write> {
    builder: tar::Builder<W>,
}

impl<W: Write> TarWriter<W> {
    /// Begins an archive.
    pub fn new(to: W) -> Self {
        Self { builder: tar::Builder::new(to) }
    }

    /// Adds one node. `same`: an entry before it that it is another name of.
    pub fn add(&mut self, path: &Path, node: &Node, same: Option<&Path>) -> std::io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(node.mode);
        header.set_uid(node.uid);
        header.set_gid(node.gid);
        header.set_mtime(node.time);
        header.set_size(0);
        if node.nanos > 0 && !matches!(node.kind, Kind::File(_) if same.is_some()) {
            self.exact_time(node)?;
        }
        match (&node.kind, same) {
            (Kind::File(_), Some(same)) => {
                header.set_entry_type(EntryType::Link);
                self.builder.append_link(&mut header, path, same)
            }
            (Kind::File(part), None) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(part.length());
                self.builder.append_data(&mut header, path, part.clone())
            }
            (Kind::Folder, _) => {
                header.set_entry_type(EntryType::Directory);
                // With a slash at its end, as other writers do.
                let mut name = path.as_os_str().to_owned();
                name.push("/");
                self.builder.append_data(&mut header, PathBuf::from(name), std::io::empty())
            }
            (Kind::Link(to), _) => {
                header.set_entry_type(EntryType::Symlink);
                self.builder.append_link(&mut header, path, to)
            }
        }
    }

    /// Parts of a second only go into an extended header, before the entry's own. Build tools compare them.
    fn exact_time(&mut self, node: &Node) -> std::io::Result<()> {
        let value = format!(" mtime={}.{:09}\n", node.time, node.nanos);
        // The record's length counts its own digits.
        let mut length = value.len() + 2;
        while format!("{length}{value}").len() > length {
            length += 1;
        }
        let record = format!("{length}{value}");
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(record.len() as u64);
        header.set_path("pax")?;
        header.set_cksum();
        self.builder.append(&header, record.as_bytes())
    }

    /// Adds all of a tree. `go` is asked before each node whether to go on.
    pub fn add_tree(&mut self, tree: &Tree, go: &dyn Fn() -> std::io::Result<()>) -> std::io::Result<()> {
        let mut links = Links::default();
        for (path, node) in tree.iter() {
            go()?;
            self.add(path, node, links.first(path, node))?;
        }
        Ok(())
    }

    /// Adds a file of these bytes, which belongs to root and has no time.
    pub fn add_bytes(&mut self, path: &str, bytes: &[u8]) -> std::io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        self.builder.append_data(&mut header, path, bytes)
    }

    /// Adds a file, which belongs to root and has no time.
    pub fn add_file(&mut self, path: &str, part: Part) -> std::io::Result<()> {
        let node = Node { kind: Kind::File(part), mode: 0o644, uid: 0, gid: 0, time: 0, nanos: 0 };
        self.add(Path::new(path), &node, None)
    }

    /// Adds a folder, which belongs to root and has no time.
    pub fn add_folder(&mut self, path: &str) -> std::io::Result<()> {
        let node = Node { kind: Kind::Folder, mode: 0o755, uid: 0, gid: 0, time: 0, nanos: 0 };
        self.add(Path::new(path), &node, None)
    }

    /// Ends the archive.
    pub fn finish(self) -> std::io::Result<W> {
        self.builder.into_inner()
    }
}

/// Which files are other names of one before them.
#[derive(Default)]
struct Links<'a>(HashMap<Place, &'a Path>);

impl<'a> Links<'a> {
    /// The first name of the same file, if there was one. Empty files are nobody's other names: their places say nothing.
    fn first(&mut self, path: &'a Path, node: &Node) -> Option<&'a Path> {
        let Kind::File(part) = &node.kind else { return None };
        if part.length() == 0 {
            return None;
        }
        match self.0.entry(part.place()) {
            std::collections::hash_map::Entry::Occupied(first) => Some(*first.get()),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(path);
                None
            }
        }
    }
}

/// Unpacks a tree into an empty folder: owned by us, readable by everybody, with no special bits. Times are kept. `go`
/// is asked before each node whether to go on.
///
/// # Errors
/// What the file system says.
pub fn unpack(tree: &Tree, to: &Path, go: &dyn Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    let mut links = Links::default();
    let mut folders = Vec::new();
    for (path, node) in tree.iter() {
        go()?;
        let at = to.join(path);
        match &node.kind {
            Kind::Folder => {
                // Everybody must get in, and we must be able to fill it and to remove it again.
                std::fs::DirBuilder::new().mode(0o755).create(&at).map_err(|e| of(&at, &e))?;
                folders.push((at, time(node)));
            }
            Kind::Link(link) => std::os::unix::fs::symlink(link, &at).map_err(|e| of(&at, &e))?,
            Kind::File(part) => {
                if let Some(first) = links.first(path, node) {
                    fs_err::hard_link(to.join(first), &at)?;
                    continue;
                }
                let mode = if node.mode & 0o111 == 0 { 0o644 } else { 0o755 };
                let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&at);
                let mut file = file.map_err(|e| of(&at, &e))?;
                copy(part.clone(), &mut file).map_err(|e| of(&at, &e))?;
                file.set_modified(time(node)).map_err(|e| of(&at, &e))?;
            }
        }
    }
    for (folder, changed) in folders.iter().rev() {
        std::fs::File::open(folder).and_then(|f| f.set_modified(*changed)).map_err(|e| of(folder, &e))?;
    }
    Ok(())
}

fn time(node: &Node) -> std::time::SystemTime {
    let since = std::time::Duration::new(node.time, node.nanos);
    std::time::SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(std::time::SystemTime::UNIX_EPOCH)
}

fn copy(mut from: impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 17];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            read => to.write_all(&buffer[..read])?,
        }
    }
}

fn of(path: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("could not write `{}`: {error}", path.display()))
}
