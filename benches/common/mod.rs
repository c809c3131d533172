//! What the benchmarks share: measuring side by side, and data of our own to measure with. Each uses a part of it.

#![allow(dead_code, reason = "every benchmark uses a part of it")]

pub mod measure;
pub mod sandboxed;
pub mod synthetic;

/// Anything may go wrong; the benchmark then says so and ends.
pub type Answer<T> = Result<T, Box<dyn std::error::Error>>;

/// The built program.
pub const REDGREEN: &str = env!("CARGO_BIN_EXE_redgreen");

/// The first argument that is a number; cargo's own begin with dashes.
pub fn number(default: usize) -> usize {
    std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(default)
}
