//! Our images at a container engine, for `env du` and `env gc`.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::variables;
use crate::environment::content_of;
use crate::sandbox::docker::{ImageKind, OwnImage, OwnImages, Surroundings};
use crate::store::{Beside, CacheEntry, EntryKind};

/// How long an engine may take that nobody asked for.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How long one may take that was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which sandbox's things are meant, too.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct EngineOption {
    /// Whether images at the container engine belong to it: with `docker` it must answer, with `local` it is not asked
    /// [default: those of an engine that answers at once].
    #[arg(long, value_name = "SANDBOX", value_parser = ["local", "docker"])]
    sandbox: Option<String>,
}

impl EngineOption {
    /// Our images; `None` where no engine was to be asked, or none answers that nobody asked for.
    pub fn images(&self) -> Result<Option<OwnImages>, CliError> {
        let around = Surroundings::of(&variables::all());
        match self.sandbox.as_deref() {
            Some("docker") => OwnImages::list(&around, PATIENCE).map(Some).map_err(|e| {
                CliError::infra(e.to_string())
                    .because(&e)
                    .hint("`redgreen doctor` tells what the engine can do; `--sandbox local` leaves it alone")
            }),
            Some(_) => Ok(None),
            None => Ok(OwnImages::list(&around, AT_ONCE).ok()),
        }
    }
}

/// The images that can be made again, with what decides whether they go: one of a base in this cache was used when the base
/// was, and is in use while it is.
pub(super) fn evictable<'a>(held: &'a OwnImages, entries: &[CacheEntry]) -> Vec<(&'a OwnImage, Beside)> {
    let bases = entries.iter().filter(|entry| entry.kind == EntryKind::Base);
    let bases: HashMap<String, &CacheEntry> =
        bases.filter_map(|entry| Some((content_of(&entry.path)?.to_string(), entry))).collect();
    let images = held.images.iter().filter(|image| image.kind == ImageKind::Base);
    let decided = images.map(|image| {
        let base = bases.get(&image.of);
        let last_used = base.map_or(image.since, |base| base.last_used);
        let in_use = image.in_use || base.is_some_and(|base| base.in_use);
        (image, Beside { bytes: image.bytes, last_used, in_use })
    });
    decided.collect()
}

/// What to call an image.
pub(super) fn name(image: &OwnImage) -> &str {
    image.names.first().map_or(image.id.as_str(), String::as_str)
}

/// An image for machines; `last_used` where it is known.
pub(super) fn row(image: &OwnImage, beside: Option<&Beside>) -> Value {
    let last_used = beside.and_then(|one| jiff::Timestamp::try_from(one.last_used).ok()).map(|at| at.to_string());
    json!({
        "kind": image.kind,
        "id": image.id,
        "names": image.names,
        "of": image.of,
        "bytes": image.bytes,
        "last_used": last_used,
        "in_use": beside.map_or(image.in_use, |one| one.in_use),
    })
}

/// What is in a cache; nothing where there is none.
pub(super) fn entries_of(cache: &Path) -> Result<Vec<CacheEntry>, CliError> {
    if cache.is_dir() { Ok(crate::store::entries(cache)?) } else { Ok(Vec::new()) }
}
