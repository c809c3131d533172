//! Bases: made, taken from archives, stood on, exported and imported. Most use a tiny root file system of this machine's
//! own shell and tools; one is the real thing.

mod archives;
mod maker;
mod real;
mod repairer;
mod stand;
pub mod tiny;
mod transfer;
