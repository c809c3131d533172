//! How a project's language and wanted version are recognised, as data: `[detect]` and `[version]` of a definition.

use serde::{Deserialize, Serialize};

/// How a project of this language is recognised.
///
/// Every language's source files are counted (vendored folders apart). A file of `files` at the root makes each of them
/// weigh four times, one of `weak` twice; the heaviest language wins.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectDefinition {
    /// Names of files at the tree's root that only projects of this language have, the most telling first.
    #[serde(default)]
    pub files: Vec<String>,
    /// Names of files at the root that projects of other languages have, too (`Makefile`).
    #[serde(default)]
    pub weak: Vec<String>,
    /// Endings of source files, without the dot.
    #[serde(default)]
    pub extensions: Vec<String>,
}

/// How the wanted version is found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionDefinition {
    /// The grammar of ranges: `pep440` (with poetry's `^`, `~` and `||`), `semver` (node's) or `minimum` (a plain version
    /// that is the least one).
    #[serde(default)]
    pub grammar: Grammar,
    /// How many days a release must have been out to be taken where only a range, or nothing at all, is said.
    #[serde(default)]
    pub settled_after_days: u32,
    /// How many days old, at the commit's date, the newest version of a list may be; with an older one the list is as if
    /// it was not there. 0: any.
    #[serde(default)]
    pub stale_after_days: u32,
    /// Which way to go when the wanted version is not to be had.
    #[serde(default)]
    pub instead: Instead,
    /// Where projects say what they want, in order of precedence.
    #[serde(default, rename = "source")]
    pub sources: Vec<VersionSource>,
    /// Releases with their dates, so that what was current at a commit's date is known.
    #[serde(default, rename = "release")]
    pub releases: Vec<Release>,
}

/// How a range of versions is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grammar {
    /// Python's (PEP 440), with poetry's additions.
    Pep440,
    /// npm's.
    Semver,
    /// A plain version, which is the least one.
    #[default]
    Minimum,
}

/// Which versions come first when the wanted one is not to be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instead {
    /// Older ones: new releases take things away.
    #[default]
    Older,
    /// Newer ones: what worked goes on working.
    Newer,
}

/// One place where a project says which version it wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSource {
    /// The place, for people: `requires-python`.
    pub name: String,
    /// A file of the tree, with `*` for a part of its name (not of its folders').
    pub file: String,
    /// Keys that lead to the value (a text, or a list of them) in a TOML or JSON file.
    #[serde(default)]
    pub key: Vec<String>,
    /// A pattern over the file whose first group bounds where `pattern` looks (all matches).
    #[serde(default)]
    pub within: Option<String>,
    /// A pattern whose first group is the value: over the key's texts, what `within` found, or the whole file. All
    /// matches count where `kind` is `list`.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Whether the values lack their first dot: `311` for `3.11`.
    #[serde(default)]
    pub glued: bool,
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
    /// Other names: `lts/hydrogen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether it was only supported for a short time, and is taken only when a project names it.
    #[serde(default)]
    pub short: bool,
}
