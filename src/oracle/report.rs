//! What one run said of its tests, whatever framework said it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::ErrorKind;

use super::trace::Trace;

/// The id of one test inside an oracle, as its framework names it, without the file's part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TestId(String);

impl TestId {
    /// An id by its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestStatus {
    /// It ran and nothing went wrong.
    Passed,
    /// An assertion failed.
    Failed,
    /// Anything else went wrong.
    Errored(ErrorKind),
    /// Skipped, or expected to fail: it says nothing, so it counts as not seen.
    Unseen,
}

impl TestStatus {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Errored(_) => "errored",
            Self::Unseen => "unseen",
        }
    }
}

impl Serialize for TestStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One test's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestResult {
    /// Which test.
    pub id: TestId,
    /// How it ended.
    pub status: TestStatus,
    /// The first line of what the failing assertion or exception said.
    pub message: Option<String>,
}

/// Which of the two canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The one that must pass.
    Pass,
    /// The one that must fail.
    Fail,
}

/// How one of redgreen's own two tests ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    /// Which.
    pub role: Role,
    /// How it ended.
    pub status: TestStatus,
    /// What was said of it.
    pub message: Option<String>,
}

/// Something that kept tests from running at all: an import, syntax or compile error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// What class of error.
    pub kind: ErrorKind,
    /// The first line of what was said.
    pub message: Option<String>,
}

/// What one run reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The tests in order.
    pub tests: Vec<TestResult>,
    /// What kept (some) tests from running.
    pub broken: Option<Broken>,
    /// Whether the tests' process died by a signal although the main process did not.
    pub crashed: bool,
    /// Whether the framework said that it came to its end.
    pub complete: bool,
    /// The canaries that the reporter ran after the tests; `None` where the framework's result has none.
    pub canaries: Option<Vec<Canary>>,
    /// What does not fit together inside the report itself.
    pub odd: Option<String>,
    /// Whether the run loaded the project's own code; `None` where that was not measured.
    pub ran_project: Option<bool>,
    /// What was seen of the project's code, where the run was traced.
    pub trace: Option<Trace>,
}

impl Report {
    /// The tests that ran to a result.
    pub fn seen(&self) -> impl Iterator<Item = &TestResult> {
        self.tests.iter().filter(|t| t.status != TestStatus::Unseen)
    }

    /// What is wrong with the canaries, where there must be some: each exactly once, with the status that it must have.
    pub fn canary_problem(&self) -> Option<String> {
        let canaries = self.canaries.as_ref().filter(|_| self.seen().next().is_some())?;
        [(Role::Pass, TestStatus::Passed, "pass"), (Role::Fail, TestStatus::Failed, "fail")].into_iter().find_map(
            |(role, wanted, word)| {
                let mut own = canaries.iter().filter(|canary| canary.role == role);
                let problem = match (own.next(), own.next()) {
                    (None, _) => "did not run".to_owned(),
                    (Some(canary), None) if canary.status == wanted => return None,
                    (Some(canary), None) => {
                        let said = canary.message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default();
                        format!("is {}{said}", canary.status.as_str())
                    }
                    (Some(_), Some(_)) => "ran twice".to_owned(),
                };
                Some(format!("the canary that must {word} {problem}"))
            },
        )
    }

    /// Notes an id that is there twice as odd.
    pub fn check_ids(&mut self) {
        let mut ids = BTreeSet::new();
        let twice = self.tests.iter().find(|t| !ids.insert(&t.id)).map(|t| format!("`{}` is there twice", t.id));
        if self.odd.is_none() {
            self.odd = twice;
        }
    }
}

/// Whether an exception of this name says that an assertion failed: the last part of the name tells
/// (`AssertionError`, `org.opentest4j.AssertionFailedError`, `ComparisonFailure`, pytest's `Failed`).
pub(super) fn is_assertion(exception: &str) -> bool {
    let last = exception.rsplit(['.', ':', '$', '\\']).next().unwrap_or(exception).to_ascii_lowercase();
    last.contains("assert")
        || matches!(last.as_str(), "failed" | "failure" | "fail")
        || ["comparisonfail", "expectationfail"].iter().any(|part| last.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_known_by_the_last_part_of_their_name() {
        for name in [
            "AssertionError",
            "java.lang.AssertionError",
            "org.junit.ComparisonFailure",
            "PHPUnit\\Framework\\ExpectationFailedException",
            "_pytest.outcomes.Failed",
            "AssertionFailedError",
        ] {
            assert!(is_assertion(name), "{name}");
        }
        for name in ["TypeError", "java.lang.IllegalStateException", "assert.TypeError", "FailedToStart", ""] {
            assert!(!is_assertion(name), "{name}");
        }
    }
}
