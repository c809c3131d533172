//! `synth`: turns review comments into tests with a language model, and keeps those that were seen to fail before the
//! concern was addressed and to pass afterwards.
//!
//! One comment is a loop of attempts: the model writes a test ([`Material`] is what it is shown), static checks look at
//! it ([`Kit`] has them as data), it is run at the head and at the merged commit as scoring would run it, [`judge`] says
//! what that means, and what really happened goes back to the model. Each attempt is a row
//! ([`SynthRow`](crate::model::SynthRow)) whose key is the digest of all that could change it.

mod attempt;
mod compose;
mod judge;
mod kit;
mod material;
mod question;
mod run;
mod summary;

pub use compose::compose;
pub use judge::{Judgement, Wanted, judge};
pub use kit::{Kit, KitError, Offered};
pub use material::{Material, Neighbour, Values};
pub use question::{AGAIN, Asking, PROMPT, STAGE, See, schema};
pub use run::{CommentEnd, Done, Open, Synth, Told, offered};
pub use summary::Summary;
