//! `redgreen env build`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

use crate::cli::common;
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::{Outcome, runtime, score};
use crate::engine::Scheduler;
use crate::environment::{Attempt, CommandRepairer, EnvironmentRecord, Failure};
use crate::model::{CommentId, Instance};
use crate::report::counted;
use crate::sandbox::Limits;
use crate::stage::score::{EnvironmentEnd, EnvironmentEvent, Look, Services, build_environments};

use super::display::Display;
use super::stop::asked_to_stop;
use super::{chosen, chosen::PlaceOptions, plan};

/// Find, fetch, build and prove the environments of a benchmark's instances, so that scoring needs no network.
///
/// An instance that describes its environment is taken at its word; for others the language, its version and the ways to
/// install the project are found, and tried until one is proven: the install is whole, the project's package imports, the
/// tests are collected, a sample of them passes. What is in the cache is not made again, nor is what failed by the
/// repository's own making tried again before something changes (`--redo` does). Exit code 3 when one could not be made.
///
/// Example: redgreen env build BENCH --mirrors ~/mirrors
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// Only instances whose id matches; may be repeated.
    #[arg(long, short = 'i', value_name = "GLOB")]
    instances: Vec<String>,
    /// Environments made at once [default: the number of processors].
    #[arg(long, short = 'j', value_name = "N", value_parser = score::parse_jobs)]
    jobs: Option<u32>,
    /// Only tell what would be made, as `redgreen env plan` does.
    #[arg(long)]
    dry_run: bool,
    /// Find and prove again what is on record.
    #[arg(long)]
    redo: bool,
    /// Changes of failed recipes to try for one instance; 0 for none [default: 3].
    #[arg(long, value_name = "N")]
    repairs: Option<u32>,
    /// A command that proposes a change where all strategies and rules have failed: it gets the recipe, the failure and
    /// the log's end as JSON on standard input and prints `{"change": {…}}` or `{"give-up": "why"}`. It runs in the
    /// sandbox, without network.
    #[arg(long, value_name = "COMMAND")]
    repairer: Option<String>,
    #[command(flatten)]
    places: PlaceOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let bench = common::absolute(&args.bench)?;
    let loaded = common::load_benchmark(&bench, &printer)?;
    let globs = score::parse_globs(&args.instances)?;
    let instances: Vec<(Instance, Vec<CommentId>)> = loaded
        .instances
        .iter()
        .filter(|instance| globs.as_ref().is_none_or(|globs| globs.is_match(instance.instance_id.folded())))
        .map(|instance| {
            let comments = instance.reference_review_comments.iter().map(|comment| comment.id.clone());
            (instance.clone(), comments.filter(|id| instance.oracle(id).is_some()).collect())
        })
        .collect();
    if instances.is_empty() {
        return Err(CliError::usage("no instance matches `--instances`")
            .hint(format!("`redgreen check {}` tells what the folder holds", args.bench.display()))
            .into());
    }
    let mut services = args.places.services(&bench)?;
    if args.dry_run {
        let surveys = chosen::survey_all(&services, &instances, Look::Through);
        return plan::show(&surveys, args.json, &printer);
    }
    settle_repairs(&args, &mut services);
    let display = Arc::new(Display::new(&printer, instances.len()));
    if let Some(environments) = Arc::get_mut(&mut services.environments) {
        environments.set_makes_bases();
        environments.set_heartbeat(display.heartbeat());
    }
    let jobs = score::jobs(args.jobs, &layers)?;

    let runtime = runtime()?;
    let (began, since) = (Instant::now(), SystemTime::now());
    let scheduler = Scheduler::new(jobs);
    let ends = runtime.block_on(async {
        let interrupt = tokio::spawn(stop_on_signal(scheduler.clone()));
        let shown = display.clone();
        let tell = Arc::new(move |event: &EnvironmentEvent<'_>| shown.show(event, line(event)));
        let ends = build_environments(&services, instances, &scheduler, args.redo, tell).await;
        interrupt.abort();
        ends
    });
    display.finish();
    let interrupted = ends.iter().any(EnvironmentEnd::is_interrupted);
    let bytes_added = services.environments.bytes_added_since(since);
    // Work on a file system that does not answer must not hold the program.
    runtime.shutdown_background();
    let cached = ends.iter().filter(|end| end.result.as_ref().is_ok_and(|built| built.cached)).count();
    let ready = ends.iter().filter(|end| end.result.is_ok()).count();
    let failed: Vec<&EnvironmentEnd> = ends.iter().filter(|end| end.result.is_err()).collect();
    if args.json {
        printer.value(&json!({
            "built": ready - cached,
            "cached": cached,
            "failed": failed.iter().filter(|end| !end.is_interrupted()).map(|end| failure(end)).collect::<Vec<_>>(),
            "seconds": began.elapsed().as_secs_f64(),
            "bytes_added": bytes_added,
            "interrupted": interrupted,
            "instances": ends.iter().map(row).collect::<Vec<_>>(),
        }))?;
    } else {
        let of_cache = if cached > 0 { format!(" ({cached} from the cache)") } else { String::new() };
        printer.data(&format!("{} ready{of_cache}, {} not\n", counted(ready as u64, "environment"), failed.len()))?;
    }
    if interrupted {
        printer.note("interrupted: what was finished is kept, the same command goes on");
        return Ok(Status::Interrupted);
    }
    Ok(if failed.is_empty() { Status::Done } else { Status::Infra })
}

/// How failed recipes are repaired.
fn settle_repairs(args: &Args, services: &mut Services) {
    const ANSWER: std::time::Duration = std::time::Duration::from_secs(300);
    let limits = Limits { wall: ANSWER, ..Limits::default() };
    let repairer = args.repairer.as_ref().map(|command| {
        Arc::new(CommandRepairer::new(command, services.sandbox.clone(), services.scratch.path(), limits))
    });
    // Nobody else has them yet.
    if let Some(environments) = Arc::get_mut(&mut services.environments) {
        if let Some(repairs) = args.repairs {
            environments.set_repairs(repairs);
        }
        if let Some(repairer) = repairer {
            environments.set_repairer(repairer);
        }
    }
}

/// A build is long: the first signal ends what runs. What was finished is kept.
async fn stop_on_signal(scheduler: Scheduler) {
    asked_to_stop().await;
    scheduler.drain.cancel();
    scheduler.stop.cancel();
}

/// What is said of an event, in one line.
fn line(event: &EnvironmentEvent<'_>) -> Option<String> {
    match event {
        EnvironmentEvent::Started(id) => Some(format!("{id}: begins")),
        EnvironmentEvent::Step(id, text) => Some(format!("{id}: {text}")),
        EnvironmentEvent::Ended(end) => {
            let id = &end.instance_id;
            match &end.result {
                Ok(built) => {
                    let record = &built.record;
                    let by = record.strategy.as_ref().map(|strategy| format!(", strategy {strategy}"));
                    let from = if built.cached { ", from the cache" } else { "" };
                    let proven = match (&record.failure, record.is_proven()) {
                        (Some(failure), _) => format!("not proven: {}", failure.summary()),
                        (None, true) => "proven".to_owned(),
                        (None, false) => "nothing to prove it by".to_owned(),
                    };
                    Some(format!("{id}: ready{}{from}, {proven}", by.unwrap_or_default()))
                }
                Err(_) if end.is_interrupted() => None,
                Err(not) => {
                    let known = if not.cached { " (on record, `--redo` tries again)" } else { "" };
                    Some(format!("{id}: infra, {}: {}{known}", not.why.class.as_str(), not.why.detail))
                }
            }
        }
    }
}

/// One instance for machines.
fn row(end: &EnvironmentEnd) -> Value {
    let (record, cached) = match &end.result {
        Ok(built) => (Some(&built.record), built.cached),
        Err(not) => (not.record.as_ref(), not.cached),
    };
    let mut row = json!({
        "instance_id": end.instance_id,
        "ready": end.result.is_ok(),
        "cached": cached,
        "seconds": end.seconds,
    });
    if let Some(record) = record {
        row["source"] = json!(record.source);
        row["language"] = json!(record.language);
        row["version"] = json!(record.version);
        row["version_source"] = json!(record.version_source);
        row["strategy"] = json!(record.strategy);
        row["environment"] = json!(record.spec);
        row["attempts"] = record.attempts.iter().map(attempt).collect();
        row["proofs"] = json!(record.proofs);
        row["record"] = json!(record.key);
    }
    match &end.result {
        Ok(built) => {
            row["digest"] = json!(built.prepared.digest);
            row["lock"] = built.prepared.lock.clone();
            row["bytes_added"] = json!(if cached { 0 } else { built.record.bytes_added });
            row["proven"] = json!(built.record.is_proven());
            row["not_proven"] = json!(built.record.failure.as_ref().map(Failure::summary));
        }
        Err(_) => row["failed"] = failure(end),
    }
    row
}

/// What failed, for machines.
fn failure(end: &EnvironmentEnd) -> Value {
    let Err(not) = &end.result else { return Value::Null };
    let failure = not.record.as_ref().and_then(|record: &EnvironmentRecord| record.failure.as_ref());
    let last_lines = || not.why.detail.lines().map(str::trim).map(str::to_owned).collect();
    json!({
        "instance_id": end.instance_id,
        "infra": not.why.class.as_str(),
        "kind": failure.map(|failure| failure.kind),
        "stage": failure.map(|failure| failure.stage),
        "reason": failure.map_or_else(|| not.why.detail.lines().next().unwrap_or_default().to_owned(), Failure::summary),
        "log_lines": failure.map_or_else(last_lines, |failure| failure.lines.clone()),
        "log": not.why.log.as_deref().map(String::from_utf8_lossy),
    })
}

/// One attempt for machines: without the log, which is in the cache.
fn attempt(attempt: &Attempt) -> Value {
    json!({
        "strategy": attempt.strategy,
        "repair": attempt.repair,
        "failed": attempt.failure.as_ref().map(Failure::summary),
        "stage": attempt.failure.as_ref().map(|failure| failure.stage),
        "seconds": attempt.seconds,
    })
}
