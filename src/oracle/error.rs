//! What can go wrong before an oracle runs.

use std::io;

use crate::model::{Framework, InfraReason};
use crate::sandbox::SandboxError;

/// An oracle can't be planned.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// A definition file is broken.
    #[error("{origin}: {problem}")]
    Definitions {
        /// Which file.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No definition for a framework.
    #[error("there is no definition of the framework `{}`; add a table `framework.{}`", .framework.as_str(), .framework.as_str())]
    NoDefinition {
        /// The framework.
        framework: Framework,
    },
    /// The environment lacks a program that the framework needs.
    #[error("the environment has no `{tool}`, which `{}` needs; install it or choose another environment", .framework.as_str())]
    MissingTool {
        /// The framework.
        framework: Framework,
        /// The tool's name.
        tool: String,
    },
    /// A placeholder that nothing stands for.
    #[error("the command of `{}` has an unknown placeholder `{{{name}}}`", .framework.as_str())]
    Placeholder {
        /// The framework.
        framework: Framework,
        /// Its name.
        name: String,
    },
    /// The oracle must bring a command and does not, or brings one that its framework has no use for.
    #[error("an oracle of `{}` {problem}", .framework.as_str())]
    Command {
        /// The framework.
        framework: Framework,
        /// What is wrong.
        problem: &'static str,
    },
    /// The place in the tree where the test wants to lie is none.
    #[error("`{path}` is no place for a test in the tree: {problem}")]
    Place {
        /// The place.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File {
        /// The system's answer, which names the path.
        source: io::Error,
    },
}

impl OracleError {
    /// The infrastructure's fault, where it is that and not the benchmark's.
    pub fn infra(&self) -> Option<InfraReason> {
        match self {
            Self::MissingTool { .. } => Some(InfraReason::Toolchain),
            Self::File { source } if is_disk(source) => Some(InfraReason::Disk),
            Self::File { .. } => Some(InfraReason::Sandbox),
            _ => None,
        }
    }
}

/// A run did not come about.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The sandbox's fault.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The test could not be laid ready.
    #[error("could not lay the test ready: {0}")]
    Staging(#[source] io::Error),
}

impl RunError {
    /// Which infrastructure is at fault.
    pub fn infra(&self) -> InfraReason {
        match self {
            Self::Sandbox(error) if error.is_disk() => InfraReason::Disk,
            Self::Sandbox(SandboxError::Spawn { .. }) => InfraReason::Toolchain,
            Self::Sandbox(_) => InfraReason::Sandbox,
            Self::Staging(error) if is_disk(error) => InfraReason::Disk,
            Self::Staging(_) => InfraReason::Sandbox,
        }
    }
}

fn is_disk(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
