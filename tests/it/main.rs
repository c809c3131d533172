//! One binary for all integration tests.

mod oracle;
mod sandbox;
