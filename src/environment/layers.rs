//! The layers' place in the cache: complete or not there, made by one at a time.

use std::collections::HashMap;
use std::fs::TryLockError;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::error::EnvironmentError;
use crate::fault;
use crate::model::Digest;
use crate::store::{Held, Uses};

/// The versioned bucket: another layout takes another name, so that an old cache is ignored and never misread.
pub(super) const BUCKET: &str = "layers-v1";
pub(super) const MARKER: &str = "layer.json";
const LOG: &str = "log.txt";
const MARKER_SCHEMA: u32 = 1;

/// The marker of a complete layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Marker {
    schema: u32,
    /// All that the layer's digest was made of.
    pub key: Value,
    /// What is in it, exactly.
    pub lock: Value,
    /// Seconds from the beginning to the end of its making; 0 in markers of older versions.
    #[serde(default)]
    pub seconds: f64,
    /// Bytes that it takes on disk; 0 in markers of older versions.
    #[serde(default)]
    pub bytes: u64,
}

/// A complete layer.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Its folder in the cache.
    pub folder: PathBuf,
    /// Its marker.
    pub marker: Marker,
    /// Keeps it in the cache while this is there.
    pub held: Option<Arc<Held>>,
}

/// All layers of a cache.
#[derive(Debug)]
pub(super) struct Layers {
    root: PathBuf,
    owner: (u32, u32),
    uses: Option<Uses>,
    making: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
}

/// The right to make one layer, against other tasks of this process and other processes.
pub(super) struct Turn {
    _file: std::fs::File,
    _task: tokio::sync::OwnedMutexGuard<()>,
}

impl Layers {
    /// Opens the cache, making its folders. What is found in it from then on is listed in `uses`.
    pub fn open(cache: &Path, owner: (u32, u32), uses: Option<Uses>) -> Result<Self, EnvironmentError> {
        let root = cache.join(BUCKET);
        fs_err::create_dir_all(root.join("locks"))?;
        // Mounts need absolute paths, and a cache may be given relative to the current folder.
        Ok(Self { root: fs_err::canonicalize(root)?, owner, uses, making: Mutex::default() })
    }

    /// The folder of a layer, which need not be there.
    pub fn place(&self, kind: &str, digest: &Digest) -> PathBuf {
        self.root.join(kind).join(digest.as_str())
    }

    /// A complete layer, if it is there. Nobody takes it out of the cache while what is found is held.
    pub fn find(&self, kind: &str, digest: &Digest) -> Result<Option<Found>, EnvironmentError> {
        let folder = self.place(kind, digest);
        if marker_of(&folder).is_none() {
            return Ok(None);
        }
        let held = self.hold(&folder)?;
        // Read again, now that it can't go any more.
        Ok(marker_of(&folder).map(|marker| Found { folder, marker, held }))
    }

    fn hold(&self, folder: &Path) -> Result<Option<Arc<Held>>, EnvironmentError> {
        Ok(match &self.uses {
            Some(uses) => uses.hold(folder)?.map(Arc::new),
            None => None,
        })
    }

    /// The markers of all layers of a kind, for what earlier ones took.
    pub fn markers(&self, kind: &str) -> Vec<Marker> {
        let entries = fs_err::read_dir(self.root.join(kind)).into_iter().flatten().flatten();
        entries.filter_map(|entry| marker_of(&entry.path())).collect()
    }

    /// Waits for the turn to make a layer. Look again with [`find`](Self::find) afterwards: another may have made it.
    pub async fn turn(&self, digest: &Digest, cancel: &CancellationToken) -> Result<Turn, EnvironmentError> {
        const PAUSE: Duration = Duration::from_millis(50);
        let task = {
            let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            making.entry(digest.clone()).or_default().clone()
        };
        let task = tokio::select! {
            task = task.lock_owned() => task,
            () = cancel.cancelled() => return Err(EnvironmentError::Cancelled),
        };
        let path = self.root.join("locks").join(format!("{digest}.lock"));
        let file = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(&path)?.into_file();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    fault::point("layer.turn.taken");
                    return Ok(Turn { _file: file, _task: task });
                }
                Err(TryLockError::WouldBlock) => {
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = cancel.cancelled() => return Err(EnvironmentError::Cancelled),
                    }
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
    }

    /// Starts a layer in a sibling of its place. What dead makers of the same layer left is removed: the turn says that
    /// nobody else is at it.
    pub fn start(&self, kind: &str, digest: &Digest, _turn: &Turn) -> Result<Draft<'_>, EnvironmentError> {
        let parent = self.root.join(kind);
        fs_err::create_dir_all(&parent)?;
        let target = parent.join(digest.as_str());
        let prefix = format!(".{digest}.");
        for entry in fs_err::read_dir(&parent)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
                remove_tree(&entry.path())?;
            }
        }
        // Without a readable marker it is not a layer.
        if target.symlink_metadata().is_ok() {
            remove_tree(&target)?;
        }
        let folder = parent.join(format!("{prefix}{}", std::process::id()));
        fs_err::create_dir(&folder)?;
        fault::point("layer.draft.made");
        Ok(Draft { folder, target, layers: self, began: Instant::now(), done: false })
    }
}

/// The marker of a layer; `None` when it is not whole.
pub(super) fn marker_of(folder: &Path) -> Option<Marker> {
    let text = fs_err::read_to_string(folder.join(MARKER)).ok()?;
    let marker: Marker = serde_json::from_str(&text).ok()?;
    (marker.schema == MARKER_SCHEMA).then_some(marker)
}

/// Bytes on disk of a folder in which no file has a name elsewhere.
fn size(folder: &Path) -> u64 {
    let walk = walkdir::WalkDir::new(folder).into_iter().flatten();
    let bytes = walk.filter_map(|entry| entry.metadata().ok()).map(|data| {
        let names = if data.is_dir() { 1 } else { data.nlink().max(1) };
        data.blocks().saturating_mul(512) / names
    });
    bytes.fold(0, u64::saturating_add)
}

/// A layer that is being made. Dropped before it is finished, it is gone.
pub(super) struct Draft<'a> {
    folder: PathBuf,
    target: PathBuf,
    layers: &'a Layers,
    began: Instant,
    done: bool,
}

impl Draft<'_> {
    /// Makes a folder in it that tasks can write to.
    pub fn folder(&self, name: &str) -> Result<PathBuf, EnvironmentError> {
        let folder = self.folder.join(name);
        fs_err::create_dir_all(&folder)?;
        fault::point("layer.folder.made");
        let meta = fs_err::metadata(&folder)?;
        let owner = self.layers.owner;
        if (meta.uid(), meta.gid()) != owner {
            std::os::unix::fs::chown(&folder, Some(owner.0), Some(owner.1))?;
        }
        Ok(folder)
    }

    /// Completes the layer: the marker is written last, all is on the disk before the layer gets its name.
    pub fn finish(mut self, key: Value, lock: Value, log: &[u8]) -> Result<Found, EnvironmentError> {
        fs_err::write(self.folder.join(LOG), log)?;
        fault::point("layer.log.written");
        let (seconds, bytes) = (self.began.elapsed().as_secs_f64(), size(&self.folder));
        let marker = Marker { schema: MARKER_SCHEMA, key, lock, seconds, bytes };
        let mut file = fs_err::File::create(self.folder.join(MARKER))?;
        file.write_all(&serde_json::to_vec_pretty(&marker).map_err(std::io::Error::from)?)?;
        fault::point("layer.marker.written");
        rustix::fs::syncfs(file.file()).map_err(std::io::Error::from)?;
        fault::point("layer.synced");
        fs_err::rename(&self.folder, &self.target)?;
        fault::point("layer.renamed");
        self.done = true;
        if let Some(parent) = self.target.parent() {
            fs_err::File::open(parent)?.sync_all()?;
        }
        let held = self.layers.hold(&self.target)?;
        Ok(Found { folder: self.target.clone(), marker, held })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.done {
            // The next maker tries again, and an unfinished layer is never used.
            let _ = remove_tree(&self.folder);
        }
    }
}

/// Removes a folder, also where an install left folders that may not be written to.
pub(super) fn remove_tree(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if fs_err::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    for entry in walkdir::WalkDir::new(path).into_iter().flatten().filter(|e| e.file_type().is_dir()) {
        let _ = fs_err::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o700));
    }
    fs_err::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest_bytes;
    use serde_json::json;

    fn layers(folder: &Path) -> Layers {
        let meta = fs_err::metadata(folder).unwrap();
        Layers::open(folder, (meta.uid(), meta.gid()), None).unwrap()
    }

    #[tokio::test]
    async fn a_layer_is_complete_or_not_there() {
        let cache = tempfile::tempdir().unwrap();
        let layers = layers(cache.path());
        let (digest, cancel) = (digest_bytes(b"a"), CancellationToken::new());
        let turn = layers.turn(&digest, &cancel).await.unwrap();
        let draft = layers.start("python-x", &digest, &turn).unwrap();
        fs_err::write(draft.folder("root").unwrap().join("half"), "x").unwrap();
        assert!(layers.find("python-x", &digest).unwrap().is_none());
        drop(draft);
        let kind = cache.path().join(BUCKET).join("python-x");
        assert_eq!(fs_err::read_dir(&kind).unwrap().count(), 0);

        // What a killed maker leaves is removed by the next one, and a folder without a marker is no layer.
        fs_err::create_dir(kind.join(format!(".{digest}.1"))).unwrap();
        fs_err::create_dir_all(kind.join(digest.as_str()).join("root")).unwrap();
        assert!(layers.find("python-x", &digest).unwrap().is_none());
        let draft = layers.start("python-x", &digest, &turn).unwrap();
        draft.folder("root").unwrap();
        let made = draft.finish(json!({"k": 1}), json!(["six==1.16.0"]), b"log").unwrap();
        assert_eq!(fs_err::read_dir(&kind).unwrap().count(), 1);
        let found = layers.find("python-x", &digest).unwrap().unwrap();
        assert_eq!((found.folder, found.marker.lock), (made.folder, json!(["six==1.16.0"])));
    }

    #[tokio::test]
    async fn only_one_makes_a_layer_and_waiting_can_be_cancelled() {
        let cache = tempfile::tempdir().unwrap();
        let (first, second) = (layers(cache.path()), layers(cache.path()));
        let (digest, cancel) = (digest_bytes(b"a"), CancellationToken::new());
        let turn = first.turn(&digest, &cancel).await.unwrap();
        cancel.cancel();
        // `second` stands for another process: it meets the lock file, `first` its own list.
        assert!(matches!(second.turn(&digest, &cancel).await, Err(EnvironmentError::Cancelled)));
        assert!(matches!(first.turn(&digest, &cancel).await, Err(EnvironmentError::Cancelled)));
        drop(turn);
        assert!(second.turn(&digest, &CancellationToken::new()).await.is_ok());
    }
}
