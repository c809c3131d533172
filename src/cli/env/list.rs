//! `redgreen env list`.

use std::path::PathBuf;

use crate::cli::Outcome;
use crate::cli::common;
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;

/// List the environment definitions.
///
/// Example: redgreen env list
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder with environment definitions that add to or override the built-in ones; may be repeated.
    #[arg(long, value_name = "DIR")]
    definitions: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let folders = common::definitions(&common::layers()?, &args.definitions)?;
    let definitions =
        crate::environment::Definitions::load(&folders).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let rows: Vec<_> = definitions.iter().map(|d| (d.name.clone(), d.aliases.clone())).collect();
    if args.json {
        let rows: Vec<_> =
            rows.iter().map(|(name, aliases)| serde_json::json!({"name": name, "aliases": aliases})).collect();
        printer.value(&rows)?;
    } else {
        let lines: String = rows.iter().map(|(name, aliases)| format!("{name:<10} {}\n", aliases.join(", "))).collect();
        printer.data(&lines)?;
    }
    Ok(Status::Done)
}
