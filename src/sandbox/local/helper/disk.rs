//! The limit on what a run leaves on the host's disk, in the directories that are kept: seen from outside.
//!
//! No quota can be counted on, so the free space is watched: a run cannot write what does not go missing there. Only when
//! enough is missing, perhaps by the work of others, its directories are measured.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::protocol::Job;
use crate::sandbox::Mount;

/// The shortest time between two looks at the free space.
const PAUSE: Duration = Duration::from_millis(100);
/// Measuring may take this part of the time at most.
const SHARE: u32 = 10;
/// So much of a limit in bytes is one file more: what a file costs beside its content.
const PER_FILE: u64 = 4096;

/// Watches the kept directories of a job.
pub struct Disk {
    kept: Vec<Kept>,
    limit: u64,
    next: Instant,
}

struct Kept {
    place: PathBuf,
    /// What the run found there, which is not its doing.
    before: u64,
    free: Option<Free>,
}

/// What a file system has left.
#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: u64,
    files: u64,
}

impl Disk {
    /// Must be made before the command starts.
    pub fn new(job: &Job) -> Self {
        let places = job.task.mounts.iter().filter_map(|mount| match mount {
            Mount::ReadWrite { source, .. } => Some(source),
            Mount::Overlay { upper, .. } => upper.as_ref(),
            Mount::ReadOnly { .. } => None,
        });
        let kept = places.map(|place| Kept { place: place.clone(), before: size(place), free: free(place) }).collect();
        Self { kept, limit: job.task.limits.disk, next: Instant::now() + PAUSE }
    }

    /// Whether there is something to watch.
    pub fn watches(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Looks, when it is time to; whether the run has written more than it may.
    pub fn is_over(&mut self) -> bool {
        let begin = Instant::now();
        if self.kept.is_empty() || begin < self.next {
            return false;
        }
        let missing = self.kept.iter().any(|kept| match (kept.free, free(&kept.place)) {
            (Some(before), Some(now)) => {
                let bytes = before.bytes.saturating_sub(now.bytes);
                let files = before.files.saturating_sub(now.files);
                bytes.saturating_add(files.saturating_mul(PER_FILE)) > self.limit
            }
            _ => true,
        });
        let over = missing && {
            let written = self.kept.iter().map(|kept| size(&kept.place).saturating_sub(kept.before));
            written.fold(0, u64::saturating_add) > self.limit
        };
        self.next = Instant::now() + PAUSE.max(begin.elapsed() * SHARE);
        over
    }
}

fn free(place: &Path) -> Option<Free> {
    let stat = rustix::fs::statvfs(place).ok()?;
    Some(Free { bytes: stat.f_bfree.saturating_mul(stat.f_frsize), files: stat.f_ffree })
}

/// Bytes on disk below a directory, and something for each file. What may not be looked into is endless.
fn size(place: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum: u64 = 0;
    for entry in walkdir::WalkDir::new(place).same_file_system(true) {
        match entry.and_then(|entry| entry.metadata()) {
            Ok(data) => {
                // A file with several names is shared out among them.
                let blocks = data.blocks().saturating_mul(512) / data.nlink().max(1);
                sum = sum.saturating_add(if data.is_dir() { 0 } else { blocks }).saturating_add(PER_FILE);
            }
            Err(error) if error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound) => {}
            Err(_) => return u64::MAX,
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    #[test]
    fn files_are_measured_by_their_blocks_and_their_number() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("full"), vec![1; 100_000]).unwrap();
        let full = size(dir.path());
        assert!((100_000..200_000).contains(&full), "{full}");
        fs::File::create(dir.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        for number in 0..10 {
            fs::hard_link(dir.path().join("full"), dir.path().join(number.to_string())).unwrap();
        }
        let many = size(dir.path());
        assert!(many > full + 8 * PER_FILE && many < full + 200_000, "{full} {many}");
    }
}
