//! What of an environment is in the cache, without building anything.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::build::Recipe;
use super::error::EnvironmentError;
use super::layers::{Layers, Marker, marker_of};
use super::plan::{Plan, ReadyLayer};
use crate::engine::BuildNeed;
use crate::model::{Digest, digest_json};

/// One layer of an environment: there, or still to be made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerState {
    /// Its kind, which is its folder in the cache: `python-python`, `rust-build`.
    pub kind: String,
    /// Its name in the definition; `build` for what the project's own install leaves.
    pub name: String,
    /// The digest of its recipe.
    pub digest: Digest,
    /// Where it lies, or will lie.
    pub folder: PathBuf,
    /// Whether it is whole in the cache.
    pub cached: bool,
    /// Whether making it may use the network.
    pub network: bool,
    /// What it took, or would take.
    pub cost: Cost,
    /// All that its content depends on.
    #[serde(skip)]
    pub key: Value,
    /// What is in it, exactly, where it is there.
    #[serde(skip)]
    pub lock: Value,
}

/// What a layer takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Seconds to make it; `None`: not known.
    pub seconds: Option<f64>,
    /// Bytes on disk; `None`: not known.
    pub bytes: Option<u64>,
    /// How many layers of the same kind it is guessed from, as their median; 0: it is not guessed.
    pub guessed_from: usize,
}

impl Cost {
    fn of(marker: &Marker) -> Self {
        let known = marker.bytes > 0;
        Self { seconds: known.then_some(marker.seconds), bytes: known.then_some(marker.bytes), guessed_from: 0 }
    }

    /// The median of earlier ones of the kind; those of older versions say nothing.
    fn guess(markers: &[Marker]) -> Self {
        let told: Vec<&Marker> = markers.iter().filter(|marker| marker.bytes > 0).collect();
        let mut seconds: Vec<f64> = told.iter().map(|marker| marker.seconds).collect();
        let mut bytes: Vec<u64> = told.iter().map(|marker| marker.bytes).collect();
        seconds.sort_by(f64::total_cmp);
        bytes.sort_unstable();
        let middle = told.len() / 2;
        Self { seconds: seconds.get(middle).copied(), bytes: bytes.get(middle).copied(), guessed_from: told.len() }
    }
}

/// All layers of an environment, in the order in which they are made.
pub(super) fn inspect(plan: &Plan<'_>, layers: &Layers) -> Result<Vec<LayerState>, EnvironmentError> {
    let language = &plan.resolved.definition.name;
    let mut states = Vec::new();
    let mut ready: Vec<ReadyLayer<'_>> = Vec::new();
    for definition in plan.layers() {
        let key = plan.layer_key(definition, &ready)?;
        let digest = digest_json(&key);
        let network = plan.steps(&definition.steps).iter().any(|step| step.network);
        let kind = format!("{language}-{}", definition.name);
        let state = state(layers, kind, definition.name.clone(), digest.clone(), network, key);
        ready.push(ReadyLayer { definition, digest, root: state.folder.join("root"), lock: Value::Null, held: None });
        states.push(state);
    }
    if let Some(recipe) = Recipe::new(plan, &ready)? {
        states.push(state(layers, recipe.kind, "build".to_owned(), recipe.digest, false, recipe.key));
    }
    Ok(states)
}

fn state(layers: &Layers, kind: String, name: String, digest: Digest, network: bool, key: Value) -> LayerState {
    let folder = layers.place(&kind, &digest);
    let marker = marker_of(&folder);
    let cost = marker.as_ref().map_or_else(|| Cost::guess(&layers.markers(&kind)), Cost::of);
    let lock = marker.as_ref().map(|marker| marker.lock.clone()).unwrap_or_default();
    LayerState { kind, name, digest, folder, cached: marker.is_some(), network, cost, key, lock }
}

/// What making the missing ones needs.
pub(super) fn need(states: &[LayerState], memory: u64) -> Option<BuildNeed> {
    let missing: Vec<&LayerState> = states.iter().filter(|state| !state.cached).collect();
    let disk = missing.iter().filter_map(|state| state.cost.bytes).fold(0, u64::saturating_add);
    (!missing.is_empty()).then_some(BuildNeed { memory, disk })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_guess_is_the_median_of_those_that_tell() {
        let marker = |seconds: f64, bytes: u64| -> Marker {
            serde_json::from_value(json!({"schema": 1, "key": 1, "lock": 1, "seconds": seconds, "bytes": bytes}))
                .unwrap()
        };
        let old: Marker = serde_json::from_value(json!({"schema": 1, "key": 1, "lock": 1})).unwrap();
        let markers = [marker(9.0, 1), marker(1.0, 900), old.clone(), marker(2.0, 50)];
        assert_eq!(Cost::guess(&markers), Cost { seconds: Some(2.0), bytes: Some(50), guessed_from: 3 });
        assert_eq!(Cost::guess(std::slice::from_ref(&old)), Cost::default());
        assert_eq!(Cost::of(&old), Cost::default());
    }
}
