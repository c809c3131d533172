//! Root file systems that environments stand on, as data: `[[base]]` in `environments/<language>.toml`.

use serde::{Deserialize, Serialize};

/// One base that a language can stand on, for one version of its toolchain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseDefinition {
    /// Its name, one for all definitions: `python-3.11`.
    pub name: String,
    /// The toolchain's version in it, as a prefix.
    pub version: String,
    /// The image in a registry that holds the same, where there is one: `python:3.11-slim-bookworm`.
    #[serde(default)]
    pub image: Option<String>,
    /// The Debian release that has this version: `bookworm`.
    #[serde(default)]
    pub debian: Option<String>,
    /// Debian packages of it beside the minimal system.
    #[serde(default)]
    pub packages: Vec<String>,
}
