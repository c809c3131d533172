//! The run folder's `events.jsonl`.

use crate::engine::{Progress, Reporter, Stamped};
use crate::store::RunFolder;

/// Appends every event to `events.jsonl`. The log is for people and for replaying a display; no verdict depends on it,
/// so that a failure to write it is remembered once and does not stop the run.
pub struct EventLog {
    run: RunFolder,
    failed: bool,
}

impl EventLog {
    /// A log into this run.
    pub fn new(run: RunFolder) -> Self {
        Self { run, failed: false }
    }
}

impl Reporter for EventLog {
    fn on_event(&mut self, event: &Stamped, _: &Progress) {
        if !self.failed {
            self.failed = self.run.append_event(event).is_err();
        }
    }
}
