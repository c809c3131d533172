//! How an environment is proven to work, as data: `[[proof]]` of a definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::condition::Condition;

/// One check, run in the finished environment on the head tree as an oracle is run: copy-on-write, without network.
///
/// Its last line of output is one JSON object: `ok` (whether it holds), `detail` (a sentence for people), and for samples
/// `passed` and `failed` (ids of tests).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofDefinition {
    /// What it shows.
    pub kind: ProofKind,
    /// Its name, for people.
    pub name: String,
    /// When it applies.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The current directory (default: the workspace; an import check must not find a package by it alone).
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables of this check.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}

/// What a check shows. They run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProofKind {
    /// The install is whole: what it says it installed is there, and fits together.
    Install,
    /// The project's own package imports or compiles, from the place that tests use.
    Import,
    /// The test framework collects the project's own tests.
    Collect,
    /// A sample of them passes.
    Sample,
}
