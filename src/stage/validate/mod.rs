//! `validate`: can a coding agent solve a comment from its words? Several attempts by each of some agents that see the
//! comment and the pull request and neither oracle nor later commit; each patch is scored by the comment's oracle.
//!
//! What an agent left is a record of the run folder under the digest of all that could change it, so that the same command
//! goes on. An agent that broke gave no answer; comments stay in the benchmark either way.

mod attempts;
mod run;
mod solvable;

pub use attempts::{PROMPT, Values};
pub use run::{Open, STAGE, Told, Validate, ValidateError, Validated};
pub use solvable::{Solvable, Summary, compose, solvable};
