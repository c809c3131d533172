//! From a tree to an accepted, recorded environment, or a typed failure: the record, else a search.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use jiff::civil::Date;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::detect::{Detected, detect};
use super::error::EnvironmentError;
use super::failure::{Failure, Stage};
use super::prepare::{BuildSubject, Environments, Prepared};
use super::prove::interrupted;
use super::record::{EnvironmentRecord, SpecSource};
use super::resolved::Resolved;
use super::search::{Aim, Search, Searched};
use super::trouble::FailureKind;
use crate::model::{Digest, EnvironmentSpec, InfraReason, ProjectMode, digest_json};
use crate::sandbox::Mount;

/// The trees that need an environment, and what is known of them.
#[derive(Debug, Clone)]
pub struct Request {
    /// The trees.
    pub subject: BuildSubject,
    /// The day of the head's commit: what came out later was not wanted then.
    pub date: Option<Date>,
    /// The language, where the oracles' frameworks or the data say it.
    pub language: Option<String>,
    /// What the oracles need beside what the project wants: the language's name, and a package.
    pub needs: Vec<(String, String)>,
}

/// An environment that was accepted for a tree.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The spec that was really used, resolved.
    pub resolved: Resolved,
    /// The environment.
    pub prepared: Prepared,
    /// What is on record of it.
    pub record: EnvironmentRecord,
    /// Whether it came from the record and nothing had to be built.
    pub cached: bool,
}

/// Why none was accepted.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// The furthest failure, or the machine's.
    pub failure: Failure,
    /// All that was tried.
    pub record: EnvironmentRecord,
    /// The log of the failed step.
    pub log: Vec<u8>,
    /// Whether this was known already.
    pub cached: bool,
}

/// What came of a request: `None` where nothing installable was detected.
pub type Acceptance = Result<Option<Box<Accepted>>, Box<Rejected>>;

impl Environments {
    /// Gives the environment that is on record for a tree, or finds, builds and proves one.
    ///
    /// Several calls at once for the same thing, also from several processes, do the work once. With `redo` what is on
    /// record is found again. `progress` is told what is being done.
    ///
    /// # Errors
    /// [`Rejected`]: of the repository's own making, which is on record, or of the machine's, which never is.
    pub async fn accept(
        &self,
        request: &Request,
        redo: bool,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Acceptance {
        let began = Instant::now();
        let inputs = self.inputs(request);
        let key = digest_json(&inputs);
        if !redo && let Some(known) = self.on_record(&key, request, progress, cancel).await {
            return known.map(Some);
        }
        let detected = self.detected(request).await;
        // A strategy that asks for nothing fits every tree: where only such ones do, there is nothing to install.
        let installable =
            |d: &Detected| d.manifest().is_some() && d.strategies.iter().any(|strategy| !strategy.when.is_empty());
        let Some(detected) = detected.filter(installable) else {
            return Ok(None);
        };
        let record = || {
            let mut record = self.new_record(key.clone(), inputs.clone(), SpecSource::Detected, &detected.language);
            record.version.clone_from(&detected.version);
            record.version_source = Some(detected.version_source.clone());
            record
        };
        let machine = |failure: Failure| Box::new(Rejected::of(failure, record()));
        let turn = self.layers.turn(&key, cancel).await;
        let _turn = turn.map_err(|error| machine(Failure::of_error(&error, None)))?;
        // Another one may have done it meanwhile.
        if !redo && let Some(known) = self.on_record(&key, request, progress, cancel).await {
            return known.map(Some);
        }
        let since = SystemTime::now();
        let aim = self.aim(&detected, request, progress).map_err(machine)?;
        let limit = self.settings.search_deadline;
        let token = cancel.child_token();
        let searching = Search::new(self, &aim, &request.subject, progress, &token).run();
        let searched = within(limit, searching, cancel, &token).await;
        let mut record = record();
        record.version = aim.version.clone().or(record.version);
        record.seconds = began.elapsed().as_secs_f64();
        record.attempts = searched.attempts;
        match searched.result {
            Ok(success) => {
                let success = *success;
                record.strategy = Some(success.strategy);
                record.proofs = success.proofs;
                fill(&mut record, &success.resolved, &success.prepared);
                record.bytes_added = added(&self.settings.cache, &success.prepared, since);
                self.keep(&record, progress);
                let (resolved, prepared) = (success.resolved, success.prepared);
                Ok(Some(Box::new(Accepted { resolved, prepared, record, cached: false })))
            }
            Err((failure, spec)) => {
                record.spec = spec;
                record.failure = Some(failure.clone());
                if !failure.is_of_the_machine() {
                    self.keep(&record, progress);
                }
                Err(Box::new(Rejected::of(failure, record)))
            }
        }
    }

    /// Runs the proofs of an environment that is taken at its word, or takes what is on record of them. It gates nothing.
    #[expect(clippy::too_many_arguments, reason = "what an environment is, and where it came from")]
    pub async fn prove_given(
        &self,
        resolved: &Resolved,
        prepared: &Prepared,
        subject: &BuildSubject,
        source: SpecSource,
        redo: bool,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> (EnvironmentRecord, bool) {
        let began = Instant::now();
        let inputs = json!({
            "given": prepared.digest,
            "tree": subject.tree,
            "definitions": self.definitions_digest,
            "sandbox": self.sandbox.isolation().sandbox,
        });
        let key = digest_json(&inputs);
        if !redo && let Some(mut known) = self.records.get(&key).filter(|known| known.grounds == self.grounds()) {
            known.source = source;
            return (known, true);
        }
        let proven = self.prove(resolved, subject, prepared, progress, cancel).await;
        let mut record = self.new_record(key, inputs, source, &resolved.definition.name);
        record.version.clone_from(&resolved.spec.version);
        record.proofs = proven.results;
        record.failure = proven.failure;
        record.seconds = began.elapsed().as_secs_f64();
        fill(&mut record, resolved, prepared);
        if record.failure.as_ref().is_none_or(|failure| !failure.is_of_the_machine()) {
            self.keep(&record, progress);
        }
        (record, false)
    }

    /// The end of the log of an attempt, where it was kept.
    pub fn attempt_log(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.records.log(digest)
    }

    /// The bytes on disk of the layers in the cache that were made since then, whoever made them.
    pub fn bytes_added_since(&self, since: SystemTime) -> u64 {
        let root = self.settings.cache.join(super::layers::BUCKET);
        let markers = walkdir::WalkDir::new(root).min_depth(3).max_depth(3).into_iter().flatten();
        let markers = markers.filter(|entry| entry.file_name() == super::layers::MARKER);
        markers.filter(|entry| is_newer(entry.path(), since)).filter_map(|entry| entry.path().parent().map(size)).sum()
    }

    /// What a tree's record depends on.
    pub(super) fn inputs(&self, request: &Request) -> Value {
        json!({
            "tree": request.subject.tree,
            "merged": request.subject.merged_tree,
            "as_of_commit": self.settings.as_of_commit,
            "date": request.date,
            "language": request.language.as_ref().map(|language| language.trim().to_lowercase()),
            "needs": request.needs,
            "definitions": self.definitions_digest,
            "sandbox": self.sandbox.isolation().sandbox,
        })
    }

    /// What is on record of a tree: the environment made again from the cache, or the failure. `None` where there is no
    /// record, or where it says nothing any more.
    async fn on_record(
        &self,
        key: &Digest,
        request: &Request,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Option<Result<Box<Accepted>, Box<Rejected>>> {
        let record = self.records.get(key)?;
        let Some(environment) = &record.environment else {
            let failure = record.failure.clone()?;
            let log = record.attempts.iter().rev().find(|attempt| attempt.failure.as_ref() == Some(&failure));
            let log = log.and_then(|attempt| self.records.log(attempt.log.as_ref()?)).unwrap_or_default();
            let same = record.grounds == self.grounds();
            return same.then(|| Err(Box::new(Rejected { failure, record, log, cached: true })));
        };
        let resolved = self.resolve(record.spec.as_ref()?).ok()?;
        if record.resolved.as_ref() != Some(&resolved.key()) {
            return None;
        }
        let built = AtomicBool::new(false);
        let told = |text: &str| {
            built.store(true, Ordering::Relaxed);
            progress(text);
        };
        match self.prepare_as_it_was(&resolved, &request.subject, &record.lock, &told, cancel).await {
            Ok(prepared) if prepared.digest == *environment => {
                let cached = !built.into_inner();
                Some(Ok(Box::new(Accepted { resolved, prepared, record, cached })))
            }
            // Other versions than those that were proven.
            Ok(_) => None,
            Err(error) => {
                let failure = Failure::of_error(&error, Some(&resolved.definition));
                failure.is_of_the_machine().then(|| Err(Box::new(Rejected::of(failure, record))))
            }
        }
    }

    async fn detected(&self, request: &Request) -> Option<Detected> {
        let (definitions, tree) = (self.definitions.clone(), request.subject.snapshot.clone());
        let (date, language) = (request.date, request.language.clone());
        let work = move || detect(&definitions, &tree, date, language.as_deref());
        tokio::task::spawn_blocking(work).await.ok().flatten()
    }

    /// What is tried for a tree: in the wanted version, or the best one that is to be had.
    fn aim(
        &self,
        detected: &Detected,
        request: &Request,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Aim, Failure> {
        let of_error = |error: &EnvironmentError| Failure::of_error(error, None);
        let definition = self.definitions.get(&detected.language).map_err(|error| of_error(&error))?;
        let mut versions: Vec<Option<&str>> = detected.versions().map(Some).collect();
        if versions.is_empty() {
            versions.push(None);
        }
        let mut missing = None;
        for version in versions {
            let spec = plain_spec(&definition.name, version);
            match self.resolve(&spec) {
                Ok(_) => {
                    if version != detected.version.as_deref() {
                        progress(&format!(
                            "{} {} is not to be had, {} is taken",
                            definition.name,
                            detected.version.as_deref().unwrap_or_default(),
                            version.unwrap_or("any version")
                        ));
                    }
                    let needs = request.needs.iter().filter(|(language, _)| definition.answers_to(language));
                    return Ok(Aim {
                        version: version.map(str::to_owned),
                        date: request.date,
                        strategies: detected.strategies.clone(),
                        needs: needs.map(|(_, package)| package.clone()).collect(),
                        definition,
                    });
                }
                // Neither the machine has it, nor can a base with it be had: another version may do.
                Err(error)
                    if matches!(
                        error.root(),
                        EnvironmentError::ToolchainMissing { .. }
                            | EnvironmentError::NoBase { .. }
                            | EnvironmentError::NoBaseOfVersion { .. }
                    ) =>
                {
                    missing.get_or_insert(error);
                }
                Err(error) => return Err(of_error(&error)),
            }
        }
        Err(missing.map_or_else(interrupted, |error| of_error(&error)))
    }

    fn new_record(&self, key: Digest, inputs: Value, source: SpecSource, language: &str) -> EnvironmentRecord {
        EnvironmentRecord::new(key, inputs, self.grounds(), source, language)
    }

    /// What a failure depends on beside its inputs.
    pub(super) fn grounds(&self) -> Digest {
        let settings = &self.settings;
        let network = &settings.network;
        let folders: Vec<Value> = network.folders.iter().map(|folder| listed(folder)).collect();
        digest_json(&json!({
            "network": [network.variables, network.cargo_registry],
            "folders": folders,
            "limits": [settings.fetch_limits, settings.build_limits, settings.proof_limits],
            "search": settings.search_deadline,
            "repairs": settings.repairs,
            "repairer": self.repairer.as_ref().map(|repairer| repairer.identity()),
        }))
    }

    /// A record that cannot be written is found again next time.
    fn keep(&self, record: &EnvironmentRecord, progress: &(dyn Fn(&str) + Send + Sync)) {
        if let Err(error) = self.records.put(record) {
            progress(&format!("the environment's record could not be written: {error}"));
        }
    }
}

impl Rejected {
    fn of(failure: Failure, record: EnvironmentRecord) -> Self {
        Self { log: failure.log.clone(), failure, record, cached: false }
    }
}

fn fill(record: &mut EnvironmentRecord, resolved: &Resolved, prepared: &Prepared) {
    record.spec = Some(resolved.spec.clone());
    record.resolved = Some(resolved.key());
    record.environment = Some(prepared.digest.clone());
    record.lock.clone_from(&prepared.lock);
    record.toolchain.clone_from(&prepared.toolchain);
}

/// Only a language and a version: what reads a tree before anything is installed.
pub(super) fn plain_spec(language: &str, version: Option<&str>) -> EnvironmentSpec {
    EnvironmentSpec {
        version: version.map(str::to_owned),
        project: ProjectMode::None,
        ..EnvironmentSpec::plain(language)
    }
}

/// Ends a search at its deadline. What it does then ends soon, as it is told by the token.
async fn within(
    limit: std::time::Duration,
    searching: impl Future<Output = Searched>,
    cancel: &CancellationToken,
    token: &CancellationToken,
) -> Searched {
    tokio::pin!(searching);
    let mut over = false;
    let mut searched = tokio::select! {
        searched = &mut searching => searched,
        () = tokio::time::sleep(limit) => {
            over = true;
            token.cancel();
            searching.await
        }
    };
    if over && !cancel.is_cancelled() && searched.result.is_err() {
        let detail = format!("no environment was proven within {} s", limit.as_secs());
        let failure = Failure {
            kind: FailureKind::Deadline,
            stage: Stage::Detect,
            step: String::new(),
            lines: vec![detail.clone()],
            detail,
            reason: InfraReason::Deadline,
            log: Vec::new(),
        };
        searched.result = Err((failure, None));
    }
    searched
}

/// The bytes of the layers of an environment that were made since then.
fn added(cache: &Path, prepared: &Prepared, since: SystemTime) -> u64 {
    let sources = prepared.mounts.iter().flat_map(|mount| match mount {
        Mount::ReadOnly { source, .. } | Mount::ReadWrite { source, .. } => std::slice::from_ref(source),
        Mount::Overlay { lowers, .. } => lowers.as_slice(),
    });
    let layers: BTreeSet<PathBuf> = sources
        .chain(&prepared.workspace_layers)
        .filter(|source| source.starts_with(cache) || source.canonicalize().is_ok_and(|place| place.starts_with(cache)))
        .filter_map(|source| source.ancestors().find(|folder| folder.join(super::layers::MARKER).is_file()))
        .filter(|layer| is_newer(&layer.join(super::layers::MARKER), since))
        .map(Path::to_owned)
        .collect();
    layers.iter().map(|layer| size(layer)).sum()
}

fn is_newer(marker: &Path, since: SystemTime) -> bool {
    marker.metadata().and_then(|meta| meta.modified()).is_ok_and(|time| time >= since)
}

/// The bytes on disk of all that is in a folder.
fn size(folder: &Path) -> u64 {
    let blocks = |entry: walkdir::DirEntry| {
        entry.metadata().map_or(0, |meta| std::os::unix::fs::MetadataExt::blocks(&meta) * 512)
    };
    walkdir::WalkDir::new(folder).into_iter().flatten().map(blocks).sum()
}

/// What lies in a folder of packages: with another package in it, what failed may work.
fn listed(folder: &Path) -> Value {
    let Ok(entries) = fs_err::read_dir(folder) else { return Value::Null };
    let mut out: Vec<(String, u64)> = entries
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().map_or(0, |meta| meta.len())))
        .collect();
    out.sort();
    json!(out)
}

/// Shared by those who hand a repairer in.
pub(super) type SharedRepairer = Arc<dyn super::repair::Repairer>;
