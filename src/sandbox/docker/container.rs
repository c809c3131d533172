//! One container: made under a name of ours, so that it can be removed whatever its making came to, and gone when dropped.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, ContainerState};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};

use super::engine::{CALL, Engine, EngineError, call};
use crate::fault;
use crate::sandbox::Token;

/// How long starting may take: mounts are made, and a loaded machine takes its time.
const START: Duration = Duration::from_secs(180);
/// How often a removal is tried.
const TRIES: u32 = 3;

/// Removals that are still under way, so that the end of the process can wait for them.
#[derive(Debug, Clone, Default)]
pub struct Pending(Arc<(Mutex<usize>, Condvar)>);

impl Pending {
    fn add(&self) -> Held {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Held(self.clone())
    }

    /// Waits until nothing is under way, for at most `limit`.
    pub fn wait(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut count = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            count = self.0.1.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Debug)]
struct Held(Pending);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.0.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.0.1.notify_all();
    }
}

/// A container of ours.
#[derive(Debug)]
pub struct Container {
    engine: Engine,
    name: String,
    /// `None` once it was removed.
    held: Option<Held>,
}

impl Container {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// [`EngineError`]; nothing is left then.
    pub async fn create(engine: &Engine, body: ContainerCreateBody, pending: &Pending) -> Result<Self, EngineError> {
        let random = Token::fresh().map(|token| token.as_str()[..16].to_owned()).unwrap_or_default();
        let made = Self { engine: engine.clone(), name: format!("redgreen-{random}"), held: Some(pending.add()) };
        let options = CreateContainerOptionsBuilder::new().name(&made.name).build();
        // Dropped when this fails: the engine may have made it all the same.
        call("make a container", START, engine.docker.create_container(Some(options), body)).await?;
        fault::point("docker.container.made");
        Ok(made)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts it.
    pub async fn start(&self) -> Result<(), EngineError> {
        let answer = self.engine.docker.start_container(&self.name, None::<StartContainerOptions>);
        call("start the container", START, answer).await
    }

    /// Kills it, and with its first process everything in it. One that has ended is fine.
    pub async fn kill(&self) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
        match call("kill the container", CALL, self.engine.docker.kill_container(&self.name, Some(options))).await {
            Err(error) if error.is_conflict() || error.is_absent() => Ok(()),
            other => other,
        }
    }

    /// Its state.
    pub async fn state(&self) -> Result<ContainerState, EngineError> {
        let answer = self.engine.docker.inspect_container(&self.name, None::<InspectContainerOptions>);
        Ok(call("tell how the container is", CALL, answer).await?.state.unwrap_or_default())
    }

    /// Bytes in its own writable layer.
    pub async fn size(&self) -> Option<u64> {
        let answer = self.engine.docker.inspect_container(&self.name, Some(InspectContainerOptions { size: true }));
        let found = call("measure the container", CALL, answer).await.ok()?;
        u64::try_from(found.size_rw?).ok()
    }

    /// Removes it and its volumes, dead or alive.
    pub async fn remove(mut self) -> Result<(), EngineError> {
        let removed = remove(&self.engine, &self.name).await;
        if removed.is_ok() {
            self.held.take();
            fault::point("docker.container.removed");
        }
        removed
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let (engine, name) = (self.engine.clone(), std::mem::take(&mut self.name));
        // Outside of a runtime there is nobody to do it: the next start takes it away.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for _ in 0..TRIES {
                    if remove(&engine, &name).await.is_ok() {
                        break;
                    }
                }
                drop(held);
            });
        }
    }
}

/// Removes a container and its volumes; one that is not there, or is being removed, is fine.
pub async fn remove(engine: &Engine, name: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match call("remove the container", START, engine.docker.remove_container(name, Some(options))).await {
        Err(error) if error.is_conflict() || error.is_absent() => Ok(()),
        other => other,
    }
}
