//! Bases: root file systems that environments stand on, made once and used by every sandbox.
//!
//! A base is made of Debian packages by `mmdebstrap`, or taken from an image of a container engine, or from an archive
//! that the user names. However it came about, what is kept is the same:
//!
//! ```text
//! <cache>/bases-v1/<digest>/root.tar   all of it, as a tar archive in one canonical form; what container engines get
//! <cache>/bases-v1/<digest>/root/      its system directories, unpacked; what the embedded sandbox mounts
//! <cache>/bases-v1/<digest>/base.json  the marker: what it was made of, what is in it; without it a base is not there
//! <cache>/bases-v1/<digest>.lock       held while the base is being made
//! <cache>/bases-v1/bases.lock          which name stands for which base, with digests: the lock file
//! ```
//!
//! `<digest>` is the recipe's. What a base *is* its content's digest says, and that is what keys of layers and results
//! hold: the same recipe gives other packages on another day.

mod clean;
mod contents;
mod debian;
mod definition;
mod engine;
mod error;
mod front;
mod host;
mod lock;
mod make;
mod recipe;
mod shelf;
mod toolchain;

pub use definition::BaseDefinition;
pub use error::BaseError;
pub(super) use front::machine;
pub use front::{BaseSettings, BaseState, Bases, Listed};
pub(super) use host::missing_packages;
pub use lock::{BaseLock, LockedBase};
pub use recipe::{Recipe, Source};
pub use shelf::{Base, BaseRecord, content_of};
pub(super) use toolchain::find as find_toolchain;
