//! `redgreen check`.

use std::path::PathBuf;

use serde_json::json;

use super::Outcome;
use super::error::{CliError, Status};
use super::printer::Printer;
use crate::report::counted;
use crate::store::bench;

/// Check a benchmark folder: every line, every id, every test file.
///
/// Problems are named with file, line and field. Exit code 1 when there is an error, 0 when there are only warnings.
///
/// Example: redgreen check examples/quickstart
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    if !args.bench.is_dir() {
        return Err(CliError::usage(format!("there is no folder `{}`", args.bench.display()))
            .hint("give the path of a benchmark, or make one with `redgreen import`")
            .into());
    }
    let problems = bench::check(&args.bench);
    let errors = problems.iter().filter(|p| p.is_error()).count();
    if args.json {
        printer.value(&json!({"problems": problems, "errors": errors, "warnings": problems.len() - errors}))?;
    } else {
        let mut text: String = problems.iter().map(|p| format!("{p}\n")).collect();
        let warnings = counted((problems.len() - errors) as u64, "warning");
        text.push_str(&format!("{}, {warnings}\n", counted(errors as u64, "error")));
        printer.data(&text)?;
    }
    Ok(if errors > 0 { Status::GateSaysNo } else { Status::Done })
}
