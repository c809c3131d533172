//! How a project's language and wanted version are recognised, as data: `[detect]` and `[version]` of a definition.

use serde::{Deserialize, Serialize};

/// How a project of this language is recognised.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectDefinition {
    /// Names of files at the tree's root that only projects of this language have, the most telling first.
    #[serde(default)]
    pub files: Vec<String>,
    /// Endings of source files, without the dot: they decide where no file, or files of several languages, are there.
    #[serde(default)]
    pub extensions: Vec<String>,
}

/// How the wanted version is found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionDefinition {
    /// The grammar of ranges: `pep440`, `semver` (node's) or `minimum` (a plain version that is the least one).
    #[serde(default)]
    pub grammar: Option<String>,
    /// Where projects say what they want, in order of precedence.
    #[serde(default, rename = "source")]
    pub sources: Vec<VersionSource>,
    /// Releases with their dates, so that what was current at a commit's date is known.
    #[serde(default, rename = "release")]
    pub releases: Vec<Release>,
}

/// One place where a project says which version it wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSource {
    /// The place, for people: `requires-python`.
    pub name: String,
    /// A file of the tree, with `*` for a part of a name.
    pub file: String,
    /// Keys that lead to the value in a TOML or JSON file.
    #[serde(default)]
    pub key: Vec<String>,
    /// Else a pattern whose first group is the value; all matches count where `kind` is `list`.
    #[serde(default)]
    pub pattern: Option<String>,
    /// What the value is.
    pub kind: VersionKind,
}

/// What a version source gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionKind {
    /// The version itself.
    Exact,
    /// A range in the definition's grammar.
    Range,
    /// Versions that all work.
    List,
}

/// A release of a language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Its version, as far as it matters: `3.11`.
    pub version: String,
    /// The day on which it came out: `2022-10-24`.
    pub date: String,
}
