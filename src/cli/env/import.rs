//! `redgreen env import`.

use std::path::PathBuf;

use super::export::of_transfer;
use super::stop::stoppable;
use crate::cli::common::{self, CacheOption};
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::settings::Source;
use crate::cli::{Outcome, runtime};
use crate::engine::PhaseLimits;
use crate::environment::TransferError;

/// Take an archive of environments that another machine exported into the cache.
///
/// All of it is verified first; a damaged archive is refused, and the blob is named. After it the same benchmark can be
/// scored with `--offline`, where its environments name their base.
///
/// Example: redgreen env import environments.tar
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The archive.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cache: CacheOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let file = common::absolute(&args.file)?;
    if !file.exists() {
        return Err(CliError::usage(format!("the archive `{}` is not there", args.file.display())).into());
    }
    let cache = args.cache.resolve(&layers)?.value;
    let scratch = common::scratch(&cache)?;
    let sandbox = common::sandbox("local", &Source::Default, &scratch)?;
    let folders = common::definitions(&layers, &[])?;
    let environments = common::environments(&cache, true, &folders, &PhaseLimits::default(), sandbox, (None, None))?;
    let runtime = runtime()?;
    let (cancel, interrupt) = stoppable(&runtime);
    let _context = runtime.enter();
    let say = |text: &str| printer.note(text);
    let imported = environments.import(&file, scratch.path(), &say, &cancel);
    interrupt.abort();
    let imported = match imported {
        Ok(imported) => imported,
        Err(TransferError::Cancelled) => {
            printer.note("interrupted: what was taken in is whole and stays, the same command goes on");
            return Ok(Status::Interrupted);
        }
        Err(error) => return Err(of_transfer(&error).into()),
    };
    if args.json {
        printer.value(&imported)?;
    } else {
        for environment in &imported.environments {
            printer.data(&format!("{} {}\n", environment.instance_id, environment.digest.short()))?;
        }
        printer.data(&format!(
            "{} bases and {} layers put into the cache, {} were there\n",
            imported.bases.len(),
            imported.layers,
            imported.there
        ))?;
    }
    Ok(Status::Done)
}
