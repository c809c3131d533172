//! A benchmark in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::model::{
    Attrition, BenchManifest, Digest, FilterRow, Instance, InstanceId, Oracle, RecordedVerdict, Review, Revision,
    SynthRow, ValidationRow,
};

/// A benchmark about to be written: its rows and the bytes of its tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// `bench.json`; [`super::write`] fills in the dataset's digest.
    pub manifest: BenchManifest,
    /// `dataset.jsonl`, in this order.
    pub instances: Vec<Instance>,
    /// The tests, by their path in the folder (`oracles/…`).
    pub tests: BTreeMap<String, Vec<u8>>,
    /// `reviews.jsonl`.
    pub reviews: Vec<Review>,
    /// `revisions.jsonl`.
    pub revisions: Vec<Revision>,
    /// `recorded.jsonl`.
    pub recorded: Vec<RecordedVerdict>,
    /// `attrition.jsonl`.
    pub attrition: Vec<Attrition>,
    /// `filter.jsonl`.
    pub filter: Vec<FilterRow>,
    /// `synth.jsonl`.
    pub synth: Vec<SynthRow>,
    /// `validate.jsonl`.
    pub validate: Vec<ValidationRow>,
}

impl Content {
    /// An empty benchmark.
    pub fn new(manifest: BenchManifest) -> Self {
        Self {
            manifest,
            instances: Vec::new(),
            tests: BTreeMap::new(),
            reviews: Vec::new(),
            revisions: Vec::new(),
            recorded: Vec::new(),
            attrition: Vec::new(),
            filter: Vec::new(),
            synth: Vec::new(),
            validate: Vec::new(),
        }
    }
}

/// A benchmark read from its folder. The tests stay on disk.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// The folder.
    pub dir: PathBuf,
    /// The digest over instances and tests as they are on disk now (see [`super::dataset_digest`]); with a sound folder
    /// the one in `bench.json`.
    pub digest: Digest,
    /// `bench.json`.
    pub manifest: BenchManifest,
    /// `dataset.jsonl`.
    pub instances: Vec<Instance>,
    /// `reviews.jsonl`.
    pub reviews: Vec<Review>,
    /// `revisions.jsonl`.
    pub revisions: Vec<Revision>,
    /// `recorded.jsonl`.
    pub recorded: Vec<RecordedVerdict>,
    /// `attrition.jsonl`.
    pub attrition: Vec<Attrition>,
    /// `filter.jsonl`.
    pub filter: Vec<FilterRow>,
    /// `synth.jsonl`.
    pub synth: Vec<SynthRow>,
    /// `validate.jsonl`.
    pub validate: Vec<ValidationRow>,
}

impl Benchmark {
    /// Whether `dir` holds a benchmark: it has a `bench.json`.
    pub fn is_at(dir: &Path) -> bool {
        dir.join(super::MANIFEST).is_file()
    }

    /// The instance with this id, in any letter case.
    pub fn instance(&self, id: &InstanceId) -> Option<&Instance> {
        self.instances.iter().find(|i| i.instance_id == *id)
    }

    /// Where an oracle's test lies on disk.
    ///
    /// # Errors
    /// When the row's path would lead out of the folder.
    pub fn test_path(&self, oracle: &Oracle) -> Result<PathBuf, super::PathProblem> {
        super::check_relative(&oracle.test)?;
        Ok(self.dir.join(&oracle.test))
    }
}
