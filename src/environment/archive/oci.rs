//! The documents of images: those of the OCI image specification (version 1), and the `manifest.json` by which
//! `docker load` knows an archive.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Media types of the specification.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Of an image's manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Of an image's configuration.
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Of a layer that is not packed.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Points to a blob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    #[serde(default)]
    pub media_type: String,
    /// `sha256:HEX`.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// Notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
}

impl Descriptor {
    /// Whether it is a builder's statement about another manifest, and no image.
    pub fn is_attestation(&self) -> bool {
        self.annotations.contains_key("vnd.docker.reference.type")
            || self.platform.as_ref().is_some_and(|p| p.os == "unknown")
    }
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    /// `amd64`, `arm64` …
    pub architecture: String,
    /// `linux`.
    pub os: String,
}

/// A list of manifests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// 2.
    pub schema_version: u32,
    /// [`INDEX`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// What there is.
    pub manifests: Vec<Descriptor>,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// 2.
    pub schema_version: u32,
    /// [`MANIFEST`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// Its configuration.
    pub config: Descriptor,
    /// Its layers, the lowest first.
    pub layers: Vec<Descriptor>,
    /// Notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An image's configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `amd64`, `arm64` …
    #[serde(default)]
    pub architecture: String,
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// What containers of it get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ContainerConfig>,
    /// Its layers' contents.
    pub rootfs: RootFs,
}

/// What containers of an image get.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerConfig {
    /// User and group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// The command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// Where commands begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// The contents of layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RootFs {
    /// `layers`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The digests of the layers as tar archives, not packed.
    pub diff_ids: Vec<String>,
}

/// One image in the `manifest.json` of `docker save`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DockerManifest {
    /// The configuration's name in the archive.
    pub config: String,
    /// The image's names.
    #[serde(default)]
    pub repo_tags: Option<Vec<String>>,
    /// The layers' names in the archive, the lowest first.
    pub layers: Vec<String>,
}

/// The digest of what a reader gives.
///
/// # Errors
/// What the reader says, and what `go` says.
pub fn sha256_of(mut reader: impl Read, go: &dyn Fn() -> std::io::Result<()>) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        go()?;
        match reader.read(&mut buffer)? {
            0 => return Ok(named(hasher.finalize().as_slice())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// A digest's bytes with the name of their algorithm.
pub fn named(digest: &[u8]) -> String {
    digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
