//! `redgreen gc`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::Outcome;
use super::common::CacheOption;
use super::error::{CliError, Status};
use super::printer::Printer;
use crate::store::cache;

/// Show what the cache holds, and delete what was not used for a while.
///
/// The cache (clones, trees of commits, environment layers) can be deleted at any time; what is needed again is made
/// again. Run folders are never touched. Without `--delete` nothing is deleted.
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

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let folder: PathBuf = args.cache.resolve(&super::common::layers()?)?.value;
    let usage = cache::usage(&folder)?;
    let unused = Duration::from_secs(args.unused_days.saturating_mul(86_400));
    let stale = cache::stale(&folder, unused, SystemTime::now())?;
    let mut left = Vec::new();
    if args.delete {
        for path in &stale {
            if let Err(error) = cache::remove(path) {
                left.push(error.to_string());
            }
        }
    }
    if args.json {
        printer.value(&json!({
            "cache": folder,
            "folders": usage.iter().map(|u| json!({"path": u.path, "bytes": u.bytes, "files": u.files})).collect::<Vec<_>>(),
            "unused": stale,
            "deleted": args.delete && left.is_empty(),
            "problems": left,
        }))?;
    } else {
        let mut text = format!("cache: {}\n", folder.display());
        for entry in &usage {
            text.push_str(&format!(
                "  {:>9} MiB  {:>8} files  {}\n",
                entry.bytes >> 20,
                entry.files,
                entry.path.display()
            ));
        }
        text.push_str(&format!(
            "{} unused for {} days{}\n",
            if stale.len() == 1 { "1 entry".to_owned() } else { format!("{} entries", stale.len()) },
            args.unused_days,
            if args.delete {
                ": deleted"
            } else if stale.is_empty() {
                ""
            } else {
                ": add `--delete` to delete them"
            }
        ));
        printer.data(&text)?;
    }
    if left.is_empty() {
        return Ok(Status::Done);
    }
    let mut error = CliError::infra("some entries could not be deleted");
    error.causes = left;
    Err(error.into())
}
