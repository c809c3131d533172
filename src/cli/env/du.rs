//! `redgreen env du`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::Outcome;
use crate::cli::common::{self, CacheOption};
use crate::cli::error::Status;
use crate::cli::printer::Printer;
use crate::engine::size;
use crate::environment::made;
use crate::report::counted;
use crate::sandbox::docker::{ImageKind, OwnImages};
use crate::store::{CacheEntry, EntryKind, cache, entries};

use super::images::{self, EngineOption, evictable};

/// Tell what takes how much of the cache: by kind, and by benchmark.
///
/// What several instances share is counted once. What a benchmark takes is told of those of its instances whose
/// environments were made in this cache. Where a container engine answers, redgreen's images in it are told of, too; they
/// lie with the engine, and are no part of the cache's sum.
///
/// Example: redgreen env du BENCH
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Benchmark folders to tell the part of.
    #[arg(value_name = "BENCH")]
    benches: Vec<PathBuf>,
    #[command(flatten)]
    engine: EngineOption,
    #[command(flatten)]
    cache: CacheOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let limit = args.cache.limit(&layers)?;
    let cache = args.cache.resolve(&layers)?.value;
    let all = entries(&cache)?;
    let usage = cache::usage(&cache)?;
    let kinds = by_kind(&cache, &all);
    let sum = |entries: &mut dyn Iterator<Item = &CacheEntry>| entries.map(|e| e.bytes).fold(0, u64::saturating_add);
    let whole = sum(&mut all.iter());
    let total = usage.iter().map(|folder| folder.bytes).fold(0, u64::saturating_add);
    let mut parts = Vec::new();
    for bench in &args.benches {
        parts.push(Part::of(&cache, bench, &printer)?);
    }
    let in_use = sum(&mut all.iter().filter(|entry| entry.in_use));
    let held = args.engine.images()?;
    if args.json {
        printer.value(&json!({
            "cache": cache,
            "limit": limit,
            "bytes": total.max(whole),
            "in_use": in_use,
            "kinds": kinds.iter().map(|((kind, of), (count, bytes))| {
                json!({"kind": kind, "of": of, "entries": count, "bytes": bytes})
            }).collect::<Vec<_>>(),
            "other_bytes": total.saturating_sub(whole),
            "engine": held.as_ref().map(|held| engine_json(held, &all)),
            "benchmarks": parts.iter().map(|part| part.json(&all, &parts)).collect::<Vec<_>>(),
        }))?;
        return Ok(Status::Done);
    }
    let mut text = format!("cache: {}\n", cache.display());
    for ((kind, of), (count, bytes)) in &kinds {
        let name = if of.is_empty() { kind.as_str().to_owned() } else { format!("{} {of}", kind.as_str()) };
        text.push_str(&format!("  {:>9}  {count:>6}  {name}\n", size(*bytes)));
    }
    let other = total.saturating_sub(whole);
    if other > 0 {
        text.push_str(&format!("  {:>9}          temporary files, locks, records, older formats\n", size(other)));
    }
    let limit = limit.map_or_else(String::new, |limit| format!(", limit {}", size(limit)));
    text.push_str(&format!(
        "{} in all{limit}; {} of it in use by live processes\n",
        size(total.max(whole)),
        size(in_use)
    ));
    if let Some(held) = &held {
        text.push_str(&engine_text(held));
    }
    for part in &parts {
        text.push_str(&part.text(&all, &parts));
    }
    printer.data(&text)?;
    Ok(Status::Done)
}

/// Our images at an engine, for machines.
fn engine_json(held: &OwnImages, entries: &[CacheEntry]) -> Value {
    let decided = evictable(held, entries);
    let rows = held.images.iter().map(|image| {
        let beside = decided.iter().find(|(known, _)| known.id == image.id).map(|(_, beside)| beside);
        images::row(image, beside)
    });
    json!({
        "address": held.address,
        "bytes": held.images.iter().map(|image| image.bytes).fold(0, u64::saturating_add),
        "images": rows.collect::<Vec<_>>(),
    })
}

/// Our images at an engine, for people; nothing where there are none.
fn engine_text(held: &OwnImages) -> String {
    let mut text = String::new();
    for (kind, what) in [(ImageKind::Base, "bases"), (ImageKind::Environment, "environments")] {
        let of_kind: Vec<u64> =
            held.images.iter().filter(|image| image.kind == kind).map(|image| image.bytes).collect();
        if !of_kind.is_empty() {
            let bytes = of_kind.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            text.push_str(&format!("  {:>9}  {:>6}  images of {what}\n", size(bytes), of_kind.len()));
        }
    }
    if text.is_empty() { text } else { format!("engine: {}\n{text}", held.address) }
}

/// Entries and bytes by kind; layers by their own kind, too.
fn by_kind(cache: &Path, all: &[CacheEntry]) -> BTreeMap<(EntryKind, String), (u64, u64)> {
    let mut kinds: BTreeMap<(EntryKind, String), (u64, u64)> = BTreeMap::new();
    for entry in all {
        let inside = entry.path.strip_prefix(cache).unwrap_or(&entry.path);
        let of = match entry.kind {
            EntryKind::Layer => {
                inside.iter().nth(1).map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default()
            }
            _ => String::new(),
        };
        let sum = kinds.entry((entry.kind, of)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(entry.bytes));
    }
    kinds
}

/// What one benchmark's environments were made of.
struct Part {
    bench: PathBuf,
    instances: usize,
    known: usize,
    paths: BTreeSet<PathBuf>,
}

impl Part {
    fn of(cache: &Path, bench: &Path, printer: &Printer) -> Result<Self, crate::cli::error::CliError> {
        let loaded = common::load_benchmark(&common::absolute(bench)?, printer)?;
        // Layers are noted by the cache's real name.
        let real = fs_err::canonicalize(cache).unwrap_or_else(|_| cache.to_owned());
        let (mut known, mut paths) = (0, BTreeSet::new());
        for instance in &loaded.instances {
            let Some(made) = made(cache, instance.instance_id.folded()) else { continue };
            known += 1;
            let layers = made.layers.iter().map(|layer| &layer.folder);
            paths.extend(layers.chain(&made.trees).map(|path| match path.strip_prefix(&real) {
                Ok(inside) => cache.join(inside),
                Err(_) => path.clone(),
            }));
        }
        Ok(Self { bench: bench.to_owned(), instances: loaded.instances.len(), known, paths })
    }

    /// Bytes of all that it uses, and of what none of the others uses.
    fn bytes(&self, all: &[CacheEntry], parts: &[Self]) -> (u64, u64) {
        let others = |path: &PathBuf| parts.iter().any(|p| !std::ptr::eq(p, self) && p.paths.contains(path));
        let own = all.iter().filter(|entry| self.paths.contains(&entry.path));
        own.fold((0, 0), |(sum, alone), entry| {
            let bytes = if others(&entry.path) { 0 } else { entry.bytes };
            (sum + entry.bytes, alone + bytes)
        })
    }

    fn json(&self, all: &[CacheEntry], parts: &[Self]) -> Value {
        let (bytes, alone) = self.bytes(all, parts);
        json!({"bench": self.bench, "instances": self.instances, "known": self.known, "bytes": bytes, "not_shared": alone})
    }

    fn text(&self, all: &[CacheEntry], parts: &[Self]) -> String {
        let (bytes, alone) = self.bytes(all, parts);
        let shared =
            if parts.len() > 1 { format!(", {} not shared with the others", size(alone)) } else { String::new() };
        format!(
            "{}: trees and layers of {} (of {}): {}{shared}\n",
            self.bench.display(),
            counted(self.known as u64, "instance"),
            self.instances,
            size(bytes)
        )
    }
}
