//! Patches: made regular, then applied to a tree, all of it or nothing.
//!
//! # The chain
//!
//! A patch is first *normalised* ([`normalise_patch`]): a missing last newline, CRLF line ends of the whole text, code
//! fences, text around the diff, file names without `a/` and `b/` or with other prefixes, blank context lines that
//! trimming took from the end. These repairs change no line of the patch's content and are listed.
//!
//! Then the methods of [`ApplyMethod`] are tried in order, each on the whole patch and an untouched tree, each allowing
//! what the ones before it allow. The first that fits all hunks wins; what the others ran into is kept.
//!
//! | method | allows | of `git apply` |
//! |---|---|---|
//! | exact | hunks away from their stated line | no option |
//! | recount | hunk headers with wrong counts, or without numbers where only one place fits | `--recount` |
//! | line-ends | CR before the line end, or the file's last newline, more or fewer | `--ignore-whitespace` |
//! | whitespace | context that differs in amounts of white space, at the stated line or the only place | `--ignore-whitespace` |
//! | reduced-context | fewer context lines (never none), where only one place fits; hunks made without context, by line number | `-C2`, `-C1`, `--unidiff-zero` |
//!
//! Lines that a patch does not touch stay byte for byte, and added lines take the line ends of their neighbours where
//! the patch's own context shows that it lost them. Everything happens in memory, on the touched files only. All file
//! names are [`TreePath`](super::TreePath)s, and nothing is read or written behind a symlink.

mod apply;
mod binary;
mod error;
mod hunk;
mod image;
mod method;
mod names;
mod normalise;
mod parse;
mod plan;
mod quote;
mod types;

pub use apply::{Applied, apply_patch};
pub use error::{Escape, PatchError};
pub use method::ApplyMethod;
pub use normalise::{Normalised, normalise_patch};

/// The largest patch that is read, in bytes.
pub const MAX_PATCH: u64 = 64 * 1024 * 1024;

/// The largest file that a patch may make, in bytes.
pub const MAX_FILE: u64 = 256 * 1024 * 1024;

/// The most that a patch may make in all, in bytes: compressed content and copies are much larger than their patch.
pub const MAX_MADE: u64 = 512 * 1024 * 1024;

#[cfg(test)]
mod tests;
