//! From a spec to a prepared environment: the room's front.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::civil::Date;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::accept::SharedRepairer;
use super::base::Bases;
use super::build::Build;
use super::deadline::Deadline;
use super::definitions::Definitions;
use super::error::{EnvironmentError, Phase};
use super::fetch::Fetch;
use super::inspect::{self, LayerState};
use super::layers::Layers;
use super::made::{Made, MadeLayer};
use super::plan::{Plan, ReadyLayer};
use super::record::Records;
use super::resolve::{Looked, Wish};
use super::resolved::Resolved;
use super::run::{Runner, Watch};
use super::settings::Settings;
use crate::engine::{BuildPermit, is_nothing_left};
use crate::model::{Digest, EnvironmentSpec, InfraReason, digest_json};
use crate::sandbox::{Mount, Root, Sandbox, WORKSPACE};
use crate::store::Held;

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
    pub folders: Vec<(PathBuf, PathBuf)>,
    /// The build layer's folder in the cache, where there is one.
    pub build: Option<PathBuf>,
    /// The layers, in the order in which they are made: kind and digest.
    pub made: Vec<MadeLayer>,
    /// Keeps the layers in the cache for as long as this, or a clone of it, is there.
    pub held: Vec<Arc<Held>>,
}

impl Prepared {
    /// What a command in the environment has mounted: a tree at the workspace with the build's outputs, copy-on-write and
    /// thrown away, and the environment's own mounts.
    pub fn mounts_over(&self, tree: &Path) -> Vec<Mount> {
        let mut lowers = self.workspace_layers.clone();
        lowers.push(tree.to_owned());
        let workspace = Mount::Overlay { lowers, target: WORKSPACE.into(), upper: None, remove: Vec::new() };
        std::iter::once(workspace).chain(self.mounts.iter().cloned()).collect()
    }
}

/// Finds toolchains and makes environments.
pub struct Environments {
    pub(super) settings: Settings,
    pub(super) definitions: Definitions,
    /// The digest of all definitions, with what only serves to find and to judge.
    pub(super) definitions_digest: Digest,
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) layers: Layers,
    pub(super) bases: Bases,
    pub(super) records: Records,
    pub(super) repairer: Option<SharedRepairer>,
    /// What was found before: a shim takes its time.
    pub(super) toolchains: Mutex<HashMap<Wish, Looked>>,
    /// Whose turn it is to look for one.
    pub(super) looking: Mutex<HashMap<Wish, Arc<Mutex<()>>>>,
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
        let layers = Layers::open(&settings.cache, sandbox.owner(), settings.uses.clone())?;
        let (toolchains, failed, without_network) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let all: Vec<_> = definitions.iter().map(|definition| serde_json::to_value(definition).ok()).collect();
        let (definitions_digest, records) = (digest_json(&json!(all)), Records::of(&settings.cache));
        let bases = Bases::new(settings.bases(), definitions.clone())?;
        Ok(Self {
            settings,
            definitions,
            definitions_digest,
            sandbox,
            layers,
            bases,
            records,
            repairer: None,
            toolchains,
            looking: Mutex::default(),
            without_network,
            failed,
        })
    }

    /// From now on `repairer` proposes changes when all strategies and rules have failed.
    pub fn set_repairer(&mut self, repairer: SharedRepairer) {
        self.repairer = Some(repairer);
    }

    /// From now on a step that runs gives a sign of life so often.
    pub fn set_heartbeat(&mut self, every: std::time::Duration) {
        self.settings.heartbeat = every;
    }

    /// From now on so many changes of failed specs are tried for one tree.
    pub fn set_repairs(&mut self, repairs: u32) {
        self.settings.repairs = repairs;
    }

    /// From now on nothing is installed that came out after the day of a tree's commit.
    pub fn set_as_of_commit(&mut self) {
        self.settings.as_of_commit = true;
    }

    /// Whether what is installed depends on the day of the commit.
    pub fn is_as_of_commit(&self) -> bool {
        self.settings.as_of_commit
    }

    /// A spec as it is for a commit of that day: bounded by it where that was asked for and the spec says nothing.
    #[must_use]
    pub fn dated(&self, mut spec: EnvironmentSpec, day: Option<Date>) -> EnvironmentSpec {
        if self.settings.as_of_commit && spec.as_of.is_none() {
            spec.as_of = day.map(|day| day.to_string());
        }
        spec
    }

    /// From now on a base is made where this machine's own system lacks something.
    pub fn set_makes_bases(&mut self) {
        self.settings.makes_bases = true;
    }

    /// From now on steps that need the network are refused, as with the setting `offline`.
    pub fn give_up_network(&self) {
        self.without_network.store(true, Ordering::Relaxed);
    }

    /// The bases that environments can stand on.
    pub fn bases(&self) -> &Bases {
        &self.bases
    }

    /// The digest of all definitions, with what only serves to find an environment and to judge it.
    pub fn definitions_digest(&self) -> &Digest {
        &self.definitions_digest
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
        let result = self.make(resolved, subject, None, progress, cancel).await;
        match result {
            Err(error) if error.reason() == InfraReason::Environment => {
                let error = Arc::new(error);
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(attempt, error.clone());
                Err(EnvironmentError::Earlier(error))
            }
            other => other,
        }
    }

    /// Says which layers an environment has, and which of them are in the cache. Nothing is built or fetched.
    ///
    /// # Errors
    /// When the spec does not fit its definition, or the trees can't be read.
    pub fn inspect(&self, resolved: &Resolved, subject: &BuildSubject) -> Result<Vec<LayerState>, EnvironmentError> {
        inspect::inspect(&self.plan(resolved, subject)?, &self.layers)
    }

    /// Remembers what the environment of `name` (an instance) was made of, for [`Environments::made`].
    ///
    /// # Errors
    /// When the cache can't be written.
    pub fn remember(&self, name: &str, prepared: &Prepared, trees: &[&Path]) -> std::io::Result<()> {
        Made::new(name, prepared, trees).write(&self.settings.cache)
    }

    /// What the environment of `name` was made of last, where it was made here.
    pub fn made(&self, name: &str) -> Option<Made> {
        Made::read(&self.settings.cache, name)
    }

    pub(super) fn plan<'a>(
        &self,
        resolved: &'a Resolved,
        subject: &'a BuildSubject,
    ) -> Result<Plan<'a>, EnvironmentError> {
        Plan::new(resolved, subject, self.sandbox.owner(), self.settings.network.cargo_arguments())
    }

    /// Who runs steps until a deadline, and watches them and the disk.
    pub(super) fn runner<'a>(
        &'a self,
        deadline: &'a Deadline<'a>,
        progress: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Runner<'a> {
        let settings = &self.settings;
        let watch = Watch { every: settings.heartbeat, progress, cache: &settings.cache, is_full: is_nothing_left };
        Runner { sandbox: self.sandbox.as_ref(), deadline, watch }
    }

    /// Waits until the missing layers may be made; nothing is waited for when all are there.
    async fn admitted(
        &self,
        states: &[LayerState],
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Option<BuildPermit>, EnvironmentError> {
        let Some(budget) = &self.settings.budget else { return Ok(None) };
        let limits = [&self.settings.fetch_limits, &self.settings.build_limits];
        let memory = limits.iter().map(|limits| limits.memory).max().unwrap_or_default();
        let Some(need) = inspect::need(states, memory) else { return Ok(None) };
        match budget.admit(need, progress, cancel).await {
            Ok(Some(permit)) => Ok(Some(permit)),
            Ok(None) => Err(EnvironmentError::Cancelled),
            Err(said) => Err(EnvironmentError::NoRoom { said }),
        }
    }

    /// The same, where what is missing is made as it was: `lock` says what was in the layers. That it can't be had any
    /// more is not remembered.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub(super) async fn prepare_as_it_was(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        lock: &Value,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Prepared, EnvironmentError> {
        self.make(resolved, subject, Some(lock), progress, cancel).await
    }

    async fn make(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        pins: Option<&Value>,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Prepared, EnvironmentError> {
        let owner = self.sandbox.owner();
        let plan = self.plan(resolved, subject)?;
        // Before the deadlines begin: waiting for others is not the build's own time.
        let states = inspect::inspect(&plan, &self.layers)?;
        let permit = self.admitted(&states, progress, cancel).await?;
        let (layers, settings) = (&self.layers, &self.settings);
        let offline = settings.offline || self.without_network.load(Ordering::Relaxed);
        let deadline = Deadline::new(Phase::Fetch, settings.fetch_limits.wall, cancel);
        let runner = self.runner(&deadline, progress);
        let fetch = Fetch { plan: &plan, layers, settings, offline, runner, progress, pins };
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
        let runner = self.runner(&deadline, progress);
        let build = Build { plan: &plan, layers, settings, runner, progress };
        let built = deadline.over(build.run(&ready)).await?;
        drop(permit);

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
        let held = ready.iter().map(|layer| &layer.held).chain([&built.held]).flatten().cloned().collect();
        Ok(Prepared {
            made: states.into_iter().map(MadeLayer::from).collect(),
            held,
            digest,
            root: resolved.root.clone(),
            mounts,
            workspace_layers: built.workspace.into_iter().collect(),
            variables: plan.variables()?,
            tools: plan.tools()?,
            rebuild: resolved.spec.rebuild.clone(),
            lock,
            toolchain: serde_json::to_value(resolved.toolchain.as_ref()).unwrap_or_default(),
            folders: ready
                .iter()
                .filter_map(|layer| Some((layer.root.parent()?.to_owned(), layer.definition.path.clone().into())))
                .collect(),
            build: built.folder,
        })
    }
}
