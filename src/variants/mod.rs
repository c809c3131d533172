//! Variants of a fix: changes to it that an oracle must notice, and changes that it must not. Pure: file contents in, change
//! sets out.
//!
//! [`Fix`] is what a pull request's merged change does to the files of the commit to review, split into hunks. From it
//! come the controls and near-misses ([`controls`]), which take the fix or a part of it away; the rewrites
//! ([`rewrites`]), which leave its meaning as it is; and the mutants ([`mutants`]), which change it a little. What is known of
//! languages is data (`environments/variants/*.toml`), read with tree-sitter.

mod controls;
mod definition;
mod fix;
mod mutate;
mod reach;
mod rename;
mod rewrite;
mod syntax;
#[cfg(test)]
mod tests;

pub use controls::{COMMENT_ONLY, FIX_AS_COMMENT, WITHOUT_FILE, WITHOUT_NEAR, controls};
pub use definition::{DefinitionError, Languages};
pub use fix::{Edit, Fix, Hunk, Origins, Place, Spot, place};
pub use mutate::mutants;
pub use reach::{CodeLine, code_lines};
pub use rewrite::rewrites;

use crate::repo::ChangeSet;

/// What a variant is to an oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The concern is as it was: the oracle must not pass.
    NearMiss,
    /// A part of the fix is missing, and nobody knows whether it matters to the concern: reported and not rated.
    Drop,
    /// The fix is there and means the same: the oracle must pass.
    Rewrite,
    /// The fix is there with a small mistake: the oracle should not pass.
    Mutant,
}

impl Class {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NearMiss => "near-miss",
            Self::Drop => "drop",
            Self::Rewrite => "rewrite",
            Self::Mutant => "mutant",
        }
    }
}

/// One variant: a state of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// What it is to the oracle.
    pub class: Class,
    /// Its name, unique for one oracle.
    pub name: String,
    /// What was done, for people.
    pub about: String,
    /// The state, as changes to the commit to review.
    pub changes: ChangeSet,
}
