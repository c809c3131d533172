//! Who hands work out: this machine's scheduler, and the events that everything which is shown or logged is made from.

mod dispatch;
mod event;
mod local;

pub use dispatch::{Dispatcher, Progress, Reporter, Running};
pub use event::{Event, Events, SkipCause, Stamped, TaskId};
pub use local::Scheduler;
