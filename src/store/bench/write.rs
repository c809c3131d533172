//! Writing a benchmark folder: the same content gives the same bytes, and a file appears whole or not at all.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    ATTRITION, Benchmark, Content, DATASET, FILTER, MANIFEST, ORACLES, PathProblem, RECORDED, REVIEWS, REVISIONS,
    SYNTH, VALIDATE, check_relative, dataset_digest,
};
use crate::model::{Digest, to_jsonl};
use crate::store::{StoreError, write_atomic};

/// Whether a folder that holds something else may be written into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Only into a new or empty folder, or over a benchmark.
    #[default]
    Careful,
    /// Into any folder; files of other names stay.
    Force,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The digest over dataset and tests, now in `bench.json`.
    pub dataset_digest: Digest,
    /// How many files are in the folder by this call.
    pub files: usize,
}

/// Why a benchmark cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder holds something else.
    #[error("`{0}` is not empty and not a benchmark; choose another folder, or force it")]
    NotOurs(PathBuf),
    /// There is a file in the folder's place.
    #[error("`{0}` is a file; choose a folder")]
    NotAFolder(PathBuf),
    /// A test's path leads out of the folder.
    #[error("the test `{path}` cannot be written: {problem}")]
    Path {
        /// As the content gives it.
        path: String,
        /// Why it is refused.
        problem: PathProblem,
    },
    /// A row has no JSON form.
    #[error("a row of `{file}` cannot be written as JSON: {source}")]
    Json {
        /// The file.
        file: &'static str,
        /// What serde says.
        source: serde_json::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk says no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes a benchmark folder. Rows keep the order they are given in. An older benchmark in the folder is replaced: its
/// tests under `oracles/` and its optional files go when the new one has none of that name. `bench.json` comes last.
///
/// # Errors
/// When the folder holds something else (unless forced), a test's path leads out of it, or the disk says no.
pub fn write(dir: &Path, content: &Content, mode: WriteMode) -> Result<Written, WriteError> {
    for path in content.tests.keys() {
        check_relative(path).map_err(|problem| WriteError::Path { path: path.clone(), problem })?;
    }
    claim(dir, mode)?;
    remove_stale_tests(dir, content)?;
    let mut files = content.tests.len() + 2;
    for (path, bytes) in &content.tests {
        write_atomic(&dir.join(path), bytes)?;
    }
    write_atomic(&dir.join(DATASET), jsonl(DATASET, &content.instances)?.as_bytes())?;
    files += optional(dir, REVIEWS, &content.reviews)?;
    files += optional(dir, REVISIONS, &content.revisions)?;
    files += optional(dir, RECORDED, &content.recorded)?;
    files += optional(dir, ATTRITION, &content.attrition)?;
    files += optional(dir, FILTER, &content.filter)?;
    files += optional(dir, SYNTH, &content.synth)?;
    files += optional(dir, VALIDATE, &content.validate)?;
    let digest = dataset_digest(&content.instances, |test| content.tests.get(test).cloned());
    let mut manifest = content.manifest.clone();
    manifest.dataset_digest = Some(digest.to_string());
    let mut text =
        serde_json::to_string_pretty(&manifest).map_err(|source| WriteError::Json { file: MANIFEST, source })?;
    text.push('\n');
    write_atomic(&dir.join(MANIFEST), text.as_bytes())?;
    Ok(Written { dataset_digest: digest, files })
}

fn claim(dir: &Path, mode: WriteMode) -> Result<(), WriteError> {
    if dir.is_file() {
        return Err(WriteError::NotAFolder(dir.to_owned()));
    }
    if dir.is_dir() {
        let empty = fs_err::read_dir(dir)?.next().is_none();
        if !empty && mode == WriteMode::Careful && !Benchmark::is_at(dir) {
            return Err(WriteError::NotOurs(dir.to_owned()));
        }
    }
    fs_err::create_dir_all(dir)?;
    Ok(())
}

/// Removes what an older benchmark left under `oracles/` and this one does not have.
fn remove_stale_tests(dir: &Path, content: &Content) -> Result<(), WriteError> {
    let root = dir.join(ORACLES);
    // A symbolic link in its place is not ours to follow.
    if !Benchmark::is_at(dir) || !fs_err::symlink_metadata(&root).is_ok_and(|m| m.is_dir()) {
        return Ok(());
    }
    let keep: BTreeSet<PathBuf> = content.tests.keys().map(|path| dir.join(path)).collect();
    for entry in walkdir::WalkDir::new(&root).contents_first(true) {
        let entry = entry.map_err(io::Error::from)?;
        if entry.file_type().is_dir() {
            // Fails on purpose where something is left in it.
            let _ = fs_err::remove_dir(entry.path());
        } else if !keep.contains(entry.path()) {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn jsonl<T: Serialize>(file: &'static str, rows: &[T]) -> Result<String, WriteError> {
    to_jsonl(rows).map_err(|source| WriteError::Json { file, source })
}

fn optional<T: Serialize>(dir: &Path, file: &'static str, rows: &[T]) -> Result<usize, WriteError> {
    let path = dir.join(file);
    if !rows.is_empty() {
        write_atomic(&path, jsonl(file, rows)?.as_bytes())?;
        return Ok(1);
    }
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(0),
    }
}
