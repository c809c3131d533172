//! `redgreen funnel`.

use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};

use super::error::{CliError, Status};
use super::printer::Printer;
use super::{Outcome, common};
use crate::llm::Call;
use crate::model::parse_jsonl;
use crate::stage::funnel::{self, Funnel, Left, Stage};
use crate::store::bench::{self, Problem};

/// Show what each stage of a benchmark's making left over, what went and why, and what it cost.
///
/// Stages: imported, filtered, environment, testable, solvable, frozen. One that nothing in the folder tells of is `not run`
/// and has no numbers. Money and hours are those of recorded model calls.
///
/// Example: redgreen funnel examples/quickstart
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
    let bench = common::load_benchmark(&args.bench, &printer)?;
    let found = funnel::funnel(&bench, &calls(&args.bench, &printer)?);
    if args.json {
        printer.value(&found)?;
    } else {
        printer.data(&text(&found))?;
    }
    Ok(Status::Done)
}

/// The ledger, where there is one. Lines that cannot be read are named.
fn calls(folder: &Path, printer: &Printer) -> Result<Vec<Call>, CliError> {
    let text = match fs_err::read_to_string(folder.join(bench::LEDGER)) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(CliError::usage("the ledger cannot be read").because(&e)),
    };
    let parsed = parse_jsonl(&text);
    let problems: Vec<_> = parsed.errors.iter().cloned().map(|e| Problem::unreadable(bench::LEDGER, e)).collect();
    common::tell(printer, &problems);
    Ok(parsed.into_rows())
}

fn text(funnel: &Funnel) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["stage", "instances", "comments", "money", "hours", "left at this stage"]);
    for stage in &funnel.stages {
        table.add_row(row(stage));
    }
    for index in 1..5 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let mut text = format!("{}\n", lines.join("\n"));
    if !funnel.outside.is_empty() {
        let list: Vec<_> = funnel.outside.iter().map(|(what, n)| format!("{what} {n}")).collect();
        text.push_str(&format!("outside the funnel: {}\n", list.join(" · ")));
    }
    if let Some(unexplained) = funnel.unexplained.filter(|n| *n > 0) {
        text.push_str(&format!("{unexplained} comments are not in the frozen set, and nothing says why\n"));
    }
    text
}

fn row(stage: &Stage) -> [String; 6] {
    let number = |n: Option<usize>| n.map_or_else(String::new, |n| n.to_string());
    let left: Vec<String> = stage.attrition.iter().map(|(reason, left)| said(reason, *left)).collect();
    let instances = match stage.status {
        funnel::Status::Done => number(stage.instances),
        funnel::Status::NotRun => "not run".to_owned(),
    };
    [
        stage.stage.as_str().to_owned(),
        instances,
        number(stage.comments),
        stage.money.map_or_else(|| "–".to_owned(), |m| format!("${m:.2}")),
        stage.hours.map_or_else(|| "–".to_owned(), |h| format!("{h:.2}")),
        left.join(" · "),
    ]
}

/// `not-located 3`, with what is no comment named: `malformed 1 row`.
fn said(reason: &str, left: Left) -> String {
    let mut parts = Vec::new();
    if left.comments > 0 {
        parts.push(left.comments.to_string());
    }
    if left.instances > 0 {
        parts.push(crate::report::counted(left.instances as u64, "instance"));
    }
    if left.others > 0 {
        parts.push(crate::report::counted(left.others as u64, "row"));
    }
    format!("{reason} {}", parts.join(" + "))
}
