//! How an instance's code is made runnable, as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Extra;

/// An instance's environment: language, version, packages, how the project is made importable, rebuild, variables.
///
/// Two instances with equal specs share layers; the spec's digest is part of every verdict's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentSpec {
    /// The language definition to use: a file name in `environments/` without its ending, or one of its aliases.
    pub language: String,
    /// The wanted version, matched as a prefix (`3.11` takes `3.11.7`); absent: the definition's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Packages in the language's own requirement syntax, pinned or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// How the repository's own code is made importable.
    #[serde(default)]
    pub project: ProjectMode,
    /// Whether the project's build back end is installed apart (`true`, the tools' default) or is among `packages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_isolation: Option<bool>,
    /// Variables that builds and tests see.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Shell commands run in the workspace after a patch was applied and before the oracle, without network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuild: Vec<String>,
    /// Shell commands of the build phase, run after the definition's own, without network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The day (`2024-05-31`) after whose end nothing that is installed may have come out. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    /// The root file system that it stands on: the name of a base, an image, or `host`. Absent: what the sandbox takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Packages of the system (Debian's names) that the base must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_packages: Vec<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl EnvironmentSpec {
    /// A language and nothing else.
    pub fn plain(language: &str) -> Self {
        Self {
            language: language.to_owned(),
            version: None,
            packages: Vec::new(),
            project: ProjectMode::default(),
            build_isolation: None,
            variables: BTreeMap::new(),
            rebuild: Vec::new(),
            steps: Vec::new(),
            as_of: None,
            base: None,
            system_packages: Vec::new(),
            extra: Extra::new(),
        }
    }
}

/// How the repository's own code is made importable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProjectMode {
    /// From its path in the workspace; nothing is installed.
    #[default]
    Path,
    /// Installed so that it still points into the workspace.
    Editable,
    /// Installed as a copy.
    Installed,
    /// Not at all.
    None,
}
