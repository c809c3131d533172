//! Which language a tree is written in, which version of it was wanted at its commit's date, and which ways to install
//! it are worth a try. Reads a folder and decides; nothing runs.

mod claims;
mod decide;
mod range;
mod said;
mod semver;
#[cfg(test)]
mod tests;
mod tree;

pub use claims::Claim;
pub use decide::{Alternative, Detected, detect};
pub(super) use tree::Tree;
