//! Deadlines of phases, and the budgets of one oracle run and of a whole run.

use std::time::Duration;

/// How long each phase before an oracle's own run may take. The oracle's deadline is among its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseLimits {
    /// Repository: finding or cloning it with all tries, checking the trees out, applying patches.
    pub repository: Duration,
    /// Fetching an environment's packages, all layers together, waiting for another process's fetch included.
    pub fetch: Duration,
    /// Building the repository in its environment.
    pub build: Duration,
    /// One proof of an environment, or one reading of what a project wants.
    pub proof: Duration,
    /// Finding, building and proving one environment, all attempts together.
    pub environment: Duration,
    /// Rebuilding a revision before its oracle; `None`: as long as the oracle.
    pub rebuild: Option<Duration>,
}

impl Default for PhaseLimits {
    fn default() -> Self {
        const MINUTE: u64 = 60;
        Self {
            repository: Duration::from_secs(30 * MINUTE),
            fetch: Duration::from_secs(15 * MINUTE),
            build: Duration::from_secs(15 * MINUTE),
            proof: Duration::from_secs(10 * MINUTE),
            environment: Duration::from_secs(120 * MINUTE),
            rebuild: None,
        }
    }
}

impl PhaseLimits {
    /// The phases that can be set, by name.
    pub const NAMES: [&str; 6] = ["repository", "fetch", "build", "proof", "environment", "rebuild"];

    /// Sets a phase's limit; false when there is no such phase.
    pub fn set(&mut self, phase: &str, limit: Duration) -> bool {
        match phase {
            "repository" => self.repository = limit,
            "fetch" => self.fetch = limit,
            "build" => self.build = limit,
            "proof" => self.proof = limit,
            "environment" => self.environment = limit,
            "rebuild" => self.rebuild = Some(limit),
            _ => return false,
        }
        true
    }
}

/// What bounds a run beyond the limits of single oracle runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Deadlines of phases.
    pub phases: PhaseLimits,
    /// All tries of one oracle run together; `None`: each within its limits.
    pub task_budget: Option<Duration>,
    /// After so long nothing new is started.
    pub run_budget: Option<Duration>,
    /// After so many infrastructure failures in a row for the same cause nothing is started that would meet it; 0: never.
    pub same_infra: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { phases: PhaseLimits::default(), task_budget: None, run_budget: None, same_infra: 5 }
    }
}

/// A time for people: `90 s`, `15 min`, `2 h`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let whole = duration.as_secs();
    match whole {
        3600.. if whole.is_multiple_of(3600) => format!("{} h", whole / 3600),
        120.. if whole.is_multiple_of(60) => format!("{} min", whole / 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_can_be_set_by_its_name() {
        for (number, name) in PhaseLimits::NAMES.iter().enumerate() {
            let mut limits = PhaseLimits::default();
            assert!(limits.set(name, Duration::from_secs(number as u64 + 1)));
            assert_ne!(limits, PhaseLimits::default(), "{name}");
        }
        assert!(!PhaseLimits::default().set("oracle", Duration::ZERO));
    }

    #[test]
    fn times_for_people() {
        for (seconds, text) in [(1.5, "1.5 s"), (60.0, "60 s"), (900.0, "15 min"), (7200.0, "2 h"), (5400.0, "90 min")]
        {
            assert_eq!(time(Duration::from_secs_f64(seconds)), text);
        }
    }
}
