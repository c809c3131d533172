//! The low-water mark: nothing new is started while a disk that the run writes to has little room.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::deadline::time;
use super::{Event, Events};

/// How often a full disk is looked at again.
const LOOK: Duration = Duration::from_millis(500);
/// With less than this no result is believed: what failed may have failed for want of room.
const FLOOR: u64 = 4 << 20;

/// A folder that the run writes to.
#[derive(Debug, Clone)]
pub struct Place {
    /// What it is, for people.
    pub name: &'static str,
    /// Where.
    pub path: PathBuf,
}

/// Deletes what is ours and unused; gives how many entries went.
pub type FreeUp = Box<dyn Fn() -> usize + Send + Sync>;

/// Watches the room on disks.
pub struct DiskGuard {
    places: Vec<Place>,
    mark: u64,
    patience: Duration,
    free_up: Option<FreeUp>,
    events: Events,
    /// Whoever finds too little room first waits for more, and the others behind it.
    turn: Mutex<()>,
}

impl std::fmt::Debug for DiskGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskGuard").field("places", &self.places).field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl DiskGuard {
    /// A guard over these folders: with less than `mark` bytes free in one of them it waits, for `patience` at most.
    /// `free_up` is called when that begins.
    pub fn new(places: Vec<Place>, mark: u64, patience: Duration, free_up: Option<FreeUp>, events: Events) -> Self {
        Self { places, mark, patience, free_up, events, turn: Mutex::new(()) }
    }

    /// Waits until there is room, or until `stop` fires.
    ///
    /// # Errors
    /// When patience is over, with what to tell.
    pub async fn room(&self, stop: &[&CancellationToken]) -> Result<(), String> {
        if self.low(self.mark).is_none() {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        let Some(mut said) = self.low(self.mark) else { return Ok(()) };
        if stop.iter().any(|token| token.is_cancelled()) {
            return Ok(());
        }
        if let Some(free_up) = &self.free_up {
            let gone = tokio::task::block_in_place(free_up);
            self.note(format!("disk: {said}; deleted {gone} unused entries of the cache"));
            match self.low(self.mark) {
                Some(still) => said = still,
                None => return Ok(()),
            }
        }
        self.note(format!(
            "disk: {said}: starting nothing new until there is more (waiting for {} at most; `--min-free` sets the mark)",
            time(self.patience)
        ));
        let began = Instant::now();
        while self.low(self.mark).is_some() {
            if stop.iter().any(|token| token.is_cancelled()) {
                return Ok(());
            }
            if began.elapsed() >= self.patience {
                return Err(format!("{said}, and no more for {}", time(self.patience)));
            }
            tokio::time::sleep(LOOK.min(self.patience)).await;
        }
        self.note("disk: there is room again: going on".to_owned());
        Ok(())
    }

    /// What is said of a disk that is as good as full: no result of now is to be believed.
    pub fn is_full(&self) -> Option<String> {
        self.low(FLOOR.min(self.mark))
    }

    fn low(&self, mark: u64) -> Option<String> {
        self.places.iter().find_map(|place| {
            let free = free(&place.path)?;
            (free < mark).then(|| {
                format!(
                    "{} of {} free where the {} lies (`{}`)",
                    size(free),
                    size(mark),
                    place.name,
                    place.path.display()
                )
            })
        })
    }

    fn note(&self, text: String) {
        self.events.send(Event::Note { text });
    }
}

/// Free bytes where `path` lies or will lie; `None` when the system does not say.
pub(super) fn free(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether a disk is as good as full: with less than this nothing is believed that ran there, whatever it says itself.
/// Programs go on where a file could not be written, or forget to look.
pub(crate) fn is_nothing_left(path: &Path) -> bool {
    const NOTHING: u64 = 1 << 20;
    free(path).is_some_and(|free| free < NOTHING)
}

/// Bytes for people: `4 KiB`, `5 MiB`, `20 GiB`.
pub fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib @ 1..10_240 => format!("{mib} MiB"),
        mib => format!("{} GiB", mib >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(mark: u64, patience: Duration) -> DiskGuard {
        let places = vec![Place { name: "cache", path: std::env::temp_dir().join("not/there/yet") }];
        DiskGuard::new(places, mark, patience, None, Events::channel().0)
    }

    #[tokio::test]
    async fn patience_ends_and_a_stop_ends_it_earlier() {
        assert_eq!(guard(0, Duration::from_secs(9)).room(&[]).await, Ok(()));
        let full = guard(u64::MAX, Duration::from_millis(1));
        let said = full.room(&[]).await.unwrap_err();
        assert!(said.contains("free where the cache lies") && said.ends_with("and no more for 0.001 s"), "{said}");
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(guard(u64::MAX, Duration::from_secs(9999)).room(&[&stop]).await, Ok(()));
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!([size(4096), size(5 << 20), size(20 << 30)], ["4 KiB", "5 MiB", "20 GiB"]);
    }
}
