//! The making of a task's container, up to the start of its command.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bollard::container::AttachContainerResults;
use bollard::query_parameters::AttachContainerOptionsBuilder;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::command::{Circumstances, Command, command};
use super::container::Container;
use super::create::{Parts, body};
use super::disks::{Disks, Written, own_layer, uploaded};
use super::engine::{CALL, EngineError, call};
use super::image::Image;
use super::label::labels;
use super::mounts::{Prepared, setup, tmpfs};
use super::run::{Mode, Shared, blocking};
use super::transfer::upload;
use super::watch::Output;
use crate::fault;
use crate::sandbox::{SandboxError, Task, Token};

/// How much longer than its wall clock a container may be needed, in seconds: for making, copying, removing.
const SLACK: u64 = 3600;

/// What is known of a run before anything is made for it.
pub struct Plan {
    /// What is below it.
    pub image: Image,
    /// What it does.
    pub command: Command,
    /// Whose it is.
    pub labels: HashMap<String, String>,
    /// Whether somebody attends it at a terminal; `None`: nobody does.
    pub terminal: Option<bool>,
    /// Bytes that are copied into the container.
    pub uploaded: u64,
}

/// A container that runs.
pub struct Running {
    /// What comes from it.
    pub output: Output,
    /// What goes to it.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// What was given to the command.
    pub token: Option<Token>,
    /// What it writes to.
    pub written: Written,
    /// When.
    pub started: Instant,
}

/// Finds out what the container is to be. Nothing is made for this run.
pub async fn plan(shared: &Shared, task: &Task, terminal: Option<bool>) -> Result<Plan, SandboxError> {
    let image = shared.images.of(&shared.engine, &task.root, &shared.locks).await?;
    let init = shared.engine.facts.has_init;
    let around = Circumstances { image: &image.variables, init, attended: terminal.is_some() };
    let command = command(task, around)?;
    let labels = labels(&shared.identity.name(), task.limits.wall.as_secs().saturating_add(SLACK));
    let uploaded = match shared.mode {
        Mode::Mounted => 0,
        Mode::Copied => {
            let task = task.clone();
            blocking(move || Ok(uploaded(&task))).await?
        }
    };
    Ok(Plan { image, command, labels, terminal, uploaded })
}

/// Makes and starts the container, which is the caller's to remove from when it is made, whatever becomes of this.
pub async fn start(
    shared: &Shared,
    task: &Task,
    plan: &Plan,
    prepared: &mut Option<Prepared>,
    made: &mut Option<Container>,
) -> Result<Running, SandboxError> {
    let engine = &shared.engine;
    let (mounts, tmpfs) = match &prepared {
        Some(prepared) => (prepared.mounts.clone(), prepared.tmpfs.clone()),
        None => (Vec::new(), tmpfs(task.limits.scratch, shared.ways.owner)),
    };
    let parts = Parts {
        image: &plan.image.id,
        command: plan.command.clone(),
        owner: shared.ways.owner,
        labels: plan.labels.clone(),
        mounts,
        tmpfs,
        writable_root: shared.mode == Mode::Copied,
        terminal: plan.terminal,
    };
    let container = Container::create(engine, body(task, &engine.facts, parts), &shared.pending).await;
    let container = made.insert(container.inspect_err(|error| {
        if error.is_absent() {
            shared.images.forget(&plan.image.id);
        }
    })?);
    let written = match &prepared {
        None => {
            upload(shared, task, container).await?;
            fault::point("docker.workspace.uploaded");
            Written::Inside(own_layer(task, plan.uploaded))
        }
        Some(prepared) => {
            let (task, thrown) = (task.clone(), prepared.thrown.clone());
            Written::Here(Arc::new(blocking(move || Ok(Disks::new(&task, thrown))).await?))
        }
    };
    let has_token = task.result_channel && plan.terminal.is_none();
    let token = has_token.then(Token::fresh).transpose().map_err(setup("draw the result channel's token"))?;
    let stdin = task.result_channel || plan.terminal.is_some();
    let options = AttachContainerOptionsBuilder::new().stream(true).stdin(stdin).stdout(true).stderr(true).build();
    let attach = engine.docker.attach_container(container.name(), Some(options));
    let AttachContainerResults { output, mut input } = call("attach to the container", CALL, attach).await?;
    fault::point("docker.container.attached");
    container.start().await.map_err(|error| spawn_error(error, task))?;
    let started = Instant::now();
    if let Some(prepared) = prepared {
        prepared.started();
    }
    if let Some(token) = &token {
        let text = format!("{}\n", token.as_str());
        let written = async {
            // A command that has ended does not read it, and shows that by itself.
            if input.write_all(text.as_bytes()).await.is_ok() && input.flush().await.is_ok() {
                let _ = input.shutdown().await;
            }
            Ok(())
        };
        call("hand over the token", CALL, written).await?;
    }
    Ok(Running { output, input, token, written, started })
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
