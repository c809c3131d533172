//! `redgreen env gc`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::cli::Outcome;
use crate::cli::common::{self, CacheOption};
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::settings::parse_size;
use crate::engine::size;
use crate::sandbox::docker::OwnImage;
use crate::store::{Beside, CacheEntry, Evicted, Eviction, evict, evict_beside};

use super::images::{self, EngineOption, evictable};

/// Delete from the cache what was not used for longest, by size or by age.
///
/// Layers, bases, trees and clones go, the one that was not used for longest first, until the cache has the size of `--to`, or
/// else the one of its limit (`--cache-limit`). With `--older-than` only what nothing used for so long goes. What a live
/// process uses or makes always stays, and bases whose archive somebody handed in. What is needed again is made again.
///
/// Images that were made from bases in a container engine, where one answers, count and go in the same order: as
/// their base was used. Images without redgreen's label and names are left alone, and loaded environments.
///
/// Example: redgreen env gc --to 20G --dry-run
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only what nothing used for so long, as `14d` or `12h`.
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    older_than: Option<Duration>,
    /// Stop when all entries take no more than this together, as `20G`; 0 for nothing at all [default: the cache's limit;
    /// with `--older-than`: as much as is old enough].
    #[arg(long, value_name = "SIZE", value_parser = parse_target)]
    to: Option<u64>,
    /// Only say what would go.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    engine: EngineOption,
    #[command(flatten)]
    cache: CacheOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn parse_target(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { parse_size(text) }
}

/// Reads an age: `14d`, `12h`, `0` for all.
fn parse_age(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is no age (use `14d`, `12h`, `30m`)");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let number: u64 = text[..split].parse().map_err(|_| bad())?;
    let unit = match text[split..].trim() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" | "day" | "days" => 86_400,
        _ => return Err(bad()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(bad)
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let limit = args.cache.limit(&layers)?;
    let cache = args.cache.resolve(&layers)?.value;
    let to = args.to.or(if args.older_than.is_none() { limit } else { None });
    if to.is_none() && args.older_than.is_none() {
        return Err(CliError::usage("nothing says what is to go")
            .hint("use `--to 20G`, `--older-than 14d`, or a limit (`cache-limit` in `redgreen.toml`)")
            .into());
    }
    let eviction = Eviction { older_than: args.older_than, to, dry_run: args.dry_run };
    let held = args.engine.images()?;
    let beside = match &held {
        Some(held) => evictable(held, &images::entries_of(&cache)?),
        None => Vec::new(),
    };
    let evicted = {
        let places: Vec<Beside> = beside.iter().map(|(_, one)| *one).collect();
        let mut take = |place: usize| match (&held, beside.get(place)) {
            (Some(held), Some((image, _))) => held.remove(image).map_err(|error| error.to_string()),
            _ => Ok(false),
        };
        evict_beside(&cache, &eviction, SystemTime::now(), &places, &mut take)?
    };
    let chosen = |places: &[usize]| places.iter().filter_map(|place| beside.get(*place)).collect::<Vec<_>>();
    let (gone_images, used_images) = (chosen(&evicted.gone_beside), chosen(&evicted.in_use_beside));
    if args.json {
        let rows = |images: &[&(&OwnImage, Beside)]| -> Vec<Value> {
            images.iter().map(|(image, one)| images::row(image, Some(one))).collect()
        };
        printer.value(&json!({
            "cache": cache,
            "dry_run": args.dry_run,
            "bytes_before": evicted.before,
            "bytes_after": evicted.after,
            "gone": evicted.gone.iter().map(row).collect::<Vec<_>>(),
            "in_use": evicted.in_use,
            "kept": evicted.kept,
            "engine": held.as_ref().map(|held| json!({
                "address": held.address,
                "gone": rows(&gone_images),
                "in_use": rows(&used_images),
            })),
            "problems": evicted.problems,
        }))?;
    } else {
        let images: Vec<&OwnImage> = gone_images.iter().map(|(image, _)| *image).collect();
        printer.data(&text(&cache, &evicted, &images, &eviction))?;
    }
    problems(&evicted)?;
    Ok(Status::Done)
}

fn row(entry: &CacheEntry) -> Value {
    let last_used = jiff::Timestamp::try_from(entry.last_used).ok().map(|at| at.to_string());
    json!({"kind": entry.kind, "path": entry.path, "bytes": entry.bytes, "last_used": last_used})
}

fn text(cache: &Path, evicted: &Evicted, images: &[&OwnImage], eviction: &Eviction) -> String {
    let mut out = format!("cache: {}\n", cache.display());
    for entry in &evicted.gone {
        let path = entry.path.strip_prefix(cache).unwrap_or(&entry.path).display();
        out.push_str(&format!("  {:>9}  {:<10}  {path}\n", size(entry.bytes), entry.kind.as_str()));
    }
    for image in images {
        let name = images::name(image);
        out.push_str(&format!("  {:>9}  {:<10}  {name}\n", size(image.bytes), "image"));
    }
    let (before, after) = (size(evicted.before), size(evicted.after));
    let count = evicted.gone.len() + images.len();
    let entries = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
    let word = if eviction.dry_run { "would go" } else { "deleted" };
    out.push_str(&format!("{entries} {word}: {before} before, {after} after{}\n", in_use(evicted)));
    if let Some(to) = eviction.to.filter(|to| evicted.after > *to) {
        out.push_str(&format!("more than {} stay: the rest is in use, or not old enough\n", size(to)));
    }
    out
}

/// Takes entries of a cache away.
pub(in crate::cli) fn evict_from(cache: &Path, eviction: &Eviction) -> Result<Evicted, CliError> {
    if !cache.is_dir() {
        return Ok(Evicted::default());
    }
    Ok(evict(cache, eviction, SystemTime::now())?)
}

/// What is said of entries that stay as somebody uses them.
pub(in crate::cli) fn in_use(evicted: &Evicted) -> String {
    match evicted.in_use.len() + evicted.in_use_beside.len() {
        0 => String::new(),
        1 => "; 1 entry stays, as a live process uses it".to_owned(),
        count => format!("; {count} entries stay, as live processes use them"),
    }
}

/// Fails when something could not be taken away.
pub(in crate::cli) fn problems(evicted: &Evicted) -> Result<(), CliError> {
    if evicted.problems.is_empty() {
        return Ok(());
    }
    let mut error = CliError::infra("some entries could not be deleted");
    error.causes.clone_from(&evicted.problems);
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes() {
        assert_eq!(parse_age("14d"), Ok(Duration::from_secs(14 * 86_400)));
        assert_eq!(parse_age("0"), Ok(Duration::ZERO));
        assert_eq!(parse_age("12 h"), Ok(Duration::from_secs(43_200)));
        for bad in ["", "d", "14", "1.5d", "1w", "99999999999999999999d"] {
            assert!(parse_age(bad).is_err(), "{bad}");
        }
        assert_eq!((parse_target("0"), parse_target("20G")), (Ok(0), Ok(20 << 30)));
    }
}
