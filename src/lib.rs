//! redgreen: the execution-based test oracle runner for code review.
//!
//! A human review comment on a pull request is bound to an executable test (its *oracle*) that fails on the reviewed
//! commit and passes once the concern is addressed. A review tool is scored by letting a coding agent revise the
//! patch along its findings and running the oracles on the result (the c-CRAB method, arXiv 2603.23448).
//!
//! The library decides and never talks to the user; `cli` is the only room that prints or reads the environment.
//! `docs/ARCHITECTURE.md` has a paragraph on every room.

pub mod agent;
pub(crate) mod child;
pub mod cli;
pub mod engine;
pub mod environment;
pub mod fault;
pub mod formats;
pub mod host;
pub mod http;
pub mod llm;
pub mod metrics;
pub mod model;
pub mod oracle;
pub mod repo;
pub mod report;
pub mod sandbox;
pub mod stage;
pub mod store;
pub mod variants;
