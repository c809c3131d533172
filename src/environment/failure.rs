//! A typed failure: which kind, at which stage, and the lines of the log that say so.

mod lines;
#[cfg(test)]
mod logs;

use std::fmt;

use lines::{decisive, last_lines, shortened, telling};
pub(super) use lines::{is_of_the_network, says};
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::error::{EnvironmentError, Phase, StepEnd};
use super::proof::ProofKind;
use super::trouble::FailureKind;
use crate::model::InfraReason;
use crate::sandbox::OVER_DISK;

/// How far an environment came before it failed. Later ones are further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Finding out what the tree is.
    Detect,
    /// Finding the toolchain or the base.
    Toolchain,
    /// Reading what the project wants.
    Requirements,
    /// Installing dependencies.
    Fetch,
    /// The project's own install.
    Build,
    /// The proof that the install is whole.
    Install,
    /// The proof that the project's own package imports or compiles.
    Import,
    /// The proof that the tests are collected.
    Collect,
    /// The proof that a sample of them passes.
    Sample,
}

impl Stage {
    /// Its one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Toolchain => "toolchain",
            Self::Requirements => "requirements",
            Self::Fetch => "fetch",
            Self::Build => "build",
            Self::Install => "install",
            Self::Import => "import",
            Self::Collect => "collect",
            Self::Sample => "sample",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<ProofKind> for Stage {
    fn from(kind: ProofKind) -> Self {
        match kind {
            ProofKind::Install => Self::Install,
            ProofKind::Import => Self::Import,
            ProofKind::Collect => Self::Collect,
            ProofKind::Sample => Self::Sample,
        }
    }
}

impl fmt::Display for FailureKind {
    /// For people: `missing system package`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Network => "network",
            Self::MissingSystemPackage => "missing system package",
            Self::NoSuchVersion => "no such version",
            Self::Yanked => "yanked",
            Self::VersionConflict => "version conflict",
            Self::Compiler => "compiler error",
            Self::NoTestFramework => "no test framework",
            Self::NotImportable => "not importable",
            Self::NotCollected => "tests not collected",
            Self::NoTestPasses => "no test passes",
            Self::Disk => "out of disk",
            Self::Memory => "out of memory",
            Self::Deadline => "deadline",
            Self::Toolchain => "no toolchain",
            Self::Language => "language not known",
            Self::Other => "something else",
        })
    }
}

impl FailureKind {
    /// Whether only the sandbox can know it: what a log says of it is not believed.
    fn is_the_sandboxs(self) -> bool {
        matches!(self, Self::Network | Self::Disk | Self::Memory | Self::Deadline | Self::Toolchain | Self::Language)
    }
}

/// Why an environment was not made, or not accepted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// How far it came.
    pub stage: Stage,
    /// The step or check that failed.
    pub step: String,
    /// What happened, in a sentence.
    pub detail: String,
    /// The lines of the log that say so.
    pub lines: Vec<String>,
    /// Which kind of infra the rows of its instance are.
    pub reason: InfraReason,
    /// The failed step's log.
    #[serde(skip)]
    pub log: Vec<u8>,
}

impl fmt::Debug for Failure {
    /// With the log as a text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}, {:?}): {:?}", self.kind, self.stage, self.reason, self.lines)?;
        write!(f, "{}: {}\n{}", self.step, self.detail, String::from_utf8_lossy(&self.log))
    }
}

impl Failure {
    /// A failure that no log tells of.
    pub fn without_log(kind: FailureKind, stage: Stage, reason: InfraReason, why: impl Into<String>) -> Self {
        let detail = why.into();
        Self { kind, stage, step: String::new(), lines: vec![detail.clone()], detail, reason, log: Vec::new() }
    }

    /// Whether it is this machine's, its network's or the user's doing and no strategy's: nothing else is tried, and it is
    /// never put on record.
    pub fn is_of_the_machine(&self) -> bool {
        match self.reason {
            InfraReason::Environment => false,
            // A fetch that does not end may wait for the network; a build has none.
            InfraReason::Deadline => self.stage <= Stage::Fetch,
            _ => true,
        }
    }

    /// `missing system package: fatal error: zlib.h: No such file or directory`.
    pub fn summary(&self) -> String {
        match self.lines.first() {
            Some(line) => format!("{}: {line}", self.kind),
            None => format!("{}: {}", self.kind, self.detail),
        }
    }

    /// What a build said, sorted by what is known of it and else by the definition's patterns.
    pub fn of_error(error: &EnvironmentError, definition: Option<&Definition>) -> Self {
        let root = error.root();
        let log = error.log().unwrap_or_default().to_vec();
        let text = String::from_utf8_lossy(&log).into_owned();
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let mut failure = Self {
            kind: FailureKind::Other,
            stage: Stage::Detect,
            step: String::new(),
            detail: first_line(error.to_string()),
            lines: Vec::new(),
            reason: error.reason(),
            log,
        };
        let matched = definition.and_then(|definition| decisive(definition, &text));
        match root {
            EnvironmentError::ToolchainMissing { .. } | EnvironmentError::ToolMissing { .. } => {
                failure.kind = FailureKind::Toolchain;
                failure.stage = Stage::Toolchain;
            }
            EnvironmentError::NoBase { .. }
            | EnvironmentError::NoBaseOfVersion { .. }
            | EnvironmentError::Base(_)
            | EnvironmentError::SystemPackages { .. } => {
                failure.kind = match failure.reason {
                    InfraReason::Network => FailureKind::Network,
                    InfraReason::Disk => FailureKind::Disk,
                    InfraReason::Deadline => FailureKind::Deadline,
                    InfraReason::Sandbox | InfraReason::Interrupted => FailureKind::Other,
                    _ => FailureKind::Toolchain,
                };
                failure.stage = Stage::Toolchain;
            }
            EnvironmentError::Probe { .. } => {
                failure.kind = FailureKind::Deadline;
                failure.stage = Stage::Toolchain;
            }
            EnvironmentError::DiskFull { phase, step, .. } => {
                failure.kind = FailureKind::Disk;
                failure.stage = stage_of(*phase);
                failure.step.clone_from(step);
                // Whether the log says so or not: it is the disk that was looked at.
                failure.lines = vec![shortened(&failure.detail)];
            }
            EnvironmentError::UnknownLanguage { .. } => failure.kind = FailureKind::Language,
            EnvironmentError::Offline { .. } => {
                failure.kind = FailureKind::Network;
                failure.stage = Stage::Fetch;
            }
            EnvironmentError::Deadline { phase, .. } => {
                failure.kind = FailureKind::Deadline;
                failure.stage = stage_of(*phase);
            }
            EnvironmentError::Lock { .. } | EnvironmentError::NoPackages { .. } => failure.stage = Stage::Fetch,
            EnvironmentError::TrackedFiles { .. } => failure.stage = Stage::Build,
            EnvironmentError::Step { phase, step, end, reason, .. } => {
                failure.stage = stage_of(*phase);
                failure.step.clone_from(step);
                let known = match (reason, end) {
                    (InfraReason::Disk, _) => Some(FailureKind::Disk),
                    (_, StepEnd::TimedOut(_)) | (InfraReason::Deadline, _) => Some(FailureKind::Deadline),
                    (_, StepEnd::OutOfMemory) => Some(FailureKind::Memory),
                    (InfraReason::Network, _) => Some(FailureKind::Network),
                    _ if text.contains(OVER_DISK) => Some(FailureKind::Disk),
                    _ => None,
                };
                match (known, matched) {
                    (Some(kind), _) => {
                        failure.kind = kind;
                        failure.lines = telling(definition, &text, kind);
                    }
                    (None, Some((kind, lines))) => (failure.kind, failure.lines) = (kind, lines),
                    (None, None) => failure.lines = last_lines(&text),
                }
            }
            _ => match failure.reason {
                InfraReason::Disk => failure.kind = FailureKind::Disk,
                InfraReason::Network => failure.kind = FailureKind::Network,
                _ => {}
            },
        }
        if failure.lines.is_empty() {
            failure.lines = vec![shortened(&failure.detail)];
        }
        failure
    }

    /// What a check said that does not hold.
    pub fn of_check(kind: ProofKind, step: &str, detail: &str, log: &[u8], definition: &Definition) -> Self {
        let text = String::from_utf8_lossy(log);
        let (kind_said, lines) = match decisive(definition, &text) {
            Some(said) => said,
            None => {
                let usual = match kind {
                    ProofKind::Install => FailureKind::Other,
                    ProofKind::Import => FailureKind::NotImportable,
                    ProofKind::Collect => FailureKind::NotCollected,
                    ProofKind::Sample => FailureKind::NoTestPasses,
                };
                (usual, if detail.is_empty() { last_lines(&text) } else { vec![shortened(detail)] })
            }
        };
        Self {
            kind: kind_said,
            stage: kind.into(),
            step: step.to_owned(),
            detail: detail.to_owned(),
            lines,
            reason: InfraReason::Environment,
            log: log.to_vec(),
        }
    }
}

fn stage_of(phase: Phase) -> Stage {
    match phase {
        Phase::Requirements => Stage::Requirements,
        Phase::Fetch => Stage::Fetch,
        Phase::Build => Stage::Build,
        // Who runs proofs knows which one it was.
        Phase::Proof => Stage::Install,
    }
}

#[cfg(test)]
mod tests {
    use super::lines::{LINE_LENGTH, LINES};
    use super::*;
    use crate::environment::trouble::FailureDefinition;
    use crate::environment::{Definitions, definition::Definition};

    fn definition() -> Definition {
        let mut definition = Definition::clone(&Definitions::load(&[]).unwrap().get("shell").unwrap());
        let failure = |kind, pattern: &str| FailureDefinition { kind, pattern: pattern.to_owned() };
        definition.failures = vec![
            failure(FailureKind::Network, "."),
            failure(FailureKind::Compiler, r"\berror: "),
            failure(FailureKind::MissingSystemPackage, r"fatal error: \S+\.h: No such file"),
        ];
        definition
    }

    fn step(log: &str, end: StepEnd, reason: InfraReason, phase: Phase) -> EnvironmentError {
        EnvironmentError::Step {
            phase,
            step: "install the project".to_owned(),
            command: vec!["cc".to_owned()],
            end,
            tail: String::new(),
            log: log.as_bytes().to_vec(),
            reason,
        }
    }

    #[test]
    fn the_first_pattern_decides_and_the_sandboxs_kinds_are_not_believed_from_a_log() {
        let log = "cc x.c\nx.c:1:10: fatal error: zlib.h: No such file or directory\nerror: command failed\n";
        let failure = Failure::of_error(
            &step(log, StepEnd::Exited(1), InfraReason::Environment, Phase::Build),
            Some(&definition()),
        );
        assert_eq!((failure.kind, failure.stage), (FailureKind::MissingSystemPackage, Stage::Build));
        assert_eq!(failure.lines, ["x.c:1:10: fatal error: zlib.h: No such file or directory"]);
        assert_eq!(
            failure.summary(),
            "missing system package: x.c:1:10: fatal error: zlib.h: No such file or directory"
        );
        assert!(!failure.is_of_the_machine());
    }

    #[test]
    fn what_the_sandbox_knows_goes_before_patterns() {
        let d = definition();
        let of = |log: &str, end, reason, phase| Failure::of_error(&step(log, end, reason, phase), Some(&d));
        let error = "error: no\n";
        let cases = [
            (of(error, StepEnd::TimedOut(3), InfraReason::Deadline, Phase::Build), FailureKind::Deadline, false),
            (of(error, StepEnd::TimedOut(3), InfraReason::Deadline, Phase::Fetch), FailureKind::Deadline, true),
            (of(error, StepEnd::OutOfMemory, InfraReason::Environment, Phase::Build), FailureKind::Memory, false),
            (
                of("No space left on device\n", StepEnd::Exited(1), InfraReason::Disk, Phase::Build),
                FailureKind::Disk,
                true,
            ),
            (of(error, StepEnd::Exited(1), InfraReason::Network, Phase::Fetch), FailureKind::Network, true),
            // What it was allowed to leave on disk is its own affair; the disk itself is not.
            (
                of(
                    &format!("{OVER_DISK} 5 bytes on disk\n"),
                    StepEnd::Signaled(9),
                    InfraReason::Environment,
                    Phase::Build,
                ),
                FailureKind::Disk,
                false,
            ),
        ];
        for (failure, kind, of_the_machine) in cases {
            assert_eq!((failure.kind, failure.is_of_the_machine()), (kind, of_the_machine), "{failure:?}");
            assert!(!failure.lines.is_empty(), "{failure:?}");
        }
    }

    #[test]
    fn a_check_without_a_known_line_has_its_own_kind() {
        let of = |kind, log: &str| Failure::of_check(kind, "c", "3 tests fail", log.as_bytes(), &definition());
        assert_eq!(of(ProofKind::Sample, "").kind, FailureKind::NoTestPasses);
        assert_eq!(of(ProofKind::Sample, "").lines, ["3 tests fail"]);
        assert_eq!(of(ProofKind::Import, "x: error: y\n").kind, FailureKind::Compiler);
        assert!(of(ProofKind::Sample, "").stage > of(ProofKind::Collect, "").stage);
    }

    #[test]
    fn long_lines_and_many_lines_are_cut() {
        let log: String = (0..100).map(|i| format!("error: {i} {}\n", "x".repeat(1000))).collect();
        let failure = Failure::of_error(
            &step(&log, StepEnd::Exited(1), InfraReason::Environment, Phase::Build),
            Some(&definition()),
        );
        assert_eq!(failure.lines.len(), LINES);
        assert!(failure.lines.iter().all(|line| line.chars().count() <= LINE_LENGTH + 1));
    }
}
