//! This machine: so many oracle runs at once, and two ways of being asked to stop.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Hands out slots for oracle runs and environment builds.
#[derive(Debug, Clone)]
pub struct Scheduler {
    slots: Arc<Semaphore>,
    jobs: usize,
    /// Fires when nothing new may start; what runs may finish.
    pub drain: CancellationToken,
    /// Fires when everything must end now.
    pub stop: CancellationToken,
}

impl Scheduler {
    /// A scheduler of `jobs` slots, at least one.
    pub fn new(jobs: usize) -> Self {
        let jobs = jobs.max(1);
        Self {
            slots: Arc::new(Semaphore::new(jobs)),
            jobs,
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
        }
    }

    /// How many slots there are.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// Waits for a slot; `None` when nothing new may start.
    pub async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let permit = tokio::select! {
            biased;
            () = self.drain.cancelled() => return None,
            () = self.stop.cancelled() => return None,
            permit = self.slots.clone().acquire_owned() => permit.ok()?,
        };
        (!self.is_stopping()).then_some(permit)
    }

    /// Whether nothing new may start.
    pub fn is_stopping(&self) -> bool {
        self.drain.is_cancelled() || self.stop.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiting_task_gets_no_slot_once_the_run_drains() {
        let scheduler = Scheduler::new(1);
        let held = scheduler.slot().await.unwrap();
        let waiting = tokio::spawn({
            let scheduler = scheduler.clone();
            async move { scheduler.slot().await.is_none() }
        });
        scheduler.drain.cancel();
        assert!(waiting.await.unwrap());
        drop(held);
        assert!(scheduler.slot().await.is_none());
    }
}
