//! The memory limit where there is no cgroup: PID 1 of the sandbox looks at the whole tree's use many times a second.

use fs_err as fs;

use super::hidden::Hidden;

/// How often to look, in milliseconds.
pub const PERIOD: i64 = 25;

/// Watches the processes of this PID namespace, and the memory-backed file systems.
///
/// What it cannot see: what lies in pipes and sockets, a memory file that is under way in one included.
pub struct Watcher {
    limit: u64,
    page: u64,
    peak: u64,
    hidden: Hidden,
}

/// What one process uses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Use {
    own: u64,
    shared: u64,
}

impl Watcher {
    /// For a limit in bytes. `own_segments`: whether System V segments in sight are the sandbox's own.
    pub fn new(limit: u64, own_segments: bool) -> Self {
        Self { limit, page: page_size(), peak: 0, hidden: Hidden::new(own_segments) }
    }

    /// The most that was seen, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Looks once; whether the tree is over its limit.
    pub fn is_over(&mut self) -> bool {
        let scratch = rustix::fs::statfs("/tmp")
            .map(|stat| (stat.f_blocks - stat.f_bfree).saturating_mul(stat.f_bsize.cast_unsigned()))
            .unwrap_or(0);
        let pids = pids();
        // Files without a process, like those of the memory-backed file systems.
        let files = scratch + self.hidden.bytes(&pids);
        // Cheap, and never too low: pages that forked processes share are counted for each.
        let quick: Vec<Use> = pids.iter().filter_map(|pid| self.quick(*pid)).collect();
        let own: u64 = quick.iter().map(|part| part.own).sum();
        let shared: u64 = quick.iter().map(|part| part.shared).sum();
        if own + shared + files <= self.limit {
            self.peak = self.peak.max(own + files);
            return false;
        }
        // Exact: a shared page is divided by the number of those who share it. Memory-backed files are in `files`
        // whether mapped or not, so only what is mapped beyond them counts.
        let exact: Vec<Use> = pids.iter().filter_map(|pid| self.exact(*pid)).collect();
        let shared: u64 = exact.iter().map(|part| part.shared).sum();
        let total = exact.iter().map(|part| part.own).sum::<u64>() + shared.max(files);
        self.peak = self.peak.max(total);
        total > self.limit
    }

    fn quick(&self, pid: u32) -> Option<Use> {
        parse_statm(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?, self.page)
    }

    fn exact(&self, pid: u32) -> Option<Use> {
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => Some(parse_rollup(&text)),
            // It ended, or may not be looked at.
            Err(_) => self.quick(pid).map(|part| Use { shared: 0, ..part }),
        }
    }
}

fn page_size() -> u64 {
    // SAFETY: plain library call.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// All processes but this one.
fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != 1).collect()
}

/// Fields 2 (resident) and 3 (of these, of files or shared) of `/proc/PID/statm`, in pages.
fn parse_statm(text: &str, page: u64) -> Option<Use> {
    let mut fields = text.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(Use { own: resident.saturating_sub(shared) * page, shared: shared * page })
}

/// Proportional sizes in `/proc/PID/smaps_rollup`, in KiB. Pages of ordinary files can be dropped, so don't count.
fn parse_rollup(text: &str) -> Use {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
            * 1024
    };
    Use { own: field("Pss_Anon") + field("SwapPss"), shared: field("Pss_Shmem") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statm_is_split_into_own_and_shared() {
        assert_eq!(parse_statm("1000 50 20 1 0 30 0\n", 4096), Some(Use { own: 30 * 4096, shared: 20 * 4096 }));
        assert_eq!(parse_statm("", 4096), None);
    }

    #[test]
    fn rollup_counts_anonymous_swapped_and_shared_memory() {
        let text = "55-7f ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nPss: 800 kB\nPss_Anon:  500 kB\n\
                    Pss_File: 200 kB\nPss_Shmem: 100 kB\nSwap: 9 kB\nSwapPss: 7 kB\n";
        assert_eq!(parse_rollup(text), Use { own: 507 * 1024, shared: 100 * 1024 });
    }
}
