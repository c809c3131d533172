//! The run folder's `events.jsonl`.

use crate::engine::{Event, Progress, Reporter, Stamped};
use crate::store::RunFolder;

/// Appends every event to `events.jsonl`. The log is for people and for replaying a display; no verdict depends on it,
/// so that a failure to write it is remembered once and does not stop the run.
///
/// What was served from records can be read there, and there is a lot of it in a resumed run: such events are written
/// together, at the latest with the next one that is more, or with the next tick.
pub struct EventLog {
    run: RunFolder,
    waiting: Vec<Stamped>,
    failed: bool,
}

impl EventLog {
    const MOST: usize = 256;

    /// A log into this run.
    pub fn new(run: RunFolder) -> Self {
        Self { run, waiting: Vec::new(), failed: false }
    }

    fn write(&mut self) {
        let lines = std::mem::take(&mut self.waiting);
        if !self.failed && !lines.is_empty() {
            self.failed = self.run.append_events(&lines).is_err();
        }
    }
}

impl Reporter for EventLog {
    fn on_event(&mut self, event: &Stamped, _: &Progress) {
        self.waiting.push(event.clone());
        let served = matches!(event.event, Event::TaskFinished { cached: true, .. });
        if !served || self.waiting.len() >= Self::MOST {
            self.write();
        }
    }

    fn on_tick(&mut self, _: &Progress) {
        self.write();
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.write();
    }
}
