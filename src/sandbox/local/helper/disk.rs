//! The limit on what a run leaves on the host's disk, in the directories that are kept: measured from outside, as no quota
//! can be counted on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sandbox::{Mount, Task};

/// The shortest time between two measurements.
const PAUSE: Duration = Duration::from_millis(200);
/// Measuring takes one part in so many of the time at most.
const SHARE: u32 = 20;
/// What a file costs beside its content, in bytes.
const PER_FILE: u64 = 4096;

/// Watches directories that are kept.
pub struct Disk {
    kept: Vec<Kept>,
    limit: u64,
    next: Instant,
}

struct Kept {
    place: PathBuf,
    /// What the run found there, which is not its doing.
    before: u64,
}

impl Disk {
    /// The kept directories of a task. Must be made before the command starts.
    pub fn new(task: &Task) -> Self {
        let places = task.mounts.iter().filter_map(|mount| match mount {
            Mount::ReadWrite { source, .. } => Some(source),
            Mount::Overlay { upper, .. } => upper.as_ref(),
            Mount::ReadOnly { .. } => None,
        });
        Self::of(places.cloned(), task.limits.disk)
    }

    /// These directories, which together may grow by `limit` bytes.
    pub fn of(places: impl IntoIterator<Item = PathBuf>, limit: u64) -> Self {
        let kept = places.into_iter().map(|place| Kept { before: disk_size(&place), place }).collect();
        Self { kept, limit, next: Instant::now() + PAUSE }
    }

    /// Whether there is something to watch.
    pub fn watches(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Measures, when it is time to; whether the run has written more than it may.
    pub fn is_over(&mut self) -> bool {
        let begin = Instant::now();
        if self.kept.is_empty() || begin < self.next {
            return false;
        }
        let over = self.measure();
        self.next = Instant::now() + PAUSE.max(begin.elapsed() * SHARE);
        over
    }

    /// Measures now.
    pub fn measure(&self) -> bool {
        let written = self.kept.iter().map(|kept| disk_size(&kept.place).saturating_sub(kept.before));
        written.fold(0, u64::saturating_add) > self.limit
    }
}

/// Bytes on disk below a directory, and something for each file. What may not be looked into is endless.
pub fn disk_size(place: &Path) -> u64 {
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
        let full = disk_size(dir.path());
        assert!((100_000..200_000).contains(&full), "{full}");
        fs::File::create(dir.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        for number in 0..10 {
            fs::hard_link(dir.path().join("full"), dir.path().join(number.to_string())).unwrap();
        }
        let many = disk_size(dir.path());
        assert!(many > full + 8 * PER_FILE && many < full + 200_000, "{full} {many}");
    }
}
