//! Who hands work out: this machine's scheduler and what makes it start nothing new (deadlines, budgets, a full disk, one
//! cause that many share), and the events that everything which is shown or logged is made from.

mod breaker;
mod budget;
mod deadline;
mod disk;
mod dispatch;
mod event;
mod local;

pub use breaker::{Breaker, Cause, Scope, normalised};
pub use budget::{BuildBudget, BuildNeed, BuildPermit, BuildRoom, MakeRoom, Tell, available_memory};
pub use deadline::{Bounds, PhaseLimits, time};
pub(crate) use disk::is_nothing_left;
pub use disk::{DiskGuard, FreeUp, Place, size};
pub use dispatch::{Dispatcher, Progress, Reporter, Running};
pub use event::{Event, Events, SkipCause, Stamped, TaskId};
pub use local::{Closed, Scheduler};
