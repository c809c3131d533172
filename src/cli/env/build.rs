//! `redgreen env build`.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use crate::cli::bounds::PhaseOption;
use crate::cli::common::{self, CacheOption, RepositoryOptions};
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::{Outcome, runtime, score};
use crate::metrics::Denominator;
use crate::report::counted;
use crate::stage::score::{Selection, build_environment, plan};

/// Fetch and build the environments of a benchmark's instances, so that scoring needs no network.
///
/// What is in the cache is not made again. Exit code 3 when one could not be made.
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
    /// Folder with environment definitions that add to or override the built-in ones; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    definitions: Vec<PathBuf>,
    /// Where to build: `local` (the default), `docker` or `none` (no isolation; for root, and only when typed).
    #[arg(long, value_name = "SANDBOX", value_parser = ["local", "none", "docker"])]
    sandbox: Option<String>,
    #[command(flatten)]
    phases: PhaseOption,
    #[command(flatten)]
    repositories: RepositoryOptions,
    #[command(flatten)]
    cache: CacheOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let bench = common::absolute(&args.bench)?;
    let loaded = common::load_benchmark(&bench, &printer)?;
    let selection = Selection {
        instances: score::parse_globs(&args.instances)?,
        slice: None,
        arms: Some(Vec::new()),
        denominator: Denominator::Valid,
    };
    let plan = plan(&loaded.instances, &[], None, &[], &selection);
    if plan.instances.is_empty() {
        return Err(CliError::usage("no instance with an oracle matches `--instances`")
            .hint(format!("`redgreen check {}` tells what the folder holds", args.bench.display()))
            .into());
    }
    let phases = args.phases.resolve(&layers)?;
    let (cache, repositories) = (&args.cache, &args.repositories);
    let sandbox = args.sandbox.clone();
    let services = common::services(&layers, cache, repositories, &args.definitions, sandbox, &phases, &bench)?;
    let runtime = runtime()?;
    let cancel = CancellationToken::new();
    let mut rows = Vec::new();
    let mut failed = 0;
    for (number, chosen) in plan.instances.iter().enumerate() {
        let id = &chosen.instance.instance_id;
        printer.note(&format!("{}/{} {id}", number + 1, plan.instances.len()));
        let work = async {
            let interrupt = {
                let cancel = cancel.clone();
                tokio::spawn(async move {
                    if tokio::signal::ctrl_c().await.is_ok() {
                        cancel.cancel();
                    }
                })
            };
            let step = |text: &str| printer.note(&format!("  {text}"));
            let built = build_environment(&services, chosen.instance, &chosen.comments, &step, &cancel).await;
            interrupt.abort();
            built
        };
        match runtime.block_on(work) {
            Ok(prepared) => {
                rows.push(serde_json::json!({"instance_id": id, "digest": prepared.digest, "lock": prepared.lock}))
            }
            Err(_) if cancel.is_cancelled() => {
                printer.note("interrupted: what was finished is kept, the same command goes on");
                return Ok(Status::Interrupted);
            }
            Err(why) => {
                failed += 1;
                printer.note(&format!("  infra, {}: {}", why.class.as_str(), why.detail));
                let log = why.log.as_deref().map(String::from_utf8_lossy);
                rows.push(serde_json::json!({
                    "instance_id": id, "infra": why.class.as_str(), "detail": why.detail, "log": log,
                }));
            }
        }
    }
    if args.json {
        printer.value(&rows)?;
    } else {
        let ready = counted((rows.len() - failed) as u64, "environment");
        printer.data(&format!("{ready} ready, {failed} not\n"))?;
    }
    Ok(if failed > 0 { Status::Infra } else { Status::Done })
}
