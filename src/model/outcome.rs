//! What one run of an oracle showed: a closed set.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The outcome of one run. String forms: `passed`, `failed`, `errored(KIND)`, `timed-out`, `out-of-memory`,
/// `no-tests`, `crashed`, `infra(REASON)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Every expected test was seen to pass and every sign agrees.
    Passed,
    /// An assertion, or its framework's equal, failed.
    Failed,
    /// Any other exception, import, collection or compile error.
    Errored(ErrorKind),
    /// The wall-clock or CPU limit was reached.
    TimedOut,
    /// The memory limit was reached.
    OutOfMemory,
    /// Expected tests were not seen (none at all, skipped, missing).
    NoTests,
    /// A signal ended the test.
    Crashed,
    /// The run says nothing of the code: something outside it went wrong. Never a final record.
    Infra(InfraReason),
}

/// Why a run errored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// An exception other than an assertion in a test.
    Exception,
    /// A test or the code it needs could not be imported or collected.
    Import,
    /// Source text could not be parsed.
    Syntax,
    /// The compiler refused.
    Compile,
    /// The test runner itself broke, or left with a code that is no verdict.
    Runner,
    /// Exit code, expected ids and reports do not fit together.
    ResultChannel,
}

impl ErrorKind {
    const ALL: [Self; 6] =
        [Self::Exception, Self::Import, Self::Syntax, Self::Compile, Self::Runner, Self::ResultChannel];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::Import => "import",
            Self::Syntax => "syntax",
            Self::Compile => "compile",
            Self::Runner => "runner",
            Self::ResultChannel => "result-channel",
        }
    }
}

/// What kept a run from saying anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InfraReason {
    /// The sandbox could not be set up.
    Sandbox,
    /// The environment could not be built.
    Environment,
    /// A toolchain is not on this machine.
    Toolchain,
    /// A repository or commit is not to be had.
    Repository,
    /// The disk is full or not writable.
    Disk,
    /// The network was needed and did not answer, or is refused by `--offline`.
    Network,
    /// A phase before the oracle's own run did not end in time, or a budget was used up.
    Deadline,
    /// The run was interrupted.
    Interrupted,
}

impl InfraReason {
    const ALL: [Self; 8] = [
        Self::Sandbox,
        Self::Environment,
        Self::Toolchain,
        Self::Repository,
        Self::Disk,
        Self::Network,
        Self::Deadline,
        Self::Interrupted,
    ];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Environment => "environment",
            Self::Toolchain => "toolchain",
            Self::Repository => "repository",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Deadline => "deadline",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether trying again at once, in a fresh workspace, can help.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Sandbox | Self::Disk | Self::Network)
    }
}

impl Outcome {
    /// The class without detail: `errored(import)` is of class `errored`.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Errored(_) => "errored",
            Self::TimedOut => "timed-out",
            Self::OutOfMemory => "out-of-memory",
            Self::NoTests => "no-tests",
            Self::Crashed => "crashed",
            Self::Infra(_) => "infra",
        }
    }

    /// Whether the run says nothing of the code.
    pub fn is_infra(&self) -> bool {
        matches!(self, Self::Infra(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errored(kind) => f.pad(&format!("errored({})", kind.as_str())),
            Self::Infra(reason) => f.pad(&format!("infra({})", reason.as_str())),
            other => f.pad(other.class()),
        }
    }
}

/// A text that is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an outcome")]
pub struct OutcomeParseError(String);

impl FromStr for Outcome {
    type Err = OutcomeParseError;

    fn from_str(text: &str) -> Result<Self, OutcomeParseError> {
        let bad = || OutcomeParseError(text.to_owned());
        let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|t| t.strip_suffix(')'));
        if let Some(kind) = inner("errored(") {
            let kind = ErrorKind::ALL.into_iter().find(|k| k.as_str() == kind).ok_or_else(bad)?;
            return Ok(Self::Errored(kind));
        }
        if let Some(reason) = inner("infra(") {
            let reason = InfraReason::ALL.into_iter().find(|r| r.as_str() == reason).ok_or_else(bad)?;
            return Ok(Self::Infra(reason));
        }
        [Self::Passed, Self::Failed, Self::TimedOut, Self::OutOfMemory, Self::NoTests, Self::Crashed]
            .into_iter()
            .find(|o| o.class() == text)
            .ok_or_else(bad)
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_one_string_form_in_both_directions() {
        let mut all = vec![
            Outcome::Passed,
            Outcome::Failed,
            Outcome::TimedOut,
            Outcome::OutOfMemory,
            Outcome::NoTests,
            Outcome::Crashed,
        ];
        all.extend(ErrorKind::ALL.map(Outcome::Errored));
        all.extend(InfraReason::ALL.map(Outcome::Infra));
        for outcome in all {
            let text = outcome.to_string();
            assert_eq!(text.parse::<Outcome>().unwrap(), outcome, "{text}");
        }
        for text in ["", "Passed", "errored", "errored(x)", "infra()", "passed "] {
            assert!(text.parse::<Outcome>().is_err(), "{text}");
        }
    }
}
