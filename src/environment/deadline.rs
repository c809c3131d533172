//! The deadline of a phase as a whole: its steps share it, and so does waiting for another process's work.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::{EnvironmentError, Phase};

/// What a step that is at its deadline may still take to be killed and to tell what it wrote, before the phase is over
/// without that.
const GRACE: Duration = Duration::from_secs(5);

/// A phase's deadline.
#[derive(Debug)]
pub(super) struct Deadline<'a> {
    phase: Phase,
    limit: Duration,
    /// The caller's token.
    cancel: &'a CancellationToken,
    /// Fires with the caller's, and when the phase is over.
    pub token: CancellationToken,
    /// When steps must end.
    pub until: Instant,
}

impl<'a> Deadline<'a> {
    /// The phase begins now.
    pub fn new(phase: Phase, limit: Duration, cancel: &'a CancellationToken) -> Self {
        let until = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        Self { phase, limit, cancel, token: cancel.child_token(), until }
    }

    /// Runs the phase's work, which is told by the token when its time is over.
    pub async fn over<T>(
        &self,
        work: impl Future<Output = Result<T, EnvironmentError>>,
    ) -> Result<T, EnvironmentError> {
        tokio::pin!(work);
        let ended = tokio::select! {
            ended = &mut work => ended,
            () = tokio::time::sleep_until((self.until + GRACE).into()) => {
                self.token.cancel();
                work.await
            }
        };
        ended.map_err(|error| match error {
            EnvironmentError::Cancelled if !self.cancel.is_cancelled() => self.error(),
            error => error,
        })
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What there is to say when it is over.
    pub fn error(&self) -> EnvironmentError {
        EnvironmentError::Deadline { phase: self.phase, seconds: self.limit.as_secs().max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_phase_that_does_not_end_is_told_so_and_named() {
        let cancel = CancellationToken::new();
        let deadline = Deadline::new(Phase::Fetch, Duration::from_secs(1), &cancel);
        let stalls = async {
            deadline.token.cancelled().await;
            Err::<(), _>(EnvironmentError::Cancelled)
        };
        let error = deadline.over(stalls).await.unwrap_err();
        assert_eq!(error.to_string(), "fetch phase: not done at its deadline of 1 s");
        // Somebody else's wish is no deadline.
        let deadline = Deadline::new(Phase::Build, Duration::from_secs(60), &cancel);
        cancel.cancel();
        let error = deadline.over(async { Err::<(), _>(EnvironmentError::Cancelled) }).await.unwrap_err();
        assert!(matches!(error, EnvironmentError::Cancelled));
    }
}
