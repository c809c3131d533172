//! What failed builds say and what helps, as data: `[[failure]]` and `[[repair]]` of a definition.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check::fault_of_trouble;
use super::definition::{DEFINITION_SCHEMA, Definition};
use super::definitions::parse_toml;
use super::error::EnvironmentError;
use crate::model::ProjectMode;

/// A kind of failure and the line by which it is known. The first pattern that matches decides.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureDefinition {
    /// The kind.
    pub kind: FailureKind,
    /// A pattern over single lines of the log.
    pub pattern: String,
}

/// Why there is no environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The network, or what it leads to, did not answer.
    Network,
    /// A package of the system (a library, a header, a program) is not there.
    MissingSystemPackage,
    /// A required version does not exist, or not for this toolchain.
    NoSuchVersion,
    /// A version that was withdrawn.
    Yanked,
    /// Requirements that exclude each other.
    VersionConflict,
    /// A compiler says no.
    Compiler,
    /// The test framework is not there.
    NoTestFramework,
    /// The project's package does not import, or only from its own folder.
    NotImportable,
    /// The tests do not collect.
    NotCollected,
    /// No sampled test passes.
    NoTestPasses,
    /// Disk, or the allowance of it.
    Disk,
    /// Memory.
    Memory,
    /// A deadline.
    Deadline,
    /// There is no toolchain or base of the wanted version.
    Toolchain,
    /// The language is not known.
    Language,
    /// Something else; the lines tell.
    Other,
}

/// A change that helps against a failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairDefinition {
    /// Its name, for records.
    pub name: String,
    /// A pattern over single lines of the log. `$1` and so on in the change stand for its groups.
    pub pattern: String,
    /// What to change.
    pub change: SpecChange,
}

/// Failures and repairs of all languages: `environments/failures.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommonTrouble {
    /// The version of this shape.
    schema: u32,
    /// Failures that go before each definition's own.
    #[serde(default)]
    first: Vec<FailureDefinition>,
    /// Those that go after them.
    #[serde(default, rename = "failure")]
    failures: Vec<FailureDefinition>,
    /// What helps; after each definition's own.
    #[serde(default, rename = "repair")]
    repairs: Vec<RepairDefinition>,
}

impl CommonTrouble {
    /// Reads the file; an error names it and the line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, EnvironmentError> {
        let common: Self = parse_toml(file, text)?;
        let fail = |line, message| EnvironmentError::Definition { file: file.to_owned(), line, message };
        if common.schema != DEFINITION_SCHEMA {
            return Err(fail(None, format!("schema {} is not {DEFINITION_SCHEMA}", common.schema)));
        }
        match fault_of_trouble(common.first.iter().chain(&common.failures), &common.repairs) {
            Some(fault) => Err(fail(fault.line(text), fault.message)),
            None => Ok(common),
        }
    }

    /// A definition with these around its own.
    pub fn around(&self, mut definition: Definition) -> Definition {
        definition.failures.splice(0..0, self.first.iter().cloned());
        definition.failures.extend(self.failures.iter().cloned());
        definition.repairs.extend(self.repairs.iter().cloned());
        definition
    }
}

/// A change of an environment's spec: what a rule, a model or a person proposes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecChange {
    /// Another version of the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Requirements that are added, or take the place of those of the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Names of packages that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Packages of the system that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_packages: Vec<String>,
    /// Another mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMode>,
    /// With or without build isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_isolation: Option<bool>,
    /// Variables that are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Commands of the build phase that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Commands after a patch that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuild: Vec<String>,
}
