//! The executable test bound to one comment.

use serde::{Deserialize, Serialize};

use super::{CommentId, Extra};

/// What an oracle looks at (its declared kind; whether it ever ran project code is measured apart).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OracleKind {
    /// Runs the project's code.
    Behavioral,
    /// Inspects it.
    Structural,
    /// Not said.
    #[default]
    Unknown,
}

impl OracleKind {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Behavioral => "behavioral",
            Self::Structural => "structural",
            Self::Unknown => "unknown",
        }
    }
}

/// How an oracle is run and its result read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framework {
    /// pytest.
    Pytest,
    /// Python's unittest.
    Unittest,
    /// `cargo test` of one integration test.
    #[serde(alias = "rust")]
    Cargo,
    /// Node's own test runner.
    Node,
    /// jest, as c-CRAB's JavaScript and TypeScript tests want it.
    Jest,
    /// `go test`, as c-CRAB's Go tests want it.
    Go,
    /// A program that prints TAP on its standard output.
    Tap,
    /// A command that writes JUnit XML to the file named by `REDGREEN_JUNIT`.
    Junit,
    /// A program whose exit code is all there is.
    Exit,
}

impl Framework {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Cargo => "cargo",
            Self::Node => "node",
            Self::Jest => "jest",
            Self::Go => "go",
            Self::Tap => "tap",
            Self::Junit => "junit",
            Self::Exit => "exit",
        }
    }
}

/// An oracle. By default its test lies outside the tree, read-only, and runs with the workspace as current directory,
/// without the repository's own test configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Oracle {
    /// The comment it is bound to.
    pub comment: CommentId,
    /// Declared kind.
    #[serde(default)]
    pub kind: OracleKind,
    /// How it is run.
    pub framework: Framework,
    /// The test file, relative to the benchmark folder, with `/` between parts.
    pub test: String,
    /// Where in the tree the test must lie to work; absent: outside the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_as: Option<String>,
    /// Whether the repository's own test configuration (conftest and the like) must be in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_conftest: bool,
    /// The command to run instead of the framework's own (`tap`, `junit` and `exit` only); `{test}` is the test's path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Outcomes other than `failed` that count as failing before the fix, as strings of `Outcome` without detail
    /// (`errored`); empty: only `failed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Whether the oracle is in use; rejected ones are kept for the record.
    #[serde(default = "yes")]
    pub accepted: bool,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

fn yes() -> bool {
    true
}
