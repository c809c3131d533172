//! What an instance's environment was made of last: small files beside the layers, by which a check tells what is stale
//! from what was never made, and room is put down to benchmarks.
//!
//! ```text
//! <cache>/made-v1/<digest of the name>.json
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::inspect::LayerState;
use super::layers::marker_of;
use super::prepare::Prepared;
use crate::model::{Digest, digest_bytes, digest_json};
use crate::store::write_atomic;

/// The versioned bucket: another layout takes another name.
const BUCKET: &str = "made-v1";

/// One layer of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeLayer {
    /// Its kind, which is its folder in the cache.
    pub kind: String,
    /// The digest of its recipe.
    pub digest: Digest,
    /// Where it lies.
    pub folder: PathBuf,
}

impl From<LayerState> for MadeLayer {
    fn from(state: LayerState) -> Self {
        Self { kind: state.kind, digest: state.digest, folder: state.folder }
    }
}

/// What an environment was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Whose it is.
    pub name: String,
    /// The environment's digest.
    pub environment: Digest,
    /// The digest of what was in its layers.
    pub lock: Digest,
    /// Its layers.
    pub layers: Vec<MadeLayer>,
    /// The trees that it was made for.
    pub trees: Vec<PathBuf>,
}

/// Why an environment is not what it would be now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Staleness {
    /// The kind of layer.
    pub kind: String,
    /// What differs in its recipe, or in what came of it; `unknown` where the old layer is gone.
    pub changed: Vec<String>,
}

impl Made {
    pub(super) fn new(name: &str, prepared: &Prepared, trees: &[&Path]) -> Self {
        Self {
            name: name.to_owned(),
            environment: prepared.digest.clone(),
            lock: digest_json(&prepared.lock),
            layers: prepared.made.clone(),
            trees: trees.iter().map(|tree| (*tree).to_owned()).collect(),
        }
    }

    /// Writes it, unless it is there already.
    pub(super) fn write(&self, cache: &Path) -> std::io::Result<()> {
        if Self::read(cache, &self.name).as_ref() == Some(self) {
            return Ok(());
        }
        let file = file(cache, &self.name);
        if let Some(folder) = file.parent() {
            fs_err::create_dir_all(folder)?;
        }
        let text = serde_json::to_vec(self).map_err(std::io::Error::from)?;
        write_atomic(&file, &text).map_err(std::io::Error::other)
    }

    pub(super) fn read(cache: &Path, name: &str) -> Option<Self> {
        let text = fs_err::read(file(cache, name)).ok()?;
        serde_json::from_slice(&text).ok().filter(|made: &Self| made.name == name)
    }

    /// What differs between this and an environment as it would be now; nothing where it is the same.
    pub fn staleness(&self, now: &[LayerState]) -> Vec<Staleness> {
        let mut found = Vec::new();
        for state in now {
            let old = self.layers.iter().find(|layer| layer.kind == state.kind);
            match old {
                Some(old) if old.digest == state.digest => {}
                Some(old) => {
                    let key = marker_of(&old.folder).map(|marker| marker.key);
                    let changed = key.map_or_else(|| vec!["unknown".to_owned()], |key| differing(&key, &state.key));
                    found.push(Staleness { kind: state.kind.clone(), changed });
                }
                None => found.push(Staleness { kind: state.kind.clone(), changed: vec!["new".to_owned()] }),
            }
        }
        let kinds: BTreeSet<&str> = now.iter().map(|state| state.kind.as_str()).collect();
        let gone = self.layers.iter().filter(|layer| !kinds.contains(layer.kind.as_str()));
        found.extend(
            gone.map(|old| Staleness { kind: old.kind.clone(), changed: vec!["not needed any more".to_owned()] }),
        );
        if found.is_empty() && now.iter().all(|state| state.cached) && self.lock != lock_of(now) {
            found.push(Staleness { kind: "lock".to_owned(), changed: vec!["what is in the layers".to_owned()] });
        }
        found
    }
}

/// What the environment of `name` was made of last in a cache, where it was made there.
pub fn made(cache: &Path, name: &str) -> Option<Made> {
    Made::read(cache, name)
}

fn file(cache: &Path, name: &str) -> PathBuf {
    cache.join(BUCKET).join(format!("{}.json", digest_bytes(name.as_bytes())))
}

/// As [`Prepared::lock`] is put together.
fn lock_of(states: &[LayerState]) -> Digest {
    let locks = states.iter().filter(|state| !state.lock.is_null());
    digest_json(&Value::Object(locks.map(|state| (state.name.clone(), state.lock.clone())).collect()))
}

/// The top-level parts of two recipes that differ, by the words of the docs.
fn differing(before: &Value, now: &Value) -> Vec<String> {
    const WORDS: [(&str, &str); 6] = [
        ("layer", "definition"),
        ("build", "definition"),
        ("steps", "definition"),
        ("inputs", "input files"),
        ("first", "packages"),
        ("requires", "packages"),
    ];
    let empty = serde_json::Map::new();
    let (before, now) = (before.as_object().unwrap_or(&empty), now.as_object().unwrap_or(&empty));
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    let words = changed.map(|name| WORDS.iter().find(|(part, _)| part == name).map_or(name.as_str(), |(_, word)| word));
    words.collect::<BTreeSet<&str>>().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Cost;
    use serde_json::json;

    fn state(cache: &Path, kind: &str, key: &Value) -> LayerState {
        let digest = digest_json(key);
        let folder = cache.join(kind).join(digest.as_str());
        let cached = folder.is_dir();
        let lock = if cached { json!(["six==1.16.0"]) } else { Value::Null };
        let (kind, name) = (kind.to_owned(), "python".to_owned());
        LayerState { kind, name, digest, folder, cached, network: true, cost: Cost::default(), key: key.clone(), lock }
    }

    #[test]
    fn what_changed_is_told_by_the_recipe_of_the_old_layer() {
        let dir = tempfile::tempdir().unwrap();
        let key = json!({"toolchain": "3.11.7", "packages": ["six"], "layer": {"name": "python"}});
        let folder = dir.path().join("python-python").join(digest_json(&key).as_str());
        fs_err::create_dir_all(&folder).unwrap();
        let marker = json!({"schema": 1, "key": key, "lock": ["six==1.16.0"]});
        fs_err::write(folder.join("layer.json"), marker.to_string()).unwrap();
        let now = state(dir.path(), "python-python", &key);
        let made = Made {
            name: "o__r-1@0123abc".to_owned(),
            environment: digest_bytes(b"e"),
            lock: digest_json(&json!({"python": ["six==1.16.0"]})),
            layers: vec![now.clone().into()],
            trees: Vec::new(),
        };
        made.write(dir.path()).unwrap();
        let read = Made::read(dir.path(), "o__r-1@0123abc").unwrap();
        assert_eq!(read, made);
        assert_eq!(read.staleness(std::slice::from_ref(&now)), []);
        let other = json!({"toolchain": "3.11.8", "packages": ["six"], "layer": {"name": "python", "steps": []}});
        let stale = read.staleness(&[state(dir.path(), "python-python", &other)]);
        assert_eq!(
            stale,
            [Staleness {
                kind: "python-python".to_owned(),
                changed: vec!["definition".to_owned(), "toolchain".to_owned()]
            }]
        );
        // Made again with something else in it.
        let again = LayerState { lock: json!(["six==1.17.0"]), ..now.clone() };
        assert_eq!(read.staleness(&[again])[0].kind, "lock");
        let build = state(dir.path(), "python-build", &json!({}));
        assert_eq!(read.staleness(&[now, build])[0].changed, ["new"]);
        fs_err::remove_dir_all(&folder).unwrap();
        assert_eq!(read.staleness(&[state(dir.path(), "python-python", &other)])[0].changed, ["unknown"]);
    }
}
