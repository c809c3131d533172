//! Taking an archive of environments into the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::error::TransferError;
use super::folder::restore;
use super::record::{Blob, EnvironmentEntry, LayerEntry, RECORDS, Records, SCHEMA, is_plain};
use crate::environment::Environments;
use crate::environment::archive::oci::{Config, Descriptor, Manifest};
use crate::environment::archive::{ArchiveError, Blobs, Part, Tree, Whiteouts};
use crate::environment::waiting::wait;
use crate::model::{Digest, digest_json};

/// What was imported.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Imported {
    /// The environments in the archive.
    pub environments: Vec<EnvironmentEntry>,
    /// Bases that were put into the cache, by name.
    pub bases: Vec<String>,
    /// Layers that were put into the cache.
    pub layers: usize,
    /// Bases and layers that were there already.
    pub there: usize,
}

impl Environments {
    /// Puts the bases and layers of an archive into the cache, under their own digests. All blobs are verified before
    /// anything is written. `work`: a folder for what is needed on the way. Blocks.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`] names the blob that is not what its digest says.
    pub fn import(
        &self,
        archive: &Path,
        work: &Path,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Imported, TransferError> {
        let go = || if cancel.is_cancelled() { Err(std::io::Error::other("interrupted")) } else { Ok(()) };
        let work = tempfile::Builder::new().prefix("import-").tempdir_in(work)?;
        let taking = || -> Result<Imported, TransferError> {
            progress(&format!("reading {}", archive.display()));
            let blobs = Blobs::open(archive, work.path(), &go)?;
            let (records, parts) = verified(&blobs, archive, &go)?;
            self.take_in(&records, &parts, archive, progress, cancel, &go)
        };
        taking().map_err(|error| if cancel.is_cancelled() { TransferError::Cancelled } else { error })
    }

    fn take_in(
        &self,
        records: &Records,
        parts: &BTreeMap<String, Part>,
        archive: &Path,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
        go: &dyn Fn() -> std::io::Result<()>,
    ) -> Result<Imported, TransferError> {
        let mut done = Imported { environments: records.environments.clone(), ..Imported::default() };
        let part = |blob: &Blob| parts.get(&blob.digest).cloned().ok_or_else(|| missing(archive, &blob.digest));
        for base in &records.bases {
            if self.bases().with_content(base.record.content.as_str()).is_some() {
                done.there += 1;
                continue;
            }
            progress(&format!("base {}", base.record.name));
            self.bases().adopt(&base.record, &part(&base.blob)?, &archive.display().to_string(), progress, cancel)?;
            done.bases.push(base.record.name.clone());
        }
        // A layer's key names who owns its files and the layers before it; here others may.
        let owner = self.sandbox.owner();
        let mut renamed: BTreeMap<String, String> = BTreeMap::new();
        for layer in &records.layers {
            go()?;
            let key = rekeyed(&layer.key, owner, &renamed);
            let digest = digest_json(&key);
            renamed.insert(layer.digest.to_string(), digest.to_string());
            if self.layers.find(&layer.kind, &digest)?.is_some() {
                done.there += 1;
                continue;
            }
            progress(&format!("layer {} {}", layer.kind, digest.short()));
            self.put(layer, key, &digest, parts, archive, cancel, go)?;
            done.layers += 1;
        }
        Ok(done)
    }

    #[expect(clippy::too_many_arguments, reason = "one layer, where it comes from and who may end it")]
    fn put(
        &self,
        layer: &LayerEntry,
        key: Value,
        digest: &Digest,
        parts: &BTreeMap<String, Part>,
        archive: &Path,
        cancel: &CancellationToken,
        go: &dyn Fn() -> std::io::Result<()>,
    ) -> Result<(), TransferError> {
        let turn = wait(self.layers.turn(digest, cancel))??;
        if self.layers.find(&layer.kind, digest)?.is_some() {
            return Ok(());
        }
        let draft = self.layers.start(&layer.kind, digest, &turn)?;
        for part in &layer.parts {
            let bytes = parts.get(&part.blob.digest).ok_or_else(|| missing(archive, &part.blob.digest))?;
            let mut tree = Tree::default();
            tree.put(bytes, &part.blob.digest, Whiteouts::Keep)?;
            restore(&tree, Path::new(&part.at), &draft.folder(&part.folder)?, self.sandbox.owner(), go)?;
        }
        draft.finish(key, layer.lock.clone(), b"imported\n")?;
        Ok(())
    }
}

/// The records of an archive and all blobs that they and the images name, each verified.
fn verified(
    blobs: &Blobs,
    archive: &Path,
    go: &dyn Fn() -> std::io::Result<()>,
) -> Result<(Records, BTreeMap<String, Part>), TransferError> {
    let not_ours = || TransferError::NotOurs { archive: archive.to_owned() };
    let malformed = |problem: String| TransferError::from(ArchiveError::malformed(archive.display(), problem));
    let index: Value = blobs.document("index.json")?.ok_or_else(not_ours)?;
    let annotation = |name: &str| index["annotations"][name].as_str().map(str::to_owned);
    let digest = annotation(RECORDS).ok_or_else(not_ours)?;
    let size = annotation(&format!("{RECORDS}.size")).and_then(|size| size.parse().ok()).ok_or_else(not_ours)?;
    let descriptor = |blob: &Blob| descriptor(&blob.digest, blob.size);
    let records: Records = blobs.blob_document(&descriptor(&Blob { digest, size }), go)?;
    if records.schema != SCHEMA {
        return Err(malformed(format!("its records have schema {} and not {SCHEMA}", records.schema)));
    }
    let mut wanted: Vec<Descriptor> = records.bases.iter().map(|base| descriptor(&base.blob)).collect();
    for layer in &records.layers {
        let found = digest_json(&layer.key);
        if found != layer.digest {
            let digest = layer.digest.to_string();
            return Err(TransferError::Recipe { archive: archive.to_owned(), digest, found: found.to_string() });
        }
        let plain = is_plain(&layer.kind) && !layer.kind.contains('/');
        let bad = layer.parts.iter().find(|part| !is_plain(&part.folder) || !is_plain(&part.at));
        if !plain || bad.is_some() {
            return Err(malformed(format!("the layer {} has a folder that leads out of it", layer.digest)));
        }
        wanted.extend(layer.parts.iter().map(|part| descriptor(&part.blob)));
    }
    let images: Vec<Descriptor> = serde_json::from_value(index["manifests"].clone())
        .map_err(|e| malformed(format!("`index.json` can't be read: {e}")))?;
    for image in &images {
        let manifest: Manifest = blobs.blob_document(image, go)?;
        let _config: Config = blobs.blob_document(&manifest.config, go)?;
        wanted.extend(manifest.layers);
    }
    let mut parts = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for blob in &wanted {
        if seen.insert(blob.digest.clone()) {
            parts.insert(blob.digest.clone(), blobs.blob(blob, go)?);
        }
    }
    Ok((records, parts))
}

/// A layer's key on this machine.
fn rekeyed(key: &Value, owner: (u32, u32), renamed: &BTreeMap<String, String>) -> Value {
    fn renaming(value: &mut Value, renamed: &BTreeMap<String, String>) {
        match value {
            Value::String(text) => {
                if let Some(now) = renamed.get(text) {
                    now.clone_into(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| renaming(item, renamed)),
            Value::Object(map) => map.values_mut().for_each(|item| renaming(item, renamed)),
            _ => {}
        }
    }
    let mut key = key.clone();
    if let Some(layers) = key.get_mut("layers") {
        renaming(layers, renamed);
    }
    key["owner"] = json!(owner);
    key
}

fn descriptor(digest: &str, size: u64) -> Descriptor {
    Descriptor {
        media_type: String::new(),
        digest: digest.to_owned(),
        size,
        annotations: BTreeMap::new(),
        platform: None,
    }
}

fn missing(archive: &Path, digest: &str) -> TransferError {
    let problem = "is not there".to_owned();
    ArchiveError::Damaged { archive: archive.to_owned(), digest: digest.to_owned(), problem }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_follows_the_owner_and_the_layers_before_it() {
        let key = json!({"owner": [1, 1], "layers": {"pip": "aa", "x": "bb"}, "packages": ["aa"]});
        let renamed = BTreeMap::from([("aa".to_owned(), "cc".to_owned())]);
        let expected = json!({"owner": [7, 8], "layers": {"pip": "cc", "x": "bb"}, "packages": ["aa"]});
        assert_eq!(rekeyed(&key, (7, 8), &renamed), expected);
        let build = json!({"owner": [1, 1], "layers": [["/env/x", "aa"]]});
        assert_eq!(rekeyed(&build, (7, 8), &renamed)["layers"], json!([["/env/x", "cc"]]));
    }
}
