//! The fetch phase: dependency layers. The repository's own code does not run here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::definition::{LayerDefinition, StepDefinition};
use super::error::{EnvironmentError, Phase};
use super::layers::{Found, Layers};
use super::plan::{Plan, ReadyLayer};
use super::run::{Runner, failure, log_of, says_disk_full, succeeded};
use super::settings::Settings;
use super::template::Values;
use crate::model::{Digest, digest_json};
use crate::sandbox::{Exit, Mount, Network, Task};

/// Where the file lies that bounds what a step installs.
const PINS: &str = "/env/pins.txt";

/// What making layers needs.
pub(super) struct Fetch<'a> {
    pub plan: &'a Plan<'a>,
    pub layers: &'a Layers,
    pub settings: &'a Settings,
    /// Whether the network is refused, by the settings or by now.
    pub offline: bool,
    pub runner: Runner<'a>,
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
    /// What was in the layers, by layer, where they are to be made as they were.
    pub pins: Option<&'a Value>,
}

impl<'a> Fetch<'a> {
    /// Finds a layer, or makes it.
    pub async fn layer(
        &self,
        definition: &'a LayerDefinition,
        earlier: &[ReadyLayer<'a>],
    ) -> Result<ReadyLayer<'a>, EnvironmentError> {
        let key = self.plan.layer_key(definition, earlier)?;
        let digest = digest_json(&key);
        let kind = format!("{}-{}", self.plan.resolved.definition.name, definition.name);
        let found = match self.layers.find(&kind, &digest)? {
            Some(found) => found,
            None => {
                let turn = self.layers.turn(&digest, &self.runner.deadline.token).await?;
                match self.layers.find(&kind, &digest)? {
                    Some(found) => found,
                    None => {
                        let draft = self.layers.start(&kind, &digest, &turn)?;
                        let root = draft.folder("root")?;
                        let (log, lock) = self.make(definition, earlier, &root).await?;
                        draft.finish(key, lock, &log)?
                    }
                }
            }
        };
        Ok(ready(definition, digest, found))
    }

    async fn make(
        &self,
        definition: &LayerDefinition,
        earlier: &[ReadyLayer<'_>],
        root: &Path,
    ) -> Result<(Vec<u8>, Value), EnvironmentError> {
        let language = &self.plan.resolved.definition;
        let values = self.plan.layer_values(definition);
        let mut log = Vec::new();
        for step in self.plan.steps(&definition.steps) {
            if step.network && self.offline {
                return Err(EnvironmentError::Offline { what: self.plan.would_fetch(definition) });
            }
            (self.progress)(&format!("{}: {}", language.name, step.name));
            let task = self.task(definition, step, &values, earlier, root)?;
            let exit = self.runner.run(&step.name, &task).await?;
            log.extend_from_slice(format!("==> {}\n", step.name).as_bytes());
            match (succeeded(&exit), step) {
                (true, step) if step.enough => {
                    log.extend(log_of(&exit));
                    break;
                }
                (true, _) => log.extend(log_of(&exit)),
                // A layer that lacks something for want of room would be one for ever.
                (false, step)
                    if (step.enough || step.optional) && !(step.network && says_disk_full(language, &exit)) =>
                {
                    log.extend(log_of(&exit));
                    log.extend_from_slice(b"(this failed, and the next step goes on)\n");
                }
                (false, _) => {
                    return Err(failure(language, Phase::Fetch, &step.name, &task.argv, &task, &exit, &log));
                }
            }
        }
        let lock = self.lock(definition, &values, earlier, root).await?;
        Ok((log, lock))
    }

    fn task(
        &self,
        definition: &LayerDefinition,
        step: &StepDefinition,
        values: &Values,
        earlier: &[ReadyLayer<'_>],
        root: &Path,
    ) -> Result<Task, EnvironmentError> {
        let missing = |name| self.plan.missing(name, &step.name);
        let mut variables = self.plan.base_variables();
        variables.extend(self.plan.resolved.spec.variables.clone());
        let mut mounts = self.mounts(definition, earlier, root);
        if step.network {
            variables.extend(self.settings.network.step_variables());
            mounts.extend(self.settings.network.step_mounts());
            if let Some(mount) = self.pins_of(definition, root)? {
                let place = |name: &String| (name.clone(), PINS.to_owned());
                variables.extend(definition.lock.pins.iter().map(place));
                mounts.push(mount);
            }
        }
        for (name, value) in &step.variables {
            variables.insert(name.clone(), values.expand(value).map_err(missing)?);
        }
        let cwd = step.cwd.as_deref().map(|cwd| values.expand(cwd)).transpose().map_err(missing)?;
        Ok(Task {
            argv: values.expand_all(&step.argv).map_err(missing)?,
            cwd: PathBuf::from(cwd.unwrap_or_else(|| "/".to_owned())),
            variables,
            root: self.plan.resolved.root.clone(),
            mounts,
            limits: self.settings.fetch_limits.clone(),
            network: if step.network { Network::Host } else { Network::None },
            result_channel: false,
        })
    }

    /// The file that bounds what a layer's steps install, where the layer is to be made as it was. It lies beside the
    /// layer's root, and stays there.
    fn pins_of(&self, definition: &LayerDefinition, root: &Path) -> Result<Option<Mount>, EnvironmentError> {
        let lock = self.pins.and_then(|pins| pins.get(&definition.name)).and_then(Value::as_array);
        let (Some(lock), Some(folder)) = (lock.filter(|_| !definition.lock.pins.is_empty()), root.parent()) else {
            return Ok(None);
        };
        let lines: String = lock.iter().filter_map(Value::as_str).map(|line| format!("{line}\n")).collect();
        let file = folder.join("pins.txt");
        fs_err::write(&file, lines)?;
        Ok(Some(Mount::ReadOnly { source: file, target: PathBuf::from(PINS) }))
    }

    fn mounts(&self, definition: &LayerDefinition, earlier: &[ReadyLayer<'_>], root: &Path) -> Vec<Mount> {
        let mut mounts = self.plan.resolved.toolchain_mounts();
        mounts.extend(earlier.iter().map(ReadyLayer::mount));
        mounts.push(Mount::ReadWrite { source: root.to_owned(), target: PathBuf::from(&definition.path) });
        mounts.extend(self.plan.subject_mounts(definition));
        mounts
    }

    async fn lock(
        &self,
        definition: &LayerDefinition,
        values: &Values,
        earlier: &[ReadyLayer<'_>],
        root: &Path,
    ) -> Result<Value, EnvironmentError> {
        let bad = |what: &str, message: String| EnvironmentError::Lock {
            layer: definition.name.clone(),
            what: what.to_owned(),
            message,
        };
        if definition.lock.command.is_empty() {
            let mut out = Map::new();
            for name in &definition.lock.files {
                let path = root.join(name);
                // A link could lead anywhere on this machine.
                if !path.symlink_metadata().is_ok_and(|m| m.is_file()) {
                    continue;
                }
                // What is in it is the package client's doing; that it can't be read is ours.
                let text = String::from_utf8(fs_err::read(&path)?).map_err(|error| bad(name, error.to_string()))?;
                let value = parse_lock(name, &text).map_err(|message| bad(name, message))?;
                out.insert(name.clone(), value);
            }
            return Ok(if out.is_empty() { Value::Null } else { Value::Object(out) });
        }
        let step = StepDefinition {
            name: format!("list what is in the layer {}", definition.name),
            argv: definition.lock.command.clone(),
            when: Vec::new(),
            network: false,
            optional: false,
            enough: false,
            cwd: None,
            variables: BTreeMap::new(),
        };
        let task = self.task(definition, &step, values, earlier, root)?;
        let exit: Exit = self.runner.run(&step.name, &task).await?;
        if !succeeded(&exit) {
            let language = &self.plan.resolved.definition;
            return Err(failure(language, Phase::Fetch, &step.name, &task.argv, &task, &exit, &[]));
        }
        serde_json::from_slice(&exit.stdout.bytes).map_err(|error| bad("command", error.to_string()))
    }
}

fn ready(definition: &LayerDefinition, digest: Digest, found: Found) -> ReadyLayer<'_> {
    ReadyLayer { definition, digest, root: found.folder.join("root"), lock: found.marker.lock, held: found.held }
}

fn parse_lock(name: &str, text: &str) -> Result<Value, String> {
    if name.ends_with(".json") {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    serde_json::to_value(table).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn locks_are_json_or_toml() {
        assert_eq!(parse_lock("package-lock.json", r#"{"a": 1}"#).unwrap(), json!({"a": 1}));
        let cargo = "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
        let expected = json!({"version": 4, "package": [{"name": "a", "version": "1.0.0"}]});
        assert_eq!(parse_lock("Cargo.lock", cargo).unwrap(), expected);
        assert!(parse_lock("Cargo.lock", "no").is_err());
    }
}
