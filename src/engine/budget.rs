//! What a machine gives to environment builds: so many at once, so much memory, and room on the disk of the cache.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::deadline::time;
use super::disk::{free, size};

/// How often a full disk is looked at again.
const LOOK: Duration = Duration::from_millis(500);

/// What is said while a build waits.
pub type Tell<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Makes room in the cache, so that so many bytes more fit under its limit; gives what to tell, if anything.
///
/// # Errors
/// What to say when they don't fit.
pub type MakeRoom = Box<dyn Fn(u64) -> Result<Option<String>, String> + Send + Sync>;

/// The budget that all builds of a process share. Cheap to clone.
#[derive(Clone)]
pub struct BuildBudget(Arc<Inner>);

struct Inner {
    builds: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    mib: u32,
    room: Option<BuildRoom>,
    /// Bytes that builds which run are expected to write.
    expected: Mutex<u64>,
}

/// When builds wait for the disk.
pub struct BuildRoom {
    /// The cache folder.
    pub cache: PathBuf,
    /// No build begins with fewer free bytes than this and what it is expected to write; 0: never wait.
    pub mark: u64,
    /// How long to wait.
    pub patience: Duration,
    /// Holds the cache under its limit, where it has one.
    pub make_room: Option<MakeRoom>,
    /// Deletes unused entries when there is too little free; gives how many went.
    pub free_up: Option<super::FreeUp>,
}

/// What one build needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildNeed {
    /// The most memory that its steps may take, in bytes.
    pub memory: u64,
    /// What it will leave on disk, in bytes, by what earlier ones left; 0 where nothing is known.
    pub disk: u64,
}

/// The right to build, until it is dropped.
#[derive(Debug)]
pub struct BuildPermit {
    _build: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
    budget: BuildBudget,
    disk: u64,
}

impl std::fmt::Debug for BuildBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildBudget").field("memory", &self.0.mib).finish_non_exhaustive()
    }
}

impl BuildBudget {
    /// At most `builds` at once, whose steps take at most `memory` bytes together. One build always may run, whatever it
    /// needs.
    pub fn new(builds: usize, memory: u64, room: Option<BuildRoom>) -> Self {
        let mib = in_mib(memory).max(1);
        Self(Arc::new(Inner {
            builds: Arc::new(Semaphore::new(builds.max(1))),
            memory: Arc::new(Semaphore::new(mib as usize)),
            mib,
            room,
            expected: Mutex::new(0),
        }))
    }

    /// Waits until a build may begin; `None` when `cancel` fires first.
    ///
    /// # Errors
    /// When there is no room on the disk for it and none comes, with what to tell.
    pub async fn admit(
        &self,
        need: BuildNeed,
        tell: Tell<'_>,
        cancel: &CancellationToken,
    ) -> Result<Option<BuildPermit>, String> {
        let inner = &self.0;
        let wait = async {
            let build = inner.builds.clone().acquire_owned().await.ok()?;
            let memory = inner.memory.clone().acquire_many_owned(in_mib(need.memory).clamp(1, inner.mib)).await.ok()?;
            Some((build, memory))
        };
        let permits = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            permits = wait => permits,
        };
        let Some((build, memory)) = permits else { return Ok(None) };
        // Reserved before the look, so that two that begin at once don't both count on the same room.
        let expected = {
            let mut expected = inner.expected.lock().unwrap_or_else(PoisonError::into_inner);
            *expected = expected.saturating_add(need.disk);
            *expected
        };
        let permit = BuildPermit { _build: build, _memory: memory, budget: self.clone(), disk: need.disk };
        let Some(room) = &inner.room else { return Ok(Some(permit)) };
        Ok(room.wait(expected, tell, cancel).await?.then_some(permit))
    }
}

impl Drop for BuildPermit {
    fn drop(&mut self) {
        let mut expected = self.budget.0.expected.lock().unwrap_or_else(PoisonError::into_inner);
        *expected = expected.saturating_sub(self.disk);
    }
}

impl BuildRoom {
    /// Waits for room for so many bytes; false when `cancel` fires first.
    async fn wait(&self, bytes: u64, tell: Tell<'_>, cancel: &CancellationToken) -> Result<bool, String> {
        if let Some(make_room) = &self.make_room
            && let Some(said) = blocking(|| make_room(bytes))?
        {
            tell(&said);
        }
        let wanted = self.mark.saturating_add(bytes);
        let low = || match free(&self.cache) {
            Some(free) if self.mark > 0 && free < wanted => Some(self.said(free, wanted, bytes)),
            _ => None,
        };
        if low().is_none() {
            return Ok(true);
        }
        if let Some(free_up) = &self.free_up {
            let gone = blocking(free_up);
            tell(&format!("disk: deleted {gone} unused entries of the cache"));
        }
        let Some(said) = low() else { return Ok(true) };
        tell(&format!("disk: {said}: waiting for more, for {} at most", time(self.patience)));
        let began = Instant::now();
        while let Some(said) = low() {
            if cancel.is_cancelled() {
                return Ok(false);
            }
            if began.elapsed() >= self.patience {
                return Err(format!("{said}, and no more for {}", time(self.patience)));
            }
            tokio::select! {
                () = cancel.cancelled() => return Ok(false),
                () = tokio::time::sleep(LOOK.min(self.patience)) => {}
            }
        }
        Ok(true)
    }

    fn said(&self, free: u64, wanted: u64, expected: u64) -> String {
        let (have, wanted) = (size(free), size(wanted));
        let cache = self.cache.display();
        match expected {
            0 => format!("{have} free where the cache lies (`{cache}`), {wanted} wanted"),
            _ => format!(
                "{have} free where the cache lies (`{cache}`), {wanted} wanted, {} of it for builds by what earlier ones took",
                size(expected)
            ),
        }
    }
}

/// Blocking work in the middle of a task, in both kinds of runtime.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn in_mib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX).min(1 << 28)
}

/// Memory of this machine that builds may take together, in bytes: what is available now, where the system says so.
pub fn available_memory() -> Option<u64> {
    let text = fs_err::read_to_string(Path::new("/proc/meminfo")).ok()?;
    available_in(&text)
}

fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_room(mark: u64, make_room: Option<MakeRoom>) -> BuildBudget {
        let room = BuildRoom {
            cache: std::env::temp_dir(),
            mark,
            patience: Duration::from_millis(1),
            make_room,
            free_up: None,
        };
        BuildBudget::new(4, 8 << 30, Some(room))
    }

    const GIB: u64 = 1 << 30;

    #[tokio::test]
    async fn builds_share_the_number_and_the_memory_and_one_always_may_run() {
        let cancel = CancellationToken::new();
        let quiet = |_: &str| {};
        let need = |memory| BuildNeed { memory, disk: 0 };
        let budget = BuildBudget::new(3, 8 * GIB, None);
        let first = budget.admit(need(4 * GIB), &quiet, &cancel).await.unwrap().unwrap();
        let second = budget.admit(need(4 * GIB), &quiet, &cancel).await.unwrap().unwrap();
        let mut third = tokio_test_poll(budget.admit(need(GIB), &quiet, &cancel)).await;
        assert!(third.is_none(), "there is a slot, and no memory");
        drop(first);
        third = tokio_test_poll(budget.admit(need(GIB), &quiet, &cancel)).await;
        assert!(third.is_some());
        assert!(tokio_test_poll(budget.admit(need(0), &quiet, &cancel)).await.is_some(), "the third slot");
        drop((second, third));
        // More than there is: it has all of it.
        assert!(budget.admit(need(64 * GIB), &quiet, &cancel).await.unwrap().is_some());
        cancel.cancel();
        assert!(budget.admit(need(0), &quiet, &cancel).await.unwrap().is_none());
    }

    /// The permit, if it is to be had at once.
    async fn tokio_test_poll(admit: impl Future<Output = Result<Option<BuildPermit>, String>>) -> Option<BuildPermit> {
        tokio::time::timeout(Duration::from_millis(20), admit).await.ok().and_then(|permit| permit.unwrap())
    }

    #[tokio::test]
    async fn a_build_that_does_not_fit_is_not_begun_and_says_what_it_needs() {
        let cancel = CancellationToken::new();
        let told = Mutex::new(Vec::new());
        let tell = |text: &str| told.lock().unwrap().push(text.to_owned());
        let need = BuildNeed { memory: 1, disk: u64::MAX / 2 };
        let said = no_room(1, None).admit(need, &tell, &cancel).await.unwrap_err();
        assert!(said.contains("for builds by what earlier ones took, and no more for"), "{said}");
        assert!(told.lock().unwrap()[0].starts_with("disk: "), "{told:?}");
        // Without a mark nobody waits.
        assert!(no_room(0, None).admit(need, &tell, &cancel).await.unwrap().is_some());
        let full: MakeRoom = Box::new(|bytes| Err(format!("no room for {bytes}")));
        let need = BuildNeed { memory: 1, disk: 7 };
        assert_eq!(no_room(0, Some(full)).admit(need, &tell, &cancel).await.unwrap_err(), "no room for 7");
    }

    #[tokio::test]
    async fn what_others_are_about_to_write_counts() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let note = asked.clone();
        let make_room: MakeRoom = Box::new(move |bytes| {
            note.lock().unwrap().push(bytes);
            Ok(None)
        });
        let (budget, cancel, quiet) = (no_room(0, Some(make_room)), CancellationToken::new(), |_: &str| {});
        let need = |disk| BuildNeed { memory: 1, disk };
        let first = budget.admit(need(5), &quiet, &cancel).await.unwrap();
        let _second = budget.admit(need(7), &quiet, &cancel).await.unwrap();
        drop(first);
        let _third = budget.admit(need(1), &quiet, &cancel).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), [5, 12, 8]);
    }

    #[test]
    fn available_memory_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:       16384256 kB\nMemFree:  1 kB\nMemAvailable:   12345678 kB\n";
        assert_eq!(available_in(text), Some(12_345_678 * 1024));
        assert_eq!(available_in("MemTotal: 1 kB\n"), None);
    }
}
