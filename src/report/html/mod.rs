//! `report.html`: verdicts with everything behind them, for people.
//!
//! A page asks for nothing outside itself: no script, style, font or image by address, and a content security policy
//! that would refuse them. Everything on it can be read without JavaScript; filters and sorting come on top. What is
//! shown was written by strangers (comments, patches, tests, outputs), so that it goes through [`text`] before it
//! reaches a template, and through one escape on the way out.
//!
//! How large a page may get, and what happens beyond, is in [`bounds`].

pub mod bounds;
mod chart;
mod detail;
mod evidence;
mod front;
mod health;
mod index;
mod pages;
mod patch;
mod section;
pub mod text;

pub use chart::{Bar, Piece};
pub use detail::{Detail, Elsewhere, Fact, Output, RunLine};
pub use front::{
    AgreementView, ArmView, Count, DisagreementView, Facts, Front, GroupRow, GroupTable, Lost, Overlaps, Share,
};
pub use health::{BadOracle, Health, OracleState};
pub use index::{Choice, IndexRow, InstanceLine};
pub(in crate::report) use pages::content_digest;
pub use pages::{Layout, Made, contexts, write};
pub use patch::{Chunk, PatchView};
pub use section::{CommentView, Control, Section, TestView};

#[cfg(test)]
mod tests;
