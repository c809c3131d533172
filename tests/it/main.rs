//! All integration tests, as one binary.

mod environment;
mod sandbox;
