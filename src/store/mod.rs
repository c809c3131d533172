//! What lies on disk: the benchmark folder.

pub mod bench;
