//! One task in one new container, from its making to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::command::SHELL;
use super::container::{Container, Pending};
use super::disks::{Written, keeps};
use super::engine::Engine;
use super::exit::{Cause, Ending, ending};
use super::image::Images;
use super::mounts::{Ways, prepare, setup};
use super::start::{Plan, Running, plan, start};
use super::streams::{Said, Streams};
use super::transfer::bring_back;
use super::watch::{Ended, Watched, watch};
use crate::fault;
use crate::sandbox::local::{Identity, KEEP_PROCESSES};
use crate::sandbox::{Captured, End, Exit, Isolation, Listener, Mount, Network, OVER_DISK, SandboxError, Seat, Task};

/// How a task's file systems get into its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The engine mounts them.
    Mounted,
    /// They are copied into the container's own layer.
    Copied,
}

/// What all runs of one sandbox share.
#[derive(Debug)]
pub struct Shared {
    /// The engine.
    pub engine: Engine,
    /// How file systems get there.
    pub mode: Mode,
    /// How mounts are made.
    pub ways: Ways,
    /// Images.
    pub images: Images,
    /// The folder of locks that all processes of the cache share.
    pub locks: PathBuf,
    /// This process.
    pub identity: Identity,
    /// Removals under way.
    pub pending: Pending,
    /// What is in force.
    pub isolation: Isolation,
}

/// A container that was followed to its end.
struct Followed {
    exit: Exit,
    written: Written,
    /// Whether it was seen to write too much.
    over_disk: bool,
    /// Whether that is so of what is thrown away.
    thrown_is_over: bool,
}

/// Runs a task to its end. Whatever comes of it, nothing of it is left when this is done, neither the container nor what
/// was mounted into it; only what an engine that stalls keeps goes later.
pub async fn run(
    shared: Arc<Shared>,
    task: Task,
    seat: Option<Seat>,
    listener: Option<Listener>,
    cancel: CancellationToken,
) -> Result<Exit, SandboxError> {
    let terminal = seat.as_ref().map(|seat| seat.terminal);
    let begin = Instant::now();
    let plan = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        plan = plan(&shared, &task, terminal) => Some(plan?),
    };
    let Some(plan) = plan else { return Ok(never_ran(&shared, &task, begin.elapsed().as_secs_f64())) };
    let mut prepared = match shared.mode {
        Mode::Copied => None,
        Mode::Mounted => {
            let (task, ways, labels) = (task.clone(), shared.ways.clone(), plan.labels.clone());
            Some(blocking(move || prepare(&task, &ways, &labels)).await?)
        }
    };
    let has_overlay = match &prepared {
        Some(prepared) => prepared.has_overlay,
        None => task.mounts.iter().any(|mount| matches!(mount, Mount::Overlay { .. })),
    };
    let mut container = None;
    let set_up = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        running = start(&shared, &task, &plan, &mut prepared, &mut container) => Some(running),
    };
    let ended = match (set_up, &container) {
        (Some(Ok(running)), Some(container)) => {
            fault::point("docker.container.started");
            follow(&shared, &task, &plan, running, container, (seat, listener), &cancel).await.map(Some)
        }
        (Some(Err(error)), _) => Err(error),
        (Some(Ok(_)) | None, _) => Ok(None),
    };
    // What is mounted into a container goes after it: until then its command may run.
    if let Some(container) = container {
        // Where it cannot be removed now, it is tried again in the background, and by the next start.
        let _ = container.remove().await;
    }
    blocking(move || {
        drop(prepared);
        Ok(())
    })
    .await?;
    let Some(Followed { mut exit, written, over_disk, thrown_is_over }) = ended? else {
        return Ok(never_ran(&shared, &task, begin.elapsed().as_secs_f64()));
    };
    // The last look is at what stays.
    let kept_is_over = match written {
        Written::Here(disks) => blocking(move || Ok(disks.kept_is_over())).await?,
        Written::Inside(_) => false,
    };
    if over_disk || kept_is_over {
        let was_thrown = !kept_is_over && (thrown_is_over || !keeps(&task));
        let limit = if was_thrown { task.limits.scratch } else { task.limits.disk };
        let note = format!("\n{OVER_DISK} {limit} bytes on disk\n");
        exit.stderr.bytes.extend_from_slice(note.as_bytes());
        exit.end = End::Signaled(libc::SIGKILL);
    }
    if !has_overlay {
        exit.isolation.workspace = "none".to_owned();
    }
    Ok(exit)
}

/// Watches a container until it has ended, reads the end, brings back what must come back, and puts the exit together.
async fn follow(
    shared: &Shared,
    task: &Task,
    plan: &Plan,
    running: Running,
    container: &Container,
    (seat, listener): (Option<Seat>, Option<Listener>),
    cancel: &CancellationToken,
) -> Result<Followed, SandboxError> {
    let Running { mut output, mut input, token, written, started } = running;
    let mut streams = Streams::new(task.limits.output, task.result_channel, plan.command.says, listener);
    let watched = Watched {
        engine: &shared.engine,
        container,
        output: &mut output,
        input: &mut input,
        started,
        wall: task.limits.wall,
        written: &written,
    };
    let Ended { cause, counters } = watch(watched, &mut streams, seat, cancel).await?;
    fault::point("docker.container.ended");
    let (state, code) = container.last_state(cause.is_some()).await?;
    let Ending { end, timed_out, out_of_memory, by_the_machine, cancelled, seconds } =
        ending(&state, code, cause, &task.limits, &counters);
    if !cancelled {
        if by_the_machine {
            return Err(setup(KEEP_PROCESSES)(std::io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        was_started(plan, task, &streams, code)?;
    }
    let (thrown_is_over, kept_was_over) = match &written {
        Written::Here(disks) => {
            let disks = disks.clone();
            (blocking(move || Ok(disks.thrown_is_over())).await?, false)
        }
        Written::Inside(_) if cancelled => (false, false),
        Written::Inside(_) => (false, bring_back(shared, task, container, plan.uploaded).await?),
    };
    let over_disk = thrown_is_over || kept_was_over || cause == Some(Cause::OverDisk);
    let exit = Exit {
        end,
        timed_out,
        out_of_memory,
        cancelled,
        stdout: streams.stdout,
        stderr: streams.stderr,
        result: streams.result,
        token,
        seconds: seconds.unwrap_or_else(|| started.elapsed().as_secs_f64()),
        cpu_seconds: counters.cpu_seconds,
        peak_memory: counters.peak_memory,
        isolation: isolation(shared, task),
    };
    Ok(Followed { exit, written, over_disk, thrown_is_over })
}

/// Whether the command was started at all, where that is said.
fn was_started(plan: &Plan, task: &Task, streams: &Streams, code: i64) -> Result<(), SandboxError> {
    let absent = |program: &str| SandboxError::Spawn {
        program: program.to_owned(),
        source: std::io::Error::from_raw_os_error(libc::ENOENT),
    };
    match streams.said {
        Said::Nothing if !plan.command.says => Ok(()),
        Said::Starts => Ok(()),
        Said::Absent => Err(absent(&task.argv[0])),
        // The engine's init process says so where there is no shell.
        Said::Nothing if code == 127 => Err(absent(SHELL)),
        Said::Nothing => {
            let said = streams.stderr.text().trim().to_owned();
            Err(SandboxError::Helper(format!("the container ended ({code}) before its command started {said}")))
        }
    }
}

/// What is in force in a run.
fn isolation(shared: &Shared, task: &Task) -> Isolation {
    let mut isolation = shared.isolation.clone();
    if task.network == Network::Host {
        isolation.network = "host".to_owned();
    }
    isolation
}

/// The exit of a task that was cancelled before its command started, or as it did.
fn never_ran(shared: &Shared, task: &Task, seconds: f64) -> Exit {
    Exit {
        end: End::Signaled(libc::SIGKILL),
        timed_out: false,
        out_of_memory: false,
        cancelled: true,
        stdout: Captured::default(),
        stderr: Captured::default(),
        result: Captured::default(),
        token: None,
        seconds,
        cpu_seconds: 0.0,
        peak_memory: None,
        isolation: isolation(shared, task),
    }
}

/// Runs file-system work where it does not hold up others.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SandboxError> + Send + 'static,
) -> Result<T, SandboxError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(SandboxError::Helper(error.to_string())))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::super::fake::{Fake, Reply};
    use super::*;
    use crate::sandbox::{Limits, Root};

    fn shared(engine: Engine, scratch: PathBuf) -> Arc<Shared> {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let none = String::new;
        Arc::new(Shared {
            engine,
            mode: Mode::Mounted,
            ways: Ways { scratch: scratch.clone(), owner, memory: false, etc: Vec::new() },
            images: Images::default(),
            locks: scratch,
            identity: Identity::own().unwrap(),
            pending: Pending::default(),
            isolation: Isolation {
                sandbox: none(),
                level: none(),
                network: none(),
                memory: none(),
                pids: none(),
                workspace: none(),
            },
        })
    }

    fn task() -> Task {
        Task {
            argv: vec!["true".to_owned()],
            cwd: "/".into(),
            variables: Default::default(),
            root: Root::Base { folder: None, archive: None, image: Some("x".to_owned()), digest: "x".to_owned() },
            mounts: Vec::new(),
            limits: Limits::default(),
            network: Network::None,
            result_channel: false,
        }
    }

    #[tokio::test]
    async fn what_is_mounted_into_a_container_goes_after_it() {
        // Cancelled while the engine starts it, and with an output that is torn.
        for is_torn in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let scratch = place.path().join("scratch");
            let folders = {
                let scratch = scratch.clone();
                move || fs_err::read_dir(&scratch).unwrap().count()
            };
            let removal = Arc::new(Mutex::new(None));
            let (seen, removed, cancel) = (folders.clone(), removal.clone(), CancellationToken::new());
            let stop = cancel.clone();
            let fake = Fake::new(move |request| match request.split('/').next_back().unwrap_or_default() {
                "json" if request.starts_with("GET /images") => Reply::After(0, 200, r#"{"Id":"sha256:0"}"#),
                "create" => Reply::After(0, 201, r#"{"Id":"4c01","Warnings":[]}"#),
                "attach" => Reply::Stream(if is_torn { b"torn" } else { b"" }),
                "start" if is_torn => Reply::After(0, 204, ""),
                "start" => {
                    stop.cancel();
                    Reply::After(200, 204, "")
                }
                _ if request.starts_with("DELETE") => {
                    *removed.lock().unwrap() = Some((Instant::now(), seen()));
                    Reply::After(300, 204, "")
                }
                _ => Reply::Never,
            });
            let ended = run(shared(fake.engine.clone(), scratch.clone()), task(), None, None, cancel).await;
            match (ended, is_torn) {
                (Ok(exit), false) => assert!(exit.cancelled),
                (Err(error), true) => assert!(matches!(error, SandboxError::Engine(_)), "{error}"),
                (ended, _) => panic!("{ended:?}"),
            }
            let (when, there) = removal.lock().unwrap().unwrap();
            assert!(when.elapsed() >= Duration::from_millis(300), "it was not waited for");
            assert_eq!((there, folders()), (1, 0));
        }
    }
}
