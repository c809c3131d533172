//! The lock file: which name stands for which base, by digests.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::BaseError;
use super::recipe::Recipe;
use super::shelf::Base;
use crate::model::Digest;
use crate::store::write_json;

const SCHEMA: u32 = 1;

/// A lock file of bases and images. There is one in the cache, and others where the user asks for them (beside a
/// benchmark, say), so that another machine can tell whether it has the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseLock {
    /// The version of this shape.
    pub schema: u32,
    /// By name: a base's (`python-3.11`, `python-3.11+libxml2-dev` with a further package), an image's reference.
    pub bases: BTreeMap<String, LockedBase>,
}

/// What one name stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedBase {
    /// What it is made of; an image with its digest.
    pub recipe: Recipe,
    /// The digest of what came of it.
    pub content: Digest,
    /// Where that came from, for people.
    pub origin: String,
    /// The packages of the system in it, as `NAME=VERSION`.
    pub packages: Vec<String>,
}

impl Default for BaseLock {
    fn default() -> Self {
        Self { schema: SCHEMA, bases: BTreeMap::new() }
    }
}

impl LockedBase {
    /// What a base is.
    pub fn of(base: &Base) -> Self {
        let record = &base.record;
        Self {
            recipe: record.recipe.clone(),
            content: record.content.clone(),
            origin: record.origin.clone(),
            packages: record.packages.clone(),
        }
    }
}

impl BaseLock {
    /// Reads a lock file; one that is not there is empty.
    ///
    /// # Errors
    /// [`BaseError::BadLock`] with the place in the file.
    pub fn read(file: &Path) -> Result<Self, BaseError> {
        let bad = |problem: String| BaseError::BadLock { file: file.to_owned(), problem };
        let text = match fs_err::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other?,
        };
        let lock: Self = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if lock.schema != SCHEMA {
            return Err(bad(format!(
                "its schema is {} and not {SCHEMA}, the one that this version reads",
                lock.schema
            )));
        }
        Ok(lock)
    }

    /// Writes it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, file: &Path) -> Result<(), BaseError> {
        write_json(file, self).map_err(|error| match error {
            crate::store::StoreError::Io(error) => error.into(),
            other => BaseError::Io(std::io::Error::other(other.to_string())),
        })
    }

    /// The name of a base with more packages.
    pub fn name(base: &str, packages: &[String]) -> String {
        let mut more: Vec<&str> = packages.iter().map(|p| p.trim()).collect();
        more.sort_unstable();
        more.dedup();
        std::iter::once(base).chain(more).collect::<Vec<_>>().join("+")
    }
}
