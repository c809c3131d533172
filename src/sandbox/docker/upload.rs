//! A task's file systems as one archive, for engines that cannot mount ours: it goes into the container's own writable
//! layer before the command starts.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use fs_err as fs;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

use super::merged::{Found, Merged};
use crate::sandbox::Mount;
use crate::sandbox::local::below_root;

/// How much of the archive is handed over at once, in bytes.
const CHUNK: usize = 256 * 1024;

/// What is uploaded.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The task's mounts, in their order.
    pub mounts: Vec<Mount>,
    /// The command's user and group.
    pub owner: (u32, u32),
    /// Files that lie in every container: path inside and on the host.
    pub etc: Vec<(String, PathBuf)>,
    /// An empty directory of the host.
    pub empty: PathBuf,
}

impl Upload {
    /// Writes the archive.
    ///
    /// # Errors
    ///
    /// The system's, with the path that could not be read.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut archive = Builder::new(out);
        for (target, source) in &self.etc {
            let found = Found::Other(source.clone());
            self.entry(&mut archive, Path::new(target.trim_start_matches('/')), &found, Access::Read)?;
        }
        for mount in &self.mounts {
            self.mount(&mut archive, mount)?;
        }
        archive.finish()
    }

    fn mount<W: Write>(&self, archive: &mut Builder<W>, mount: &Mount) -> io::Result<()> {
        match mount {
            Mount::ReadOnly { source, target } | Mount::ReadWrite { source, target } => {
                let access = if matches!(mount, Mount::ReadOnly { .. }) { Access::Read } else { Access::Write };
                let target = below_root(target)?;
                if fs::metadata(source)?.is_dir() {
                    let merged = Merged::new(vec![source.clone()]);
                    self.tree(archive, &merged, &target, &merged.root(), access)
                } else {
                    self.entry(archive, &target, &Found::Other(fs::canonicalize(source)?), access)
                }
            }
            Mount::Overlay { lowers, target, remove, .. } => {
                // What is removed is left out by a layer of marks on top.
                let marks = tempfile::Builder::new().prefix("marks-").tempdir_in(&self.empty)?;
                let layers = std::iter::once(marks.path().to_owned()).chain(lowers.iter().cloned()).collect();
                let merged = Merged::new(layers);
                for path in remove {
                    merged.remove(path)?;
                }
                let Found::Directory(parts) = merged.root() else { return Ok(()) };
                // The root's own look is the topmost lower's.
                let parts = parts.into_iter().skip(1).chain([marks.path().to_owned()]).collect::<Vec<_>>();
                let target = below_root(target)?;
                self.entry(archive, &target, &Found::Directory(parts), Access::Write)?;
                self.inside(archive, &merged, &target, &merged.root(), Access::Write)
            }
        }
    }

    fn tree<W: Write>(
        &self,
        archive: &mut Builder<W>,
        merged: &Merged,
        at: &Path,
        found: &Found,
        access: Access,
    ) -> io::Result<()> {
        self.entry(archive, at, found, access)?;
        self.inside(archive, merged, at, found, access)
    }

    fn inside<W: Write>(
        &self,
        archive: &mut Builder<W>,
        merged: &Merged,
        at: &Path,
        found: &Found,
        access: Access,
    ) -> io::Result<()> {
        let Found::Directory(parts) = found else { return Ok(()) };
        for (name, found) in merged.list(parts)? {
            self.tree(archive, merged, &at.join(name), &found, access)?;
        }
        Ok(())
    }

    fn entry<W: Write>(&self, archive: &mut Builder<W>, at: &Path, found: &Found, access: Access) -> io::Result<()> {
        let path = found.path();
        let data = path.symlink_metadata()?;
        let mut header = Header::new_gnu();
        let mode = data.mode() & 0o7777;
        let (uid, gid) = match access {
            Access::Write => self.owner,
            // Root's, so that the command cannot change it; what its own user could read and run, it still can.
            Access::Read => (0, 0),
        };
        header.set_uid(uid.into());
        header.set_gid(gid.into());
        header.set_mode(match access {
            Access::Write => mode,
            Access::Read => {
                let own = mode & 0o500;
                (own | own >> 3 | own >> 6 | mode & 0o555) & 0o555
            }
        });
        header.set_mtime(u64::try_from(data.mtime()).unwrap_or(0));
        let kind = data.file_type();
        if !kind.is_dir() && !kind.is_file() && !kind.is_symlink() {
            // Sockets, pipes and devices have no place in a tree of sources.
            return Ok(());
        }
        // Whole seconds are not enough for builds that compare times.
        append_time(archive, &data)?;
        if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, at, io::empty())
        } else if kind.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, at, fs::read_link(path)?)
        } else {
            header.set_entry_type(EntryType::Regular);
            header.set_size(data.len());
            // As many bytes as the header says, whatever becomes of the file meanwhile.
            let file = fs::File::open(path)?.take(data.len());
            archive.append_data(&mut header, at, file.chain(io::repeat(0)).take(data.len()))
        }
    }
}

/// What a command may do with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// An extended header (POSIX pax) with the time of the next entry.
fn append_time<W: Write>(archive: &mut Builder<W>, data: &std::fs::Metadata) -> io::Result<()> {
    let record = record("mtime", &format!("{}.{:09}", data.mtime(), data.mtime_nsec()));
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::XHeader);
    header.set_size(record.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_path("pax")?;
    header.set_cksum();
    archive.append(&header, record.as_bytes())
}

/// A pax record: its own length in decimal, a blank, `keyword=value`, a newline.
fn record(keyword: &str, value: &str) -> String {
    let rest = format!(" {keyword}={value}\n");
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

/// A writer whose bytes come out of a channel in pieces.
pub struct Pieces {
    out: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pieces {
    /// Into a channel; blocks while it is full.
    pub fn new(out: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self { out, buffer: Vec::with_capacity(CHUNK) }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        self.out.blocking_send(Ok(Bytes::from(piece))).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn records_hold_their_own_length() {
        assert_eq!(record("mtime", "1.5"), "13 mtime=1.5\n");
        for length in 0..120 {
            let record = record("k", &"v".repeat(length));
            assert_eq!(record.split(' ').next().unwrap().parse::<usize>().unwrap(), record.len());
        }
    }

    #[test]
    fn an_archive_holds_what_the_mounts_would_show() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("low/a", "low");
        write("low/gone/x", "");
        write("low/b", "b");
        write("top/a", "top");
        write("fixed/tool", "tool");
        std::os::unix::fs::symlink("a", place.path().join("top/link")).unwrap();
        fs::set_permissions(place.path().join("fixed/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let (top, low) = (place.path().join("top"), place.path().join("low"));
        let upload = Upload {
            mounts: vec![
                Mount::Overlay {
                    lowers: vec![top, low],
                    target: "/workspace".into(),
                    upper: None,
                    remove: vec!["gone/x".into(), "b".into()],
                },
                Mount::ReadOnly { source: place.path().join("fixed"), target: "/env/t".into() },
            ],
            owner: (77, 78),
            etc: Vec::new(),
            empty: place.path().to_owned(),
        };
        let mut out = Vec::new();
        upload.write(&mut out).unwrap();
        let mut archive = tar::Archive::new(&out[..]);
        let mut seen = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            seen.insert(path, (header.uid().unwrap(), header.mode().unwrap(), text));
        }
        let names: Vec<&str> = seen.keys().map(String::as_str).collect();
        assert_eq!(names, ["env/t", "env/t/tool", "workspace", "workspace/a", "workspace/link"]);
        assert_eq!((seen["workspace/a"].0, seen["workspace/a"].2.as_str()), (77, "top"));
        assert_eq!((seen["env/t/tool"].0, seen["env/t/tool"].1), (0, 0o555));
    }
}
