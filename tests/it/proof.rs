//! From a tree to a proven environment, or a typed failure: small projects that are named for what they show, a package
//! index of our own on the loopback, the embedded sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod failures;
pub mod index;
mod records;
mod repairs;
mod verb;
mod yard;
