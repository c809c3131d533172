//! Archives of file systems: tarballs, images of container engines, and our own.

mod error;
mod image;
pub mod oci;
mod part;
mod tree;
mod write;

pub use error::ArchiveError;
pub use image::{Blobs, Image, manifest_of, open, sha256};
pub use part::{Part, Place};
pub use tree::{Kind, Node, OPAQUE, Tree, WHITEOUT, Whiteouts};
pub use write::{TarWriter, unpack};
