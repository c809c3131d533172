//! [`DockerSandbox`]: a container engine behind the [`Sandbox`] trait.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use tokio_util::sync::CancellationToken;

use super::config::DockerConfig;
use super::container::Pending;
use super::engine::Engine;
use super::examination::Examination;
use super::image::Images;
use super::mounts::{Ways, setup};
use super::reaper;
use super::run::{Mode, Shared, run};
use super::trial::{Trial, trial};
use crate::sandbox::local::{HOME, Identity, ROOT_MODE_ID};
use crate::sandbox::{COPY, Exit, Isolation, Listener, RunFuture, Sandbox, SandboxError, Seat, Task};

/// How long the end of the process waits for runs that are being ended and containers that are being removed.
const LAST: Duration = Duration::from_secs(30);

/// A container engine: Docker, or what speaks its language.
///
/// Each task gets a new container. The tasks of one sandbox share a connection, and a small runtime of their own, so that
/// it does not matter in whose runtime a task is awaited.
#[derive(Debug)]
pub struct DockerSandbox {
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
    /// Files that all containers share; gone with the sandbox.
    _etc: tempfile::TempDir,
}

impl DockerSandbox {
    /// Connects to an engine, takes away what dead processes left with it, and finds out whether it can mount our files.
    /// Blocks for about a second.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] when no engine answers, with what was tried and what it said.
    pub fn new(config: DockerConfig) -> Result<Self, SandboxError> {
        let runtime = runtime()?;
        let made = on(&runtime, Self::prepare(config))?;
        Ok(Self { shared: made.0, _etc: made.1, runtime: Some(runtime) })
    }

    async fn prepare(config: DockerConfig) -> Result<(Arc<Shared>, tempfile::TempDir), SandboxError> {
        let engine = Engine::connect(&config.surroundings).await?;
        let identity = identity()?;
        if let Ok(left) = reaper::leftovers(&engine, &identity).await {
            // What cannot be removed now is found by the next start.
            let _ = reaper::remove(&engine, left).await;
        }
        let (etc, mut ways) = ways(&config.scratch_dir)?;
        let pending = Pending::default();
        let mode = if config.copy_workspace {
            Mode::Copied
        } else {
            let Trial { mounts, memory } = trial(&engine, &ways, &identity, &pending).await;
            ways.memory = memory.is_ok();
            if mounts.is_ok() { Mode::Mounted } else { Mode::Copied }
        };
        let isolation = isolation(&engine, mode);
        let locks = config.scratch_dir.parent().unwrap_or(&config.scratch_dir).to_owned();
        let images = Images::default();
        Ok((Arc::new(Shared { engine, mode, ways, images, locks, identity, pending, isolation }), etc))
    }

    /// Finds out what the engine is and can do; for `doctor`. The container and the image that it is tried with are gone
    /// afterwards, and what dead processes left stays. Blocks for about a second.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] when no engine answers.
    pub fn examine(config: DockerConfig) -> Result<Examination, SandboxError> {
        let runtime = runtime()?;
        let pending = Pending::default();
        let examined = on(&runtime, async {
            let engine = Engine::connect(&config.surroundings).await?;
            let identity = identity()?;
            let (_etc, ways) = ways(&config.scratch_dir)?;
            let trial = trial(&engine, &ways, &identity, &pending).await;
            Ok(Examination::new(&engine, trial))
        });
        // What could not be removed at once would end with the runtime.
        pending.wait(LAST);
        examined
    }

    fn spawn<'a>(
        &'a self,
        task: &'a Task,
        seat: Option<Seat>,
        listener: Option<Listener>,
        cancel: &'a CancellationToken,
    ) -> RunFuture<'a> {
        Box::pin(async move {
            let Some(runtime) = &self.runtime else {
                return Err(SandboxError::Helper("the sandbox has ended".to_owned()));
            };
            // Also when the caller drops this future: then the container goes in the background.
            let stop = cancel.child_token();
            let _guard = stop.clone().drop_guard();
            let run = run(self.shared.clone(), task.clone(), seat, listener, stop);
            // The end of the sandbox waits for the end of this, also where nobody else does.
            let held = self.shared.pending.add();
            let running = runtime.spawn(async move {
                let ended = run.await;
                drop(held);
                ended
            });
            let ended: Result<Result<Exit, SandboxError>, _> = running.await;
            ended.unwrap_or_else(|error| Err(SandboxError::Helper(error.to_string())))
        })
    }
}

impl Drop for DockerSandbox {
    fn drop(&mut self) {
        self.shared.pending.wait(LAST);
        if let Some(runtime) = self.runtime.take() {
            // Never waits, so that it may stand in another runtime's task.
            runtime.shutdown_background();
        }
    }
}

impl Sandbox for DockerSandbox {
    fn isolation(&self) -> Isolation {
        self.shared.isolation.clone()
    }

    fn owner(&self) -> (u32, u32) {
        self.shared.ways.owner
    }

    fn has_host_root(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, task: &'a Task, cancel: &'a CancellationToken) -> RunFuture<'a> {
        self.spawn(task, None, None, cancel)
    }

    fn run_heard<'a>(&'a self, task: &'a Task, listener: Listener, cancel: &'a CancellationToken) -> RunFuture<'a> {
        self.spawn(task, None, Some(listener), cancel)
    }

    fn attend<'a>(&'a self, task: &'a Task, seat: Seat, cancel: &'a CancellationToken) -> RunFuture<'a> {
        self.spawn(task, Some(seat), None, cancel)
    }
}

/// A runtime of our own: an engine's connections belong to the runtime that made them.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, SandboxError> {
    let built =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("docker").enable_all().build();
    built.map_err(setup("start the runtime of the Docker sandbox"))
}

/// Runs something to its end, whether or not the caller stands in a runtime.
pub(super) fn on<T: Send>(
    runtime: &tokio::runtime::Runtime,
    work: impl Future<Output = Result<T, SandboxError>> + Send,
) -> Result<T, SandboxError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| runtime.block_on(work));
        thread
            .join()
            .unwrap_or_else(|_| Err(SandboxError::Helper("the Docker sandbox broke while it started".to_owned())))
    })
}

pub(super) fn identity() -> Result<Identity, SandboxError> {
    Identity::own().ok_or_else(|| SandboxError::Unavailable { reason: "`/proc` is not mounted".to_owned() })
}

/// Where files lie and whose they are: the same user as the embedded sandbox's, so that both use the same layers.
fn ways(scratch: &Path) -> Result<(tempfile::TempDir, Ways), SandboxError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner = if uid == 0 { (ROOT_MODE_ID, ROOT_MODE_ID) } else { (uid, gid) };
    fs::create_dir_all(scratch).map_err(setup("make the scratch folder"))?;
    let folder = tempfile::Builder::new()
        .prefix("docker-etc-")
        .tempdir_in(scratch)
        .map_err(setup("make a folder for the containers' users"))?;
    let mut etc = Vec::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).map_err(setup("open a folder"))?;
    for (name, text) in users(owner) {
        let path: PathBuf = folder.path().join(name);
        fs::write(&path, text).map_err(setup("write the containers' users"))?;
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&path, open).map_err(setup("open a file"))?;
        etc.push((format!("/etc/{name}"), path));
    }
    Ok((folder, Ways { scratch: scratch.to_owned(), owner, memory: false, etc }))
}

/// The users and groups of every container.
fn users((uid, gid): (u32, u32)) -> [(&'static str, String); 2] {
    let root = if uid == 0 { String::new() } else { "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n".to_owned() };
    let roots = if gid == 0 { String::new() } else { "root:x:0:\n".to_owned() };
    [
        (
            "passwd",
            format!(
                "{root}redgreen:x:{uid}:{gid}:redgreen:{HOME}:/bin/sh\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("{roots}redgreen:x:{gid}:\nnogroup:x:65534:\n")),
    ]
}

fn isolation(engine: &Engine, mode: Mode) -> Isolation {
    let word = |is| if is { "cgroup" } else { "none" }.to_owned();
    Isolation {
        sandbox: "docker".to_owned(),
        level: "container".to_owned(),
        network: "none".to_owned(),
        memory: word(engine.facts.limits_memory),
        pids: word(engine.facts.limits_pids),
        workspace: match mode {
            Mode::Mounted => "overlayfs",
            Mode::Copied => COPY,
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_user_has_a_name() {
        let [(_, passwd), (_, group)] = users((60977, 60977));
        assert!(passwd.contains("redgreen:x:60977:60977:redgreen:/home/redgreen:/bin/sh\n"));
        assert!(passwd.starts_with("root:") && group.contains("redgreen:x:60977:\n"));
    }
}
