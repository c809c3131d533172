//! `redgreen report`.

use std::path::PathBuf;

use super::Outcome;
use super::common;
use super::error::{CliError, Status};
use super::printer::Printer;
use crate::fault;
use crate::metrics::{Agreement, CommentRow, CommentSet, Denominator, recorded_report, recorded_verdicts};
use crate::report::{RenderError, build, tables, write_files, write_files_unless_there};
use crate::store::bench::Benchmark;
use crate::store::{RunFolder, StoreError};

/// Report a run from its records, or a benchmark's recorded verdicts. Runs nothing.
///
/// The files of a run's report (HTML, JSON, Markdown, CSV, JUnit XML, a summary in SWE-bench's shape) are written to
/// `RUN/report/`; `report.html` is the one to open.
///
/// Example: redgreen report redgreen-runs/quickstart-1 --json
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A run folder; with `--recorded`, a benchmark folder.
    #[arg(value_name = "RUN")]
    folder: PathBuf,
    /// Which comments count: `all`, `valid` or `final` [default: as the run was scored].
    #[arg(long, value_name = "WHICH", value_parser = super::score::parse_denominator)]
    denominator: Option<Denominator>,
    /// Report the verdicts that were recorded with a benchmark, without running anything.
    #[arg(long)]
    recorded: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    if !args.folder.is_dir() {
        return Err(CliError::usage(format!("there is no folder `{}`", args.folder.display()))
            .hint("give the path of a run folder; `redgreen score` makes them, in `redgreen-runs` by default")
            .into());
    }
    if args.recorded {
        return recorded(&args, &printer);
    }
    if Benchmark::is_at(&args.folder) {
        return Err(CliError::usage(format!("`{}` is a benchmark, not a run", args.folder.display()))
            .hint("add `--recorded` for the verdicts that came with it, or name a run folder")
            .into());
    }
    let run = RunFolder::open(&args.folder).map_err(|e| {
        let hint = matches!(e, StoreError::NotARun { .. });
        let error = CliError::from(e);
        if hint { error.hint("`redgreen score` makes run folders, in `redgreen-runs` by default") } else { error }
    })?;
    // Who may only read the folder has the report all the same.
    let _visit = run.visit();
    show(&printer, &run, args.denominator, args.json, Files::Anew)?;
    Ok(Status::Done)
}

/// Whether a report's files are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Files {
    /// Whatever is there.
    Anew,
    /// Where those that are there are not of this very report.
    UnlessThere,
}

/// Makes, writes and prints the report of a run; without a denominator, that of its last scoring.
pub(super) fn show(
    printer: &Printer,
    run: &RunFolder,
    denominator: Option<Denominator>,
    json: bool,
    files: Files,
) -> Result<(), super::Failure> {
    let built = build(run, denominator).map_err(|e| match e {
        crate::report::ReportError::Store(e) => CliError::from(e),
        e => CliError::usage(e.to_string()),
    })?;
    let written = match files {
        Files::Anew => write_files(run, &built),
        Files::UnlessThere => write_files_unless_there(run, &built),
    };
    fault::point("report.files.written");
    if json {
        printer.value(&built.report)?;
    } else {
        printer.data(&tables::report(&built.report))?;
    }
    // The process ends soon: giving back a large report piece by piece would take longer than some of what made it.
    std::mem::forget(built);
    // A person who can only read the folder has the report all the same.
    written.map(|_| ()).map_err(|e| match e {
        RenderError::Store(e) => CliError::from(e).into(),
        e => CliError::infra("the report's files could not be written").because(&e).into(),
    })
}

fn recorded(args: &Args, printer: &Printer) -> Outcome {
    let loaded = common::load_benchmark(&args.folder, printer)?;
    if loaded.recorded.is_empty() {
        return Err(CliError::usage(format!("`{}` came with no recorded verdicts", args.folder.display()))
            .hint("`redgreen score` runs its revisions")
            .into());
    }
    let denominator = args.denominator.unwrap_or_else(|| Denominator::default_for(&loaded.manifest));
    let scores = recorded_report(&loaded.manifest, &loaded.instances, &loaded.recorded, denominator)
        .map_err(|e| CliError::usage(e.to_string()))?;
    if args.json {
        // The same fields as the report of a run; nothing ran, so there is nothing to agree with.
        let set = CommentSet::of(&loaded.manifest, &loaded.instances, denominator)
            .map_err(|e| CliError::usage(e.to_string()))?;
        let counted: std::collections::BTreeSet<_> = set.rows.iter().map(CommentRow::key).collect();
        let verdicts: Vec<_> = recorded_verdicts(&loaded.recorded)
            .into_iter()
            .filter(|v| counted.contains(&(&v.instance_id, &v.comment)))
            .collect();
        printer.value(&serde_json::json!({
            "denominator": scores.denominator,
            "arms": scores.arms,
            "overlap": scores.overlap,
            "outcomes": scores.outcomes,
            "breakdown": scores.breakdown,
            "agreement": Agreement::default(),
            "verdicts": verdicts,
        }))?;
    } else {
        printer.data(&tables::recorded(&loaded.manifest.name, &scores))?;
    }
    Ok(Status::Done)
}
