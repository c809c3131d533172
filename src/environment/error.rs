//! What can go wrong with an environment, and which kind of infra it is.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::base::BaseError;
use crate::model::InfraReason;
use crate::sandbox::SandboxError;

/// Why there is no environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A definition can't be read.
    #[error("environment definition {}{}: {message}", file.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
    Definition {
        /// The file.
        file: PathBuf,
        /// The line, where one is known.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// No definition has this name.
    #[error("there is no environment definition for the language `{language}` (known: {})", known.join(", "))]
    UnknownLanguage {
        /// What the spec says.
        language: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The toolchain is not on this machine.
    #[error(
        "no {language} toolchain {}on this machine; looked at {}; found {}",
        if wanted.is_empty() { String::new() } else { format!("of version `{wanted}` ") },
        list(looked_at),
        list(found)
    )]
    ToolchainMissing {
        /// The language.
        language: String,
        /// The wanted version prefix, or the least version.
        wanted: String,
        /// Where was looked.
        looked_at: Vec<String>,
        /// What was found there, and why it was not taken.
        found: Vec<String>,
    },
    /// There is no root file system to stand on.
    #[error(transparent)]
    Base(Box<BaseError>),
    /// The host's toolchain does not fit, and the base that would cannot be had.
    #[error("{host}; {source}")]
    NoBase {
        /// The language.
        language: String,
        /// What the host lacks.
        host: String,
        /// Why there is no base.
        source: Box<BaseError>,
    },
    /// A language without any base, where the host's system cannot be stood on.
    #[error(
        "no base has {language} {}(bases: {}), and the sandbox cannot stand on this machine's own system; name an image \
         or archive as the environment's `base`",
        if wanted.is_empty() { String::new() } else { format!("of version `{wanted}` ") },
        list(known)
    )]
    NoBaseOfVersion {
        /// The language.
        language: String,
        /// The wanted version prefix.
        wanted: String,
        /// The language's bases.
        known: Vec<String>,
    },
    /// Packages of the system that the host does not have.
    #[error(
        "this machine lacks packages of the system that the environment names: {}; install them, or let the environment \
         stand on a base",
        list(packages)
    )]
    SystemPackages {
        /// Their names.
        packages: Vec<String>,
    },
    /// A definition needs a tool that the toolchain does not have.
    #[error("the {language} toolchain at {} has no `{tool}`, which the step `{step}` needs", executable.display())]
    ToolMissing {
        /// The language.
        language: String,
        /// The tool, or the name that stands for nothing.
        tool: String,
        /// The step.
        step: String,
        /// The toolchain's program.
        executable: PathBuf,
    },
    /// The spec has packages but the definition does not know any.
    #[error("the language `{language}` has no packages, but the environment asks for {}", list(packages))]
    NoPackages {
        /// The language.
        language: String,
        /// What was asked for.
        packages: Vec<String>,
    },
    /// What is installed can't be bounded by a date.
    #[error("the environment asks for {language} packages as of `{day}`, which can't be kept: {help}")]
    AsOfUnsupported {
        /// The language.
        language: String,
        /// The day.
        day: String,
        /// Why not, and what helps.
        help: String,
    },
    /// Whether a base has the toolchain could not be told.
    #[error("`{program}` in the base {base} did not answer within {seconds} s")]
    Probe {
        /// The base.
        base: String,
        /// The program that was asked.
        program: String,
        /// How long it had.
        seconds: u64,
    },
    /// The network is needed but refused.
    #[error(
        "offline: the environment is not in the cache, and these would be fetched: {}; build it ahead without `--offline`",
        list(what)
    )]
    Offline {
        /// What would be fetched.
        what: Vec<String>,
    },
    /// A step did not succeed.
    #[error("{phase} step `{step}` {end}: {}{}", command.join(" "), indented(tail))]
    Step {
        /// The phase.
        phase: Phase,
        /// The step's name.
        step: String,
        /// The command.
        command: Vec<String>,
        /// How it ended.
        end: StepEnd,
        /// The last lines that it wrote.
        tail: String,
        /// All that it wrote, as evidence.
        log: Vec<u8>,
        /// What kind of infra this is, judged by what it wrote.
        reason: InfraReason,
    },
    /// A phase did not end in time, its steps and its waiting taken together.
    #[error("{phase} phase: not done at its deadline of {seconds} s")]
    Deadline {
        /// The phase.
        phase: Phase,
        /// Its limit in seconds.
        seconds: u64,
    },
    /// A layer's own account of what is in it can't be read.
    #[error("layer `{layer}`: its lock {what} can't be read: {message}")]
    Lock {
        /// The layer.
        layer: String,
        /// The file or command.
        what: String,
        /// Why.
        message: String,
    },
    /// The install changed files of the repository.
    #[error(
        "the build changed {} tracked file{} of the repository, which is refused: {}",
        files.len(),
        if files.len() == 1 { "" } else { "s" },
        list(files)
    )]
    TrackedFiles {
        /// Their paths in the tree, sorted.
        files: Vec<String>,
        /// The build's log, as evidence.
        log: Vec<u8>,
    },
    /// The sandbox failed.
    #[error("the sandbox failed in step `{step}`: {source}")]
    Sandbox {
        /// The step.
        step: String,
        /// Why.
        #[source]
        source: SandboxError,
    },
    /// The cache can't be read or written.
    #[error("environment cache: {0}")]
    Io(#[from] std::io::Error),
    /// The disk of the cache was full while a step ran, whatever that says of itself.
    #[error("the disk of the cache `{}` was full while step `{step}` ran: what it made is not kept", cache.display())]
    DiskFull {
        /// The phase.
        phase: Phase,
        /// The step.
        step: String,
        /// The cache.
        cache: PathBuf,
        /// What the step wrote, as evidence.
        log: Vec<u8>,
    },
    /// A build was not begun, as there is too little room for it.
    #[error("not begun: {said}")]
    NoRoom {
        /// What there is and what is needed.
        said: String,
    },
    /// The caller's token ended it.
    #[error("interrupted while the environment was being built")]
    Cancelled,
    /// The same environment failed before in this process.
    #[error("{0}")]
    Earlier(Arc<EnvironmentError>),
}

/// The phase of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading what the project wants, without network.
    Requirements,
    /// Dependencies, with network where needed.
    Fetch,
    /// The repository's own install, without network.
    Build,
    /// A proof that it works, without network.
    Proof,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Requirements => "requirements",
            Self::Fetch => "fetch",
            Self::Build => "build",
            Self::Proof => "proof",
        })
    }
}

/// How a step that did not succeed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEnd {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// At its deadline, after so many seconds.
    TimedOut(u64),
    /// Out of memory.
    OutOfMemory,
}

impl fmt::Display for StepEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Signaled(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut(seconds) => write!(f, "was stopped at its deadline of {seconds} s"),
            Self::OutOfMemory => f.write_str("ran out of memory"),
        }
    }
}

impl From<BaseError> for EnvironmentError {
    fn from(error: BaseError) -> Self {
        Self::Base(Box::new(error))
    }
}

impl EnvironmentError {
    /// What kind of infra this is.
    pub fn reason(&self) -> InfraReason {
        match self {
            Self::ToolchainMissing { .. } | Self::ToolMissing { .. } => InfraReason::Toolchain,
            Self::Base(error) | Self::NoBase { source: error, .. } => error.reason(),
            Self::NoBaseOfVersion { .. } | Self::SystemPackages { .. } => InfraReason::Toolchain,
            Self::Offline { .. } => InfraReason::Network,
            Self::Step { reason, .. } => *reason,
            Self::Deadline { .. } | Self::Probe { .. } => InfraReason::Deadline,
            Self::Sandbox { source, .. } if source.is_disk() => InfraReason::Disk,
            Self::Sandbox { .. } => InfraReason::Sandbox,
            Self::Io(error) => reason_of(error),
            Self::DiskFull { .. } | Self::NoRoom { .. } => InfraReason::Disk,
            Self::Cancelled => InfraReason::Interrupted,
            Self::Earlier(error) => error.reason(),
            Self::Definition { .. }
            | Self::UnknownLanguage { .. }
            | Self::NoPackages { .. }
            | Self::AsOfUnsupported { .. }
            | Self::Lock { .. }
            | Self::TrackedFiles { .. } => InfraReason::Environment,
        }
    }

    /// The base that is all that is missing, where it could be made.
    pub fn base_to_make(&self) -> Option<&str> {
        let (Self::Base(error) | Self::NoBase { source: error, .. }) = self.root() else { return None };
        match error.as_ref() {
            BaseError::NotMade { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether a base is wanted that is not there, for a reason that says nothing of the base: none was to be made, or
    /// what makes them is not here or broken. With other settings, or another program installed, it may be had.
    pub fn is_for_want_of_a_base(&self) -> bool {
        let (Self::Base(error) | Self::NoBase { source: error, .. }) = self.root() else { return false };
        error.is_unmade()
    }

    /// The error itself, where this one only says that it was met before.
    pub fn root(&self) -> &Self {
        match self {
            Self::Earlier(error) => error.root(),
            error => error,
        }
    }

    /// The log to keep as evidence, where there is one.
    pub fn log(&self) -> Option<&[u8]> {
        match self {
            Self::Step { log, .. } | Self::TrackedFiles { log, .. } | Self::DiskFull { log, .. } => Some(log),
            Self::Earlier(error) => error.log(),
            _ => None,
        }
    }
}

/// What an error of our own files is: never the repository's doing.
pub(super) fn reason_of(error: &std::io::Error) -> InfraReason {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | ReadOnlyFilesystem => InfraReason::Disk,
        _ => InfraReason::Sandbox,
    }
}

fn list(items: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text = items.iter().take(SHOWN).map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN {
        text.push_str(&format!(" and {} more", items.len() - SHOWN));
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

fn indented(tail: &str) -> String {
    tail.lines().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;
    use crate::environment::archive::ArchiveError;

    #[test]
    fn an_error_of_our_own_files_is_the_machines() {
        for (kind, expected) in [
            (ErrorKind::StorageFull, InfraReason::Disk),
            (ErrorKind::QuotaExceeded, InfraReason::Disk),
            (ErrorKind::ReadOnlyFilesystem, InfraReason::Disk),
            (ErrorKind::PermissionDenied, InfraReason::Sandbox),
            (ErrorKind::NotADirectory, InfraReason::Sandbox),
        ] {
            let error = || Error::from(kind);
            assert_eq!(EnvironmentError::Io(error()).reason(), expected, "{kind}");
            assert_eq!(EnvironmentError::from(BaseError::from(error())).reason(), expected, "{kind}");
            let archive = BaseError::Archive(ArchiveError::Io(error()));
            assert_eq!(EnvironmentError::from(archive).reason(), expected, "{kind}");
        }
    }
}
