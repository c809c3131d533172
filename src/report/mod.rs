//! Events and verdicts → terminal, JSON, Markdown, CSV. Nothing here runs anything.

mod event_log;
mod progress;

pub use event_log::EventLog;
pub use progress::{LineProgress, TerminalProgress};
