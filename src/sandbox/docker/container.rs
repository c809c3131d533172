//! One container: made under a name of ours, so that it can be removed whatever its making came to, and gone when dropped.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, ContainerState};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions,
};

use super::engine::{CALL, Engine, EngineError, broken, call};
use crate::fault;
use crate::sandbox::Token;

/// How long making, starting and removing may take: mounts are made, and a loaded machine takes its time.
const START: Duration = Duration::from_secs(180);
/// How long a container's removal is awaited by its run. Afterwards the daemon has stalled, and it goes in the background.
const REMOVAL: Duration = Duration::from_secs(60);
/// The pauses before each try to remove a container, in milliseconds.
const PAUSES: [u64; 8] = [0, 50, 200, 500, 1000, 2000, 4000, 8000];
/// How long an engine may take to say of a container that has ended that it does not run.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the engine may take to learn of a kill for want of memory that it did not order.
const LATE_WORD: Duration = Duration::from_millis(500);
/// How often a state is asked for.
const LOOK: Duration = Duration::from_millis(50);

/// Runs and removals that are still under way, so that the end of the process can wait for them.
#[derive(Debug, Clone, Default)]
pub struct Pending(Arc<(Mutex<usize>, Condvar)>);

impl Pending {
    /// One more, until what is given back is dropped.
    pub fn add(&self) -> Held {
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

/// Something that is under way.
#[derive(Debug)]
pub struct Held(Pending);

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
    id: String,
    /// Whether the engine may still make it, though nothing is there by its name.
    may_come: bool,
    /// `None` once it was removed.
    held: Option<Held>,
}

impl Container {
    /// Makes it. Whoever does not await the end of this leaves nothing behind, either: an engine goes on with what it was
    /// asked for, so its answer is awaited all the same, and the container is removed then.
    ///
    /// # Errors
    ///
    /// [`EngineError`]; nothing is left then.
    pub async fn create(engine: &Engine, body: ContainerCreateBody, pending: &Pending) -> Result<Self, EngineError> {
        const STEP: &str = "make a container";
        let random = Token::fresh().map_err(|error| broken(STEP, &error.to_string()))?.as_str()[..16].to_owned();
        let mut made = Self {
            engine: engine.clone(),
            name: format!("redgreen-{random}"),
            id: String::new(),
            may_come: true,
            held: Some(pending.add()),
        };
        let making = tokio::spawn(async move {
            let options = CreateContainerOptionsBuilder::new().name(&made.name).build();
            let answer = call(STEP, START, made.engine.docker.create_container(Some(options), body)).await;
            // An answer of any kind means that the engine is through with it.
            made.may_come = !matches!(&answer, Ok(_) | Err(EngineError::Refused { .. }));
            made.id = answer?.id;
            Ok(made)
        });
        let made = making.await.unwrap_or_else(|error| Err(broken(STEP, &error.to_string())))?;
        fault::point("docker.container.made");
        Ok(made)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The engine's whole id of it.
    pub fn id(&self) -> &str {
        &self.id
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

    /// Its state and exit code, when it has ended. Of a kill for want of memory an engine may learn a moment later: it is
    /// asked again where a kill is not `ours`.
    ///
    /// # Errors
    ///
    /// [`EngineError`], also when the engine does not say that it has ended, or how.
    pub async fn last_state(&self, ours: bool) -> Result<(ContainerState, i64), EngineError> {
        const STEP: &str = "tell how the container ended";
        let begin = Instant::now();
        loop {
            let state = self.state().await?;
            match (state.running, state.exit_code) {
                (Some(false), Some(code)) => {
                    let unclear = !ours && code == 137 && state.oom_killed != Some(true);
                    if !unclear || begin.elapsed() > LATE_WORD {
                        return Ok((state, code));
                    }
                }
                (Some(true), _) if begin.elapsed() > SETTLE => {
                    return Err(broken(STEP, "it says that it has ended, and that it runs"));
                }
                (Some(true), _) => {}
                _ => return Err(broken(STEP, "its answer has no exit code")),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Bytes in its own writable layer.
    pub async fn size(&self) -> Option<u64> {
        let answer = self.engine.docker.inspect_container(&self.name, Some(InspectContainerOptions { size: true }));
        let found = call("measure the container", CALL, answer).await.ok()?;
        u64::try_from(found.size_rw?).ok()
    }

    /// Removes it and its volumes, dead or alive, and waits until it is gone. Where the engine does not get to that, it is
    /// tried again in the background.
    ///
    /// # Errors
    ///
    /// What the engine said last.
    pub async fn remove(mut self) -> Result<(), EngineError> {
        let stalled = || EngineError::Stalled { step: "remove the container".to_owned(), seconds: REMOVAL.as_secs() };
        let removed = tokio::time::timeout(REMOVAL, take_away(&self.engine, &self.name, self.may_come)).await;
        removed.unwrap_or_else(|_| Err(stalled()))?;
        self.held.take();
        fault::point("docker.container.removed");
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let (engine, name, may_come) = (self.engine.clone(), std::mem::take(&mut self.name), self.may_come);
        // Outside of a runtime there is nobody to do it: the next start takes it away.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // What stays in spite of that, too.
                let _ = take_away(&engine, &name, may_come).await;
                drop(held);
            });
        }
    }
}

/// Removes a container and its volumes, with pauses between the tries. With `may_come` an engine that knows none of that
/// name is asked again: it may be about to make it.
async fn take_away(engine: &Engine, name: &str, may_come: bool) -> Result<(), EngineError> {
    let mut last = Ok(());
    for pause in PAUSES {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        last = match ask(engine, name).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_absent() && !may_come => return Ok(()),
            Err(error) if error.is_absent() => Ok(()),
            // Also when somebody else removes it: it is not gone yet.
            Err(error) => Err(error),
        };
    }
    last
}

/// Asks once.
async fn ask(engine: &Engine, name: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    call("remove the container", START, engine.docker.remove_container(name, Some(options))).await
}

/// Removes a container and its volumes; one that is not there, or is being removed, is fine.
pub async fn remove(engine: &Engine, name: &str) -> Result<(), EngineError> {
    match ask(engine, name).await {
        Err(error) if error.is_conflict() || error.is_absent() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fake::{Fake, Reply};
    use super::*;

    const MADE: &str = r#"{"Id":"4c01","Warnings":[]}"#;

    async fn idle(pending: &Pending) {
        let pending = pending.clone();
        tokio::task::spawn_blocking(move || pending.wait(Duration::from_secs(60))).await.unwrap();
    }

    /// An engine that makes a container half a second after it was asked to, and answers with `making`.
    fn slow(making: fn() -> Reply) -> (Fake, Arc<Mutex<Vec<Instant>>>) {
        let there: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let containers = there.clone();
        let fake = Fake::new(move |request| {
            let mut containers = containers.lock().unwrap();
            if request.starts_with("POST /containers/create") {
                containers.push(Instant::now() + Duration::from_millis(500));
                return making();
            }
            match containers.pop_if(|at| *at <= Instant::now()) {
                Some(_) => Reply::After(0, 204, ""),
                None => Reply::After(0, 404, "{}"),
            }
        });
        (fake, there)
    }

    #[tokio::test]
    async fn a_container_that_is_made_after_all_goes_after_all() {
        let answers: [fn() -> Reply; 2] = [|| Reply::After(500, 201, MADE), || Reply::HangUp];
        for (number, making) in answers.into_iter().enumerate() {
            let (fake, there) = slow(making);
            let pending = Pending::default();
            let create = Container::create(&fake.engine, ContainerCreateBody::default(), &pending);
            // Nobody waits for it any more, or nobody hears of it.
            let made = tokio::time::timeout(Duration::from_millis(100), create).await;
            assert!(!matches!(made, Ok(Ok(_))), "{number}");
            idle(&pending).await;
            assert!(there.lock().unwrap().is_empty(), "{number}");
        }
    }

    #[tokio::test]
    async fn a_container_that_was_refused_is_not_waited_for() {
        let fake = Fake::new(|request| match request.starts_with("POST") {
            true => Reply::After(0, 400, r#"{"message":"no"}"#),
            false => Reply::After(0, 404, "{}"),
        });
        let pending = Pending::default();
        let error = Container::create(&fake.engine, ContainerCreateBody::default(), &pending).await.unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
        idle(&pending).await;
        assert_eq!(fake.count("DELETE"), 1);
    }

    #[tokio::test]
    async fn a_removal_ends_when_the_container_is_gone() {
        let tries = AtomicUsize::new(0);
        let fake = Fake::new(move |request| match request.starts_with("POST") {
            true => Reply::After(0, 201, MADE),
            // Somebody else is at it.
            false if tries.fetch_add(1, Ordering::Relaxed) < 2 => Reply::After(0, 409, r#"{"message":"in progress"}"#),
            false => Reply::After(0, 404, "{}"),
        });
        let made = Container::create(&fake.engine, ContainerCreateBody::default(), &Pending::default()).await.unwrap();
        assert_eq!(made.id(), "4c01");
        made.remove().await.unwrap();
        assert_eq!(fake.count("DELETE"), 3);
    }

    #[tokio::test]
    async fn only_of_what_has_ended_the_code_counts() {
        for (states, wanted) in [
            (&[r#"{"Running":false,"ExitCode":3}"#][..], Ok(3)),
            (&[r#"{"Running":true,"ExitCode":0}"#, r#"{"Running":false,"ExitCode":4}"#], Ok(4)),
            (&[r#"{"Running":false}"#], Err("no exit code")),
            (&[r#"{"ExitCode":0}"#], Err("no exit code")),
            (&["{}"], Err("no exit code")),
            (&[r#"{"Running":true,"ExitCode":0}"#; 1000], Err("and that it runs")),
        ] {
            let asked = AtomicUsize::new(0);
            let fake = Fake::new(move |request| match request.starts_with("POST") {
                true => Reply::After(0, 201, MADE),
                false if request.starts_with("DELETE") => Reply::After(0, 204, ""),
                false => {
                    let state = states.get(asked.fetch_add(1, Ordering::Relaxed)).unwrap();
                    Reply::After(0, 200, Box::leak(format!(r#"{{"State":{state}}}"#).into_boxed_str()))
                }
            });
            let pending = Pending::default();
            let made = Container::create(&fake.engine, ContainerCreateBody::default(), &pending).await.unwrap();
            let read = made.last_state(false).await;
            match (read, wanted) {
                (Ok((_, code)), Ok(wanted)) => assert_eq!(code, wanted),
                (Err(error), Err(part)) => {
                    assert!(std::error::Error::source(&error).unwrap().to_string().contains(part))
                }
                (read, wanted) => panic!("{read:?} {wanted:?}"),
            }
        }
    }
}
