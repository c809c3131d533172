//! This machine: so many oracle runs at once, two ways of being asked to stop, and one of closing by itself.

use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::DiskGuard;
use crate::model::InfraReason;

/// Hands out slots for oracle runs and environment builds.
#[derive(Debug, Clone)]
pub struct Scheduler {
    slots: Arc<Semaphore>,
    jobs: usize,
    /// Fires when nothing new may start; what runs may finish.
    pub drain: CancellationToken,
    /// Fires when everything must end now.
    pub stop: CancellationToken,
    closing: CancellationToken,
    closed: Arc<OnceLock<Closed>>,
    disk: Option<Arc<DiskGuard>>,
}

/// Why the run itself starts nothing new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// What the rest ends as.
    pub class: InfraReason,
    /// What happened.
    pub detail: String,
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
            closing: CancellationToken::new(),
            closed: Arc::default(),
            disk: None,
        }
    }

    /// The same scheduler, which waits while a disk has too little room.
    #[must_use]
    pub fn guarded(self, disk: DiskGuard) -> Self {
        Self { disk: Some(Arc::new(disk)), ..self }
    }

    /// The guard of the disks, where there is one.
    pub fn disk(&self) -> Option<&DiskGuard> {
        self.disk.as_deref()
    }

    /// Starts nothing new from now on; what runs goes on to its end. The first reason stays. True for the first.
    pub fn close(&self, why: Closed) -> bool {
        let first = self.closed.set(why).is_ok();
        self.closing.cancel();
        first
    }

    /// Why the run itself starts nothing new.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.get()
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
            () = self.closing.cancelled() => return None,
            permit = self.slots.clone().acquire_owned() => permit.ok()?,
        };
        self.has_room().await.then_some(permit)
    }

    /// Waits for room on the disks; false when nothing new may start.
    pub async fn has_room(&self) -> bool {
        if let Some(disk) = &self.disk
            && !self.is_stopping()
            && let Err(said) = disk.room(&[&self.drain, &self.stop, &self.closing]).await
        {
            self.close(Closed { class: InfraReason::Disk, detail: format!("stopped: {said}") });
        }
        !self.is_stopping()
    }

    /// Whether somebody asked the run to stop.
    pub fn is_interrupted(&self) -> bool {
        self.drain.is_cancelled() || self.stop.is_cancelled()
    }

    /// Whether nothing new may start, for whatever reason.
    pub fn is_stopping(&self) -> bool {
        self.is_interrupted() || self.closing.is_cancelled()
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

    #[tokio::test]
    async fn a_scheduler_that_closes_itself_is_not_interrupted() {
        let scheduler = Scheduler::new(1);
        let why = |detail: &str| Closed { class: InfraReason::Sandbox, detail: detail.to_owned() };
        assert!(scheduler.close(why("first")));
        assert!(!scheduler.close(why("second")));
        assert!(scheduler.slot().await.is_none());
        assert_eq!(scheduler.closed(), Some(&why("first")));
        assert!(scheduler.is_stopping() && !scheduler.is_interrupted());
    }
}
