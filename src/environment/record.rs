//! Environment records: what was accepted for a tree, or why nothing was. They lie in the cache, one file each.
//!
//! ```text
//! <cache>/environments-v1/<key>.json     a record
//! <cache>/environments-v1/<digest>.log   the log of a failed attempt
//! ```

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::accept::plain_spec;
use super::error::EnvironmentError;
use super::failure::Failure;
use super::prove::ProofResult;
use super::repair::Repair;
use crate::model::{Digest, EnvironmentSpec, InfraReason, digest_bytes};
use crate::store::{StoreError, write_atomic, write_json};

/// The versioned bucket: another layout takes another name.
pub(super) const BUCKET: &str = "environments-v1";
const RECORD_SCHEMA: u32 = 1;
/// How many bytes of a log's end are kept.
const LOG: usize = 1 << 20;

/// Where a spec came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecSource {
    /// The benchmark's own `environment`.
    Benchmark,
    /// An override by hand.
    Override,
    /// Found by trying the strategies of what was detected.
    Detected,
    /// Nothing installable was detected: the tree as it is.
    Bare,
}

/// One spec that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The strategy.
    pub strategy: String,
    /// How the strategy's spec was changed last before this attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// The spec; absent where it did not come to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<EnvironmentSpec>,
    /// What went wrong; absent for the one that was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The failed step's log, in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Digest>,
    /// How long it took.
    pub seconds: f64,
}

/// What would have been tried, and was not to be had here. What came of the rest holds until it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// The language, the version and the packages of the system.
    pub spec: EnvironmentSpec,
    /// Whether a base is all that was missing, and none was to be made.
    #[serde(default)]
    pub unmade: bool,
}

impl Missing {
    /// What of a spec was not to be had, where its toolchain or its base is.
    pub(super) fn of(spec: &EnvironmentSpec, error: &EnvironmentError) -> Option<Self> {
        let spec = EnvironmentSpec {
            base: spec.base.clone(),
            system_packages: spec.system_packages.clone(),
            ..plain_spec(&spec.language, spec.version.as_deref())
        };
        let is_missing = error.reason() == InfraReason::Toolchain;
        is_missing.then(|| Self { spec, unmade: error.base_to_make().is_some() })
    }
}

/// What is known of a tree's environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    schema: u32,
    /// The digest of `inputs`.
    pub key: Digest,
    /// What it was found for: trees, definitions, sandbox, options.
    pub inputs: Value,
    /// What a failure also depends on: the network's settings, limits, the repairer. With other ones it is tried again.
    pub grounds: Digest,
    /// Where the spec came from.
    pub source: SpecSource,
    /// The language.
    pub language: String,
    /// The wanted version, as a prefix.
    #[serde(default)]
    pub version: Option<String>,
    /// Who says so.
    #[serde(default)]
    pub version_source: Option<String>,
    /// The strategy that worked.
    #[serde(default)]
    pub strategy: Option<String>,
    /// The spec; of a failure the one that came furthest.
    #[serde(default)]
    pub spec: Option<EnvironmentSpec>,
    /// All that was tried, in order.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// What would have been tried before, and was not to be had: once it is, all is tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What the proofs showed.
    #[serde(default)]
    pub proofs: Vec<ProofResult>,
    /// Why it is not accepted or, of an environment that is taken at its word, not proven.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// Spec, definition and toolchain, as resolved.
    #[serde(default)]
    pub resolved: Option<Digest>,
    /// The content of the base that it stands on; absent where that is this machine's own system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The environment's digest.
    #[serde(default)]
    pub environment: Option<Digest>,
    /// What is in its layers, exactly.
    #[serde(default)]
    pub lock: Value,
    /// The toolchain.
    #[serde(default)]
    pub toolchain: Value,
    /// Bytes that its layers added to the cache.
    #[serde(default)]
    pub bytes_added: u64,
    /// How long it took to find, build and prove it.
    #[serde(default)]
    pub seconds: f64,
    /// When.
    #[serde(default)]
    pub made_at: String,
}

impl EnvironmentRecord {
    /// A record of which nothing is known yet but what it is for.
    pub(super) fn new(key: Digest, inputs: Value, grounds: Digest, source: SpecSource, language: &str) -> Self {
        Self {
            schema: RECORD_SCHEMA,
            key,
            inputs,
            grounds,
            source,
            language: language.to_owned(),
            version: None,
            version_source: None,
            strategy: None,
            spec: None,
            attempts: Vec::new(),
            missing: Vec::new(),
            proofs: Vec::new(),
            failure: None,
            resolved: None,
            base: None,
            environment: None,
            lock: Value::Null,
            toolchain: Value::Null,
            bytes_added: 0,
            seconds: 0.0,
            made_at: jiff::Timestamp::now().to_string(),
        }
    }

    /// Whether the environment can be used: it was accepted, or is taken at its word.
    pub fn is_accepted(&self) -> bool {
        self.environment.is_some()
    }

    /// The base that an accepted environment stands on and that is to be made first, by why it does not resolve.
    pub(super) fn base_to_make<'e>(&self, error: &'e EnvironmentError) -> Option<&'e str> {
        // One of this machine's own system, which has another version by now, does not want a base.
        error.base_to_make().filter(|_| self.base.is_some())
    }

    /// Whether every proof that applies holds.
    pub fn is_proven(&self) -> bool {
        self.is_accepted() && self.failure.is_none() && !self.proofs.is_empty()
    }
}

/// All records of a cache.
#[derive(Debug, Clone)]
pub(super) struct Records {
    root: PathBuf,
}

impl Records {
    /// Those of this cache. Nothing is made yet.
    pub fn of(cache: &Path) -> Self {
        Self { root: cache.join(BUCKET) }
    }

    /// Where a record lies.
    pub fn path(&self, key: &Digest) -> PathBuf {
        self.root.join(format!("{key}.json"))
    }

    /// A record, if it is there. One that cannot be read, or is not what its name says, counts as absent.
    pub fn get(&self, key: &Digest) -> Option<EnvironmentRecord> {
        let text = fs_err::read_to_string(self.path(key)).ok()?;
        let record: EnvironmentRecord = serde_json::from_str(&text).ok()?;
        (record.schema == RECORD_SCHEMA && record.key == *key).then_some(record)
    }

    /// Writes a record, whole or not at all.
    pub fn put(&self, record: &EnvironmentRecord) -> Result<(), StoreError> {
        write_json(&self.path(&record.key), record)
    }

    /// Keeps the end of a log.
    pub fn put_log(&self, log: &[u8]) -> Result<Option<Digest>, StoreError> {
        if log.is_empty() {
            return Ok(None);
        }
        let log = &log[log.len().saturating_sub(LOG)..];
        let digest = digest_bytes(log);
        let path = self.root.join(format!("{digest}.log"));
        if !path.is_file() {
            write_atomic(&path, log)?;
        }
        Ok(Some(digest))
    }

    /// A log that was kept.
    pub fn log(&self, digest: &Digest) -> Option<Vec<u8>> {
        fs_err::read(self.root.join(format!("{digest}.log"))).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::digest_json;

    #[test]
    fn a_record_comes_back_and_anything_else_counts_as_absent() {
        let cache = tempfile::tempdir().unwrap();
        let records = Records::of(cache.path());
        let inputs = json!({"tree": "t"});
        let key = digest_json(&inputs);
        assert!(records.get(&key).is_none());
        let mut record =
            EnvironmentRecord::new(key.clone(), inputs, digest_bytes(b"g"), SpecSource::Detected, "python");
        record.strategy = Some("editable".to_owned());
        records.put(&record).unwrap();
        assert_eq!(records.get(&key), Some(record.clone()));
        assert!(!record.is_accepted() && !record.is_proven());
        // Another one's file, half a file, a later schema.
        let other = digest_bytes(b"other");
        fs_err::copy(records.path(&key), records.path(&other)).unwrap();
        assert!(records.get(&other).is_none());
        let text = fs_err::read_to_string(records.path(&key)).unwrap();
        fs_err::write(records.path(&key), &text[..text.len() / 2]).unwrap();
        assert!(records.get(&key).is_none());
        fs_err::write(records.path(&key), text.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
        assert!(records.get(&key).is_none());
        // A writer that knew less.
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value.as_object_mut().unwrap().remove("proofs");
        value["later"] = json!(1);
        fs_err::write(records.path(&key), value.to_string()).unwrap();
        assert!(records.get(&key).is_some());
    }

    #[test]
    fn of_a_log_the_end_is_kept() {
        let cache = tempfile::tempdir().unwrap();
        let records = Records::of(cache.path());
        assert_eq!(records.put_log(b"").unwrap(), None);
        let log = [vec![b'a'; LOG], b"the end".to_vec()].concat();
        let digest = records.put_log(&log).unwrap().unwrap();
        let kept = records.log(&digest).unwrap();
        assert!(kept.len() == LOG && kept.ends_with(b"the end"));
    }
}
