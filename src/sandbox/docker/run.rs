//! One task in one new container, from its making to its end.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::models::ContainerState;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, UploadToContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::attended::Attended;
use super::command::{Circumstances, command};
use super::container::{Container, Pending};
use super::counters::{Counters, Group};
use super::create::{Parts, body};
use super::download::{Unpacked, take_in};
use super::engine::{CALL, Engine, EngineError, call, name};
use super::exit::{Cause, Ending, ending};
use super::image::Images;
use super::label::labels;
use super::mounts::{Prepared, Ways, prepare, setup, tmpfs};
use super::streams::Streams;
use super::upload::{Pieces, Upload};
use crate::fault;
use crate::sandbox::local::{Disk, Identity, disk_size};
use crate::sandbox::{
    Captured, End, Exit, Isolation, Listener, Mount, Network, OVER_DISK, SandboxError, Seat, Task, Token,
};

/// A kill of a container that goes on beside reading its output.
type Killing<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + 'a>>;

/// How often counters and disk are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often a container's own layer is measured: the engine walks through it.
const MEASURE: Duration = Duration::from_secs(2);
/// How long a killed container may take to end. Afterwards the daemon has stalled.
const GRACE: Duration = Duration::from_secs(60);
/// How long output may still come when the container has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long the engine may take to learn of a kill for want of memory that it did not order.
const SETTLE: Duration = Duration::from_millis(500);
/// What moving a workspace to or from the engine may take.
const TRANSFER: Duration = Duration::from_secs(900);
/// How much longer than its wall clock a container may be needed, in seconds: for making, copying, removing.
const SLACK: u64 = 3600;

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

/// A container that runs.
struct Running {
    container: Container,
    prepared: Option<Prepared>,
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    token: Option<Token>,
    marker: String,
    by_script: bool,
    started: Instant,
}

/// Runs a task to its end.
pub async fn run(
    shared: Arc<Shared>,
    task: Task,
    seat: Option<Seat>,
    listener: Option<Listener>,
    cancel: CancellationToken,
) -> Result<Exit, SandboxError> {
    let terminal = seat.as_ref().map(|seat| seat.terminal);
    let begin = Instant::now();
    let set_up = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        running = start(&shared, &task, terminal) => Some(running?),
    };
    // What was made by then goes in the background; nothing of the command has run.
    let Some(mut running) = set_up else { return Ok(never_ran(&shared, &task, begin.elapsed().as_secs_f64())) };
    fault::point("docker.container.started");
    let mut streams = Streams::new(task.limits.output, task.result_channel, listener);
    let attended = seat.map(|seat| Attended::new(seat.stream)).transpose().map_err(setup("use the seat"))?;
    let watched = watch(&shared, &task, &mut running, &mut streams, attended, &cancel).await;
    let ended = match watched {
        Ok(ended) => ended,
        Err(error) => {
            drop(running);
            return Err(error.into());
        }
    };
    fault::point("docker.container.ended");
    finish(&shared, &task, running, streams, ended).await
}

/// Makes and starts the container.
async fn start(shared: &Shared, task: &Task, terminal: Option<bool>) -> Result<Running, SandboxError> {
    let engine = &shared.engine;
    let image = shared.images.of(engine, &task.root, &shared.locks).await?;
    let marker = Token::fresh().map_err(setup("draw a random text"))?.as_str().to_owned();
    let has_token = task.result_channel && terminal.is_none();
    let token = has_token.then(Token::fresh).transpose().map_err(setup("draw the result channel's token"))?;
    let around = Circumstances {
        image: &image.variables,
        init: engine.facts.has_init,
        marker: &marker,
        attended: terminal.is_some(),
    };
    let command = command(task, around)?;
    let by_script = command.by_script;
    let labels = labels(&shared.identity.name(), task.limits.wall.as_secs().saturating_add(SLACK));
    let mut prepared = match shared.mode {
        Mode::Copied => None,
        Mode::Mounted => {
            let (task, ways, labels) = (task.clone(), shared.ways.clone(), labels.clone());
            Some(blocking(move || prepare(&task, &ways, &labels)).await?)
        }
    };
    let (mounts, tmpfs) = match &prepared {
        Some(prepared) => (prepared.mounts.clone(), prepared.tmpfs.clone()),
        None => (Vec::new(), tmpfs(task.limits.scratch, shared.ways.owner)),
    };
    let parts = Parts {
        image: &image.id,
        command,
        owner: shared.ways.owner,
        labels,
        mounts,
        tmpfs,
        writable_root: shared.mode == Mode::Copied,
        terminal,
    };
    let made = Container::create(engine, body(task, &engine.facts, parts), &shared.pending).await;
    let container = made.inspect_err(|error| {
        if error.is_absent() {
            shared.images.forget(&image.id);
        }
    })?;
    if prepared.is_none() {
        upload(shared, task, &container).await?;
        fault::point("docker.workspace.uploaded");
    }
    let stdin = task.result_channel || terminal.is_some();
    let options = AttachContainerOptionsBuilder::new().stream(true).stdin(stdin).stdout(true).stderr(true).build();
    let attach = engine.docker.attach_container(container.name(), Some(options));
    let AttachContainerResults { output, mut input } = call("attach to the container", CALL, attach).await?;
    fault::point("docker.container.attached");
    container.start().await.map_err(|error| spawn_error(error, task))?;
    let started = Instant::now();
    if let Some(prepared) = &mut prepared {
        prepared.started();
    }
    if let Some(token) = &token {
        let text = format!("{}\n", token.as_str());
        let written = async {
            input.write_all(text.as_bytes()).await?;
            input.flush().await?;
            input.shutdown().await
        };
        // A command that has ended does not read it, and shows that by itself.
        let _ = tokio::time::timeout(CALL, written).await;
    }
    Ok(Running { container, prepared, output, input, token, marker, by_script, started })
}

/// Runs file-system work where it does not hold up others.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SandboxError> + Send + 'static,
) -> Result<T, SandboxError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(SandboxError::Helper(error.to_string())))
}

/// Puts a task's file systems into the container.
async fn upload(shared: &Shared, task: &Task, container: &Container) -> Result<(), SandboxError> {
    let step = "copy the workspace into the container";
    let upload = Upload {
        mounts: task.mounts.clone(),
        owner: shared.ways.owner,
        etc: shared.ways.etc.clone(),
        empty: shared.ways.scratch.clone(),
    };
    let (pieces, coming) = mpsc::channel(4);
    let failed = pieces.clone();
    let writing = tokio::task::spawn_blocking(move || {
        let mut out = Pieces::new(pieces);
        let written = upload.write(&mut out).and_then(|()| std::io::Write::flush(&mut out));
        if let Err(error) = &written {
            // The engine must not take the part for the whole.
            let _ = failed.blocking_send(Err(std::io::Error::from(error.kind())));
        }
        written
    });
    let stream = futures_util::stream::unfold(coming, |mut coming| async move { Some((coming.recv().await?, coming)) });
    let options = UploadToContainerOptionsBuilder::new().path("/").build();
    let body = bollard::body_try_stream(stream);
    let sent =
        call(step, TRANSFER, shared.engine.docker.upload_to_container(container.name(), Some(options), body)).await;
    let written = writing.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    match (sent, written) {
        (Ok(()), Ok(())) => Ok(()),
        // That nobody listened any more is the engine's doing.
        (Err(error), Err(own)) if own.kind() == std::io::ErrorKind::BrokenPipe => Err(error.into()),
        (_, Err(own)) => Err(setup(step)(own)),
        (Err(error), Ok(())) => Err(error.into()),
    }
}

/// How a container came to its end.
struct Ended {
    cause: Option<Cause>,
    counters: Counters,
    disk: Option<Disk>,
    over_disk: bool,
}

/// Watches a container until it has ended.
async fn watch(
    shared: &Shared,
    task: &Task,
    running: &mut Running,
    streams: &mut Streams,
    mut attended: Option<Attended>,
    cancel: &CancellationToken,
) -> Result<Ended, EngineError> {
    let container = &running.container;
    let end = wait(&shared.engine, container);
    tokio::pin!(end);
    let far = Duration::from_secs(366 * 24 * 3600);
    let deadline = tokio::time::Instant::from_std(running.started + task.limits.wall.min(far));
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut disk, mut thrown) = match &running.prepared {
        Some(prepared) => (Some(Disk::new(task)), Some(Disk::of(prepared.thrown.iter().cloned(), task.limits.scratch))),
        None => (None, None),
    };
    let own_layer = if running.prepared.is_none() { own_layer(task).await } else { u64::MAX };
    let mut measured = Instant::now();
    let mut group = None;
    let mut counters = Counters::default();
    let mut killed: Option<(Cause, tokio::time::Instant)> = None;
    // A kill is over when the last output was taken from the engine's hands: reading must go on beside it.
    let mut killing: Option<Killing<'_>> = None;
    let mut open = true;
    loop {
        let order = tokio::select! {
            ended = &mut end => {
                ended?;
                break;
            }
            output = running.output.next(), if open => {
                match output {
                    Some(Ok(output)) => match &mut attended {
                        Some(attended) => attended.show(&output).await,
                        None => streams.take(&output),
                    },
                    Some(Err(_)) | None => open = false,
                }
                None
            }
            Some(typed) = typed(&mut attended) => {
                let sent = match typed {
                    Some(bytes) => {
                        let sent = running.input.write_all(&bytes).await;
                        sent.and(running.input.flush().await)
                    }
                    None => running.input.shutdown().await,
                };
                // A command that reads no more is no mistake.
                let _ = sent;
                None
            }
            done = async { match &mut killing { Some(kill) => kill.await, None => std::future::pending().await } } => {
                killing = None;
                done?;
                None
            }
            () = tokio::time::sleep_until(deadline), if killed.is_none() => Some(Cause::Deadline),
            () = cancel.cancelled(), if killed.is_none() => Some(Cause::Cancelled),
            () = tokio::time::sleep_until(killed.map_or(deadline, |(_, since)| since + GRACE)), if killed.is_some() => {
                return Err(EngineError::Stalled { step: "end a killed container".to_owned(), seconds: GRACE.as_secs() });
            }
            _ = tick.tick() => {
                if group.is_none() {
                    group = Some(find_group(shared, container).await);
                }
                if let Some(Some(group)) = &group {
                    group.read(&mut counters);
                }
                if let Some(attended) = &mut attended
                    && let Some((height, width)) = attended.new_size()
                {
                    resize(&shared.engine, container, height, width).await;
                }
                let over = match (&mut disk, &mut thrown) {
                    (Some(disk), Some(thrown)) => disk.is_over() || thrown.is_over(),
                    _ if measured.elapsed() > MEASURE => {
                        measured = Instant::now();
                        container.size().await.is_some_and(|size| size > own_layer)
                    }
                    _ => false,
                };
                let cause = match (over, counters.oom_kills > 0) {
                    (true, _) => Some(Cause::OverDisk),
                    // What a process that was killed leaves behind (a segment, its children) may keep the memory.
                    (false, true) => Some(Cause::OutOfMemory),
                    (false, false) => None,
                };
                cause.filter(|_| killed.is_none())
            }
        };
        if let Some(cause) = order {
            killed = Some((cause, tokio::time::Instant::now()));
            killing = Some(Box::pin(container.kill()));
        }
    }
    drop(killing);
    if let Some(Some(group)) = &group {
        group.read(&mut counters);
    }
    // The last words are on their way.
    let until = tokio::time::Instant::now() + LAST_WORDS;
    while open {
        match tokio::time::timeout_at(until, running.output.next()).await {
            Ok(Some(Ok(output))) => match &mut attended {
                Some(attended) => attended.show(&output).await,
                None => streams.take(&output),
            },
            _ => open = false,
        }
    }
    let over_disk = thrown.as_ref().is_some_and(Disk::measure);
    Ok(Ended { cause: killed.map(|(cause, _)| cause), counters, disk, over_disk })
}

/// What an attending person typed next; never comes where nobody attends.
async fn typed(attended: &mut Option<Attended>) -> Option<Option<Vec<u8>>> {
    match attended {
        Some(attended) => attended.typed().await,
        None => std::future::pending().await,
    }
}

async fn resize(engine: &Engine, container: &Container, height: u16, width: u16) {
    let options = bollard::query_parameters::ResizeContainerTTYOptionsBuilder::new().h(height.into()).w(width.into());
    // Only for the looks of it.
    let _ =
        call("resize the terminal", CALL, engine.docker.resize_container_tty(container.name(), options.build())).await;
}

/// What a container's own layer may hold where the task's file systems lie in it, in bytes.
async fn own_layer(task: &Task) -> u64 {
    let limit = if keeps(task) { task.limits.disk } else { task.limits.scratch };
    limit.saturating_add(uploaded(task).await)
}

/// Whether something that the command writes is kept, so that the limit on disk is for it; else all of it is thrown away.
fn keeps(task: &Task) -> bool {
    let kept = |mount: &Mount| matches!(mount, Mount::ReadWrite { .. } | Mount::Overlay { upper: Some(_), .. });
    task.mounts.iter().any(kept)
}

/// About what was uploaded, in bytes.
async fn uploaded(task: &Task) -> u64 {
    let mut sources = Vec::new();
    for mount in &task.mounts {
        match mount {
            Mount::ReadOnly { source, .. } | Mount::ReadWrite { source, .. } => sources.push(source.clone()),
            Mount::Overlay { lowers, .. } => sources.extend(lowers.iter().cloned()),
        }
    }
    let measured = tokio::task::spawn_blocking(move || sources.iter().map(|source| disk_size(source)).sum());
    measured.await.unwrap_or(0)
}

async fn find_group(shared: &Shared, container: &Container) -> Option<Group> {
    if !shared.engine.is_by_socket() {
        return None;
    }
    let pid = container.state().await.ok()?.pid.filter(|pid| *pid > 0)?;
    Group::of(pid)
}

/// Waits for a container's end. Where the engine breaks off, its state is asked for again and again.
async fn wait(engine: &Engine, container: &Container) -> Result<(), EngineError> {
    const PAUSE: Duration = Duration::from_millis(500);
    const PATIENCE: u32 = 20;
    let mut troubles = 0;
    loop {
        let options = WaitContainerOptionsBuilder::new().condition("not-running").build();
        let mut answers = engine.docker.wait_container(container.name(), Some(options));
        if let Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })) = answers.next().await {
            return Ok(());
        }
        match container.state().await {
            Ok(state) if state.running == Some(false) => return Ok(()),
            Ok(_) => troubles = 0,
            Err(error) if error.is_absent() => return Err(error),
            Err(error) if troubles >= PATIENCE => return Err(error),
            Err(_) => troubles += 1,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads the end, brings back what must come back, removes the container, and puts the exit together.
async fn finish(
    shared: &Shared,
    task: &Task,
    running: Running,
    mut streams: Streams,
    ended: Ended,
) -> Result<Exit, SandboxError> {
    let Running { container, prepared, token, marker, by_script, started, .. } = running;
    let state = last_state(&container, ended.cause).await?;
    let Ending { end, timed_out, out_of_memory, cancelled, seconds } =
        ending(&state, ended.cause, &task.limits, &ended.counters);
    let seconds = seconds.unwrap_or_else(|| started.elapsed().as_secs_f64());
    let mut over_disk = ended.over_disk || ended.cause == Some(Cause::OverDisk);
    let absent = by_script && end == End::Exited(127) && streams.stderr.bytes == marker.as_bytes();
    if prepared.is_none() && !absent && !cancelled {
        over_disk |= bring_back(shared, task, &container).await?;
    }
    // Where it cannot be removed now, it is tried again in the background, and by the next start.
    let _ = container.remove().await;
    let has_overlay = match &prepared {
        Some(prepared) => prepared.has_overlay,
        None => task.mounts.iter().any(|mount| matches!(mount, Mount::Overlay { .. })),
    };
    drop(prepared);
    if absent {
        return Err(SandboxError::Spawn {
            program: task.argv[0].clone(),
            source: std::io::Error::from_raw_os_error(libc::ENOENT),
        });
    }
    // The last look is at what stays.
    let kept_is_over = ended.disk.as_ref().is_some_and(Disk::measure);
    over_disk |= kept_is_over;
    if over_disk {
        let thrown_was = !kept_is_over && (ended.over_disk || !keeps(task));
        let limit = if thrown_was { task.limits.scratch } else { task.limits.disk };
        let note = format!("\n{OVER_DISK} {limit} bytes on disk\n");
        streams.stderr.bytes.extend_from_slice(note.as_bytes());
    }
    let mut isolation = shared.isolation.clone();
    if task.network == Network::Host {
        isolation.network = "host".to_owned();
    }
    if !has_overlay {
        isolation.workspace = "none".to_owned();
    }
    Ok(Exit {
        end: if over_disk { End::Signaled(libc::SIGKILL) } else { end },
        timed_out,
        out_of_memory,
        cancelled,
        stdout: streams.stdout,
        stderr: streams.stderr,
        result: streams.result,
        token,
        seconds,
        cpu_seconds: ended.counters.cpu_seconds,
        peak_memory: ended.counters.peak_memory,
        isolation,
    })
}

/// A container's state after its end. Of a kill for want of memory an engine may learn a moment later.
async fn last_state(container: &Container, cause: Option<Cause>) -> Result<ContainerState, EngineError> {
    let until = Instant::now() + SETTLE;
    loop {
        let state = container.state().await?;
        let unclear = cause.is_none() && state.exit_code == Some(137) && state.oom_killed != Some(true);
        if !unclear || Instant::now() > until {
            return Ok(state);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Brings directories that are kept back to the host; whether they were more than the limit.
async fn bring_back(shared: &Shared, task: &Task, container: &Container) -> Result<bool, SandboxError> {
    let mut over = false;
    for mount in &task.mounts {
        let (folder, target) = match mount {
            Mount::ReadWrite { source, target } => (source, target),
            Mount::Overlay { upper: Some(upper), target, .. } => (upper, target),
            _ => continue,
        };
        let step = format!("bring back `{}`", target.display());
        let options = bollard::query_parameters::DownloadFromContainerOptionsBuilder::new()
            .path(&target.to_string_lossy())
            .build();
        let mut coming = shared.engine.docker.download_from_container(container.name(), Some(options));
        let (pieces, received) = mpsc::channel(4);
        let carry = async {
            while let Some(piece) = coming.next().await {
                let piece = piece.map_err(|error| name(&step, error))?;
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            drop(pieces);
            Ok::<(), EngineError>(())
        };
        let (folder, owner, limit) = (folder.clone(), shared.ways.owner, task.limits.disk);
        let limit = limit.saturating_add(uploaded(task).await);
        let unpacking = tokio::task::spawn_blocking(move || take_in(Coming::new(received), &folder, owner, limit));
        let carried = tokio::time::timeout(TRANSFER, carry).await;
        let unpacked = unpacking.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        match carried {
            Err(_) => return Err(EngineError::Stalled { step, seconds: TRANSFER.as_secs() }.into()),
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(())) => over |= unpacked.map_err(setup(&step))? == Unpacked::TooMuch,
        }
    }
    Ok(over)
}

/// Pieces that come through a channel, as a reader.
struct Coming {
    pieces: mpsc::Receiver<bytes::Bytes>,
    piece: bytes::Bytes,
}

impl Coming {
    fn new(pieces: mpsc::Receiver<bytes::Bytes>) -> Self {
        Self { pieces, piece: bytes::Bytes::new() }
    }
}

impl std::io::Read for Coming {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len());
        let part = self.piece.split_to(length);
        buffer[..length].copy_from_slice(&part);
        Ok(length)
    }
}

/// What a refused start means: a program that is not there, or a container that cannot be had.
fn spawn_error(error: EngineError, task: &Task) -> SandboxError {
    if let EngineError::Refused { message, .. } = &error
        && message.contains("exec")
    {
        let errno = if message.contains("executable file not found") || message.contains("no such file or directory") {
            Some(libc::ENOENT)
        } else if message.contains("permission denied") {
            Some(libc::EACCES)
        } else if message.contains("exec format error") {
            Some(libc::ENOEXEC)
        } else {
            None
        };
        if let Some(errno) = errno {
            let program = if message.contains("/bin/sh") { "/bin/sh".to_owned() } else { task.argv[0].clone() };
            return SandboxError::Spawn { program, source: std::io::Error::from_raw_os_error(errno) };
        }
    }
    error.into()
}

/// The exit of a task that was cancelled before its command started.
fn never_ran(shared: &Shared, task: &Task, seconds: f64) -> Exit {
    let mut isolation = shared.isolation.clone();
    if task.network == Network::Host {
        isolation.network = "host".to_owned();
    }
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
        isolation,
    }
}
