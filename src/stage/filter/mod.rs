//! `filter`: which comments can become oracles. Rules first, then a model; every comment comes out with a row.
//!
//! A row ([`FilterRow`](crate::model::FilterRow)) has the digest of all that could change it, so the same command goes on
//! where it was stopped, and what changed is asked again. Failures that say nothing of a comment make no row.

mod calibrate;
mod compose;
mod question;
mod rules;
mod run;
mod summary;

pub use calibrate::{Calibration, CommentKey, Half, Point, calibrate, read_gold};
pub use compose::{compose, strip};
pub use question::{Asking, PROMPT, STAGE, Values, majority, schema};
pub use rules::{Facts, Reply, Rules, RulesError};
pub use run::{Filter, Filtered, Open, Stopping, Told};
pub use summary::Summary;
