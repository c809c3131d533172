//! Who writes into a run folder: every process that does holds a lock on `scoring.lock` while it does, a shared one or,
//! when rows are laid out anew, one of its own. Who has one of its own knows that no other process writes, and may take
//! away what dead ones left half-written.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::atomic::TEMPORARY;
use super::lock;
use crate::fault;

/// The file that is locked. Everybody who comes leaves a mark in it, the last one who goes wipes it: it is empty unless
/// somebody writes into the folder, or died while they did.
pub(super) const LOCK: &str = "scoring.lock";

/// What everybody leaves in it.
const MARK: &[u8] = b"+";

/// A process's presence among those that write into a run folder.
#[derive(Debug)]
pub struct Door {
    root: PathBuf,
    file: File,
    /// Whether somebody else wrote into the folder when we came, or died while they did.
    unclean: bool,
}

impl Door {
    /// Comes in beside others; waits while one lays out rows.
    pub(super) fn open(root: &Path) -> std::io::Result<Self> {
        let mut file = lock::open(&root.join(LOCK))?;
        allowed(file.lock_shared())?;
        let unclean = file.metadata()?.len() > 0;
        // What does not fit on a full disk leaves temporary files there if we die, and no more.
        let _ = file.write_all(MARK);
        if !unclean {
            let _ = file.sync_all();
        }
        fault::point("run.door.open");
        Ok(Self { root: root.to_owned(), file, unclean })
    }

    /// Tries to be alone.
    pub(super) fn enter(mut self) -> std::io::Result<Entered> {
        let (alone, locks) = self.try_alone()?;
        if alone && locks {
            self.clean()?;
            let _ = self.file.set_len(MARK.len() as u64);
            fault::point("run.door.locked");
        }
        Ok(Entered { door: self, alone })
    }

    /// Whether no other process writes, and whether the file system has locks. Without them we are taken as alone.
    fn try_alone(&self) -> std::io::Result<(bool, bool)> {
        match self.file.try_lock() {
            Ok(()) => Ok((true, true)),
            Err(TryLockError::WouldBlock) => {
                // The lock that was tried took the place of the shared one.
                self.file.lock_shared()?;
                Ok((false, true))
            }
            Err(TryLockError::Error(_)) => Ok((true, false)),
        }
    }

    /// Takes away temporary files, and the end of a last event that was not written whole.
    fn clean(&mut self) -> std::io::Result<()> {
        // Who came after us may have died, too.
        let others = self.file.metadata()?.len() > MARK.len() as u64;
        if std::mem::take(&mut self.unclean) || others {
            for folder in ["", "rows", "records", "blobs", "report"] {
                let depth = if folder.is_empty() { 1 } else { usize::MAX };
                for entry in walkdir::WalkDir::new(self.root.join(folder)).max_depth(depth).into_iter().flatten() {
                    if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                        // One that stays is in nobody's way.
                        let _ = fs_err::remove_file(entry.path());
                    }
                }
            }
        }
        mend_events(&self.root.join("events.jsonl"))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // The last one out leaves nothing; where that fails, the next one in does it.
        if matches!(self.try_alone(), Ok((true, true))) && self.clean().is_ok() {
            let _ = self.file.set_len(0);
        }
    }
}

/// Cuts an event log after its last whole line.
fn mend_events(path: &Path) -> std::io::Result<()> {
    // Longer than most events: as a rule one look is enough.
    const BLOCK: u64 = 4096;
    let mut file = match fs_err::OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length { file.set_len(end) } else { Ok(()) }
}

fn allowed(locked: std::io::Result<()>) -> std::io::Result<()> {
    match locked {
        Err(error) if error.kind() != std::io::ErrorKind::Unsupported => Err(error),
        _ => Ok(()),
    }
}

/// A process's place among those that score into a run folder: see [`RunFolder::enter`](super::RunFolder::enter).
#[derive(Debug)]
pub struct Entered {
    door: Door,
    alone: bool,
}

impl Entered {
    /// Whether no other process was scoring into the folder. Others wait until [`Entered::share`].
    pub fn alone(&self) -> bool {
        self.alone
    }

    /// Lets others in.
    ///
    /// # Errors
    /// What the file system says.
    pub fn share(&self) -> Result<(), super::StoreError> {
        allowed(self.door.file.lock_shared())?;
        fault::point("run.door.shared");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_event_that_is_not_whole_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let long = "x".repeat(200_000);
        let cases = [
            ("{}\n{}\n".to_owned(), 6),
            ("{}\n{\"ev".to_owned(), 3),
            ("{\"ev".to_owned(), 0),
            (String::new(), 0),
            (format!("{{}}\n{long}"), 3),
            ("{}\n\0\0\0\0".to_owned(), 3),
        ];
        for (text, left) in cases {
            fs_err::write(&path, &text).unwrap();
            mend_events(&path).unwrap();
            assert_eq!(fs_err::read_to_string(&path).unwrap(), text[..left]);
        }
        mend_events(&dir.path().join("none")).unwrap();
    }

    #[test]
    fn temporary_files_of_the_dead_go_when_nobody_else_writes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let left = [at(".tmp-a"), at("rows/aa/.tmp-b"), at("records/oracle/bb/.tmp-c"), at("report/.tmp-d")];
        let put = || {
            for path in &left {
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                fs_err::write(path, "").unwrap();
            }
        };
        let there = || left.iter().filter(|path| path.exists()).count();
        put();
        // A clean end: an empty lock says that there is nothing to look for.
        Door::open(dir.path()).unwrap().enter().unwrap();
        assert_eq!(there(), 4);
        // A death: the mark stays.
        fs_err::write(at(LOCK), "+").unwrap();
        let other = Door::open(dir.path()).unwrap();
        let entered = Door::open(dir.path()).unwrap().enter().unwrap();
        assert!(!entered.alone() && there() == 4);
        drop(entered);
        assert_eq!(there(), 4);
        // The last one out does it.
        drop(other);
        assert_eq!((there(), fs_err::metadata(at(LOCK)).unwrap().len()), (0, 0));
        put();
        fs_err::write(at(LOCK), "+").unwrap();
        let first = Door::open(dir.path()).unwrap().enter().unwrap();
        assert!(first.alone());
        assert_eq!(there(), 0);
        first.share().unwrap();
        // Another one comes, and dies while the first is there.
        put();
        fs_err::write(at(LOCK), "++").unwrap();
        drop(first);
        assert_eq!((there(), fs_err::metadata(at(LOCK)).unwrap().len()), (0, 0));
    }
}
