//! Watching a container while it runs: its end, its output, the clock, and its limits.
//!
//! All of it goes on side by side. Nothing that asks the engine or walks through a disk is awaited by the loop itself, so
//! that neither a slow daemon nor a slow disk holds up the deadline, the caller's token or the output.

use std::pin::Pin;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::query_parameters::{ResizeContainerTTYOptionsBuilder, WaitContainerOptionsBuilder};
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use super::attended::{Attended, LAST_SHOWN, Typed, carry};
use super::container::Container;
use super::counters::{Counters, Group};
use super::disks::{Written, overflow};
use super::engine::{CALL, Engine, EngineError, broken, call, name};
use super::exit::Cause;
use super::streams::Streams;
use crate::sandbox::Seat;

/// Something that goes on beside the loop, and need not be there.
type Beside<'a, T> = Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>;

/// What a container writes.
pub type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// How often counters are looked at. A cgroup goes with its last process, some tens of milliseconds after it, and what is
/// not read by then is not known.
const LOOK: Duration = Duration::from_millis(20);
/// How long a killed container may take to end. Afterwards the daemon has stalled.
const GRACE: Duration = Duration::from_secs(60);
/// How long the next piece of output may take when the container has ended.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// What is longer than any run: clocks have an end.
const FAR: Duration = Duration::from_secs(366 * 24 * 3600);

/// A container that runs, as it is watched.
pub struct Watched<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The container.
    pub container: &'a Container,
    /// What comes from it.
    pub output: &'a mut Output,
    /// What goes to it.
    pub input: &'a mut Pin<Box<dyn AsyncWrite + Send>>,
    /// When it started.
    pub started: Instant,
    /// How long it may run.
    pub wall: Duration,
    /// What it writes to.
    pub written: &'a Written,
}

/// How a container came to its end.
#[derive(Debug)]
pub struct Ended {
    /// Why we killed it.
    pub cause: Option<Cause>,
    /// What was read last.
    pub counters: Counters,
}

/// Watches a container until it has ended and all its output is there.
///
/// # Errors
///
/// [`EngineError`] when the engine does not do its part: then nobody knows how the command ended, or what it wrote.
pub async fn watch(
    watched: Watched<'_>,
    streams: &mut Streams,
    seat: Option<Seat>,
    cancel: &CancellationToken,
) -> Result<Ended, EngineError> {
    let Watched { engine, container, output, input, started, wall, written } = watched;
    let (mut attended, typed) = sit(seat)?;
    let end = wait(engine, container);
    let typing = carry(typed, input);
    let overflow = overflow(written, container);
    let finding = find_group(engine, container);
    tokio::pin!(end, typing, overflow, finding);
    let deadline = tokio::time::Instant::from_std(started + wall.min(FAR));
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut group: Option<Option<Group>> = None;
    let mut counters = Counters::default();
    let mut killed: Option<(Cause, tokio::time::Instant)> = None;
    // A kill is over when the last output was taken from the engine's hands: reading must go on beside it.
    let mut killing: Beside<'_, Result<(), EngineError>> = None;
    let mut resizing: Beside<'_, ()> = None;
    let mut open = true;
    let broke_off = loop {
        let order = tokio::select! {
            ended = &mut end => break ended?,
            is_open = take(output, streams, attended.as_ref()), if open => {
                open = is_open?;
                None
            }
            never = &mut typing => match never {},
            done = beside(&mut killing), if killing.is_some() => {
                killing = None;
                done?;
                None
            }
            () = beside(&mut resizing), if resizing.is_some() => {
                resizing = None;
                None
            }
            found = &mut finding, if group.is_none() => {
                group = Some(found);
                None
            }
            () = tokio::time::sleep_until(deadline), if killed.is_none() => Some(Cause::Deadline),
            () = cancel.cancelled(), if killed.is_none() => Some(Cause::Cancelled),
            () = &mut overflow, if killed.is_none() => Some(Cause::OverDisk),
            () = tokio::time::sleep_until(killed.map_or(deadline, |(_, since)| since + GRACE)), if killed.is_some() => {
                return Err(EngineError::Stalled { step: "end a killed container".to_owned(), seconds: GRACE.as_secs() });
            }
            _ = tick.tick() => {
                if let Some(Some(group)) = &group {
                    group.read(&mut counters);
                }
                if resizing.is_none() && let Some((height, width)) = attended.as_mut().and_then(Attended::new_size) {
                    resizing = Some(Box::pin(resize(engine, container, height, width)));
                }
                // What a process that was killed leaves behind (a segment, its children) may keep the memory.
                (counters.oom_kills > 0 && killed.is_none()).then_some(Cause::OutOfMemory)
            }
        };
        if let Some(cause) = order {
            killed = Some((cause, tokio::time::Instant::now()));
            killing = Some(Box::pin(container.kill()));
        }
    };
    drop((killing, resizing));
    if let Some(Some(group)) = &group {
        group.read(&mut counters);
    }
    if broke_off && !open && attended.is_none() {
        // A daemon that goes down closes both, and the end of the output looks like any other.
        return Err(broken("hand over the command's output", "it broke off while the command ran"));
    }
    // The last words are on their way.
    let patience = if attended.is_some() { LAST_SHOWN } else { LAST_WORDS };
    while open {
        open = match tokio::time::timeout(patience, take(output, streams, attended.as_ref())).await {
            Ok(is_open) => is_open?,
            // Whoever sits there sees no more of it, and nothing of it is kept.
            Err(_) if attended.is_some() => false,
            Err(_) => {
                let (step, seconds) = ("hand over the last of the command's output".to_owned(), LAST_WORDS.as_secs());
                return Err(EngineError::Stalled { step, seconds });
            }
        };
    }
    if let Some(attended) = attended {
        attended.finish().await;
    }
    Ok(Ended { cause: killed.map(|(cause, _)| cause), counters })
}

/// Makes a seat ready, where there is one.
fn sit(seat: Option<Seat>) -> Result<(Option<Attended>, Option<Typed>), EngineError> {
    let made = seat.map(|seat| Attended::new(seat.stream)).transpose();
    let made = made.map_err(|error| broken("serve the terminal", &error.to_string()))?;
    Ok(made.map_or((None, None), |(attended, typed)| (Some(attended), Some(typed))))
}

/// Takes the next piece of output, when there is room for it; whether more may come. May be broken off and called again.
async fn take(output: &mut Output, streams: &mut Streams, attended: Option<&Attended>) -> Result<bool, EngineError> {
    let room = match attended {
        Some(attended) => attended.room().await,
        None => None,
    };
    match (output.next().await, attended) {
        (None, _) => Ok(false),
        (Some(Ok(output)), None) => streams.take(&output).map(|()| true),
        (Some(Ok(output)), Some(_)) => {
            if let Some(room) = room {
                room.send(output.into_bytes());
            }
            Ok(true)
        }
        (Some(Err(error)), _) => Err(name("hand over the command's output", error)),
    }
}

/// Awaits what goes on beside the loop.
async fn beside<T>(work: &mut Beside<'_, T>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

async fn resize(engine: &Engine, container: &Container, height: u16, width: u16) {
    let options = ResizeContainerTTYOptionsBuilder::new().h(height.into()).w(width.into()).build();
    // Only for the looks of it.
    let _ = call("resize the terminal", CALL, engine.docker.resize_container_tty(container.name(), options)).await;
}

/// The container's cgroup, where it is to be seen from here.
async fn find_group(engine: &Engine, container: &Container) -> Option<Group> {
    if !engine.is_by_socket() {
        return None;
    }
    let pid = container.state().await.ok()?.pid.filter(|pid| *pid > 0)?;
    Group::of(pid, container.id())
}

/// Waits for a container's end. Where the engine breaks off, its state is asked for again and again. Whether it ever did.
async fn wait(engine: &Engine, container: &Container) -> Result<bool, EngineError> {
    const PAUSE: Duration = Duration::from_millis(500);
    const PATIENCE: u32 = 20;
    let (mut troubles, mut broke) = (0, false);
    loop {
        let options = WaitContainerOptionsBuilder::new().condition("not-running").build();
        let mut answers = engine.docker.wait_container(container.name(), Some(options));
        match answers.next().await {
            Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => return Ok(broke),
            // A clock of our own side.
            Some(Err(Error::RequestTimeoutError)) => {}
            Some(Err(_)) | None => broke = true,
        }
        match container.state().await {
            Ok(state) if state.running == Some(false) => return Ok(broke),
            Ok(_) => troubles = 0,
            Err(error) if error.is_absent() => return Err(error),
            Err(error) if troubles >= PATIENCE => return Err(error),
            Err(_) => troubles += 1,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bollard::models::ContainerCreateBody;

    use super::super::container::Pending;
    use super::super::fake::{Fake, Reply};
    use super::*;

    /// An engine that says of the container's end when it was killed, or at once, and of its state nothing at all.
    fn engine(ends: bool) -> Fake {
        Fake::new(move |request| match request.split('/').next_back().unwrap_or_default() {
            "create" => Reply::After(0, 201, r#"{"Id":"4c01","Warnings":[]}"#),
            "kill" => Reply::After(0, 204, ""),
            "wait" if ends => Reply::After(100, 200, r#"{"StatusCode":0}"#),
            "wait" => Reply::After(1500, 200, r#"{"StatusCode":137}"#),
            _ if request.starts_with("DELETE") => Reply::After(0, 204, ""),
            _ => Reply::Never,
        })
    }

    async fn watch_it(
        fake: &Fake,
        output: Vec<Result<LogOutput, Error>>,
        wall: Duration,
        cancel: CancellationToken,
    ) -> (Result<Ended, EngineError>, Streams) {
        let output: Output = Box::pin(futures_util::stream::iter(output));
        let case = Case { output, wall, cancel, ..Case::default() };
        case.watched_by(fake).await
    }

    /// A container to watch: one that writes nothing, and may go on for a minute.
    struct Case {
        output: Output,
        input: Pin<Box<dyn AsyncWrite + Send>>,
        wall: Duration,
        written: Written,
        seat: Option<Seat>,
        cancel: CancellationToken,
    }

    impl Default for Case {
        fn default() -> Self {
            Self {
                output: Box::pin(futures_util::stream::empty()),
                input: Box::pin(tokio::io::sink()),
                wall: Duration::from_secs(60),
                written: Written::Inside(0),
                seat: None,
                cancel: CancellationToken::new(),
            }
        }
    }

    impl Case {
        async fn watched_by(mut self, fake: &Fake) -> (Result<Ended, EngineError>, Streams) {
            let container = Container::create(&fake.engine, ContainerCreateBody::default(), &Pending::default()).await;
            let container = container.unwrap();
            let watched = Watched {
                engine: &fake.engine,
                container: &container,
                output: &mut self.output,
                input: &mut self.input,
                started: Instant::now(),
                wall: self.wall,
                written: &self.written,
            };
            let mut streams = Streams::new(99, false, false, None);
            let ended = watch(watched, &mut streams, self.seat, &self.cancel).await;
            container.remove().await.unwrap();
            (ended, streams)
        }
    }

    fn text(text: &'static str) -> Result<LogOutput, Error> {
        Ok(LogOutput::StdOut { message: text.into() })
    }

    #[tokio::test]
    async fn a_broken_stream_is_never_a_short_output() {
        let far = Duration::from_secs(60);
        let (ended, streams) = watch_it(&engine(true), vec![text("a"), text("b")], far, CancellationToken::new()).await;
        assert!(ended.unwrap().cause.is_none() && streams.stdout.text() == "ab");
        let torn = || Error::IOError { err: std::io::ErrorKind::ConnectionReset.into() };
        for broken in [Err(torn()), Ok(LogOutput::Console { message: "b".into() })] {
            let (ended, _) = watch_it(&engine(true), vec![text("a"), broken], far, CancellationToken::new()).await;
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("hand over the command's output"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_engine_that_breaks_off_has_not_shown_all() {
        let again = AtomicBool::new(false);
        let fake = Fake::new(move |request| match request.split('/').next_back().unwrap_or_default() {
            "create" => Reply::After(0, 201, r#"{"Id":"4c01","Warnings":[]}"#),
            "wait" if again.swap(true, Ordering::Relaxed) => Reply::After(0, 200, r#"{"StatusCode":0}"#),
            "wait" => Reply::HangUp,
            _ if request.starts_with("DELETE") => Reply::After(0, 204, ""),
            _ => Reply::After(0, 200, r#"{"State":{"Running":true}}"#),
        });
        let (ended, _) = watch_it(&fake, vec![text("a")], Duration::from_secs(60), CancellationToken::new()).await;
        assert!(ended.unwrap_err().to_string().contains("hand over the command's output"));
    }

    #[tokio::test]
    async fn an_engine_that_does_not_answer_holds_up_neither_the_deadline_nor_the_caller() {
        for (wall, cause) in [(300, Cause::Deadline), (60_000, Cause::Cancelled)] {
            let (fake, begin, cancel) = (engine(false), Instant::now(), CancellationToken::new());
            let stop = cancel.clone();
            let later = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(600)).await;
                stop.cancel();
            });
            let (ended, _) = watch_it(&fake, vec![], Duration::from_millis(wall), cancel).await;
            assert_eq!(ended.unwrap().cause, Some(cause));
            assert_eq!(fake.count("POST /containers/redgreen-"), 2, "one wait, one kill");
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
            later.await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_does_not_look_holds_up_nothing() {
        let fake = engine(true);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let piece = LogOutput::Console { message: vec![b'x'; 1 << 20].into() };
        let output: Output = Box::pin(futures_util::stream::iter(std::iter::repeat_with(move || Ok(piece.clone()))));
        // Nor does the command read what is typed.
        let (_unread, full) = tokio::io::duplex(1);
        let input: Pin<Box<dyn AsyncWrite + Send>> = Box::pin(full);
        std::io::Write::write_all(&mut &ours, &[b'y'; 1000]).unwrap();
        let seat = Some(Seat { stream: theirs.into(), terminal: false });
        let begin = Instant::now();
        let case = Case { output, input, wall: Duration::from_millis(50), seat, ..Case::default() };
        let (ended, _) = tokio::time::timeout(Duration::from_secs(100), case.watched_by(&fake)).await.unwrap();
        assert_eq!(ended.unwrap().cause, Some(Cause::Deadline), "{:?}", begin.elapsed());
        drop(ours);
    }

    #[tokio::test]
    async fn a_kept_disk_is_measured_beside() {
        let folder = tempfile::tempdir().unwrap();
        let mut task: crate::sandbox::Task = serde_json::from_value(serde_json::json!({
            "argv": ["x"], "cwd": "/", "variables": {}, "mounts": [], "limits": crate::sandbox::Limits::default(),
            "network": "none", "result_channel": false
        }))
        .unwrap();
        task.limits.disk = 1 << 20;
        task.mounts.push(crate::sandbox::Mount::ReadWrite { source: folder.path().into(), target: "/x".into() });
        let disks = Arc::new(super::super::disks::Disks::new(&task, Vec::new()));
        fs_err::write(folder.path().join("big"), vec![1; 4 << 20]).unwrap();
        let case = Case { written: Written::Here(disks), ..Case::default() };
        let (ended, _) = case.watched_by(&engine(false)).await;
        assert_eq!(ended.unwrap().cause, Some(Cause::OverDisk));
    }
}
