//! `redgreen diff`.

use std::path::PathBuf;

use super::Outcome;
use super::error::{CliError, Status};
use super::printer::Printer;
use crate::metrics::Denominator;
use crate::report::{ReportError, compare, compare_text};
use crate::store::{RunFolder, StoreError};

/// Compare two runs: which verdicts differ, and why.
///
/// A verdict differs because an input does (patch, test, environment, limits, …: each is named), because the same inputs
/// gave another outcome (flaky), because of infra, of a control, or of the policy. Verdicts that only one run has are
/// listed, too, and how the rate of each arm moved. Runs nothing.
///
/// Example: redgreen diff redgreen-runs/quickstart-1 redgreen-runs/quickstart-2
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The first run folder.
    #[arg(value_name = "RUN1")]
    first: PathBuf,
    /// The second run folder.
    #[arg(value_name = "RUN2")]
    second: PathBuf,
    /// Which comments the rates count: `all`, `valid` or `final` [default: as each run was scored].
    #[arg(long, value_name = "WHICH", value_parser = super::score::parse_denominator)]
    denominator: Option<Denominator>,
    /// Exit code 1 when a verdict differs, or only one run has it.
    #[arg(long)]
    fail_on_change: bool,
    /// List every change, however many there are.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let open = |folder: &PathBuf| {
        RunFolder::open(folder).map_err(|e| {
            let none = matches!(e, StoreError::NotARun { .. });
            let error = CliError::from(e);
            if none { error.hint("`redgreen score` makes run folders, in `redgreen-runs` by default") } else { error }
        })
    };
    let (first, second) = (open(&args.first)?, open(&args.second)?);
    let comparison = compare::compare(&first, &second, args.denominator).map_err(|e| match e {
        ReportError::Store(e) => CliError::from(e),
        e => CliError::usage(e.to_string()),
    })?;
    if args.json {
        printer.value(&comparison)?;
    } else {
        printer.data(&compare_text::text(&comparison, args.all))?;
    }
    let gate = args.fail_on_change && !comparison.changes.is_empty();
    Ok(if gate { Status::GateSaysNo } else { Status::Done })
}
