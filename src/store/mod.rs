//! What lies on disk: benchmark folders, run folders with content-addressed records and evidence.
//!
//! A record or blob appears whole (write, fsync, rename) or not at all. The store does not know what a record means.

mod atomic;
pub mod bench;
pub mod cache;
mod door;
mod error;
mod evict;
mod lines;
mod lock;
mod parallel;
mod reap;
mod run;
mod scratch;
mod uses;

pub use atomic::{write_atomic, write_json};
pub use door::{Door, Entered};
pub use error::StoreError;
pub use evict::{Beside, CacheEntry, EntryKind, Evicted, Eviction, Sizes, entries, evict, evict_beside, evict_with};
pub use lines::LineFile;
pub use run::{BenchmarkRef, MANIFEST_SCHEMA, RunFolder, RunManifest, find_run, newest_run};
pub use scratch::Scratch;
pub use uses::{Held, Uses};
