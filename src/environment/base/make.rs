//! Who is told how the making of a base goes, and may end it.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::BaseError;

/// Who is told how work goes, and may end it.
pub struct Told<'a> {
    name: String,
    progress: &'a (dyn Fn(&str) + Send + Sync),
    cancel: &'a CancellationToken,
    limit: Duration,
    until: Instant,
}

impl<'a> Told<'a> {
    /// Work on the base `name` begins now. `progress` hears what happens, line by line.
    pub fn new(
        name: &str,
        progress: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
        limit: Duration,
    ) -> Self {
        let until = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        Self { name: name.to_owned(), progress, cancel, limit, until }
    }

    /// Says what is being done.
    pub fn say(&self, text: &str) {
        (self.progress)(&format!("base {}: {text}", self.name));
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`BaseError::Cancelled`] and [`BaseError::Deadline`].
    pub fn check(&self) -> Result<(), BaseError> {
        if self.cancel.is_cancelled() {
            Err(BaseError::Cancelled)
        } else if Instant::now() >= self.until {
            Err(BaseError::Deadline { name: self.name.clone(), seconds: self.limit.as_secs().max(1) })
        } else {
            Ok(())
        }
    }

    /// The same for work that only knows the errors of files; see [`error`](Self::error).
    pub fn go(&self) -> std::io::Result<()> {
        self.check().map_err(std::io::Error::other)
    }

    /// What a failure of a file's really was.
    pub fn error(&self, error: std::io::Error) -> BaseError {
        match self.check() {
            Err(ended) => ended,
            Ok(()) => error.into(),
        }
    }

    /// Fires when the caller wants an end.
    pub fn cancel(&self) -> &CancellationToken {
        self.cancel
    }

    /// When the work must be done.
    pub fn until(&self) -> Instant {
        self.until
    }
}
