//! What happens during a run. Tasks send events; one dispatcher orders them; reporters turn them into output.

use serde::Serialize;
use tokio::sync::mpsc;

use crate::model::{Arm, CommentId, InstanceId, Outcome};

/// Names one oracle run: which comment, which arm's attempt, which repeat.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct TaskId {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The arm.
    pub arm: Arm,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The repeat, from 1.
    pub repeat: u32,
    /// Whether head's test configuration is laid over the revision.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub with_head_configuration: bool,
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.instance_id, self.comment, self.arm)?;
        if self.attempt > 1 {
            write!(f, " attempt {}", self.attempt)?;
        }
        if self.repeat > 1 {
            write!(f, " run {}", self.repeat)?;
        }
        if self.with_head_configuration {
            f.write_str(" with head's test configuration")?;
        }
        Ok(())
    }
}

/// Why oracle runs will not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipCause {
    /// The verdict is known without them.
    Decided,
    /// A control is bad.
    Control,
    /// Infrastructure.
    Infra,
    /// The run starts nothing more that would meet a cause, or nothing more at all; that is said once.
    Stopped,
    /// The run is being stopped.
    Interrupted,
}

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Work begins.
    RunStarted {
        /// How many oracle runs there are, served ones included.
        tasks: u64,
        /// How many instances.
        instances: u64,
    },
    /// An instance's repository and environment are being made ready.
    Preparing {
        /// The instance.
        instance_id: InstanceId,
        /// What is being done.
        step: String,
    },
    /// An instance is ready.
    Prepared {
        /// The instance.
        instance_id: InstanceId,
        /// How long it took.
        seconds: f64,
    },
    /// An oracle run begins.
    TaskStarted {
        /// Which.
        task: TaskId,
    },
    /// An oracle run has an outcome.
    TaskFinished {
        /// Which.
        task: TaskId,
        /// What it showed.
        outcome: Outcome,
        /// How long it took; 0 when served from records.
        seconds: f64,
        /// Whether it was served from records.
        cached: bool,
    },
    /// An oracle run is tried again after an infrastructure failure.
    TaskRetried {
        /// Which.
        task: TaskId,
        /// What went wrong.
        reason: String,
    },
    /// Oracle runs that will not happen, with the reason (a bad control, a rejected patch, infrastructure).
    TasksSkipped {
        /// How many.
        count: u64,
        /// The instance.
        instance_id: InstanceId,
        /// Why.
        reason: String,
        /// What kind of reason that is.
        cause: SkipCause,
    },
    /// Oracle runs that are needed beyond those that [`Event::RunStarted`] counted.
    TasksAdded {
        /// How many.
        count: u64,
        /// The instance.
        instance_id: InstanceId,
        /// Why.
        reason: String,
    },
    /// Something that a person should know.
    Note {
        /// The text.
        text: String,
    },
    /// The run was asked to stop: nothing new is started.
    Draining,
    /// The run was asked to stop at once.
    Stopping,
    /// Work is over.
    RunFinished,
}

/// An event with its place in time.
#[derive(Debug, Clone, Serialize)]
pub struct Stamped {
    /// When.
    pub at: jiff::Timestamp,
    /// Seconds since the run began.
    pub elapsed: f64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// The sending side: cheap to clone, never blocks.
#[derive(Debug, Clone)]
pub struct Events(mpsc::UnboundedSender<Event>);

impl Events {
    /// A sender and the receiver for the dispatcher.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Sends an event; when nobody listens any more it is dropped.
    pub fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }
}
