//! `redgreen env detect`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use serde_json::{Value, json};

use crate::cli::Outcome;
use crate::cli::common;
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::environment::{Definitions, Detected, detect};
use crate::repo::Repository;
use crate::report::counted;

/// Tell which language a project is in, which version it wants and why, and the ways to install it that would be tried.
///
/// Only reads. The version is the one that was wanted at the commit's date: what the project names, else the newest that
/// its range allows and that had been out for a while then.
///
/// Example: redgreen env detect ~/src/project
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A work tree, or any folder with a project.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The day that counts [default: that of the commit which is checked out].
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    date: Option<Date>,
    /// Take the language as given.
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
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
    let definitions = Definitions::load(&folders).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let path = folder(&args.path)?;
    if let Some(language) = &args.language {
        definitions.get(language).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    }
    let date = args.date.or_else(|| day_of(&path));
    if date.is_none() {
        printer.note("no commit is checked out there, so the newest releases count; `--date` gives a day");
    }
    let Some(detected) = detect(&definitions, &path, date, args.language.as_deref()) else {
        let known: Vec<&str> = definitions.iter().map(|definition| definition.name.as_str()).collect();
        return Err(CliError::usage(format!("`{}` has no file of a known language", args.path.display()))
            .hint(format!("known are {}; `--language` takes one as given", known.join(", ")))
            .into());
    };
    if args.json {
        printer.value(&value(&detected, date)?)?;
    } else {
        printer.data(&text(&detected, date))?;
    }
    Ok(Status::Done)
}

fn parse_day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("`{text}` is no day like `2024-05-31`"))
}

/// The folder, if it is one.
fn folder(path: &Path) -> Result<PathBuf, CliError> {
    let metadata = fs_err::metadata(path).map_err(|e| {
        CliError::usage(format!("`{}` can't be read", path.display())).because(&e).hint("give the folder of a project")
    })?;
    if !metadata.is_dir() {
        return Err(CliError::usage(format!("`{}` is no folder", path.display()))
            .hint("give the folder of a project, not one of its files"));
    }
    common::absolute(path)
}

/// The day of the commit that is checked out in the folder, or in the work tree that it is in.
fn day_of(path: &Path) -> Option<Date> {
    let top = path.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(path);
    let repository = Repository::open(top).ok()?;
    repository.day(&repository.head().ok()?).ok()
}

fn value(detected: &Detected, date: Option<Date>) -> Result<Value, CliError> {
    let mut value = serde_json::to_value(detected)
        .map_err(|e| CliError::infra("the answer can't be written as JSON").because(&e))?;
    if let Some(map) = value.as_object_mut() {
        map.insert("date".to_owned(), json!(date));
        map.insert("manifest".to_owned(), json!(detected.manifest()));
    }
    Ok(value)
}

fn text(detected: &Detected, date: Option<Date>) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "{name:<12}{text}");
    };
    let of = |claim: &crate::environment::Claim| {
        let file = claim.file.as_ref().map_or_else(|| "no file that tells it".to_owned(), Clone::clone);
        format!("{file}, {}", counted(claim.sources, "source file"))
    };
    match detected.claims.iter().find(|claim| claim.language == detected.language) {
        Some(claim) => line("language", &format!("{} ({})", detected.language, of(claim))),
        None => line("language", &format!("{} (as given)", detected.language)),
    }
    line("version", detected.version.as_deref().unwrap_or("any"));
    line("because", &detected.version_source);
    if let Some(constraint) = &detected.constraint {
        line("range", constraint);
    }
    if let Some(date) = date {
        line("date", &date.to_string());
    }
    if !detected.alternatives.is_empty() {
        const SHOWN: usize = 8;
        let others: Vec<&str> = detected.alternatives.iter().map(|other| other.version.as_str()).collect();
        let more = others.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} older ones") } else { String::new() };
        line("else", &format!("{}{more}", others[..others.len().min(SHOWN)].join(", ")));
    }
    for (i, strategy) in detected.strategies.iter().enumerate() {
        line(if i == 0 { "strategies" } else { "" }, &format!("{}. {}", i + 1, strategy.name));
    }
    for claim in detected.claims.iter().filter(|claim| claim.language != detected.language) {
        line("also", &format!("{} ({})", claim.language, of(claim)));
    }
    for note in &detected.notes {
        line("note", note);
    }
    out
}
