//! The one place that orders events and keeps the state that reporters show.

use std::collections::HashMap;
use std::time::Instant;

use tokio::sync::mpsc;

use super::{Event, SkipCause, Stamped, TaskId};

/// Turns events into output.
pub trait Reporter: Send {
    /// Called for each event in order, after `progress` took it in.
    fn on_event(&mut self, event: &Stamped, progress: &Progress);

    /// Called about four times a second while nothing happens, so that clocks move.
    fn on_tick(&mut self, _progress: &Progress) {}
}

/// Something that is being worked on.
#[derive(Debug, Clone)]
pub struct Running {
    /// What, for people.
    pub what: String,
    /// Since when.
    pub since: Instant,
}

/// Where a run stands.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Oracle runs in all.
    pub total: u64,
    /// Oracle runs with an outcome, served and skipped ones included.
    pub done: u64,
    /// Of these: served from records.
    pub cached: u64,
    /// Of these: not passed.
    pub failed: u64,
    /// Of these: infrastructure.
    pub infra: u64,
    /// Of these: skipped.
    pub skipped: u64,
    /// What is running now.
    pub running: Vec<Running>,
    /// Seconds of the runs that were really made, added up.
    pub worked: f64,
    /// When the run began.
    pub started: Instant,
    tasks: HashMap<TaskId, Instant>,
    preparing: HashMap<String, (Instant, String)>,
}

impl Progress {
    fn new() -> Self {
        Self {
            total: 0,
            done: 0,
            cached: 0,
            failed: 0,
            infra: 0,
            skipped: 0,
            running: Vec::new(),
            worked: 0.0,
            started: Instant::now(),
            tasks: HashMap::new(),
            preparing: HashMap::new(),
        }
    }

    /// Oracle runs that were really made.
    pub fn made(&self) -> u64 {
        self.done - self.cached - self.skipped
    }

    /// What has been running longest.
    pub fn slowest(&self) -> Option<&Running> {
        self.running.iter().min_by_key(|r| r.since)
    }

    /// Seconds that are left, from the pace so far; `None` before there is one.
    pub fn seconds_left(&self) -> Option<f64> {
        let made = self.made();
        let left = self.total.saturating_sub(self.done);
        if made == 0 || left == 0 {
            return None;
        }
        Some(self.started.elapsed().as_secs_f64() / made as f64 * left as f64)
    }

    fn take_in(&mut self, event: &Event) {
        match event {
            Event::RunStarted { tasks, .. } => self.total = *tasks,
            Event::Preparing { instance_id, step } => {
                let since = self.preparing.get(instance_id.folded()).map_or_else(Instant::now, |(since, _)| *since);
                self.preparing.insert(instance_id.folded().to_owned(), (since, format!("{instance_id}: {step}")));
            }
            Event::Prepared { instance_id, .. } => {
                self.preparing.remove(instance_id.folded());
            }
            Event::TaskStarted { task } => {
                self.tasks.insert(task.clone(), Instant::now());
            }
            Event::TaskFinished { task, outcome, seconds, cached } => {
                self.tasks.remove(task);
                self.done += 1;
                self.worked += seconds;
                self.cached += u64::from(*cached);
                self.infra += u64::from(outcome.is_infra());
                self.failed += u64::from(!outcome.is_infra() && *outcome != crate::model::Outcome::Passed);
            }
            Event::TasksSkipped { count, cause, instance_id, .. } => {
                self.done += count;
                self.skipped += count;
                self.infra += if matches!(cause, SkipCause::Infra | SkipCause::Stopped) { *count } else { 0 };
                if matches!(cause, SkipCause::Infra | SkipCause::Stopped | SkipCause::Interrupted) {
                    self.preparing.remove(instance_id.folded());
                }
            }
            Event::TasksAdded { count, .. } => self.total += count,
            Event::TaskRetried { .. } | Event::Note { .. } | Event::Draining | Event::Stopping | Event::RunFinished => {
            }
        }
        self.running = self
            .tasks
            .iter()
            .map(|(task, since)| Running { what: task.to_string(), since: *since })
            .chain(self.preparing.values().map(|(since, what)| Running { what: what.clone(), since: *since }))
            .collect();
        self.running.sort_by_key(|r| r.since);
    }
}

/// Takes events in order and hands each to every reporter.
pub struct Dispatcher {
    receiver: mpsc::UnboundedReceiver<Event>,
    reporters: Vec<Box<dyn Reporter>>,
}

impl Dispatcher {
    /// A dispatcher over these reporters.
    pub fn new(receiver: mpsc::UnboundedReceiver<Event>, reporters: Vec<Box<dyn Reporter>>) -> Self {
        Self { receiver, reporters }
    }

    /// Runs until `RunFinished` or until every sender is gone.
    pub async fn run(mut self) -> Progress {
        let mut progress = Progress::new();
        let mut tick = tokio::time::interval(std::time::Duration::from_millis(250));
        loop {
            tokio::select! {
                event = self.receiver.recv() => {
                    let Some(event) = event else { break };
                    progress.take_in(&event);
                    let stamped = Stamped {
                        at: jiff::Timestamp::now(),
                        elapsed: progress.started.elapsed().as_secs_f64(),
                        event,
                    };
                    for reporter in &mut self.reporters {
                        reporter.on_event(&stamped, &progress);
                    }
                    if matches!(stamped.event, Event::RunFinished) {
                        break;
                    }
                }
                _ = tick.tick() => {
                    for reporter in &mut self.reporters {
                        reporter.on_tick(&progress);
                    }
                }
            }
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Events;
    use crate::model::Outcome;
    use std::sync::{Arc, Mutex};

    struct Log(Arc<Mutex<Vec<(u64, u64)>>>);

    impl Reporter for Log {
        fn on_event(&mut self, _: &Stamped, progress: &Progress) {
            self.0.lock().unwrap().push((progress.done, progress.running.len() as u64));
        }
    }

    #[tokio::test]
    async fn events_arrive_in_order_and_counts_add_up() {
        let (events, receiver) = Events::channel();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let dispatcher = Dispatcher::new(receiver, vec![Box::new(Log(seen.clone()))]);
        let task = |repeat| TaskId {
            instance_id: "o__r-1@0123abc".parse().unwrap(),
            comment: crate::model::CommentId::from_index(0),
            arm: Arm::head(),
            attempt: 1,
            repeat,
            with_head_configuration: false,
        };
        use crate::model::Arm;
        events.send(Event::RunStarted { tasks: 3, instances: 1 });
        events.send(Event::TaskStarted { task: task(1) });
        let done =
            |repeat, cached| Event::TaskFinished { task: task(repeat), outcome: Outcome::Failed, seconds: 1.0, cached };
        events.send(done(1, false));
        events.send(done(2, true));
        events.send(Event::TasksSkipped {
            count: 1,
            instance_id: "o__r-1@0123abc".parse().unwrap(),
            reason: "x".to_owned(),
            cause: SkipCause::Infra,
        });
        events.send(Event::RunFinished);
        let progress = dispatcher.run().await;
        assert_eq!(*seen.lock().unwrap(), [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0), (3, 0)]);
        assert_eq!((progress.made(), progress.cached, progress.failed, progress.infra), (1, 1, 2, 1));
    }
}
