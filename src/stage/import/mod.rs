//! Import: foreign data becomes a benchmark. Library calls that return content and a summary; nothing is printed, and
//! nothing is written (see [`crate::store::bench::write`]).

mod ccrab;
mod error;
mod extras;
mod folder;
mod github;
mod predictions;
mod source;
mod summary;
mod swe_care;

pub use ccrab::ccrab;
pub use error::ImportError;
pub use extras::{Environments, MergedFinder, Options};
pub use folder::folder;
pub use github::{Authors, GithubOptions, github};
pub use predictions::{Predictions, predictions};
pub use source::{Source, SourceFile, read_source};
pub use summary::Summary;
pub use swe_care::swe_care;

use crate::store::bench::Content;

/// A benchmark, ready to be written, and what happened on the way.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The benchmark.
    pub content: Content,
    /// Counts and problems.
    pub summary: Summary,
}
