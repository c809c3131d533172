//! Scores from verdicts: pure functions over the model's rows.
//!
//! What is counted is a *comment* of an arm. Where an arm has several attempts at an instance (or several agents), the
//! first one counts: the lowest attempt number, and within it the first row. `rate` is therefore pass@1 of the first
//! attempts; other attempts stay in the verdicts.

mod agreement;
mod breakdown;
mod denominator;
mod interval;
mod kappa;
mod overlap;
mod recorded;
mod scores;
mod table;

pub use agreement::{Agreement, Disagreement, FirstLine, Replayed, agreement};
pub use breakdown::{Breakdown, Group, breakdown};
pub use denominator::{CommentRow, CommentSet, Denominator, DenominatorError};
pub use interval::{Interval, wilson_95};
pub use kappa::{ClassScore, Confusion, Kappa};
pub use overlap::{Overlap, Region, overlap};
pub use recorded::{recorded_report, recorded_verdicts};
pub use scores::{Scores, arms_in_order, scores};
pub use table::{ArmRow, arm_rows, outcomes};

#[cfg(test)]
mod tests;
