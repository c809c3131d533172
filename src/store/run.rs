//! Run folders: `manifest.json` · `records/<stage>/<aa>/<key>.json` · `rows/<aa>/<key>.json` · `blobs/<aa>/<digest>` ·
//! `events.jsonl` · `report/`.
//!
//! Records are addressed by the digest of everything that could change them. Rows are the index that says which records
//! stand behind which verdict; a row's name is the digest of its identity. Two run folders therefore merge by copying
//! one over the other. `scoring.lock` is locked by the processes that write into the folder (see [`super::door`]).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::atomic::TEMPORARY;
use super::door::{self, Door, Entered};
use super::parallel::in_order;
use super::{StoreError, write_atomic, write_json};
use crate::fault;
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
    /// Held from before the first write until [`RunFolder::enter`] takes it over.
    door: Arc<Mutex<Option<Door>>>,
    /// A manifest for when the rows are of its benchmark.
    pending: Arc<Mutex<Option<RunManifest>>>,
    /// The event log, once something was appended to it.
    events: Arc<Mutex<Option<fs_err::File>>>,
}

impl RunFolder {
    /// Makes a run folder, or opens the one that is there (its manifest is left as it is then).
    ///
    /// # Errors
    /// When the folder holds something else, or cannot be written.
    pub fn create(root: &Path, manifest: &RunManifest) -> Result<Self, StoreError> {
        let run = Self::at(root);
        if run.manifest_path().exists() {
            return run.open_or_mend(manifest);
        }
        let foreign = |problem: &str| StoreError::Malformed { path: root.to_owned(), problem: problem.to_owned() };
        if root.exists() && !root.is_dir() {
            return Err(foreign("it is a file and no run folder; name another place with `--out`"));
        }
        let mut holds_something = false;
        if root.exists() {
            for entry in fs_err::read_dir(root)? {
                // Another process may be writing the manifest at this moment, or died while it did.
                let name = entry?.file_name();
                holds_something |= name != door::LOCK && !name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes());
            }
        }
        if holds_something && run.manifest_path().exists() {
            return run.open_or_mend(manifest);
        }
        if holds_something {
            return Err(foreign("the folder is not empty and is no run folder; name another one with `--out`"));
        }
        fs_err::create_dir_all(root)?;
        run.come_in()?;
        write_json(&run.manifest_path(), manifest)?;
        fault::point("run.manifest.put");
        Ok(run)
    }

    fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), door: Arc::default(), pending: Arc::default(), events: Arc::default() }
    }

    /// Says that this process writes into the folder.
    fn come_in(&self) -> Result<(), StoreError> {
        let door = Door::open(&self.root)?;
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = Some(door);
        Ok(())
    }

    /// Opens a folder that has a manifest. One that a crash of the machine left torn is written anew, and the rows go,
    /// which may be of another policy; they come back from the records.
    fn open_or_mend(self, manifest: &RunManifest) -> Result<Self, StoreError> {
        match self.manifest() {
            Ok(_) => {
                self.come_in()?;
                Ok(self)
            }
            Err(StoreError::Malformed { .. }) if self.has_torn_manifest() && self.is_ours()? => {
                self.come_in()?;
                if self.rows_folder().is_dir() {
                    fs_err::remove_dir_all(self.rows_folder())?;
                }
                write_json(&self.manifest_path(), manifest)?;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    fn has_torn_manifest(&self) -> bool {
        fs_err::read(self.manifest_path()).is_ok_and(|text| is_torn(&text))
    }

    /// Whether nothing lies in the folder that is not a run folder's.
    fn is_ours(&self) -> Result<bool, StoreError> {
        const OURS: [&str; 7] = ["manifest.json", "records", "rows", "blobs", "events.jsonl", "report", door::LOCK];
        for entry in fs_err::read_dir(&self.root)? {
            let name = entry?.file_name();
            if !OURS.iter().any(|ours| name == *ours) && !name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens a run folder.
    ///
    /// # Errors
    /// When it is none, or its format is newer than this program.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let run = Self::at(root);
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
        if self.manifest()?.benchmark.digest == manifest.benchmark.digest {
            write_json(&self.manifest_path(), manifest)?;
            fault::point("run.manifest.put");
        } else {
            *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Some(manifest.clone());
        }
        Ok(())
    }

    /// Says that the rows are of the benchmark that [`RunFolder::set_manifest`] named last. Only then does the manifest
    /// name it: were it the other way round, a crash in between would show old verdicts under the new name.
    ///
    /// # Errors
    /// What the file system says.
    pub fn rows_are_laid_out(&self) -> Result<(), StoreError> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(manifest) = pending else { return Ok(()) };
        if self.rows_folder().is_dir() {
            rustix::fs::syncfs(fs_err::File::open(self.rows_folder())?.file()).map_err(std::io::Error::from)?;
        }
        write_json(&self.manifest_path(), &manifest)?;
        fault::point("run.manifest.put");
        Ok(())
    }

    /// Stores bytes as evidence and returns their digest.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = digest_bytes(bytes);
        let path = self.blob_path(&digest);
        // One of another length was torn, and is written again.
        if fs_err::metadata(&path).map_or(true, |there| there.len() != bytes.len() as u64) {
            write_atomic(&path, bytes)?;
            fault::point("run.blob.put");
        }
        Ok(digest)
    }

    /// Stores bytes as evidence, and makes sure that what lies there is what its name says, whatever it was before.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_sound_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = self.put_blob(bytes)?;
        if self.blob(&digest).is_err() {
            write_atomic(&self.blob_path(&digest), bytes)?;
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
        // A report that stands shows the record as it was.
        self.forget_report()?;
        write_json(&self.record_path(stage, key), record)?;
        fault::point("run.record.put");
        Ok(())
    }

    /// Reads a record; `None` when there is none, or one that was torn.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn record<T: DeserializeOwned>(&self, stage: &str, key: &Digest) -> Result<Option<T>, StoreError> {
        let path = self.record_path(stage, key);
        match read_json(&path) {
            Err(StoreError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(StoreError::Malformed { .. }) if is_torn(&fs_err::read(&path)?) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Removes a record (`--redo`).
    ///
    /// # Errors
    /// What the file system says, apart from its not being there.
    pub fn remove_record(&self, stage: &str, key: &Digest) -> Result<(), StoreError> {
        self.forget_report()?;
        remove_if_there(&self.record_path(stage, key))
    }

    /// Stores a row of the index. Rows can be made again from the records, so that they are renamed into place whole
    /// but not flushed to the disk one by one: a crash of the machine may leave one torn, which [`RunFolder::rows`] leaves
    /// out and [`RunFolder::whole_and_torn_rows`] counts.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_row<T: Serialize>(&self, id: &Digest, row: &T) -> Result<(), StoreError> {
        let path = self.row_path(id);
        let text = serde_json::to_string(row)?;
        // Most rows of a resumed run are what they were. Replacing a file costs ten times as much as reading it.
        if read_small(&path).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        let folder = self.rows_folder().join(id.shard());
        fs_err::create_dir_all(&folder)?;
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&folder)?;
        fault::point("run.row.made");
        file.write_all(text.as_bytes())?;
        fault::point("run.row.written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path).map_err(|e| e.error)?;
        fault::point("run.row.renamed");
        Ok(())
    }

    /// Removes a row of the index, if it is there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove_row(&self, id: &Digest) -> Result<(), StoreError> {
        remove_if_there(&self.row_path(id))?;
        fault::point("run.row.removed");
        Ok(())
    }

    /// Reads all rows of the index, ordered by name. A row that a crash of the machine left torn reads as absent.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn rows<T: DeserializeOwned + Send>(&self) -> Result<Vec<T>, StoreError> {
        Ok(self.whole_and_torn_rows()?.0)
    }

    /// The same, and how many rows were torn.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn whole_and_torn_rows<T: DeserializeOwned + Send>(&self) -> Result<(Vec<T>, usize), StoreError> {
        let folder = self.rows_folder();
        if !folder.is_dir() {
            return Ok((Vec::new(), 0));
        }
        let shards = listed(&folder)?;
        let read = |shard: &PathBuf| -> Result<(Vec<T>, usize), StoreError> {
            let (mut rows, mut torn) = (Vec::new(), 0);
            if !shard.is_dir() {
                return Ok((rows, torn));
            }
            for path in listed(shard)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == "json")) {
                let text = match read_small(&path) {
                    // Another process took it away meanwhile.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    other => other?,
                };
                match serde_json::from_slice(&text) {
                    Ok(row) => rows.push(row),
                    Err(_) => torn += 1,
                }
            }
            Ok((rows, torn))
        };
        let (mut rows, mut torn) = (Vec::new(), 0);
        for part in in_order(&shards, read) {
            let (more, broken) = part?;
            rows.extend(more);
            torn += broken;
        }
        Ok((rows, torn))
    }

    /// Reads many records at once, each as [`RunFolder::record`] does, in the order of `keys`.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn records<T: DeserializeOwned + Send>(
        &self,
        stage: &str,
        keys: &[&Digest],
    ) -> Result<Vec<Option<T>>, StoreError> {
        in_order(keys, |key| self.record(stage, key)).into_iter().collect()
    }

    /// Appends lines to `events.jsonl`, in one write.
    ///
    /// # Errors
    /// What the file system says.
    pub fn append_events<T: Serialize>(&self, lines: &[T]) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *events {
            Some(file) => file,
            closed => {
                let path = self.root.join("events.jsonl");
                closed.insert(fs_err::OpenOptions::new().create(true).append(true).open(path)?)
            }
        };
        file.write_all(&text)?;
        fault::point("run.event.appended");
        Ok(())
    }

    /// Says that this process scores into the folder, until the answer is dropped (or the process ends). Where no other
    /// process does, what dead ones left half-written is taken away.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn enter(&self) -> Result<Entered, StoreError> {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
        let door = door.map_or_else(|| Door::open(&self.root), Ok)?;
        Ok(door.enter()?)
    }

    /// Says that this process writes into the folder while the answer is held; `None` where it may not.
    pub fn visit(&self) -> Option<Door> {
        Door::open(&self.root).ok()
    }

    /// The folder of the rendered reports.
    pub fn report_folder(&self) -> PathBuf {
        self.root.join("report")
    }

    /// The file that tells what the rendered reports were made of; absent where they are not known to be whole.
    pub fn report_stamp(&self) -> PathBuf {
        self.report_folder().join(".made-of.json")
    }

    /// Takes away what tells that the rendered reports are those of the records.
    ///
    /// # Errors
    /// What the file system says, apart from its not being there.
    pub fn forget_report(&self) -> Result<(), StoreError> {
        remove_if_there(&self.report_stamp())
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

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs_err::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
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

/// Whether a file of ours was cut off or holds something that was never written: it is no JSON at all.
fn is_torn(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err()
}

/// What lies in a folder, ordered by name.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut paths = fs_err::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Reads a file that is small as a rule. Its size is not asked for first, which is a third of the calls for such a file.
fn read_small(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut file = fs_err::File::open(path)?;
    let mut text = vec![0; 8 * 1024];
    let mut length = 0;
    loop {
        match file.read(&mut text[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    }
    text.truncate(length);
    Ok(text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let text = read_small(path)?;
    // Following the path to a problem takes twice the time, and there is one only rarely.
    if let Ok(value) = serde_json::from_slice(&text) {
        return Ok(value);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(&text);
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
