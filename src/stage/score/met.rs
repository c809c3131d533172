//! What one oracle run meets beside its oracle: causes that others met before, a full disk, its budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::prepare::{Ready, Unavailable};
use super::run::Shared;
use super::runner::Bound;
use crate::engine::{Scope, time};
use crate::model::{InfraReason, Outcome};

/// One run's surroundings.
pub(super) struct Met<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) ready: &'a Ready,
    pub(super) bound: &'a Bound,
}

impl Met<'_> {
    /// The program that this toolchain and environment start: when it does not, it does not for anybody.
    fn program(&self) -> Scope {
        Scope::Toolchain(format!("{}: {}", self.ready.toolchain, self.bound.program()))
    }

    fn environment(&self) -> Scope {
        Scope::Environment(self.ready.environment.digest.as_str().to_owned())
    }

    /// A cause that was met too often and would be met again.
    pub(super) fn in_the_way(&self) -> Option<Unavailable> {
        let program = self.shared.in_the_way(&self.program(), InfraReason::Toolchain);
        program.or_else(|| self.shared.in_the_way(&self.environment(), InfraReason::Environment))
    }

    /// Says whom else a failure concerns.
    pub(super) fn concerning(&self, why: Unavailable) -> Unavailable {
        match why.class {
            _ if why.cause.is_some() => why,
            InfraReason::Toolchain => why.shared(self.program()),
            InfraReason::Environment => why.shared(self.environment()),
            _ => why,
        }
    }

    /// A run came to an outcome: whatever would have stopped it is not there.
    pub(super) fn worked(&self) {
        for scope in [Scope::Machine, self.program(), self.environment()] {
            self.shared.breaker.worked(&scope);
        }
    }

    /// On a full disk only a pass says what it says.
    pub(super) fn not_to_be_believed(&self, outcome: &Outcome) -> Option<String> {
        if *outcome == Outcome::Passed { None } else { self.shared.scheduler.disk()?.is_full() }
    }
}

/// The time that all tries of one run have together.
pub(super) struct Budget {
    /// Fires with the run's stop, and when the budget is used up.
    pub(super) token: CancellationToken,
    limit: Option<(Duration, Instant)>,
    timer: Option<tokio::task::JoinHandle<()>>,
}

impl Budget {
    /// Begins now.
    pub(super) fn new(limit: Option<Duration>, stop: &CancellationToken) -> Self {
        let token = stop.child_token();
        let timer = limit.map(|limit| {
            let token = token.clone();
            tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                token.cancel();
            })
        });
        Self { token, limit: limit.map(|limit| (limit, Instant::now())), timer }
    }

    /// Whether it is used up.
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some_and(|(limit, began)| began.elapsed() >= limit)
    }

    /// What there is to say then.
    pub(super) fn over(&self, tries: u32) -> Unavailable {
        let limit = self.limit.map_or(Duration::ZERO, |(limit, _)| limit);
        let tries = if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
        Unavailable::new(
            InfraReason::Deadline,
            format!("oracle run: its budget of {} is used up after {tries} (`--task-budget`)", time(limit)),
        )
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}
