//! Which infrastructure failures others would meet, too, and what is done when one keeps coming back.

use super::prepare::{Unavailable, interrupted};
use super::run::Shared;
use crate::engine::{Cause, Closed, Event, Scope, normalised};
use crate::environment::{EnvironmentError, Phase, Resolved, StepEnd};
use crate::model::{InfraReason, InstanceId};
use crate::repo::RepoError;

/// How what was never tried begins to say so. Such a row is tried by the next run, also with `--only-missing`.
pub(super) const STOPPED: &str = "stopped: ";

/// The toolchain that a spec wants, as the breaker names it.
pub(super) fn toolchain_of(resolved: &Resolved) -> String {
    named(&resolved.definition.name, resolved.spec.version.as_deref().unwrap_or_default())
}

/// The same where it was not found.
pub(super) fn named(language: &str, version: &str) -> String {
    format!("{language} {}", version.trim()).trim_end().to_owned()
}

/// The packages of an environment, as the breaker names them.
pub(super) fn packages_of(resolved: &Resolved) -> Scope {
    Scope::Environment(resolved.key().as_str().to_owned())
}

impl Unavailable {
    /// Says that others would meet this, too.
    pub(super) fn shared(mut self, scope: Scope) -> Self {
        let identity = match scope {
            // Whatever the network or the disk was wanted for, it is the one network and the one disk.
            Scope::Network => self.class.as_str().to_owned(),
            _ if self.class == InfraReason::Disk => String::new(),
            _ => normalised(&self.detail),
        };
        self.cause = Some(Cause { scope, identity });
        self
    }

    /// The breaker's cause of what a repository or its host said.
    pub(in crate::stage) fn of_repo(error: &RepoError) -> Self {
        const NETWORK: [&str; 7] = [
            "could not resolve",
            "couldn't resolve",
            "connection refused",
            "connection timed out",
            "connection reset",
            "network is unreachable",
            "failed to connect",
        ];
        let detail = error.to_string();
        let lower = detail.to_lowercase();
        match error {
            error if error.is_disk() => Self::new(InfraReason::Disk, detail),
            RepoError::GitTimeout { command, .. } if command.contains("://") => {
                Self::new(InfraReason::Deadline, format!("repository phase: {detail}")).shared(Scope::Network)
            }
            RepoError::GitProgram { .. } if NETWORK.iter().any(|sign| lower.contains(sign)) => {
                Self::new(InfraReason::Network, detail).shared(Scope::Network)
            }
            RepoError::GitTimeout { .. } => Self::new(InfraReason::Deadline, format!("repository phase: {detail}")),
            _ => Self::new(InfraReason::Repository, detail),
        }
    }

    /// The breaker's cause of what went wrong with an environment; `resolved` where its toolchain was found.
    pub(super) fn of_environment(error: &EnvironmentError, resolved: Option<&Resolved>, version: &str) -> Self {
        let mut why = Self::new(error.reason(), error.to_string());
        why.log = error.log().map(<[u8]>::to_vec);
        let in_time = |phase: &Phase| *phase == Phase::Fetch;
        match (error.root(), resolved) {
            (EnvironmentError::ToolchainMissing { language, .. } | EnvironmentError::NoBase { language, .. }, _)
                if why.class == InfraReason::Toolchain =>
            {
                let scope = Scope::Toolchain(named(language, version));
                why.shared(scope)
            }
            (EnvironmentError::Step { phase, end: StepEnd::TimedOut(_), .. }, _)
            | (EnvironmentError::Deadline { phase, .. }, _)
                if in_time(phase) =>
            {
                why.shared(Scope::Network)
            }
            (EnvironmentError::Step { reason: InfraReason::Network, .. }, _) => why.shared(Scope::Network),
            (EnvironmentError::Base(_) | EnvironmentError::NoBase { .. }, _) if why.class == InfraReason::Network => {
                why.shared(Scope::Network)
            }
            // The same packages fail in the same way for every instance that wants them; others do not care.
            (EnvironmentError::Step { phase: Phase::Fetch, .. }, Some(resolved)) if why.cause.is_none() => {
                why.shared(packages_of(resolved))
            }
            _ => why,
        }
    }
}

impl Shared {
    /// Counts a failure, and closes what would meet the same cause when it was met often enough.
    pub(super) fn failed(&self, why: &Unavailable, instance: &InstanceId) {
        let Some(cause) = &why.cause else { return };
        let Some(count) = self.breaker.failed(cause, &why.detail, instance) else { return };
        let (what, hint) = match &cause.scope {
            Scope::Machine => ("nothing".to_owned(), "`redgreen doctor` tells what this machine can do"),
            Scope::Network => {
                self.services.environments.give_up_network();
                ("nothing that needs the network".to_owned(), "what is in the cache goes on without it")
            }
            Scope::Toolchain(name) => {
                (format!("nothing that needs `{name}`"), "`redgreen doctor` tells which toolchains are found")
            }
            Scope::Environment(_) => {
                ("nothing with the same environment".to_owned(), "its packages or its toolchain are broken")
            }
        };
        let detail = one_line(&why.detail);
        self.events.send(Event::Note {
            text: format!(
                "stopped: {count} times in a row the same cause, infra, {}: {detail}; {what} is started any more ({hint}); \
                 the same command tries again, `--max-same-infra` sets the number",
                why.class.as_str()
            ),
        });
        if cause.scope == Scope::Machine {
            self.scheduler.close(Closed { class: why.class, detail: stopped(&why.detail) });
        }
    }

    /// What is said of work that would meet a cause that was met too often; `None` when nothing stands in its way.
    pub(super) fn in_the_way(&self, scope: &Scope, class: InfraReason) -> Option<Unavailable> {
        self.breaker.closed(scope).map(|detail| Unavailable::new_without_cause(class, stopped(&detail)))
    }

    /// Why nothing new may start.
    pub(super) fn not_started(&self) -> Unavailable {
        match self.scheduler.closed() {
            Some(closed) if !self.scheduler.is_interrupted() => {
                Unavailable::new_without_cause(closed.class, closed.detail.clone())
            }
            _ => interrupted(),
        }
    }
}

fn stopped(detail: &str) -> String {
    format!("{STOPPED}the same cause was met too often: {}", one_line(detail))
}

/// The first lines of a text as one.
fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    if line.chars().count() <= MOST { line } else { format!("{}…", line.chars().take(MOST).collect::<String>()) }
}
