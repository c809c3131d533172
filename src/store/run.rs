//! Run folders: `manifest.json` · `records/<stage>/<aa>/<key>.json` · `rows/<aa>/<key>.json` · `blobs/<aa>/<digest>` ·
//! `events.jsonl` · `report/`.
//!
//! Records are addressed by the digest of everything that could change them. Rows are the index that says which records
//! stand behind which verdict; a row's name is the digest of its identity. Two run folders therefore merge by copying
//! one over the other. `scoring.lock` is locked by the processes that score into the folder.

use std::fs::TryLockError;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::atomic::TEMPORARY;
use super::{StoreError, write_atomic, write_json};
use crate::model::{Digest, digest_bytes};

/// The version of the run folder's format.
pub const MANIFEST_SCHEMA: u32 = 1;

/// `manifest.json`: what a run folder is a run of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// The format's version.
    pub schema: u32,
    /// The version of redgreen that made the folder.
    pub tool_version: String,
    /// When it was made.
    pub created: jiff::Timestamp,
    /// The benchmark.
    pub benchmark: BenchmarkRef,
    /// The verdict policy; part of the run's key.
    pub policy: String,
    /// The blob with the benchmark's roster, so that `report` needs nothing but the folder.
    pub roster: Digest,
    /// The denominator that the run was started with.
    pub denominator: String,
    /// The cache folder that it was scored with last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
}

/// Which benchmark a run is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkRef {
    /// Its name.
    pub name: String,
    /// The folder it was read from.
    pub path: PathBuf,
    /// The digest over its dataset and tests.
    pub digest: Digest,
}

/// An open run folder.
#[derive(Debug, Clone)]
pub struct RunFolder {
    root: PathBuf,
}

impl RunFolder {
    /// Makes a run folder, or opens the one that is there (its manifest is left as it is then).
    ///
    /// # Errors
    /// When the folder holds something else, or cannot be written.
    pub fn create(root: &Path, manifest: &RunManifest) -> Result<Self, StoreError> {
        let run = Self { root: root.to_owned() };
        if run.manifest_path().exists() {
            run.manifest()?;
            return Ok(run);
        }
        let foreign = |problem: &str| StoreError::Malformed { path: root.to_owned(), problem: problem.to_owned() };
        if root.exists() && !root.is_dir() {
            return Err(foreign("it is a file and no run folder; name another place with `--out`"));
        }
        let mut holds_something = false;
        if root.exists() {
            for entry in fs_err::read_dir(root)? {
                // Another process may be writing the manifest at this moment.
                holds_something |= !entry?.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes());
            }
        }
        if holds_something && run.manifest_path().exists() {
            run.manifest()?;
            return Ok(run);
        }
        if holds_something {
            return Err(foreign("the folder is not empty and is no run folder; name another one with `--out`"));
        }
        write_json(&run.manifest_path(), manifest)?;
        Ok(run)
    }

    /// Opens a run folder.
    ///
    /// # Errors
    /// When it is none, or its format is newer than this program.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let run = Self { root: root.to_owned() };
        if !run.manifest_path().is_file() {
            return Err(StoreError::NotARun { path: root.to_owned() });
        }
        run.manifest()?;
        Ok(run)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads `manifest.json`.
    ///
    /// # Errors
    /// When it is missing, malformed or of a newer format.
    pub fn manifest(&self) -> Result<RunManifest, StoreError> {
        let path = self.manifest_path();
        let manifest: RunManifest = read_json(&path)?;
        if manifest.schema > MANIFEST_SCHEMA {
            return Err(StoreError::Malformed {
                path,
                problem: format!(
                    "its format is version {}, this program knows {MANIFEST_SCHEMA}; use a newer redgreen",
                    manifest.schema
                ),
            });
        }
        Ok(manifest)
    }

    /// Replaces `manifest.json`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn set_manifest(&self, manifest: &RunManifest) -> Result<(), StoreError> {
        write_json(&self.manifest_path(), manifest)
    }

    /// Stores bytes as evidence and returns their digest.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = digest_bytes(bytes);
        let path = self.blob_path(&digest);
        if !path.exists() {
            write_atomic(&path, bytes)?;
        }
        Ok(digest)
    }

    /// Reads evidence back, and checks that it is what its name says.
    ///
    /// # Errors
    /// When it is missing or was changed.
    pub fn blob(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.blob_path(digest);
        let bytes = fs_err::read(&path)?;
        if digest_bytes(&bytes) != *digest {
            return Err(StoreError::Malformed {
                path,
                problem: "its content is not what its name says; delete it and score again".to_owned(),
            });
        }
        Ok(bytes)
    }

    /// Where a blob lies.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.shard()).join(digest.as_str())
    }

    /// Where a record lies.
    pub fn record_path(&self, stage: &str, key: &Digest) -> PathBuf {
        self.root.join("records").join(stage).join(key.shard()).join(format!("{key}.json"))
    }

    /// Stores a record under its key.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_record<T: Serialize>(&self, stage: &str, key: &Digest, record: &T) -> Result<(), StoreError> {
        write_json(&self.record_path(stage, key), record)
    }

    /// Reads a record; `None` when there is none.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn record<T: DeserializeOwned>(&self, stage: &str, key: &Digest) -> Result<Option<T>, StoreError> {
        let path = self.record_path(stage, key);
        if path.is_file() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Removes a record (`--redo`).
    ///
    /// # Errors
    /// What the file system says, apart from its not being there.
    pub fn remove_record(&self, stage: &str, key: &Digest) -> Result<(), StoreError> {
        match fs_err::remove_file(self.record_path(stage, key)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Stores a row of the index. Rows can be made again from the records, so that they are renamed into place whole
    /// but not flushed to the disk one by one.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_row<T: Serialize>(&self, id: &Digest, row: &T) -> Result<(), StoreError> {
        let path = self.row_path(id);
        let folder = self.rows_folder().join(id.shard());
        fs_err::create_dir_all(&folder)?;
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&folder)?;
        file.write_all(serde_json::to_string(row)?.as_bytes())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    }

    /// Removes a row of the index, if it is there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove_row(&self, id: &Digest) -> Result<(), StoreError> {
        match fs_err::remove_file(self.row_path(id)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Reads all rows of the index, ordered by name. A row that a crash of the machine left torn reads as absent.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn rows<T: DeserializeOwned>(&self) -> Result<Vec<T>, StoreError> {
        let folder = self.rows_folder();
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut rows = Vec::new();
        for entry in walkdir::WalkDir::new(&folder).sort_by_file_name() {
            let entry = entry.map_err(std::io::Error::from)?;
            if entry.file_type().is_file()
                && entry.path().extension().is_some_and(|e| e == "json")
                && let Ok(row) = serde_json::from_slice(&fs_err::read(entry.path())?)
            {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// Appends a line to `events.jsonl`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn append_event<T: Serialize>(&self, event: &T) -> Result<(), StoreError> {
        let mut line = serde_json::to_string(event)?;
        line.push('\n');
        let mut file = fs_err::OpenOptions::new().create(true).append(true).open(self.root.join("events.jsonl"))?;
        file.write_all(line.as_bytes())?;
        Ok(())
    }

    /// Says that this process scores into the folder, until the answer is dropped (or the process ends).
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn enter(&self) -> Result<Entered, StoreError> {
        let path = self.root.join("scoring.lock");
        let file = fs_err::OpenOptions::new().create(true).append(true).open(&path)?.into_parts().0;
        // A file system without locks is taken as ours alone.
        let alone = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        if !alone {
            file.lock_shared()?;
        }
        Ok(Entered { file, alone })
    }

    /// The folder of the rendered reports.
    pub fn report_folder(&self) -> PathBuf {
        self.root.join("report")
    }

    fn manifest_path(&self) -> PathBuf {
        self.root.join("manifest.json")
    }

    fn row_path(&self, id: &Digest) -> PathBuf {
        self.rows_folder().join(id.shard()).join(format!("{id}.json"))
    }

    fn rows_folder(&self) -> PathBuf {
        self.root.join("rows")
    }
}

/// A process's place among those that score into a run folder: see [`RunFolder::enter`].
#[derive(Debug)]
pub struct Entered {
    file: std::fs::File,
    alone: bool,
}

impl Entered {
    /// Whether no other process was scoring into the folder. Others wait until [`Entered::share`].
    pub fn alone(&self) -> bool {
        self.alone
    }

    /// Lets others in.
    ///
    /// # Errors
    /// What the file system says.
    pub fn share(&self) -> Result<(), StoreError> {
        match self.file.lock_shared() {
            Err(e) if e.kind() != std::io::ErrorKind::Unsupported => Err(e.into()),
            _ => Ok(()),
        }
    }
}

/// The newest run folder under `parent` that is a run of this benchmark under this policy.
///
/// # Errors
/// When `parent` cannot be listed. Folders that are no runs are passed over.
pub fn find_run(parent: &Path, benchmark: &Digest, policy: &str) -> Result<Option<PathBuf>, StoreError> {
    newest(parent, |manifest| manifest.benchmark.digest == *benchmark && manifest.policy == policy)
}

/// The newest run folder under `parent`, of whatever it is a run.
///
/// # Errors
/// As [`find_run`].
pub fn newest_run(parent: &Path) -> Result<Option<PathBuf>, StoreError> {
    newest(parent, |_| true)
}

fn newest(parent: &Path, fits: impl Fn(&RunManifest) -> bool) -> Result<Option<PathBuf>, StoreError> {
    if !parent.is_dir() {
        return Ok(None);
    }
    let mut best: Option<(jiff::Timestamp, PathBuf)> = None;
    for entry in fs_err::read_dir(parent)? {
        let path = entry?.path();
        let Ok(run) = RunFolder::open(&path) else { continue };
        let Ok(manifest) = run.manifest() else { continue };
        if fits(&manifest) && best.as_ref().is_none_or(|(created, _)| manifest.created > *created) {
            best = Some((manifest.created, path));
        }
    }
    Ok(best.map(|(_, path)| path))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let text = fs_err::read_to_string(path)?;
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|e| StoreError::Malformed {
        path: path.to_owned(),
        problem: format!("field `{}`: {}", e.path(), e.inner()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn manifest(policy: &str, second: i64) -> RunManifest {
        RunManifest {
            schema: MANIFEST_SCHEMA,
            tool_version: "0.0.0".to_owned(),
            created: jiff::Timestamp::from_second(second).unwrap(),
            benchmark: BenchmarkRef { name: "b".to_owned(), path: "b".into(), digest: digest_bytes(b"b") },
            policy: policy.to_owned(),
            roster: digest_bytes(b"r"),
            denominator: "valid".to_owned(),
            cache: None,
        }
    }

    #[test]
    fn records_blobs_and_rows_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&dir.path().join("r"), &manifest("strict", 1)).unwrap();
        let digest = run.put_blob(b"log").unwrap();
        assert_eq!(run.blob(&digest).unwrap(), b"log");
        run.put_record("oracle", &digest, &json!({"a": 1})).unwrap();
        assert_eq!(run.record::<Value>("oracle", &digest).unwrap(), Some(json!({"a": 1})));
        run.remove_record("oracle", &digest).unwrap();
        assert_eq!(run.record::<Value>("oracle", &digest).unwrap(), None);
        run.put_row(&digest, &json!(1)).unwrap();
        run.put_row(&digest, &json!(2)).unwrap();
        assert_eq!(run.rows::<Value>().unwrap(), [json!(2)]);
    }

    #[test]
    fn a_changed_blob_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&dir.path().join("r"), &manifest("strict", 1)).unwrap();
        let digest = run.put_blob(b"log").unwrap();
        fs_err::write(run.blob_path(&digest), "forged").unwrap();
        assert!(run.blob(&digest).is_err());
    }

    #[test]
    fn the_newest_run_of_the_same_benchmark_and_policy_is_found() {
        let dir = tempfile::tempdir().unwrap();
        for (name, policy, second) in [("a", "strict", 1), ("b", "strict", 3), ("c", "c-crab", 9), ("d", "strict", 2)] {
            RunFolder::create(&dir.path().join(name), &manifest(policy, second)).unwrap();
        }
        fs_err::create_dir_all(dir.path().join("noise")).unwrap();
        let found = find_run(dir.path(), &digest_bytes(b"b"), "strict").unwrap().unwrap();
        assert!(found.ends_with("b"));
        assert_eq!(find_run(dir.path(), &digest_bytes(b"other"), "strict").unwrap(), None);
    }

    #[test]
    fn a_second_process_knows_that_it_is_not_alone() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create(&dir.path().join("r"), &manifest("strict", 1)).unwrap();
        let first = run.enter().unwrap();
        first.share().unwrap();
        let second = run.enter().unwrap();
        assert!(first.alone() && !second.alone());
        drop((first, second));
        assert!(run.enter().unwrap().alone());
    }

    #[test]
    fn a_foreign_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("x"), "").unwrap();
        assert!(RunFolder::create(dir.path(), &manifest("strict", 1)).is_err());
        assert!(matches!(RunFolder::open(dir.path()), Err(StoreError::NotARun { .. })));
    }
}
