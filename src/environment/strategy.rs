//! The ways to install a project, as data: `[[strategy]]` and `[[requirements]]` of a definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::condition::Condition;
use crate::model::ProjectMode;

/// One way to install a project. Strategies are tried in the file's order until one is proven to work.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyDefinition {
    /// Its name, for people and records.
    pub name: String,
    /// When it is worth a try. Only `file:`, `directory:` and their like: nothing is built yet.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// How the project's own code becomes importable.
    #[serde(default)]
    pub project: ProjectMode,
    /// Packages that it always installs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The `[[requirements]]` that say which packages the project wants.
    #[serde(default)]
    pub requirements: Vec<String>,
    /// See [`EnvironmentSpec::build_isolation`](crate::model::EnvironmentSpec::build_isolation).
    #[serde(default)]
    pub build_isolation: Option<bool>,
    /// Commands of the build phase.
    #[serde(default)]
    pub steps: Vec<String>,
    /// Commands after a patch.
    #[serde(default)]
    pub rebuild: Vec<String>,
    /// Variables.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}

/// A command that reads what a project wants out of its head tree, in a sandbox without network.
///
/// It sees the tree at the workspace and prints one JSON object: `packages` (requirements in the language's syntax) and
/// perhaps `system_packages` and `notes`. Where a project says nothing it prints an empty list.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequirementsDefinition {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
}
