//! Sitting down in an instance's environment at the commit to review.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::again::{OpenSeat, with_shell};
use super::instance::InstanceJob;
use super::prepare::{Ready, Unavailable, prepare};
use super::run::{Services, Settings, Shared};
use crate::engine::{Events, Scheduler};
use crate::model::Instance;
use crate::sandbox::{Limits, Network, SandboxError, Task, WORKSPACE};
use crate::store::RunFolder;

/// Why nobody could sit down.
#[derive(Debug, thiserror::Error)]
pub enum SitError {
    /// There is no environment.
    #[error("{}: {}", .0.class.as_str(), .0.detail)]
    Unavailable(Unavailable),
    /// The shell could not be started in it.
    #[error("the shell could not be started: {0}")]
    Sandbox(#[from] SandboxError),
    /// There is no seat.
    #[error("there is no terminal to sit at: {0}")]
    Seat(#[from] std::io::Error),
}

/// Makes an instance's environment where it is missing, and lets somebody sit in it: the tree of the commit to review with
/// the build's outputs, the environment's layers and variables, no network. Nothing that is written there is kept.
///
/// # Errors
/// See [`SitError`].
pub async fn sit(
    instance: Instance,
    bench_root: PathBuf,
    services: Services,
    scheduler: Scheduler,
    events: Events,
    run: RunFolder,
    open: OpenSeat,
) -> Result<(), SitError> {
    let stop: CancellationToken = scheduler.stop.clone();
    let settings = Settings::default();
    let shared = Arc::new(Shared::alone(bench_root, settings, services, scheduler, events, run));
    let comments = instance.oracles.iter().map(|oracle| oracle.comment.clone()).collect();
    let job = Arc::new(InstanceJob { instance, comments, revisions: Vec::new(), missing: Vec::new() });
    let ready = prepare(&shared, &job).await.map_err(SitError::Unavailable)?;
    let task = task(&ready, shared.settings.limits.clone());
    let seat = open(&task)?;
    let task = with_shell(&task, seat.terminal);
    shared.services.sandbox.attend(&task, seat, &stop).await?;
    Ok(())
}

/// A shell where an oracle would run.
fn task(ready: &Ready, limits: Limits) -> Task {
    let environment = &ready.environment;
    let shell = environment.tools.get("sh").cloned().unwrap_or_else(|| "/bin/sh".to_owned());
    let variables: BTreeMap<String, String> = environment.variables.clone();
    Task {
        argv: vec![shell],
        cwd: WORKSPACE.into(),
        variables,
        root: environment.root.clone(),
        mounts: environment.mounts_over(&ready.snapshot),
        limits,
        network: Network::None,
        result_channel: false,
    }
}
