//! From a spec to a prepared environment: the room's front.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::base::Bases;
use super::build::Build;
use super::deadline::Deadline;
use super::definitions::Definitions;
use super::error::{EnvironmentError, Phase};
use super::fetch::Fetch;
use super::layers::Layers;
use super::plan::{Plan, ReadyLayer};
use super::resolve::{Looked, Wish};
use super::resolved::Resolved;
use super::run::Runner;
use super::settings::Settings;
use crate::model::{Digest, InfraReason, digest_json};
use crate::sandbox::{Mount, Root, Sandbox};

/// The trees that an environment is made for.
#[derive(Debug, Clone)]
pub struct BuildSubject {
    /// The head tree on the host; its files belong to [`Sandbox::owner`] and are never changed.
    pub snapshot: PathBuf,
    /// The head tree's id.
    pub tree: String,
    /// The merged tree on the host, if there is one: what it needs is locked together with what the head needs.
    pub merged: Option<PathBuf>,
    /// The merged tree's id.
    pub merged_tree: Option<String>,
}

/// An environment that is there.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The digest of spec, definition, toolchain, lock and the owner of the files.
    pub digest: Digest,
    /// What is below everything else.
    pub root: Root,
    /// What must be mounted, in this order and after the workspace (one of them may lie in it): the toolchain at its
    /// own path, the layers at their fixed paths. All read-only, or copy-on-write in memory.
    pub mounts: Vec<Mount>,
    /// Overlay lowers that go above the head's snapshot, topmost first: untracked outputs of the build.
    pub workspace_layers: Vec<PathBuf>,
    /// The variables of tests.
    pub variables: BTreeMap<String, String>,
    /// Programs inside, by name: `python`, `node`, `cargo`, `sh` …
    pub tools: BTreeMap<String, String>,
    /// Shell commands to run in the workspace after a patch was applied.
    pub rebuild: Vec<String>,
    /// What is in the layers, exactly, by layer.
    pub lock: Value,
    /// The toolchain.
    pub toolchain: Value,
    /// The dependency layers' folders in the cache with the paths where they are mounted, in the order in which they were
    /// made; also those that only builds see.
    pub layers: Vec<(PathBuf, PathBuf)>,
    /// The build layer's folder in the cache, where there is one.
    pub build: Option<PathBuf>,
}

/// Finds toolchains and makes environments.
pub struct Environments {
    pub(super) settings: Settings,
    pub(super) definitions: Definitions,
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) layers: Layers,
    pub(super) bases: Bases,
    /// What was found before: a shim takes its time.
    pub(super) toolchains: Mutex<HashMap<Wish, Looked>>,
    /// The network was given up while running.
    pub(super) without_network: AtomicBool,
    /// Environments that can't be built, by what they are made of: other instances with the same one need not try.
    failed: Mutex<HashMap<Digest, Arc<EnvironmentError>>>,
}

impl Environments {
    /// Reads the definitions and opens the cache.
    ///
    /// # Errors
    /// When a definition can't be read or the cache folder can't be made.
    pub fn new(settings: Settings, sandbox: Arc<dyn Sandbox>) -> Result<Self, EnvironmentError> {
        let definitions = Definitions::load(&settings.definitions)?;
        let layers = Layers::open(&settings.cache, sandbox.owner())?;
        let bases = Bases::new(settings.bases(), definitions.clone())?;
        let (toolchains, failed, without_network) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Ok(Self { settings, definitions, sandbox, layers, bases, toolchains, without_network, failed })
    }

    /// From now on steps that need the network are refused, as with the setting `offline`.
    pub fn give_up_network(&self) {
        self.without_network.store(true, Ordering::Relaxed);
    }

    /// The bases that environments can stand on.
    pub fn bases(&self) -> &Bases {
        &self.bases
    }

    /// The definitions in use.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Makes what is missing of an environment, or takes it from the cache.
    ///
    /// Several calls at once, also from several processes, make a layer once. `progress` is told which step runs.
    ///
    /// # Errors
    /// See [`EnvironmentError`]; [`reason`](EnvironmentError::reason) says which kind of infra it is.
    pub async fn prepare(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Prepared, EnvironmentError> {
        let attempt = digest_json(&json!({
            "environment": resolved.key(),
            "tree": subject.tree,
            "merged": subject.merged_tree,
        }));
        if let Some(error) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(&attempt) {
            return Err(EnvironmentError::Earlier(error.clone()));
        }
        let result = self.make(resolved, subject, progress, cancel).await;
        match result {
            Err(error) if error.reason() == InfraReason::Environment => {
                let error = Arc::new(error);
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(attempt, error.clone());
                Err(EnvironmentError::Earlier(error))
            }
            other => other,
        }
    }

    async fn make(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Prepared, EnvironmentError> {
        let owner = self.sandbox.owner();
        let plan = Plan::new(resolved, subject, owner, self.settings.network.cargo_arguments())?;
        let (layers, settings, sandbox) = (&self.layers, &self.settings, self.sandbox.as_ref());
        let offline = settings.offline || self.without_network.load(Ordering::Relaxed);
        let deadline = Deadline::new(Phase::Fetch, settings.fetch_limits.wall, cancel);
        let runner = Runner { sandbox, deadline: &deadline };
        let fetch = Fetch { plan: &plan, layers, settings, offline, runner, progress };
        let fetched = deadline.over(async {
            let mut ready: Vec<ReadyLayer<'_>> = Vec::new();
            for definition in plan.layers() {
                let layer = fetch.layer(definition, &ready).await?;
                ready.push(layer);
            }
            Ok(ready)
        });
        let ready = fetched.await?;
        let deadline = Deadline::new(Phase::Build, settings.build_limits.wall, cancel);
        let runner = Runner { sandbox, deadline: &deadline };
        let build = Build { plan: &plan, layers, settings, runner, progress };
        let built = deadline.over(build.run(&ready)).await?;

        let mut mounts = resolved.toolchain_mounts();
        for layer in ready.iter().filter(|layer| layer.definition.runs) {
            mounts.push(match built.over.get(&layer.definition.name) {
                Some(over) => Mount::Overlay {
                    lowers: vec![over.clone(), layer.root.clone()],
                    target: PathBuf::from(&layer.definition.path),
                    upper: None,
                    remove: Vec::new(),
                },
                None => layer.mount(),
            });
        }
        mounts.extend(plan.extra_mounts(&ready)?);
        let lock: Map<String, Value> = ready
            .iter()
            .filter(|layer| !layer.lock.is_null())
            .map(|layer| (layer.definition.name.clone(), layer.lock.clone()))
            .collect();
        let lock = Value::Object(lock);
        let digest = digest_json(&json!({
            "spec": resolved.spec,
            "identity": resolved.identity(),
            "lock": lock,
            "owner": owner,
        }));
        Ok(Prepared {
            digest,
            root: resolved.root.clone(),
            mounts,
            workspace_layers: built.workspace.into_iter().collect(),
            variables: plan.variables()?,
            tools: plan.tools()?,
            rebuild: resolved.spec.rebuild.clone(),
            lock,
            toolchain: serde_json::to_value(resolved.toolchain.as_ref()).unwrap_or_default(),
            layers: ready
                .iter()
                .filter_map(|layer| Some((layer.root.parent()?.to_owned(), layer.definition.path.clone().into())))
                .collect(),
            build: built.folder,
        })
    }
}
