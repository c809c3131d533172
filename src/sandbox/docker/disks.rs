//! The limits on what a run leaves on disk, measured beside it: in the directories of the host that it writes to, or in its
//! container's own layer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::container::Container;
use crate::sandbox::local::{Disk, disk_size};
use crate::sandbox::{Mount, Task};

/// How often the directories are looked at; measuring them has a pace of its own.
const LOOK: Duration = Duration::from_millis(100);
/// How often a container's own layer is measured: the engine walks through it.
const MEASURE: Duration = Duration::from_secs(2);

/// The host's directories that a run writes to.
pub struct Disks {
    /// Those that are kept.
    kept: Mutex<Disk>,
    /// Those that are thrown away.
    thrown: Mutex<Disk>,
}

impl Disks {
    /// Measures what is there before the command starts. It walks through all of it.
    pub fn new(task: &Task, thrown: Vec<PathBuf>) -> Self {
        Self { kept: Mutex::new(Disk::new(task)), thrown: Mutex::new(Disk::of(thrown, task.limits.scratch)) }
    }

    /// Whether the run wrote too much to what is kept, measured now.
    pub fn kept_is_over(&self) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).measure()
    }

    /// Whether the run wrote too much to what is thrown away, measured now.
    pub fn thrown_is_over(&self) -> bool {
        self.thrown.lock().unwrap_or_else(PoisonError::into_inner).measure()
    }

    fn watches(&self) -> bool {
        [&self.kept, &self.thrown].into_iter().any(|disk| disk.lock().unwrap_or_else(PoisonError::into_inner).watches())
    }

    /// The same of both, at a pace of its own.
    fn is_over(&self) -> bool {
        [&self.kept, &self.thrown].into_iter().any(|disk| disk.lock().unwrap_or_else(PoisonError::into_inner).is_over())
    }
}

/// What is written to by a run.
pub enum Written {
    /// Directories of the host.
    Here(Arc<Disks>),
    /// The container's own layer, which may hold so many bytes.
    Inside(u64),
}

/// Ends when a run has written too much. Neither a slow disk nor a slow engine holds anybody else up.
pub async fn overflow(written: &Written, container: &Container) {
    match written {
        Written::Here(disks) if !disks.watches() => std::future::pending().await,
        Written::Here(disks) => loop {
            tokio::time::sleep(LOOK).await;
            let disks = disks.clone();
            // What cannot be measured is endless.
            if tokio::task::spawn_blocking(move || disks.is_over()).await.unwrap_or(true) {
                return;
            }
        },
        Written::Inside(limit) => loop {
            tokio::time::sleep(MEASURE).await;
            if container.size().await.is_some_and(|size| size > *limit) {
                return;
            }
        },
    }
}

/// What a container's own layer may hold where `uploaded` bytes were copied into it.
pub fn own_layer(task: &Task, uploaded: u64) -> u64 {
    let limit = if keeps(task) { task.limits.disk } else { task.limits.scratch };
    limit.saturating_add(uploaded)
}

/// Whether something that the command writes is kept, so that the limit on disk is for it; else all of it is thrown away.
pub fn keeps(task: &Task) -> bool {
    let kept = |mount: &Mount| matches!(mount, Mount::ReadWrite { .. } | Mount::Overlay { upper: Some(_), .. });
    task.mounts.iter().any(kept)
}

/// About what is uploaded for a task, in bytes. It walks through all of it.
pub fn uploaded(task: &Task) -> u64 {
    let mut sum: u64 = 0;
    for mount in &task.mounts {
        let sources = match mount {
            Mount::ReadOnly { source, .. } | Mount::ReadWrite { source, .. } => std::slice::from_ref(source),
            Mount::Overlay { lowers, .. } => lowers,
        };
        sum = sources.iter().map(|source| disk_size(source)).fold(sum, u64::saturating_add);
    }
    sum
}
