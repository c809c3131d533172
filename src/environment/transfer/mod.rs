//! Environments as archives for other machines: exported, and imported into another cache.
//!
//! An archive is an OCI image layout (version 1) that `docker load` takes, too. Each environment in it is an image:
//!
//! ```text
//! base                          the root file system
//! one for each layer            at its mount path below /env
//! what the build changed there  over them
//! the head's tree               at /workspace
//! the build's outputs           over it
//! ```
//!
//! One more blob, named by the index's annotation `redgreen.environments`, says what these layers are in a cache: their recipes and
//! locks. The same cache gives the same bytes: entries are sorted, belong to root, and have the times of what they hold.

mod error;
mod export;
mod folder;
mod import;
mod record;

pub use error::TransferError;
pub use export::{ExportItem, Exported};
pub use import::Imported;
pub use record::EnvironmentEntry;
