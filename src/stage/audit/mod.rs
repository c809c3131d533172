//! The stage that audits oracles: does a test measure the concern, or the wording of one fix? For each oracle the fix is
//! varied ([`crate::variants`]), the oracle runs on every variant as it would in scoring, and what came of it becomes a
//! [`Card`]. docs/AUDIT.md says what each number means and what it does not say.

mod card;
mod covered;
mod one;
mod run;
mod shown;
mod steady;
mod summary;
mod thresholds;

pub use card::{Card, Coverage, Drops, MutantLines, Mutants, NearMisses, Rewrites, RunOf, State};
pub use run::{AuditError, Budgets, audit};
pub use summary::{Row, Summary, summary};
pub use thresholds::{TextOnly, Thresholds, ThresholdsError};
