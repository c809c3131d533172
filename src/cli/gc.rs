//! `redgreen gc`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::Outcome;
use super::common::CacheOption;
use super::env::gc;
use super::error::{CliError, Status};
use super::printer::Printer;
use crate::engine::size;
use crate::report::counted;
use crate::sandbox::docker::{Holdings, Surroundings, holdings};
use crate::store::{Eviction, cache};

/// Show what the cache holds, and delete what was not used for a while.
///
/// The cache (clones, trees of commits, environment layers) can be deleted at any time; what is needed again is made
/// again. So can the images that were made from bases in a container engine, where one answers; containers and volumes of
/// runs that died go, too. Run folders are never touched, nor what a live process uses. Without `--delete` nothing is deleted.
/// `redgreen env gc` does the same by size.
///
/// Example: redgreen gc --unused-days 14 --delete
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cache: CacheOption,
    /// Entries that nothing used for so many days are to go.
    #[arg(long, default_value_t = 30, value_name = "DAYS", value_parser = parse_days)]
    unused_days: u64,
    /// Really delete.
    #[arg(long)]
    delete: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn parse_days(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is no number of days"))
}

/// What of ours is in a container engine; `None` where none answers.
fn engine(args: &Args) -> Option<Holdings> {
    let around = Surroundings::of(&super::variables::all());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let before = now.as_secs().saturating_sub(args.unused_days.saturating_mul(86_400));
    holdings(&around, args.delete.then_some(i64::try_from(before).unwrap_or(0))).ok()
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let folder: PathBuf = args.cache.resolve(&super::common::layers()?)?.value;
    let usage = cache::usage(&folder)?;
    let older_than = Some(Duration::from_secs(args.unused_days.saturating_mul(86_400)));
    let evicted = gc::evict_from(&folder, &Eviction { older_than, to: None, dry_run: !args.delete })?;
    let mut unused: Vec<&PathBuf> = evicted.gone.iter().map(|entry| &entry.path).collect();
    unused.sort();
    let engine = engine(&args);
    if args.json {
        printer.value(&json!({
            "cache": folder,
            "engine": engine,
            "folders": usage.iter().map(|u| json!({"path": u.path, "bytes": u.bytes, "files": u.files})).collect::<Vec<_>>(),
            "unused": unused,
            "in_use": evicted.in_use,
            "deleted": args.delete && evicted.problems.is_empty(),
            "problems": evicted.problems,
        }))?;
    } else {
        let mut text = format!("cache: {}\n", folder.display());
        for entry in &usage {
            let (bytes, files, path) = (size(entry.bytes), entry.files, entry.path.display());
            text.push_str(&format!("  {bytes:>9}  {files:>8} files  {path}\n"));
        }
        text.push_str(&format!(
            "{} unused for {} days{}{}\n",
            if unused.len() == 1 { "1 entry".to_owned() } else { format!("{} entries", unused.len()) },
            args.unused_days,
            if args.delete {
                ": deleted"
            } else if unused.is_empty() {
                ""
            } else {
                ": add `--delete` to delete them"
            },
            gc::in_use(&evicted),
        ));
        if let Some(held) = engine.as_ref().filter(|held| held.leftovers > 0 || !held.bases.is_empty()) {
            let bytes = held.bases.iter().map(|image| u64::try_from(image.size).unwrap_or(0)).sum();
            let (images, left) = (held.bases.len() as u64, held.leftovers as u64);
            text.push_str(&format!(
                "engine: {}\n  {:>9}  {} of bases, {} of runs that died\n",
                held.address,
                size(bytes),
                counted(images, "image"),
                counted(left, "leftover"),
            ));
        }
        printer.data(&text)?;
    }
    if let Some(problem) = engine.and_then(|held| held.problems.into_iter().next()) {
        return Err(CliError::infra("something in the container engine could not be deleted").hint(problem).into());
    }
    gc::problems(&evicted)?;
    Ok(Status::Done)
}
