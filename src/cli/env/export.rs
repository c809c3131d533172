//! `redgreen env export`.

use std::path::PathBuf;

use super::base::failed;
use super::chosen::ChosenOptions;
use super::stop::stoppable;
use crate::cli::common;
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::{Outcome, runtime};
use crate::environment::{ExportItem, TransferError};
use crate::stage::score::build_on_base;

/// Write environments into an archive for other machines.
///
/// The archive is an OCI image layout and can be given to `docker load`: each environment is an image with the base, a
/// layer for each part of the environment, and the head's tree in /workspace. What is missing is built first. An
/// environment that would stand on this machine's own system is built on a base. `redgreen env import` puts bases and
/// layers into another cache.
///
/// Example: redgreen env export BENCH -i 'owner__repo-12*' --out environments.tar
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    chosen: ChosenOptions,
    /// The archive to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Stand on this base: a name, an image, an archive [default: the environment's own, else one with its version].
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let out = common::absolute(&args.out)?;
    // All else takes minutes.
    if let Some(folder) = out.parent().filter(|folder| !folder.is_dir()) {
        return Err(CliError::usage(format!("there is no folder `{}` to write the archive into", folder.display()))
            .hint("make it, or name another place with `--out`")
            .into());
    }
    if out.is_dir() {
        return Err(
            CliError::usage(format!("`{}` is a folder; name the archive's file with `--out`", out.display())).into()
        );
    }
    let chosen = args.chosen.chosen(&printer)?;
    let mut services = args.chosen.places.services(&common::absolute(&args.chosen.bench)?)?;
    // Who exports wants what others can stand on. Nobody else has them yet.
    if let Some(environments) = std::sync::Arc::get_mut(&mut services.environments) {
        environments.set_makes_bases();
    }
    let runtime = runtime()?;
    let (cancel, interrupt) = stoppable(&runtime);
    let mut items = Vec::new();
    for (number, (instance, comments)) in chosen.iter().enumerate() {
        let id = &instance.instance_id;
        printer.note(&format!("{}/{} {id}", number + 1, chosen.len()));
        let step = |text: &str| printer.note(&format!("  {text}"));
        let built = build_on_base(&services, instance, comments, args.base.as_deref(), &step, &cancel);
        match runtime.block_on(built) {
            Ok((prepared, snapshot)) => {
                items.push(ExportItem { instance_id: id.clone(), prepared, snapshot });
            }
            Err(_) if cancel.is_cancelled() => return Ok(interrupted(&printer)),
            Err(why) => {
                return Err(CliError::infra(format!("the environment of {id} is not to be had: {}", why.detail))
                    .hint("`--instances` leaves it out")
                    .into());
            }
        }
    }
    let say = |text: &str| printer.note(text);
    let _context = runtime.enter();
    let exported = services.environments.export(&items, &out, services.scratch.path(), &say, &cancel);
    interrupt.abort();
    let exported = match exported {
        Ok(exported) => exported,
        Err(TransferError::Cancelled) => return Ok(interrupted(&printer)),
        Err(error) => return Err(of_transfer(&error).into()),
    };
    if args.json {
        let mut value = serde_json::to_value(&exported).unwrap_or_default();
        value["archive"] = serde_json::json!(out);
        printer.value(&value)?;
    } else {
        for environment in &exported.environments {
            printer.data(&format!("{} {}\n", environment.instance_id, environment.tag))?;
        }
        printer.data(&format!(
            "{}: {} MB, {} blobs\n",
            out.display(),
            exported.bytes.div_ceil(1_000_000),
            exported.blobs
        ))?;
    }
    Ok(Status::Done)
}

fn interrupted(printer: &Printer) -> Status {
    printer.note("interrupted: what was built is kept, no archive was written; the same command goes on");
    Status::Interrupted
}

/// A failed export or import for people.
pub(super) fn of_transfer(error: &TransferError) -> CliError {
    match error {
        TransferError::Archive(_) | TransferError::NotOurs { .. } | TransferError::Recipe { .. } => {
            CliError::usage(error.to_string())
        }
        TransferError::Base(error) => failed(error),
        TransferError::Unfit { .. } | TransferError::OnHost { .. } => CliError::usage(error.to_string()),
        _ => CliError::infra(error.to_string()),
    }
}
