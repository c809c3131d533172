//! What `doctor` and `gc` tell of an engine.

use serde::Serialize;

use super::config::Surroundings;
use super::docker_sandbox::{identity, on, runtime};
use super::engine::Engine;
use super::facts::Facts;
use super::reaper::{self, BaseImage};
use super::trial::Trial;
use crate::sandbox::SandboxError;

/// What an engine is and can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// Its address.
    pub address: String,
    /// What named the address.
    pub origin: String,
    /// Its own account.
    pub facts: Facts,
    /// Why it cannot mount our files and overlays of them; `None`: it can.
    pub no_mounts: Option<String>,
    /// Why it does not see memory that we mount; `None`: it does.
    pub no_memory: Option<String>,
    /// Settings that were passed over on the way to it, and why.
    pub skipped: Vec<String>,
}

impl Examination {
    pub(super) fn new(engine: &Engine, trial: Trial) -> Self {
        Self {
            address: engine.at.endpoint.to_string(),
            origin: engine.at.origin.clone(),
            facts: engine.facts.clone(),
            no_mounts: trial.mounts.err(),
            no_memory: trial.memory.err(),
            skipped: engine.skipped.clone(),
        }
    }
}

/// What of ours is at an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holdings {
    /// The engine's address.
    pub address: String,
    /// Containers, volumes and images of processes that are dead.
    pub leftovers: usize,
    /// Images that were made from bases.
    pub bases: Vec<BaseImage>,
    /// What could not be removed.
    pub problems: Vec<String>,
}

/// Lists what of ours is at the engine. With `remove`, leftovers go, and of the bases' images those that were made before
/// that time (in seconds since 1970) and that nothing stands on.
///
/// # Errors
///
/// [`SandboxError::Unavailable`] when no engine answers.
pub fn holdings(around: &Surroundings, remove: Option<i64>) -> Result<Holdings, SandboxError> {
    let runtime = runtime()?;
    on(&runtime, async {
        let engine = Engine::connect(around).await?;
        let left = reaper::leftovers(&engine, &identity()?).await?;
        let mut held = Holdings {
            address: engine.at.endpoint.to_string(),
            leftovers: left.count(),
            bases: reaper::base_images(&engine).await?,
            problems: Vec::new(),
        };
        if let Some(before) = remove {
            let stayed = reaper::remove(&engine, left).await;
            if stayed > 0 {
                held.problems.push(format!("{stayed} leftovers at {} could not be removed", held.address));
            }
            for image in held.bases.iter().filter(|image| image.created < before) {
                match reaper::remove_image(&engine, &image.id).await {
                    // A container of somebody's stands on it.
                    Err(error) if error.is_conflict() || error.is_absent() => {}
                    Err(error) => held.problems.push(error.to_string()),
                    Ok(()) => {}
                }
            }
        }
        Ok(held)
    })
}
