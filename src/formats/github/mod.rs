//! Pull requests as GitHub's API gives them: REST and GraphQL, whole pages or single objects, one JSON value a file or
//! several one after the other (as `gh api --paginate` writes them). What belongs together is joined by ids, not by
//! files: a pull request, its commits, reviews, review comments, review threads, and the issues that it closes.
//!
//! Pure: text in, a [`Bag`] out. What cannot be read is named with file and line and does not take the others down.

mod bag;
mod context;
mod convert;
mod hunk;
mod kind;
mod links;
mod read;
mod shape;
mod text;
mod thread;
mod wire;

pub use bag::{
    Author, Bag, Commit, Counted, Details, Issue, IssueComment, IssueKey, Lost, Pull, PullKey, Review, ReviewComment,
};
pub use hunk::{Asked, Fit, Hunk, HunkError, Quality, Side, fit, lines_of};
pub use links::closing_references;
pub use shape::Take;
pub use text::{Names, plain_lines, suggestions};
pub use thread::{Message, Thread, threads};
