//! Memory that no process has mapped, and that no file system counts: memory files and System V segments.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use fs_err as fs;

/// The shortest time between two counts.
const PAUSE: Duration = Duration::from_millis(100);
/// Processes with very many open files make a count long; it may take this part of the time at most.
const SHARE: u32 = 10;

/// Counts it from time to time.
pub struct Hidden {
    own_segments: bool,
    bytes: u64,
    next: Instant,
}

impl Hidden {
    /// `own_segments`: whether the System V segments in sight are the sandbox's own, and not the host's.
    pub fn new(own_segments: bool) -> Self {
        Self { own_segments, bytes: 0, next: Instant::now() + PAUSE }
    }

    /// Bytes of all memory files that these processes have open, and of all segments, at the last count.
    pub fn bytes(&mut self, pids: &[u32]) -> u64 {
        let begin = Instant::now();
        if begin >= self.next {
            self.bytes = memory_files(pids);
            if self.own_segments {
                self.bytes += fs::read_to_string("/proc/sysvipc/shm").map_or(0, |text| segments(&text));
            }
            self.next = Instant::now() + PAUSE.max(begin.elapsed() * SHARE);
        }
        self.bytes
    }
}

/// Each file counts once, however many processes have it open.
fn memory_files(pids: &[u32]) -> u64 {
    let mut found = HashMap::new();
    for pid in pids {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for entry in entries.flatten() {
            let is_one = std::fs::read_link(entry.path())
                .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
            if let Some(data) = is_one.then(|| std::fs::metadata(entry.path()).ok()).flatten() {
                found.insert((data.dev(), data.ino()), data.blocks().saturating_mul(512));
            }
        }
    }
    found.into_values().sum()
}

/// The sum of the column `rss` in `/proc/sysvipc/shm`, which is in bytes.
fn segments(text: &str) -> u64 {
    let mut lines = text.lines();
    let Some(column) = lines.next().and_then(|line| line.split_whitespace().position(|name| name == "rss")) else {
        return 0;
    };
    lines.filter_map(|line| line.split_whitespace().nth(column)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn segments_are_summed_by_what_is_in_memory() {
        let text = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
                    atime      dtime      ctime                   rss                  swap\n\
                    1380253703          3   666                  4096  4711     0      0     0     0     0     0          \
                    0          0 1764457812                  8192                     0\n\
                    0          4   600              16777216  4711     0      1     0     0     0     0          \
                    0          0 1764457812                  4096                     0\n";
        assert_eq!(segments(text), 12_288);
        assert_eq!(segments(""), 0);
    }

    #[test]
    fn a_memory_file_counts_once_and_by_its_blocks() {
        let own = std::process::id();
        let before = memory_files(&[own]);
        let file = rustix::fs::memfd_create("counted", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(file);
        file.set_len(1 << 30).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        let _again = file.try_clone().unwrap();
        // Other tests of this process may have some of their own.
        let now = memory_files(&[own, own]);
        assert!(now >= before + (1 << 20) && now < before + (64 << 20), "{before} {now}");
    }
}
