//! `import swe-care FILE`.

use std::path::Path;

use super::{ImportError, Imported, Options, Summary};
use crate::formats;
use crate::model::{BENCH_SCHEMA, BenchManifest, Extra};
use crate::store::bench::{Content, Problem};

/// Imports a SWE-CARE data set: instances and comments, no oracles.
///
/// # Errors
/// When the file is not there, cannot be read, or holds no instance.
pub fn swe_care(path: &Path, options: &Options<'_>) -> Result<Imported, ImportError> {
    if !path.is_file() {
        return Err(ImportError::NotThere(path.to_owned()));
    }
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let parsed = formats::swe_care::parse(&String::from_utf8_lossy(&fs_err::read(path)?));
    let mut summary = Summary::default();
    summary.problems.extend(parsed.errors.iter().cloned().map(|error| Problem::unreadable(&file, error)));
    let instances = parsed.into_rows();
    if instances.is_empty() {
        let problem = match summary.problems.first() {
            Some(first) => format!("no instance in SWE-CARE's format (first problem: {first})"),
            None => "no instance in SWE-CARE's format (JSON Lines)".to_owned(),
        };
        return Err(ImportError::Nothing { path: path.to_owned(), problem });
    }
    let mut content = Content::new(manifest(options.name.unwrap_or("swe-care"), &file));
    content.instances = instances;
    options.apply(&mut content.instances, &mut summary);
    summary.count(&content);
    Ok(Imported { content, summary })
}

/// A manifest before its benchmark is written.
pub(super) fn manifest(name: &str, source: &str) -> BenchManifest {
    BenchManifest {
        schema: BENCH_SCHEMA,
        name: name.to_owned(),
        source: Some(source.to_owned()),
        dataset_digest: None,
        frozen: None,
        arms: Vec::new(),
        extra: Extra::new(),
    }
}
