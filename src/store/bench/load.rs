//! Reading a benchmark folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{
    ATTRITION, Benchmark, DATASET, FILTER, MANIFEST, Problem, RECORDED, REVIEWS, REVISIONS, SYNTH, VALIDATE,
    check_relative, dataset_digest,
};
use crate::model::{
    Attrition, BENCH_SCHEMA, BenchManifest, Digest, FilterRow, Instance, Parsed, RecordedVerdict, Review, Revision,
    SynthRow, ValidationRow, WirePrediction, from_value, parse_jsonl,
};

/// Why a folder cannot be read as a benchmark at all.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no such folder.
    #[error("there is no folder `{0}`; give the path of a benchmark, or make one with `redgreen import`")]
    NoFolder(PathBuf),
    /// It has no `bench.json`.
    #[error("`{0}` is not a benchmark: it has no `bench.json`; make one with `redgreen import`")]
    NotABenchmark(PathBuf),
    /// `bench.json` is broken.
    #[error("`{path}` cannot be read{at}: {problem}", at = at(field))]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The field, where one is to blame.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// It was written by a newer version.
    #[error("`{path}` has schema {found}, but this version knows only up to {known}; use a newer redgreen")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
        /// The newest known one.
        known: u32,
    },
    /// A file of the folder cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn at(field: &str) -> String {
    if matches!(field, "" | "." | "?") { String::new() } else { format!(" (field `{field}`)") }
}

/// A benchmark and the lines that could not be read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What could be read.
    pub benchmark: Benchmark,
    /// One problem for every line that could not, with file, line and field.
    pub problems: Vec<Problem>,
}

impl Benchmark {
    /// Reads a benchmark folder. Only `bench.json` and `dataset.jsonl` must be there. A malformed line becomes a
    /// problem, and the other lines come through.
    ///
    /// # Errors
    /// When the folder is not a benchmark, its `bench.json` is broken or newer than this version, or a file cannot be
    /// read.
    pub fn load(dir: &Path) -> Result<Loaded, BenchError> {
        let Rows { manifest, instances, reviews, revisions, recorded, attrition, filter, synth, validate, problems } =
            read(dir)?;
        let instances: Vec<Instance> = instances.into_iter().map(|(_, row)| row).collect();
        let benchmark = Benchmark {
            dir: dir.to_owned(),
            digest: digest_on_disk(dir, &instances),
            manifest,
            instances,
            reviews: reviews.into_iter().map(|(_, row)| row).collect(),
            revisions: revisions.into_iter().map(|(_, row)| row).collect(),
            recorded: recorded.into_iter().map(|(_, row)| row).collect(),
            attrition: attrition.into_iter().map(|(_, row)| row).collect(),
            filter: filter.into_iter().map(|(_, row)| row).collect(),
            synth: synth.into_iter().map(|(_, row)| row).collect(),
            validate: validate.into_iter().map(|(_, row)| row).collect(),
        };
        Ok(Loaded { benchmark, problems })
    }
}

/// The digest over instances and the tests that a folder holds.
pub(super) fn digest_on_disk<'a>(dir: &Path, instances: impl IntoIterator<Item = &'a Instance>) -> Digest {
    dataset_digest(instances, |test| check_relative(test).ok().and_then(|()| fs_err::read(dir.join(test)).ok()))
}

/// A folder's rows with their line numbers.
pub(super) struct Rows {
    pub manifest: BenchManifest,
    pub instances: Vec<(usize, Instance)>,
    pub reviews: Vec<(usize, Review)>,
    pub revisions: Vec<(usize, Revision)>,
    pub recorded: Vec<(usize, RecordedVerdict)>,
    pub attrition: Vec<(usize, Attrition)>,
    pub filter: Vec<(usize, FilterRow)>,
    pub synth: Vec<(usize, SynthRow)>,
    pub validate: Vec<(usize, ValidationRow)>,
    pub problems: Vec<Problem>,
}

pub(super) fn read(dir: &Path) -> Result<Rows, BenchError> {
    if !dir.is_dir() {
        return Err(BenchError::NoFolder(dir.to_owned()));
    }
    if !Benchmark::is_at(dir) {
        return Err(BenchError::NotABenchmark(dir.to_owned()));
    }
    let manifest = manifest(&dir.join(MANIFEST))?;
    let mut problems = Vec::new();
    let instances = rows(dir, DATASET, true, &mut problems)?;
    let reviews = rows(dir, REVIEWS, false, &mut problems)?;
    let revisions = revision_rows(dir, &mut problems)?;
    let recorded = rows(dir, RECORDED, false, &mut problems)?;
    let attrition = rows(dir, ATTRITION, false, &mut problems)?;
    let filter = rows(dir, FILTER, false, &mut problems)?;
    let synth = rows(dir, SYNTH, false, &mut problems)?;
    let validate = rows(dir, VALIDATE, false, &mut problems)?;
    Ok(Rows { manifest, instances, reviews, revisions, recorded, attrition, filter, synth, validate, problems })
}

fn manifest(path: &Path) -> Result<BenchManifest, BenchError> {
    let bytes = fs_err::read(path)?;
    let broken = |field: String, problem: String| BenchError::Manifest { path: path.to_owned(), field, problem };
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| broken(String::new(), error.to_string()))?;
    // The version first: a newer format may well not parse as ours.
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(BENCH_SCHEMA) => {
            return Err(BenchError::Newer { path: path.to_owned(), found, known: BENCH_SCHEMA });
        }
        _ => {}
    }
    from_value(value).map_err(|(field, problem)| broken(field, problem))
}

fn text(dir: &Path, file: &str, required: bool, problems: &mut Vec<Problem>) -> Result<Option<String>, BenchError> {
    let bytes = match fs_err::read(dir.join(file)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if required {
                let fix = "the file is missing, so there are no instances; import the benchmark again";
                problems.push(Problem::error(file, None, "", fix));
            }
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(lossy(file, bytes, problems)))
}

/// Bytes that are no UTF-8 are a problem of their line only: they become replacement characters, and the line is named.
fn lossy(file: &str, bytes: Vec<u8>, problems: &mut Vec<Problem>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            problems.push(Problem::error(
                file,
                line,
                "",
                "the line has bytes that are not UTF-8; save the file as UTF-8",
            ));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
    }
}

fn rows<T: DeserializeOwned>(
    dir: &Path,
    file: &str,
    required: bool,
    problems: &mut Vec<Problem>,
) -> Result<Vec<(usize, T)>, BenchError> {
    let Some(text) = text(dir, file, required, problems)? else { return Ok(Vec::new()) };
    let Parsed { rows, errors } = parse_jsonl(&text);
    problems.extend(errors.into_iter().map(|error| Problem::unreadable(file, error)));
    Ok(rows)
}

/// A revision row, or a SWE-bench prediction that somebody appended as it was.
fn revision_rows(dir: &Path, problems: &mut Vec<Problem>) -> Result<Vec<(usize, Revision)>, BenchError> {
    let values: Vec<(usize, serde_json::Value)> = rows(dir, REVISIONS, false, problems)?;
    let mut revisions = Vec::with_capacity(values.len());
    for (line, value) in values {
        let prediction = value.get("arm").is_none() && value.get("model_name_or_path").is_some();
        let row = if prediction {
            from_value::<WirePrediction>(value).map(Revision::from)
        } else {
            from_value::<Revision>(value)
        };
        match row {
            Ok(row) => revisions.push((line, row)),
            Err((field, problem)) => {
                problems.push(Problem::unreadable(REVISIONS, crate::model::LineError { line, field, problem }));
            }
        }
    }
    Ok(revisions)
}
