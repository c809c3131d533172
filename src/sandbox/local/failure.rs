//! A failed step of setting up a sandbox.

use std::io;

use super::protocol::Report;

/// A step and the system's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What was being done, as it reads after "could not".
    pub step: String,
    /// The error number.
    pub errno: i32,
}

impl From<Failure> for Report {
    fn from(failure: Failure) -> Self {
        Self::Setup { step: failure.step, errno: failure.errno }
    }
}

/// Names the step of a failed system call.
pub trait Step<T> {
    /// Turns the error into a [`Failure`] at `step`.
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { step: step(), errno: errno(&error) })
    }
}

impl<T> Step<T> for rustix::io::Result<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { step: step(), errno: error.raw_os_error() })
    }
}

/// The error number. An error that was wrapped to name its path has lost it, but not its kind.
fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::AlreadyExists => libc::EEXIST,
        io::ErrorKind::NotADirectory => libc::ENOTDIR,
        io::ErrorKind::IsADirectory => libc::EISDIR,
        io::ErrorKind::DirectoryNotEmpty => libc::ENOTEMPTY,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::ResourceBusy => libc::EBUSY,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::StorageFull => libc::ENOSPC,
        io::ErrorKind::QuotaExceeded => libc::EDQUOT,
        io::ErrorKind::FileTooLarge => libc::EFBIG,
        io::ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        _ => libc::EIO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_wrapped_error_is_found() {
        let failure = fs_err::read("/nowhere/at/all").step(|| "read".to_owned()).unwrap_err();
        assert_eq!(failure, Failure { step: "read".to_owned(), errno: libc::ENOENT });
        assert_eq!(errno(&io::Error::other("no number")), libc::EIO);
    }
}
