//! From a tree to an accepted, recorded environment, or a typed failure: the record, else a search.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use jiff::civil::Date;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::detect::{Detected, detect};
use super::error::EnvironmentError;
use super::failure::{Failure, Stage};
use super::layers::{MARKER, marker_of};
use super::prepare::{BuildSubject, Environments, Prepared};
use super::prove::interrupted;
use super::record::{EnvironmentRecord, Missing, SpecSource};
use super::resolve::Told;
use super::resolved::Resolved;
use super::search::{Aim, Search, Searched};
use super::trouble::FailureKind;
use crate::model::{Digest, EnvironmentSpec, InfraReason, ProjectMode, digest_json};

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
        self: &Arc<Self>,
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
        let detected = match self.detected(request, progress, cancel).await {
            Ok(detected) => detected,
            Err(error) => {
                let language = request.language.as_deref().unwrap_or_default();
                let record = self.new_record(key, inputs, SpecSource::Detected, language);
                return Err(Box::new(Rejected::of(Failure::of_error(&error, None), record)));
            }
        };
        let Some(detected) = detected.filter(Detected::is_installable) else {
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
        let limit = self.settings.search_deadline;
        let token = cancel.child_token();
        let (aim, missing) = self.aim(&detected, request, progress, cancel).await.map_err(machine)?;
        let searching = Search::new(self, &aim, &request.subject, progress, &token).run();
        let searched = within(limit, searching, cancel, &token).await;
        let mut record = record();
        record.version = aim.version.clone().or(record.version);
        record.seconds = began.elapsed().as_secs_f64();
        record.attempts = searched.attempts;
        record.missing = missing;
        match searched.result {
            Ok(success) => {
                let success = *success;
                record.strategy = Some(success.strategy);
                record.proofs = success.proofs;
                fill(&mut record, &success.resolved, &success.prepared);
                record.bytes_added = added(&success.prepared, since);
                self.keep(&record, progress);
                let (resolved, prepared) = (success.resolved, success.prepared);
                Ok(Some(Box::new(Accepted { resolved, prepared, record, cached: false })))
            }
            Err((failure, spec)) => {
                record.spec = spec;
                record.failure = Some(failure.clone());
                record.missing.extend(searched.missing);
                // With a base that nobody was to make here, or a repairer that works, it may end otherwise.
                let is_open = searched.is_open || record.missing.iter().any(|missing| missing.unmade);
                if !is_open && !failure.is_of_the_machine() {
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
            "tool_version": env!("CARGO_PKG_VERSION"),
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

    /// The bytes on disk of the layers in the cache that were made since then, whoever made them.
    pub fn bytes_added_since(&self, since: SystemTime) -> u64 {
        let root = self.settings.cache.join(super::layers::BUCKET);
        let markers = walkdir::WalkDir::new(root).min_depth(3).max_depth(3).into_iter().flatten();
        let markers = markers.filter(|entry| entry.file_name() == super::layers::MARKER);
        markers.filter_map(|entry| made_since(entry.path().parent()?, since)).sum()
    }

    /// What is on record of a tree: the environment made again from the cache, or the failure. `None` where there is no
    /// record, or where it says nothing any more.
    async fn on_record(
        self: &Arc<Self>,
        key: &Digest,
        request: &Request,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Option<Result<Box<Accepted>, Box<Rejected>>> {
        let record = self.records.get(key)?;
        if record.environment.is_none() && record.grounds != self.grounds() {
            return None;
        }
        if !record.missing.is_empty() {
            let missing = record.missing.clone();
            let work = move |all: &Self, _: &Told<'_>, _: &CancellationToken| Ok(all.has_come(&missing));
            match self.heard(work, progress, cancel).await {
                Ok(false) => {}
                Ok(true) => return None,
                Err(error) => return Some(Err(Box::new(Rejected::of(Failure::of_error(&error, None), record)))),
            }
        }
        let Some(environment) = &record.environment else {
            let failure = record.failure.clone()?;
            let log = record.attempts.iter().rev().find(|attempt| attempt.failure.as_ref() == Some(&failure));
            let log = log.and_then(|attempt| self.records.log(attempt.log.as_ref()?)).unwrap_or_default();
            return Some(Err(Box::new(Rejected { failure, record, log, cached: true })));
        };
        let resolved = match self.resolve_heard(record.spec.as_ref()?, progress, cancel).await {
            Ok(resolved) => resolved,
            // This machine's toolchain is another one by now: it is looked for again. Where its base is to be made first,
            // or the machine fails, another version is no answer.
            Err(error) => {
                let is_gone = matches!(error.reason(), InfraReason::Toolchain | InfraReason::Environment);
                if is_gone && record.base_to_make(&error).is_none() {
                    return None;
                }
                return Some(Err(Box::new(Rejected::of(Failure::of_error(&error, None), record))));
            }
        };
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

    async fn detected(
        self: &Arc<Self>,
        request: &Request,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Option<Detected>, EnvironmentError> {
        let (tree, date, language) = (request.subject.snapshot.clone(), request.date, request.language.clone());
        let work = move |all: &Self, _: &Told<'_>, _: &CancellationToken| {
            Ok(detect(&all.definitions, &tree, date, language.as_deref()))
        };
        self.heard(work, progress, cancel).await
    }

    /// What is tried for a tree: in the wanted version, or the best one that is to be had; and what went before that one
    /// and is not to be had.
    async fn aim(
        self: &Arc<Self>,
        detected: &Detected,
        request: &Request,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<(Aim, Vec<Missing>), Failure> {
        let of_error = |error: &EnvironmentError| Failure::of_error(error, None);
        let definition = self.definitions.get(&detected.language).map_err(|error| of_error(&error))?;
        let mut versions: Vec<Option<&str>> = detected.versions().map(Some).collect();
        if versions.is_empty() {
            versions.push(None);
        }
        let mut missing = Vec::new();
        let mut first = None;
        for version in versions {
            let spec = plain_spec(&definition.name, version);
            match self.resolve_heard(&spec, progress, cancel).await {
                Ok(resolved) => {
                    if version != detected.version.as_deref() {
                        progress(&format!(
                            "{} {} is not to be had, {} is taken",
                            definition.name,
                            detected.version.as_deref().unwrap_or_default(),
                            version.unwrap_or("any version")
                        ));
                    }
                    let needs = request.needs.iter().filter(|(language, _)| definition.answers_to(language));
                    let aim = Aim {
                        version: version.map(str::to_owned),
                        root: resolved.root,
                        date: request.date,
                        strategies: detected.strategies.clone(),
                        needs: needs.map(|(_, package)| package.clone()).collect(),
                        definition,
                    };
                    return Ok((aim, missing));
                }
                // Neither the machine has it, nor a base: another version may do. A mirror or a sandbox that fails says
                // nothing of the version.
                Err(error) if error.reason() == InfraReason::Toolchain => {
                    missing.extend(Missing::of(&spec, &error));
                    first.get_or_insert(error);
                }
                Err(error) => return Err(of_error(&error)),
            }
        }
        Err(first.map_or_else(interrupted, |error| of_error(&error)))
    }

    fn new_record(&self, key: Digest, inputs: Value, source: SpecSource, language: &str) -> EnvironmentRecord {
        EnvironmentRecord::new(key, inputs, self.grounds(), source, language)
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
    record.base = resolved.root.digest().map(str::to_owned);
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
        let failure = Failure::without_log(FailureKind::Deadline, Stage::Detect, InfraReason::Deadline, detail);
        searched.result = Err((failure, None));
    }
    searched
}

/// The bytes of the layers of an environment that were made since then.
fn added(prepared: &Prepared, since: SystemTime) -> u64 {
    let layers = prepared.folders.iter().map(|(folder, _)| folder).chain(&prepared.build);
    layers.filter_map(|layer| made_since(layer, since)).sum()
}

/// The bytes of a layer, as its marker says, where it was made since then.
fn made_since(layer: &Path, since: SystemTime) -> Option<u64> {
    let time = layer.join(MARKER).metadata().and_then(|meta| meta.modified()).ok()?;
    (time >= since).then(|| marker_of(layer).map(|marker| marker.bytes)).flatten()
}

/// Shared by those who hand a repairer in.
pub(super) type SharedRepairer = Arc<dyn super::repair::Repairer>;
