//! What can go wrong with a base.

use std::path::PathBuf;

use crate::environment::archive::ArchiveError;
use crate::environment::error::reason_of;
use crate::model::InfraReason;

/// Why there is no base.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseError {
    /// Nothing has this name.
    #[error("there is no base `{name}`, and no archive or image of that name; known bases: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It is not there, and was not to be made.
    #[error("the base `{name}` is not in the cache, and {why}; make it ahead: `redgreen env base {name}`")]
    NotMade {
        /// Its name.
        name: String,
        /// Why it was not made by itself.
        why: String,
    },
    /// There is no program that makes it.
    #[error(
        "the base `{name}` is made of Debian packages by `mmdebstrap`, which is not on this machine; install it (Debian, \
         Ubuntu: `apt install mmdebstrap`), or take an image or archive: `redgreen env base --from IMAGE|FILE {name}`"
    )]
    NoMaker {
        /// Its name.
        name: String,
    },
    /// The mirror did not give what it should.
    #[error("the Debian mirror {mirror} did not give `{release}`: {line}; name another one with `--debian-mirror URL`")]
    Mirror {
        /// The mirror, without credentials.
        mirror: String,
        /// The release.
        release: String,
        /// What was said.
        line: String,
    },
    /// A package that does not exist.
    #[error("Debian `{release}` has no package `{package}`: {line}; it is wanted by {wanted_by}")]
    NoSuchPackage {
        /// The release.
        release: String,
        /// The package.
        package: String,
        /// What was said.
        line: String,
        /// `the definition` or `system_packages`.
        wanted_by: String,
    },
    /// The mirror's signature cannot be checked.
    #[error(
        "the signature of Debian `{release}` cannot be checked: {line}; install the package `debian-archive-keyring`"
    )]
    Keyring {
        /// The release.
        release: String,
        /// What was said.
        line: String,
    },
    /// The maker failed otherwise.
    #[error("`{program}` ended with {end} while it made the base `{name}`:\n{tail}")]
    Failed {
        /// The program.
        program: String,
        /// Its end.
        end: String,
        /// The base.
        name: String,
        /// Its last lines.
        tail: String,
    },
    /// Packages can only be added where Debian's are.
    #[error(
        "the base `{base}` lacks {}, and packages can only be added to bases that are made of Debian packages; take an \
         image that has them",
        packages.join(", ")
    )]
    NotAdded {
        /// The base.
        base: String,
        /// What it lacks.
        packages: Vec<String>,
    },
    /// The container engine is not there, or did not give the image.
    #[error("the image `{reference}` is not to be had: {why}")]
    Image {
        /// The image.
        reference: String,
        /// Why.
        why: String,
    },
    /// An archive is no root file system, or broken.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What was made is not what the lock says.
    #[error(
        "the base `{name}` is another one than the lock file `{}` says ({wanted}, not {found}); import the one that it \
         means, or write the lock anew",
        file.display()
    )]
    Locked {
        /// The base.
        name: String,
        /// The lock file.
        file: PathBuf,
        /// The content's digest in it.
        wanted: String,
        /// The content's digest here.
        found: String,
    },
    /// The cache has another base in the same place.
    #[error(
        "the cache has another base `{name}` ({found}) than the archive ({wanted}), made by the same recipe on another \
         day; to take the archive's, remove `{}` first",
        folder.display()
    )]
    Other {
        /// The base.
        name: String,
        /// The content's digest in the archive.
        wanted: String,
        /// The content's digest in the cache.
        found: String,
        /// Where the cache has it.
        folder: PathBuf,
    },
    /// A lock file cannot be read.
    #[error("the lock file `{}` cannot be used: {problem}", file.display())]
    BadLock {
        /// The file.
        file: PathBuf,
        /// What is wrong, with its place.
        problem: String,
    },
    /// Not done in time.
    #[error("the base `{name}` was not made at its deadline of {seconds} s (`--phase-timeout fetch=…`)")]
    Deadline {
        /// The base.
        name: String,
        /// The limit.
        seconds: u64,
    },
    /// The disk is full.
    #[error("the disk is full: {0}")]
    Disk(String),
    /// The cache can't be read or written.
    #[error("base: {0}")]
    Io(std::io::Error),
    /// The caller's token ended it.
    #[error("interrupted while a base was being made")]
    Cancelled,
}

impl From<std::io::Error> for BaseError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Disk(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

impl BaseError {
    /// What kind of infra this is.
    pub fn reason(&self) -> InfraReason {
        match self {
            Self::Mirror { .. } | Self::Image { .. } => InfraReason::Network,
            Self::Disk(_) => InfraReason::Disk,
            Self::Deadline { .. } => InfraReason::Deadline,
            Self::Cancelled => InfraReason::Interrupted,
            Self::NotMade { .. } | Self::NoMaker { .. } | Self::Keyring { .. } | Self::Unknown { .. } => {
                InfraReason::Toolchain
            }
            Self::Io(error) | Self::Archive(ArchiveError::Io(error)) => reason_of(error),
            _ => InfraReason::Environment,
        }
    }

    /// Whether none was to be made, or what makes them is not here or broken.
    pub fn is_unmade(&self) -> bool {
        matches!(self, Self::NotMade { .. } | Self::NoMaker { .. } | Self::Keyring { .. } | Self::Failed { .. })
    }
}
