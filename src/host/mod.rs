//! Code hosts over HTTP: asks GitHub's REST interface for a pull request and gives every answer as it came, so that it can
//! be kept and read again from disk. What the answers mean is [`crate::formats::github`]'s business.

mod client;
mod limits;
mod link;
mod pull;
mod token;

pub use client::{Client, HostError, Settings};
pub use pull::{Page, PullName, fetch_pull};
pub use token::Token;
