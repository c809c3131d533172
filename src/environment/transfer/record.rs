//! What an archive says of its environments.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::BaseRecord;
use crate::model::Digest;

/// The annotation of `index.json` that names the blob with the records.
pub const RECORDS: &str = "redgreen.environments";

/// The version of the records' shape.
pub(super) const SCHEMA: u32 = 1;

/// All that an archive holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Records {
    pub schema: u32,
    /// The version of redgreen that wrote it.
    pub redgreen: String,
    pub bases: Vec<BaseEntry>,
    /// Each layer after those that it was made with.
    pub layers: Vec<LayerEntry>,
    pub environments: Vec<EnvironmentEntry>,
}

/// A base and the blob that is its archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct BaseEntry {
    pub record: BaseRecord,
    pub blob: Blob,
}

/// A layer of the cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LayerEntry {
    /// Its folder in the bucket: `python-python`.
    pub kind: String,
    /// Its name there: the digest of its key.
    pub digest: Digest,
    /// All that it was made of.
    pub key: Value,
    /// What is in it.
    pub lock: Value,
    /// Its folders.
    pub parts: Vec<LayerPart>,
}

/// One folder of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LayerPart {
    /// Its name in the layer: `root`, `workspace`, `over/python`.
    pub folder: String,
    /// Where its content lies in the blob: `env/python`.
    pub at: String,
    pub blob: Blob,
}

/// A blob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Blob {
    /// `sha256:HEX`.
    pub digest: String,
    /// Bytes.
    pub size: u64,
}

/// One environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentEntry {
    /// The instance that it is of.
    pub instance_id: String,
    /// The environment's digest where it was exported.
    pub digest: Digest,
    /// The name of its image.
    pub tag: String,
    /// The digest of its image's manifest, as `sha256:HEX`.
    pub manifest: String,
}

/// Whether a name of a folder stays below where it is put.
pub(super) fn is_plain(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty() && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// The name of an instance's image: lower-case letters, digits and single separators.
pub(super) fn tag(instance_id: &str, digest: &Digest) -> String {
    let mut out = String::new();
    for c in instance_id.to_lowercase().chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '-' };
        if c != '-' || !(out.is_empty() || out.ends_with('-')) {
            out.push(c);
        }
    }
    let name = out.trim_end_matches('-');
    format!("redgreen/{}:{}", if name.is_empty() { "environment" } else { name }, digest.short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest_bytes;

    #[test]
    fn tags_are_names_that_engines_take() {
        let digest = digest_bytes(b"x");
        let of = |id: &str| tag(id, &digest).rsplit_once(':').unwrap().0.to_owned();
        assert_eq!(of("Owner__re.po-12@abc1234"), "redgreen/owner-re-po-12-abc1234");
        assert_eq!(of("__-@"), "redgreen/environment");
        assert!(is_plain("over/python") && !is_plain("../x") && !is_plain("/x") && !is_plain(""));
    }
}
