//! Events and verdicts → terminal, JSON, Markdown, HTML, JUnit XML, CSV. Nothing here runs anything.

pub mod audit;
mod build;
pub mod compare;
pub mod compare_text;
mod event_log;
mod files;
pub mod html;
mod junit;
mod progress;
pub mod rerun;
pub mod tables;

pub use build::{Built, REPORT_SCHEMA, Report, ReportError, build};
pub use event_log::EventLog;
pub use files::{RenderError, write_files, write_files_unless_there};
pub use progress::{LineProgress, TerminalProgress};
pub(crate) use progress::{counted, human_seconds, one_line, visible, visible_json};
