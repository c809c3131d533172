//! `redgreen env shell`.

use std::path::PathBuf;

use crate::cli::Outcome;
use crate::cli::common;
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::terminal::Terminal;
use crate::engine::{Event, Events, Scheduler};
use crate::metrics::Denominator;
use crate::model::{Arm, Instance, digest_bytes};
use crate::oracle::Policy;
use crate::sandbox::Task;
use crate::stage::score::{
    self, AgainError, Means, ORACLE_VARIABLE, OpenSeat, Services, Settings, SitError, Unavailable, Which,
};
use crate::store::{BenchmarkRef, MANIFEST_SCHEMA, RunFolder, RunManifest};

use super::chosen::{PlaceOptions, find};

/// Sit down in an instance's environment, at the commit to review.
///
/// The environment is made first where it is missing. The shell is where an oracle would run: the tree with the build's
/// outputs at `/workspace`, the environment's packages and variables, no network. Nothing that is written there is kept.
/// With `--oracle` the comment's test is in place, and its command is printed and in `$REDGREEN_ORACLE`. What is piped in
/// is run, and its output printed.
///
/// Example: redgreen env shell lantern-example__rotate-6 --bench examples/quickstart --oracle c1
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The instance's id, or its beginning where that is unique.
    #[arg(value_name = "INSTANCE")]
    instance: String,
    /// The benchmark folder.
    #[arg(long, value_name = "BENCH", default_value = ".")]
    bench: PathBuf,
    /// Put this comment's test in place and tell its command.
    #[arg(long, value_name = "COMMENT")]
    oracle: Option<String>,
    #[command(flatten)]
    places: PlaceOptions,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let bench = common::absolute(&args.bench)?;
    let loaded = common::load_benchmark(&bench, &printer)?;
    let instance = find(&loaded.instances, &args.instance)?.clone();
    let comment = args.oracle.as_deref().map(|name| comment(&instance, name)).transpose()?;
    let services = args.places.services(&bench)?;
    let run = scratch_run(&services)?;
    let terminal = Terminal::default();
    let open = seat(&instance, comment.is_some(), &terminal);
    let runtime = crate::cli::runtime()?;
    let result = runtime.block_on(async {
        match comment {
            Some(comment) => {
                let which = Which {
                    bench_root: bench,
                    instance,
                    comment,
                    arm: Arm::head(),
                    revision: None,
                    repeat: 1,
                    with_head_versions_of: Vec::new(),
                    expected: None,
                    old: None,
                };
                let settings = Settings::default();
                let means = Means { settings, services, scheduler: Scheduler::new(1), events: told(), run };
                score::again(which, means, Some(open), false).await.map(|_| ()).map_err(|error| match error {
                    AgainError::Unavailable(why) => unavailable(&why, &printer),
                    other => CliError::infra(other.to_string()).because(&other),
                })
            }
            None => {
                let sat = score::sit(instance, bench, services, Scheduler::new(1), told(), run, open).await;
                sat.map_err(|error| match error {
                    SitError::Unavailable(why) => unavailable(&why, &printer),
                    other => CliError::infra(other.to_string()).because(&other),
                })
            }
        }
    });
    terminal.close();
    runtime.shutdown_background();
    result?;
    Ok(Status::Done)
}

fn comment(instance: &Instance, name: &str) -> Result<crate::model::CommentId, CliError> {
    let accepted = instance.oracles.iter().filter(|oracle| oracle.accepted);
    let ids: Vec<_> = accepted.map(|oracle| oracle.comment.clone()).collect();
    ids.iter().find(|id| id.as_str() == name).cloned().ok_or_else(|| {
        let known: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
        CliError::usage(format!("`{}` has no test for a comment `{name}`", instance.instance_id))
            .hint(format!("it has tests for {}", known.join(", ")))
    })
}

/// Says where one is, then opens the terminal.
fn seat(instance: &Instance, with_oracle: bool, terminal: &Terminal) -> OpenSeat {
    let (id, terminal) = (instance.instance_id.to_string(), terminal.clone());
    Box::new(move |task: &Task| {
        let mut said = format!("you are in the workspace of {id}, at the commit to review: {}\n", task.cwd.display());
        if with_oracle {
            let line = score::shell_line(&task.argv);
            said.push_str(&format!("the oracle: {line}\nas a variable: eval \"${ORACLE_VARIABLE}\"\n"));
        }
        Printer.note(&format!("{said}leave with `exit`; nothing that is written here is kept"));
        terminal.open()
    })
}

fn unavailable(why: &Unavailable, printer: &Printer) -> CliError {
    if let Some(log) = &why.log {
        printer.note(String::from_utf8_lossy(log).trim_end());
    }
    CliError::infra(format!("there is no environment: {}: {}", why.class.as_str(), why.detail))
}

/// Events of which only what is being made is of interest.
fn told() -> Events {
    let (events, mut receiver) = Events::channel();
    std::thread::spawn(move || {
        while let Some(event) = receiver.blocking_recv() {
            match event {
                Event::Preparing { step, .. } => Printer.note(&format!("preparing: {step}")),
                Event::Note { text } => Printer.note(&text),
                _ => {}
            }
        }
    });
    events
}

/// A run folder that goes with this process: nothing of a shell is on record.
fn scratch_run(services: &Services) -> Result<RunFolder, CliError> {
    let manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now(),
        benchmark: BenchmarkRef { name: "shell".to_owned(), path: PathBuf::new(), digest: digest_bytes(b"shell") },
        policy: Policy::Strict.to_string(),
        roster: digest_bytes(b"shell"),
        denominator: Denominator::Valid.to_string(),
        cache: None,
    };
    Ok(RunFolder::create(&services.scratch.path().join("run"), &manifest)?)
}
