//! `import folder DIR…`: instances written by a person.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::swe_care::manifest;
use super::{ImportError, Imported, Options, Summary};
use crate::formats;
use crate::formats::folder::FolderInstance;
use crate::model::{InstanceId, parse_jsonl};
use crate::store::bench::{Content, Problem, RECORDED, REVIEWS, REVISIONS};

/// The file that makes a folder an instance.
const INSTANCE: &str = "instance.json";

/// Imports folders. Each is one instance (it has an `instance.json`) or holds several; `reviews.jsonl`,
/// `revisions.jsonl` and `recorded.jsonl` beside an instance, or in the folder that holds several, come along.
///
/// A broken instance is named in the summary, the others come through.
///
/// # Errors
/// When a folder is not there, or no instance at all can be read.
pub fn folder(dirs: &[PathBuf], options: &Options<'_>) -> Result<Imported, ImportError> {
    let mut content = Content::new(manifest(options.name.unwrap_or("folder"), "instances written by hand"));
    let mut summary = Summary::default();
    let mut places: BTreeMap<InstanceId, PathBuf> = BTreeMap::new();
    for dir in dirs {
        if !dir.is_dir() {
            return Err(ImportError::NotThere(dir.clone()));
        }
        let inside = instances_in(dir)?;
        if inside.is_empty() {
            let text = format!("neither this folder nor one in it has an `{INSTANCE}`");
            summary.problems.push(Problem::error(&dir.display().to_string(), None, "", text));
        }
        for place in inside {
            instance(&place, &mut content, &mut places, &mut summary)?;
            if place != *dir {
                side_files(&place, &mut content, &mut summary)?;
            }
        }
        side_files(dir, &mut content, &mut summary)?;
    }
    if content.instances.is_empty() {
        let path = dirs.first().cloned().unwrap_or_default();
        let problem = match summary.problems.first() {
            Some(first) => format!("no instance that can be read (first problem: {first})"),
            None => format!("no folder with an `{INSTANCE}`"),
        };
        return Err(ImportError::Nothing { path, problem });
    }
    content.instances.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
    arms(&mut content);
    options.apply(&mut content.instances, &mut summary);
    summary.count(&content);
    Ok(Imported { content, summary })
}

/// The folder itself, or the folders in it, that are instances; sorted by name.
fn instances_in(dir: &Path) -> Result<Vec<PathBuf>, ImportError> {
    if dir.join(INSTANCE).is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let mut inside = Vec::new();
    for entry in fs_err::read_dir(dir)? {
        let path = entry?.path();
        if path.join(INSTANCE).is_file() {
            inside.push(path);
        }
    }
    inside.sort();
    Ok(inside)
}

fn instance(
    dir: &Path,
    content: &mut Content,
    places: &mut BTreeMap<InstanceId, PathBuf>,
    summary: &mut Summary,
) -> Result<(), ImportError> {
    let file = dir.join(INSTANCE).display().to_string();
    let text = fs_err::read(dir.join(INSTANCE))?;
    let FolderInstance { instance, tests } = match formats::folder::parse(&String::from_utf8_lossy(&text)) {
        Ok(read) => read,
        Err(error) => {
            summary.problems.push(Problem::error(&file, None, &error.field, error.problem));
            return Ok(());
        }
    };
    if let Some(first) = places.get(&instance.instance_id) {
        let text = format!("`{}` is in `{}` already; remove one of the two", instance.instance_id, first.display());
        summary.problems.push(Problem::error(&file, None, "instance_id", text));
        return Ok(());
    }
    let mut bytes = BTreeMap::new();
    for (target, test) in tests {
        match test_bytes(dir, &test) {
            Ok(read) => bytes.insert(target, read),
            Err(text) => {
                summary.problems.push(Problem::error(&file, None, "test", text));
                return Ok(());
            }
        };
    }
    content.tests.extend(bytes);
    places.insert(instance.instance_id.clone(), dir.to_owned());
    content.instances.push(instance);
    Ok(())
}

fn test_bytes(dir: &Path, test: &str) -> Result<Vec<u8>, String> {
    let root = fs_err::canonicalize(dir).map_err(|error| error.to_string())?;
    let real = fs_err::canonicalize(dir.join(test)).map_err(|_| format!("there is no file `{test}` in the folder"))?;
    if !real.starts_with(&root) {
        return Err(format!("`{test}` leads out of the folder"));
    }
    fs_err::read(real).map_err(|error| error.to_string())
}

fn side_files(dir: &Path, content: &mut Content, summary: &mut Summary) -> Result<(), ImportError> {
    content.reviews.extend(rows(dir, REVIEWS, summary)?);
    content.recorded.extend(rows(dir, RECORDED, summary)?);
    let revisions = dir.join(REVISIONS);
    if revisions.is_file() {
        match super::predictions(&revisions) {
            Ok(read) => {
                content.revisions.extend(read.revisions);
                summary.problems.extend(read.problems);
            }
            Err(ImportError::Nothing { problem, .. }) => {
                let file = revisions.display().to_string();
                summary.problems.push(Problem::error(&file, None, "", format!("it holds {problem}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn rows<T: DeserializeOwned>(dir: &Path, file: &str, summary: &mut Summary) -> Result<Vec<T>, ImportError> {
    let path = dir.join(file);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let parsed = parse_jsonl(&fs_err::read_to_string(&path)?);
    let name = path.display().to_string();
    summary.problems.extend(parsed.errors.iter().cloned().map(|error| Problem::unreadable(&name, error)));
    Ok(parsed.into_rows())
}

/// The arms that came along, in the order of their first row.
fn arms(content: &mut Content) {
    let mut arms: Vec<String> = Vec::new();
    let named = content.revisions.iter().map(|r| &r.arm).chain(content.recorded.iter().map(|r| &r.arm));
    for arm in named {
        if !arms.iter().any(|known| known == arm.as_str()) {
            arms.push(arm.to_string());
        }
    }
    content.manifest.arms = arms;
}
