//! Looks for anything in a checkout that is later than the commit to review.
//!
//! The checkout is a stranger's: nothing in it is run, no git program is started in it, none of its settings are obeyed,
//! and what cannot be read is a finding. First an inventory is made by plain reading; what it names is then judged by
//! ancestry, and by dates only where nothing else is known.

mod check;
mod config;
mod error;
mod files;
mod finding;
mod index_file;
mod inside;
mod inventory;
mod known;
mod lfs;
mod marks;
mod names;
mod packages;
mod stores;
mod tables;
mod version;
mod work_tree;

pub use check::{LeakCheck, LeakMode};
pub use error::LeakError;
pub use finding::{Checked, CommitBrief, Finding, Later, LeakKind, LeakReport};

/// Is told what is being counted, and how many there were so far. It is called often.
pub type Watch<'a> = dyn FnMut(&'static str, u64) + 'a;
