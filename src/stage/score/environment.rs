//! Which environment an instance gets: one by hand, its own, one that is found and proven, or the bare tree.

use jiff::civil::Date;
use tokio_util::sync::CancellationToken;

use super::causes::named;
use super::instance::InstanceJob;
use super::prepare::{Trees, Unavailable, blocking, interrupted, remember, trees_from};
use super::run::Services;
use crate::engine::Scope;
use crate::environment::{
    Accepted, BuildSubject, EnvironmentError, EnvironmentRecord, Environments, FailureKind, Known, Prepared, Rejected,
    Request, Resolved, SpecSource, Told,
};
use crate::model::{CommentId, EnvironmentSpec, Framework, InfraReason, Instance, ProjectMode};

/// What an instance's environment is before anything is built.
pub(super) enum Chosen {
    /// It is taken at its word.
    Given(Box<Resolved>, SpecSource),
    /// It was found for the tree, and proven.
    Found(Box<Accepted>),
}

/// An instance's own environment with its toolchain, where nothing by hand may take its place.
pub(super) async fn resolve_own(
    services: &Services,
    instance: &Instance,
    step: &(dyn Fn(&str) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<Option<Resolved>, Unavailable> {
    // What is bounded by the commit's day is known only with the commit.
    let early = services.overrides.is_empty() && !services.environments.is_as_of_commit();
    let Some(spec) = instance.environment.clone().filter(|_| early) else { return Ok(None) };
    resolved(services, spec, step, cancel).await.map(Some)
}

/// What a spec stands on, with its toolchain.
async fn resolved(
    services: &Services,
    spec: EnvironmentSpec,
    step: &Told<'_>,
    cancel: &CancellationToken,
) -> Result<Resolved, Unavailable> {
    let resolved = services.environments.resolve_heard(&spec, step, cancel).await;
    resolved.map_err(|e| unresolved(&e, &spec))
}

fn unresolved(error: &EnvironmentError, spec: &EnvironmentSpec) -> Unavailable {
    Unavailable::of_environment(error, None, spec.version.as_deref().unwrap_or_default())
}

/// Why nothing was chosen, and what is on record of it.
pub(super) struct NotChosen {
    pub(super) why: Unavailable,
    pub(super) rejected: Option<Box<Rejected>>,
}

impl From<Unavailable> for NotChosen {
    fn from(why: Unavailable) -> Self {
        Self { why, rejected: None }
    }
}

/// Chooses an instance's environment. Where nobody describes one, it is found, built and proven here.
pub(super) async fn choose(
    services: &Services,
    job: &InstanceJob,
    trees: &Trees,
    redo: bool,
    step: &(dyn Fn(&str) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<Chosen, NotChosen> {
    let given = match (&trees.overridden, &job.instance.environment) {
        (Some(spec), _) => Some((spec.clone(), SpecSource::Override)),
        (None, Some(spec)) => Some((spec.clone(), SpecSource::Benchmark)),
        (None, None) => None,
    };
    if let Some((spec, source)) = given {
        let spec = services.environments.dated(spec, Some(trees.day));
        let resolved = resolved(services, spec, step, cancel).await?;
        return Ok(Chosen::Given(Box::new(resolved), source));
    }
    let frameworks = frameworks(&job.instance, &job.comments);
    let request = request(trees.subject(), trees.day, &frameworks, &job.instance);
    match services.environments.accept(&request, redo, step, cancel).await {
        Ok(Some(accepted)) => Ok(Chosen::Found(accepted)),
        Ok(None) => {
            let spec = bare_spec(&frameworks, &job.instance.language);
            let spec = services.environments.dated(spec, Some(trees.day));
            let resolved = with_needs(resolved(services, spec, step, cancel).await?, &frameworks);
            Ok(Chosen::Given(Box::new(resolved), SpecSource::Bare))
        }
        Err(rejected) => Err(NotChosen { why: Unavailable::of_rejected(&rejected), rejected: Some(rejected) }),
    }
}

fn request(subject: BuildSubject, day: Date, frameworks: &[Framework], instance: &Instance) -> Request {
    let language = language(frameworks, &instance.language);
    Request { subject, date: Some(day), language, needs: needs(frameworks) }
}

/// What is known of an instance's environment without building anything.
pub(super) enum Foreseen {
    /// This would be built.
    Resolved(Box<Resolved>),
    /// It would be found first; this is said of it.
    Search(String),
    /// One is on record, and would be looked for again; this is said of it.
    Outdated(String),
    /// None could be had; this is said of it.
    Rejected(String),
}

/// Chooses as [`choose`] does, without building anything.
pub(super) fn foresee(
    services: &Services,
    instance: &Instance,
    comments: &[CommentId],
    overridden: Option<&EnvironmentSpec>,
    subject: BuildSubject,
    day: Date,
) -> Result<Foreseen, Unavailable> {
    let environments = &services.environments;
    let base_first = |spec: &EnvironmentSpec| {
        let error = environments.resolve_there(spec).err()?;
        Some(Foreseen::Search(not_made(error.base_to_make()?)))
    };
    if let Some(spec) = overridden.or(instance.environment.as_ref()) {
        let spec = environments.dated(spec.clone(), Some(day));
        return match base_first(&spec) {
            Some(first) => Ok(first),
            None => Ok(Foreseen::Resolved(Box::new(resolve_there(environments, &spec)?))),
        };
    }
    let frameworks = frameworks(instance, comments);
    Ok(match environments.known(&request(subject, day, &frameworks, instance)) {
        Known::Accepted(resolved) => Foreseen::Resolved(resolved),
        Known::BaseFirst(base) => Foreseen::Search(not_made(&base)),
        Known::Outdated(record) => {
            Foreseen::Outdated(format!("{} or its definition changed since it was found", record.language))
        }
        Known::Rejected(record) => {
            let failure = record.failure.as_ref().map(crate::environment::Failure::summary).unwrap_or_default();
            Foreseen::Rejected(format!("it could not be had: {failure}"))
        }
        Known::Search(detected) => {
            let version = detected.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            let ways: Vec<&str> = detected.strategies.iter().map(|strategy| strategy.name.as_str()).collect();
            Foreseen::Search(format!("to be found: {}{version}, by {}", detected.language, ways.join(", ")))
        }
        Known::Bare => {
            let spec = environments.dated(bare_spec(&frameworks, &instance.language), Some(day));
            if let Some(first) = base_first(&spec) {
                return Ok(first);
            }
            Foreseen::Resolved(Box::new(with_needs(resolve_there(environments, &spec)?, &frameworks)))
        }
    })
}

/// What is said of a base that is to be made first.
pub(super) fn not_made(base: &str) -> String {
    format!("the base {base} is not made yet")
}

fn frameworks(instance: &Instance, comments: &[CommentId]) -> Vec<Framework> {
    comments.iter().filter_map(|comment| instance.oracle(comment)).map(|oracle| oracle.framework).collect()
}

fn resolve_there(environments: &Environments, spec: &EnvironmentSpec) -> Result<Resolved, Unavailable> {
    environments.resolve_there(spec).map_err(|e| unresolved(&e, spec))
}

/// A bare tree's environment gets what its oracles need: a framework that is a package (pytest) comes from a layer and
/// never from the host.
fn with_needs(resolved: Resolved, frameworks: &[Framework]) -> Resolved {
    let needs = needs(frameworks);
    let needs = needs.iter().filter(|(language, _)| resolved.definition.answers_to(language));
    resolved.with_packages(&needs.map(|(_, package)| package.as_str()).collect::<Vec<_>>())
}

/// The environment of a tree in which nothing installable was found: the language of its tests' framework, or the data's,
/// and the project from its path.
fn bare_spec(frameworks: &[Framework], data: &str) -> EnvironmentSpec {
    let shell = || "shell".to_owned();
    EnvironmentSpec {
        project: ProjectMode::Path,
        ..EnvironmentSpec::plain(&language(frameworks, data).unwrap_or_else(shell))
    }
}

/// The language of the first framework that has one, else the data's.
fn language(frameworks: &[Framework], data: &str) -> Option<String> {
    let of_framework = frameworks.iter().find_map(|framework| match framework {
        Framework::Pytest | Framework::Unittest => Some("python"),
        Framework::Cargo => Some("rust"),
        Framework::Node | Framework::Jest => Some("node"),
        Framework::Go => Some("go"),
        Framework::Tap | Framework::Exit | Framework::Junit => None,
    });
    of_framework.or_else(|| Some(data).filter(|data| !data.is_empty())).map(str::to_owned)
}

/// What the frameworks need that is a package of a language.
fn needs(frameworks: &[Framework]) -> Vec<(String, String)> {
    let pytest = || ("python".to_owned(), "pytest".to_owned());
    frameworks.contains(&Framework::Pytest).then(pytest).into_iter().collect()
}

impl Unavailable {
    /// Why no environment was accepted: its kind and the decisive lines, and what of it others would meet, too.
    pub(super) fn of_rejected(rejected: &Rejected) -> Self {
        let failure = &rejected.failure;
        if failure.reason == InfraReason::Interrupted {
            return interrupted();
        }
        let record = &rejected.record;
        let mut detail = failure.summary();
        let strategies = record.attempts.iter().filter(|attempt| attempt.failure.is_some());
        let tried: Vec<String> = strategies
            .map(|attempt| {
                let stage = attempt.failure.as_ref().map_or("", |failure| failure.stage.as_str());
                let by = attempt.repair.as_ref().map(|repair| format!(", {}", repair.by)).unwrap_or_default();
                format!("{}{by} ({stage})", attempt.strategy)
            })
            .collect();
        if !tried.is_empty() {
            detail.push_str(&format!("\ntried: {}", tried.join("; ")));
        }
        for line in failure.lines.iter().skip(1) {
            detail.push_str(&format!("\n  {line}"));
        }
        let mut why = Self::new(failure.reason, detail);
        why.log = Some(rejected.log.clone()).filter(|log| !log.is_empty());
        match failure.kind {
            FailureKind::Toolchain => {
                let version = record.version.as_deref().unwrap_or_default();
                why.shared(Scope::Toolchain(named(&record.language, version)))
            }
            FailureKind::Network => why.shared(Scope::Network),
            FailureKind::Deadline if failure.is_of_the_machine() => why.shared(Scope::Network),
            _ => why,
        }
    }
}

/// An environment that is there, for `env build`.
#[derive(Debug, Clone)]
pub struct BuiltEnvironment {
    /// The environment.
    pub prepared: Prepared,
    /// What is on record of it.
    pub record: EnvironmentRecord,
    /// Whether nothing had to be built or proven.
    pub cached: bool,
}

/// Why there is none.
#[derive(Debug, Clone)]
pub struct NotBuilt {
    /// The class, what happened, the log.
    pub why: Unavailable,
    /// What was tried, where it came to that.
    pub record: Option<EnvironmentRecord>,
    /// Whether it was known already, and not tried again.
    pub cached: bool,
}

impl From<Unavailable> for NotBuilt {
    fn from(why: Unavailable) -> Self {
        Self { why, record: None, cached: false }
    }
}

/// An instance of which only the environment is wanted.
fn job_of(instance: &Instance, comments: &[CommentId]) -> InstanceJob {
    InstanceJob { instance: instance.clone(), comments: comments.to_vec(), revisions: Vec::new(), missing: Vec::new() }
}

/// Makes the environment of an instance, for `env build`: the same steps as before scoring, and nothing of it is scored.
/// One that is taken at its word is proven, too, which gates nothing.
///
/// # Errors
/// Why the environment is not to be had here.
pub async fn build_environment(
    services: &Services,
    instance: &Instance,
    comments: &[CommentId],
    redo: bool,
    step: &(dyn Fn(&str) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<BuiltEnvironment, NotBuilt> {
    let job = job_of(instance, comments);
    // The toolchain first, where it is known: without it no repository is needed.
    resolve_own(services, instance, step, cancel).await?;
    step("repository");
    let trees = {
        let (services, instance) = (services.clone(), instance.clone());
        blocking(move || trees_from(&services, &services.repositories, &instance, &[])).await?
    };
    let chosen = choose(services, &job, &trees, redo, step, cancel).await.map_err(|not| NotBuilt {
        why: not.why,
        cached: not.rejected.as_ref().is_some_and(|rejected| rejected.cached),
        record: not.rejected.map(|rejected| rejected.record),
    })?;
    let (resolved, source) = match chosen {
        Chosen::Found(accepted) => {
            let Accepted { prepared, record, cached, .. } = *accepted;
            remember(services, instance, &prepared, &trees);
            return Ok(BuiltEnvironment { prepared, record, cached });
        }
        Chosen::Given(resolved, source) => (resolved, source),
    };
    let environments = &services.environments;
    let built = std::sync::atomic::AtomicBool::new(false);
    let told = |text: &str| {
        built.store(true, std::sync::atomic::Ordering::Relaxed);
        step(text);
    };
    let subject = trees.subject();
    let prepared = environments.prepare(&resolved, &subject, &told, cancel).await;
    let prepared = prepared.map_err(|e| Unavailable::of_environment(&e, Some(&resolved), ""))?;
    remember(services, instance, &prepared, &trees);
    let (record, known) = environments.prove_given(&resolved, &prepared, &subject, source, redo, step, cancel).await;
    if record.failure.as_ref().is_some_and(|failure| failure.reason == InfraReason::Interrupted) {
        return Err(interrupted().into());
    }
    let cached = known && !built.into_inner();
    Ok(BuiltEnvironment { prepared, record, cached })
}

/// Makes the environment of an instance on a base, for `env export`: what is given away must not stand on this machine's
/// own system. With it comes the folder of the head's tree.
///
/// # Errors
/// Why the environment is not to be had here.
pub async fn build_on_base(
    services: &Services,
    instance: &Instance,
    comments: &[CommentId],
    base: Option<&str>,
    step: &(dyn Fn(&str) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<(Prepared, std::path::PathBuf), Unavailable> {
    let job = job_of(instance, comments);
    step("repository");
    let trees = {
        let (services, instance) = (services.clone(), instance.clone());
        blocking(move || trees_from(&services, &services.repositories, &instance, &[])).await?
    };
    let chosen = choose(services, &job, &trees, false, step, cancel).await.map_err(|not| not.why)?;
    let mut spec = match chosen {
        Chosen::Found(accepted) => accepted.resolved.spec,
        Chosen::Given(resolved, _) => resolved.spec,
    };
    if let Some(base) = base {
        spec.base = Some(base.to_owned());
    }
    let wanted = spec.clone();
    let on_base = move |environments: &Environments, told: &Told<'_>, stop: &CancellationToken| {
        environments.resolve_on_base(&wanted, told, stop)
    };
    let resolved = services.environments.heard(on_base, step, cancel).await.map_err(|e| unresolved(&e, &spec))?;
    let subject = trees.subject();
    let prepared = services.environments.prepare(&resolved, &subject, step, cancel).await;
    Ok((prepared.map_err(|e| Unavailable::of_environment(&e, Some(&resolved), ""))?, subject.snapshot))
}
