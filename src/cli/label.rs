//! `redgreen label`: export and import.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::error::{CliError, Status};
use super::printer::Printer;
use super::{Outcome, common, score};
use crate::metrics::Interval;
use crate::model::to_jsonl;
use crate::report::counted;
use crate::stage::label::{self, Answer, CommentKey, Compared, Conflict};
use crate::store::bench::Benchmark;
use crate::store::write_atomic;

/// Have people label comments: sheets go out, two people's come back, are compared, and become gold labels.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the sheets: a page for a browser (which needs nothing but itself), a CSV file and JSON Lines.
    ///
    /// Each person fills in one of them. The labels: actionable, specific, verifiable (yes or no), category, oracle.
    ///
    /// Example: redgreen label export BENCH --out labels
    Export(Export),
    /// Compare two people's sheets (CSV or JSON Lines), and write gold labels.
    ///
    /// Agreement is Cohen's kappa with its 95 % interval, point by point. Comments on which both agree in every point become
    /// gold; the others are written to `--conflicts`, with the labels left open, for a third person, whose sheet is then
    /// given by `--adjudicated`. Exit code 1 while conflicts are open.
    ///
    /// Example: redgreen label import BENCH ann.jsonl ben.csv --out gold.jsonl --conflicts open.csv
    Import(Import),
}

#[derive(Debug, clap::Args)]
struct Export {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The folder to write `label.html`, `labels.csv` and `labels.jsonl` to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only instances whose id matches; may be repeated. `*` matches anything.
    #[arg(long, short = 'i', value_name = "GLOB")]
    instances: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Import {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// One person's sheet.
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// The other person's.
    #[arg(value_name = "SECOND")]
    second: PathBuf,
    /// A third person's sheet, which decides conflicts; it may hold more.
    #[arg(long, value_name = "FILE")]
    adjudicated: Option<PathBuf>,
    /// Where gold labels are written (JSON Lines).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where the sheet of open conflicts is written (CSV), with both people's labels in the text.
    #[arg(long, value_name = "FILE")]
    conflicts: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    match args.what {
        What::Export(args) => export(&args),
        What::Import(args) => import(&args),
    }
}

fn export(args: &Export) -> Outcome {
    let printer = Printer;
    let bench = common::load_benchmark(&args.bench, &printer)?;
    let globs = score::parse_globs(&args.instances)?;
    let chosen = bench.instances.iter().filter(|i| globs.as_ref().is_none_or(|g| g.is_match(i.instance_id.folded())));
    let rows = label::rows(chosen);
    if rows.is_empty() {
        return Err(CliError::usage(
            "there is no comment to label: no instance matches `--instances`, or none has one",
        )
        .into());
    }
    let broken = |e: &dyn std::error::Error| CliError::infra("a sheet cannot be made").because(e);
    let page = label::page(&bench.manifest.name, &rows).map_err(|e| broken(&e))?;
    let csv = label::write_csv(&rows).map_err(|e| broken(&e))?;
    let empty = label::COLUMNS.map(|name| (name.to_owned(), json!("")));
    let lines = rows.iter().map(|row| {
        let mut value = json!({"instance_id": row.instance_id, "comment": row.comment, "path": row.path, "lines": row.lines, "text": row.text});
        if let Some(object) = value.as_object_mut() {
            object.extend(empty.clone());
        }
        value
    });
    let lines = to_jsonl(lines).map_err(|e| broken(&e))?;
    for (name, text) in [("label.html", &page), ("labels.csv", &csv), ("labels.jsonl", &lines)] {
        write_atomic(&args.out.join(name), text.as_bytes())?;
    }
    if args.json {
        printer.value(&json!({"out": args.out, "comments": rows.len()}))?;
    } else {
        let n = counted(rows.len() as u64, "comment");
        printer.data(&format!("{}: {n} in label.html, labels.csv and labels.jsonl\n", args.out.display()))?;
    }
    Ok(Status::Done)
}

fn import(args: &Import) -> Outcome {
    let printer = Printer;
    let bench = common::load_benchmark(&args.bench, &printer)?;
    let known: Vec<CommentKey> = bench
        .instances
        .iter()
        .flat_map(|i| i.reference_review_comments.iter().map(|c| (i.instance_id.clone(), c.id.clone())))
        .collect();
    let mut problems = 0;
    let first = read(&args.first, &printer, &mut problems)?;
    let second = read(&args.second, &printer, &mut problems)?;
    let adjudicated = match &args.adjudicated {
        Some(file) => read(file, &printer, &mut problems)?,
        None => BTreeMap::new(),
    };
    let compared = label::compare(&known, &first, &second);
    if compared.both == 0 {
        return Err(CliError::usage("no comment of this benchmark is labelled in both sheets")
            .hint("`redgreen label export` writes sheets that fit")
            .into());
    }
    let gold = label::gold(&known, &first, &second, &adjudicated);
    let decided = |c: &Conflict| adjudicated.contains_key(&(c.instance_id.clone(), c.comment.clone()));
    let open: Vec<&Conflict> = compared.conflicts.iter().filter(|c| !decided(c)).collect();
    let text = to_jsonl(&gold).map_err(|e| CliError::infra("could not write JSON").because(&e))?;
    write_atomic(&args.out, text.as_bytes())?;
    if let Some(file) = &args.conflicts {
        write_atomic(file, sheet_of(&bench, &open)?.as_bytes())?;
    }
    if args.json {
        printer.value(&json!({
            "comments": known.len(), "compared": compared, "gold": gold.len(), "open": open.len(), "problems": problems,
            "out": args.out,
        }))?;
    } else {
        printer.data(&text_of(args, &compared, gold.len(), open.len()))?;
    }
    Ok(if open.is_empty() && problems == 0 { Status::Done } else { Status::GateSaysNo })
}

/// A person's sheet, by its ending; rows that cannot be read are named.
fn read(file: &Path, printer: &Printer, problems: &mut usize) -> Result<BTreeMap<CommentKey, Answer>, CliError> {
    let bytes = fs_err::read(file).map_err(|e| CliError::usage("a sheet cannot be read").because(&e))?;
    let text = String::from_utf8_lossy(&bytes);
    let is_csv = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    let (answers, empty, errors) = if is_csv { label::read_csv(&text) } else { label::read_jsonl(&text) };
    for error in errors.iter().take(20) {
        printer.note(&format!("{}: {error}", file.display()));
    }
    if errors.len() > 20 {
        printer.note(&format!("… and {} more", errors.len() - 20));
    }
    *problems += errors.len();
    printer.note(&format!("{}: {} labelled, {empty} empty, {} not read", file.display(), answers.len(), errors.len()));
    Ok(answers)
}

/// The sheet of what is still open; what the two people said stands under the comment.
fn sheet_of(bench: &Benchmark, open: &[&Conflict]) -> Result<String, CliError> {
    let all = label::rows(&bench.instances);
    let rows: Vec<_> = open
        .iter()
        .filter_map(|conflict| {
            let (id, comment) = (conflict.instance_id.as_str(), conflict.comment.as_str());
            let mut row = all.iter().find(|r| r.instance_id == id && r.comment == comment)?.clone();
            let said = [&conflict.first, &conflict.second].map(|l| {
                let flag = |yes: bool| if yes { "yes" } else { "no" };
                let flags = [l.actionable, l.specific, l.verifiable].map(flag).join(" ");
                format!("{flags} {} {} {}", l.category.as_str(), l.oracle.as_str(), l.reason)
            });
            row.text = format!(
                "{}\n\n(actionable specific verifiable category oracle note)\n1: {}\n2: {}",
                row.text, said[0], said[1]
            );
            Some(row)
        })
        .collect();
    label::write_csv(&rows).map_err(|e| CliError::infra("a sheet cannot be made").because(&e))
}

fn text_of(args: &Import, compared: &Compared, gold: usize, open: usize) -> String {
    let mut text = format!(
        "{} labelled by both; {} by the first alone, {} by the second alone, {} of unknown comments\n",
        counted(compared.both as u64, "comment"),
        compared.only_first,
        compared.only_second,
        compared.unknown
    );
    for point in &compared.points {
        let Some(kappa) = point.kappa else { continue };
        let value = match (kappa.kappa, kappa.interval) {
            (Some(k), Some(Interval(low, high))) => format!("kappa {k:.2} ({low:.2} to {high:.2})"),
            _ => "kappa not defined: one class only".to_owned(),
        };
        text.push_str(&format!("  {:<11} {:>5.1} % equal, {value}\n", point.point, 100.0 * kappa.observed));
    }
    text.push_str(&format!(
        "{} agree in every point, {} do not, {open} of these are open\n",
        compared.agreed,
        compared.conflicts.len()
    ));
    text.push_str(&format!("{}: {}\n", args.out.display(), counted(gold as u64, "gold label")));
    text
}
