//! Options that several verbs share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bounds::BoundsOptions;
use super::error::CliError;
use super::printer::Printer;
use super::settings::{Layers, Source, Sourced, parse_size};
use super::variables;
use crate::engine::{BuildBudget, BuildRoom, PhaseLimits, available_memory};
use crate::environment::{Environments, HostVariables, NetworkSettings, Overrides, Settings as EnvironmentSettings};
use crate::model::Revision;
use crate::oracle::{Frameworks, Reporters};
use crate::repo::{RepoSources, Retries};
use crate::sandbox::Sandbox;
use crate::sandbox::docker::{DockerConfig, DockerSandbox, Surroundings};
use crate::sandbox::local::{LocalConfig, LocalSandbox};
use crate::sandbox::none::NoSandbox;
use crate::stage::import;
use crate::stage::score::{DiskSettings, Services, cache_limit, free_up};
use crate::store::bench::{self, Benchmark, Content, Problem};
use crate::store::cache::Bucket;
use crate::store::{Scratch, Uses};

/// Reads `redgreen.toml` of the current folder.
pub(super) fn layers() -> Result<Layers, CliError> {
    let folder = std::env::current_dir().map_err(|e| CliError::infra("the current folder is gone").because(&e))?;
    Layers::load(&folder)
}

/// `--cache`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct CacheOption {
    /// Folder for clones, trees and environment layers [default: $XDG_CACHE_HOME/redgreen].
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    cache: Option<PathBuf>,
    /// The most that the cache may hold, as `50G`: before a build, what was not used for longest goes [default: no limit].
    #[arg(long, value_name = "SIZE", help_heading = "Where things are", value_parser = parse_size)]
    cache_limit: Option<u64>,
}

impl CacheOption {
    /// This option, or where it was not given another folder.
    pub(super) fn or(&self, other: Option<&Path>) -> Self {
        Self { cache: self.cache.clone().or_else(|| other.map(Path::to_owned)), cache_limit: self.cache_limit }
    }

    /// The cache's limit in bytes, where it has one.
    pub(super) fn limit(&self, layers: &Layers) -> Result<Option<u64>, CliError> {
        let some = |text: &str| parse_size(text).map(Some);
        let of_file = |file: &super::settings::File| file.cache_limit.as_deref().map(some).transpose();
        Ok(layers.pick(self.cache_limit.map(Some), "REDGREEN_CACHE_LIMIT", some, of_file, || None)?.value)
    }

    /// The cache folder, absolute.
    pub(super) fn resolve(&self, layers: &Layers) -> Result<Sourced<PathBuf>, CliError> {
        let picked = layers.pick(
            self.cache.clone(),
            "REDGREEN_CACHE",
            |t| Ok(PathBuf::from(t)),
            |f| Ok(f.cache.clone()),
            variables::default_cache,
        )?;
        Ok(Sourced { value: absolute(&picked.value)?, source: picked.source })
    }
}

/// Where repositories come from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RepositoryOptions {
    /// Folder with repositories, as `owner/name`, `owner__name.git`, `owner+name/repo` and the like; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    pub(super) mirrors: Vec<PathBuf>,
    /// Where to clone repositories from that are not found, with `{owner}` and `{name}` in it.
    #[arg(long, value_name = "URL", help_heading = "Where things are")]
    pub(super) clone_from: Option<String>,
    /// Never use the network: what is not there already is infra.
    #[arg(long, help_heading = "Where things are")]
    pub(super) offline: bool,
}

/// The resolved form of [`RepositoryOptions`].
#[derive(Debug, Clone)]
pub(super) struct Repositories {
    /// Mirror folders.
    pub(super) mirrors: Sourced<Vec<PathBuf>>,
    /// Clone template.
    pub(super) clone_from: Sourced<Option<String>>,
    /// No network.
    pub(super) offline: Sourced<bool>,
}

impl RepositoryOptions {
    pub(super) fn resolve(&self, layers: &Layers) -> Result<Repositories, CliError> {
        let list = |t: &str| Ok(std::env::split_paths(t).collect());
        let mirrors = layers.pick(
            (!self.mirrors.is_empty()).then(|| self.mirrors.clone()),
            "REDGREEN_MIRRORS",
            list,
            |f| Ok(f.mirrors.clone()),
            Vec::new,
        )?;
        for folder in &mirrors.value {
            if !folder.is_dir() {
                return Err(CliError::usage(format!("the mirrors folder `{}` is not there", folder.display()))
                    .hint(format!("it was named by: {}", mirrors.source)));
            }
        }
        Ok(Repositories {
            mirrors,
            clone_from: layers.pick(
                self.clone_from.clone().map(Some),
                "REDGREEN_CLONE_FROM",
                |t| Ok(Some(t.to_owned())),
                |f| Ok(f.clone_from.clone().map(Some)),
                || None,
            )?,
            offline: layers.pick(
                self.offline.then_some(true),
                "REDGREEN_OFFLINE",
                parse_bool,
                |f| Ok(f.offline),
                || false,
            )?,
        })
    }
}

impl Repositories {
    /// The settings and their sources, for `doctor`.
    pub(super) fn describe(&self) -> Vec<(&'static str, String, Source)> {
        let mirrors = self.mirrors.value.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        vec![
            ("mirrors", mirrors, self.mirrors.source.clone()),
            ("clone-from", self.clone_from.value.clone().unwrap_or_default(), self.clone_from.source.clone()),
            ("offline", self.offline.value.to_string(), self.offline.source.clone()),
        ]
    }
}

/// Reads yes or no.
pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither yes nor no")),
    }
}

/// Makes a path absolute without touching the file system.
pub(super) fn absolute(path: &std::path::Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|e| CliError::usage(format!("`{}` is no path", path.display())).because(&e))
}

/// Reads a benchmark folder. Lines that do not parse are named, and the others are scored.
pub(super) fn load_benchmark(folder: &Path, printer: &Printer) -> Result<Benchmark, CliError> {
    let loaded = Benchmark::load(folder).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    tell(printer, &loaded.problems);
    if loaded.benchmark.instances.is_empty() {
        return Err(CliError::usage(format!("the benchmark `{}` has no instance that can be read", folder.display()))
            .hint(format!("`redgreen check {}` names every problem", folder.display())));
    }
    Ok(loaded.benchmark)
}

/// A benchmark as it would be written again, with its tests.
pub(super) fn copied(bench: &Benchmark) -> Result<Content, CliError> {
    let mut content = Content {
        instances: bench.instances.clone(),
        reviews: bench.reviews.clone(),
        revisions: bench.revisions.clone(),
        recorded: bench.recorded.clone(),
        attrition: bench.attrition.clone(),
        filter: bench.filter.clone(),
        synth: bench.synth.clone(),
        validate: bench.validate.clone(),
        ..Content::new(bench.manifest.clone())
    };
    for oracle in bench.instances.iter().flat_map(|instance| &instance.oracles) {
        let path = bench.test_path(oracle).map_err(|e| CliError::usage(format!("the test `{}`: {e}", oracle.test)))?;
        let bytes = fs_err::read(path).map_err(|e| {
            CliError::usage("a test cannot be read").because(&e).hint("`redgreen check` names what the benchmark lacks")
        })?;
        content.tests.insert(oracle.test.clone(), bytes);
    }
    Ok(content)
}

/// Copies the repositories that travel with a benchmark, where they are not there yet.
pub(super) fn carry_bundles(from: &Path, to: &Path) -> Result<(), CliError> {
    let source = from.join("repos");
    if !source.is_dir() || is_same(from, to) {
        return Ok(());
    }
    let broken = |e: std::io::Error| CliError::infra("the repositories of the benchmark cannot be copied").because(&e);
    for entry in walkdir::WalkDir::new(&source) {
        let entry = entry.map_err(|e| broken(e.into()))?;
        let Ok(inside) = entry.path().strip_prefix(from) else { continue };
        let target = to.join(inside);
        if entry.file_type().is_dir() {
            fs_err::create_dir_all(&target).map_err(broken)?;
        } else if entry.file_type().is_file() && !target.exists() {
            fs_err::copy(entry.path(), &target).map_err(broken)?;
        }
    }
    Ok(())
}

/// Copies the ledger of a benchmark's model calls, where there is none yet.
pub(super) fn carry_ledger(from: &Path, to: &Path) -> Result<(), CliError> {
    let (source, target) = (from.join(bench::LEDGER), to.join(bench::LEDGER));
    if source.is_file() && !is_same(from, to) && !target.exists() {
        fs_err::copy(source, target)
            .map_err(|e| CliError::infra("the ledger of the benchmark cannot be copied").because(&e))?;
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    fs_err::canonicalize(one).ok() == fs_err::canonicalize(other).ok()
}

/// Names problems on standard error, the first ones one by one.
pub(super) fn tell(printer: &Printer, problems: &[Problem]) {
    const SHOWN: usize = 20;
    let mut problems: Vec<&Problem> = problems.iter().collect();
    problems.sort_by_key(|p| (&p.file, p.line));
    for problem in problems.iter().take(SHOWN) {
        printer.note(&problem.to_string());
    }
    if problems.len() > SHOWN {
        printer.note(&format!("… and {} more problems", problems.len() - SHOWN));
    }
}

/// Reads revisions: ours, or SWE-bench predictions.
pub(super) fn read_revisions(file: &Path, printer: &Printer) -> Result<Vec<Revision>, CliError> {
    let read = import::predictions(file).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    tell(printer, &read.problems);
    Ok(read.revisions)
}

/// Where repositories come from.
pub(super) fn repo_sources(repositories: &Repositories, cache: &Path, bundles: Vec<PathBuf>) -> RepoSources {
    const GIT_VARIABLES: [&str; 12] = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "GIT_SSL_CAINFO",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "SSH_AUTH_SOCK",
    ];
    RepoSources {
        mirrors: repositories.mirrors.value.clone(),
        bundles,
        template: repositories.clone_from.value.clone(),
        offline: repositories.offline.value,
        cache: Bucket::Repositories.path(cache),
        git_program: find_program("git").unwrap_or_else(|| "git".into()),
        git_variables: GIT_VARIABLES
            .iter()
            .filter_map(|name| variables::get(name).map(|value| ((*name).to_owned(), value)))
            .collect(),
        retries: Retries::default(),
    }
}

/// A program on `PATH`.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = variables::get("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// This process's folder of temporary files; what dead processes left in the cache goes.
pub(super) fn scratch(cache: &Path) -> Result<Scratch, CliError> {
    Scratch::new(cache).map_err(|e| {
        CliError::infra("the cache folder cannot be written")
            .because(&e)
            .hint("free some room there, or name another one with `--cache DIR`")
    })
}

/// The sandbox that was asked for.
pub(super) fn sandbox(kind: &str, source: &Source, scratch: &Scratch) -> Result<Arc<dyn Sandbox>, CliError> {
    let helper = std::env::current_exe().map_err(|e| CliError::infra("redgreen's own file is gone").because(&e))?;
    let config = LocalConfig::new(helper, scratch.path());
    let made: Result<Arc<dyn Sandbox>, _> = match kind {
        "local" => LocalSandbox::new(config).map(|s| Arc::new(s) as Arc<dyn Sandbox>),
        "none" => NoSandbox::new(config).map(|s| Arc::new(s) as Arc<dyn Sandbox>),
        "docker" => {
            let config = DockerConfig::new(Surroundings::of(&variables::all()), scratch.path());
            DockerSandbox::new(config).map(|s| Arc::new(s) as Arc<dyn Sandbox>)
        }
        other => {
            return Err(CliError::usage(format!("there is no sandbox `{other}`; it was named by: {source}"))
                .hint("use `local` or `docker`, or `none` on the command line"));
        }
    };
    made.map_err(|e| {
        CliError::infra(e.to_string()).because(&e).hint(match kind {
            "docker" => "`redgreen doctor` tells what the engine can do; `--sandbox local` needs none",
            _ => "`redgreen doctor` tells what was tried; `--sandbox none` runs without isolation, if you mean that",
        })
    })
}

/// What builds may take of this machine: as many at once as there are processors, as far as memory goes, and room on the
/// disk of the cache.
fn build_budget(cache: &Path, limit: Option<u64>, disk: &DiskSettings) -> BuildBudget {
    let builds = std::thread::available_parallelism().map_or(1, usize::from);
    let room = BuildRoom {
        cache: cache.to_owned(),
        mark: disk.min_free,
        patience: disk.patience,
        make_room: limit.map(|limit| cache_limit(cache.to_owned(), limit)),
        free_up: disk.clean.then(|| free_up(cache)),
    };
    BuildBudget::new(builds, available_memory().unwrap_or(u64::MAX), Some(room))
}

/// Environments of this machine.
pub(super) fn environments(
    cache: &Path,
    offline: bool,
    definitions: &[PathBuf],
    phases: &PhaseLimits,
    sandbox: Arc<dyn Sandbox>,
    (budget, uses): (Option<BuildBudget>, Option<Uses>),
) -> Result<Environments, CliError> {
    let all = variables::all();
    let mut settings = EnvironmentSettings::new(cache.to_owned(), HostVariables::pick(all.clone()));
    settings.definitions = definitions.to_vec();
    settings.offline = offline;
    settings.budget = budget;
    settings.uses = uses;
    settings.fetch_limits.wall = phases.fetch;
    settings.build_limits.wall = phases.build;
    settings.proof_limits.wall = phases.proof;
    settings.search_deadline = phases.environment;
    settings.network = NetworkSettings::gather(&all);
    settings.debian_mirror = variables::get("REDGREEN_DEBIAN_MIRROR");
    settings.engine = variables::get("DOCKER_HOST");
    Environments::new(settings, sandbox).map_err(|e| CliError::usage(e.to_string()).because(&e))
}

/// The environments by hand: those of this file, else of the one that was named elsewhere.
pub(super) fn overrides(layers: &Layers, option: Option<&Path>) -> Result<Overrides, CliError> {
    let picked = layers.pick(
        option.map(|file| Some(file.to_owned())),
        "REDGREEN_OVERRIDES",
        |t| Ok(Some(PathBuf::from(t))),
        |f| Ok(f.overrides.clone().map(Some)),
        || None,
    )?;
    let Some(file) = picked.value else { return Ok(Overrides::default()) };
    Overrides::load(&file).map_err(|e| {
        CliError::usage(e.to_string()).because(&e).hint(format!(
            "the overrides `{}` were named by: {}",
            file.display(),
            picked.source
        ))
    })
}

/// Lets services mind what was asked of environments for one command: those by hand, and the day of the commit.
pub(super) fn settle_environments(
    services: &mut Services,
    layers: &Layers,
    by_hand: Option<&Path>,
    as_of_commit: bool,
) -> Result<(), CliError> {
    if by_hand.is_some() {
        services.overrides = Arc::new(overrides(layers, by_hand)?);
    }
    if as_of_commit {
        Arc::get_mut(&mut services.environments)
            .ok_or_else(|| CliError::infra("`--as-of-commit` came too late for the environments"))?
            .set_as_of_commit();
    }
    Ok(())
}

/// The folders with definitions that were named.
pub(super) fn definitions(layers: &Layers, option: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let picked = layers.pick(
        (!option.is_empty()).then(|| option.to_vec()),
        "REDGREEN_DEFINITIONS",
        |t| Ok(std::env::split_paths(t).collect()),
        |f| Ok(f.definitions.clone()),
        Vec::new,
    )?;
    for folder in &picked.value {
        if !folder.is_dir() {
            return Err(CliError::usage(format!("the definitions folder `{}` is not there", folder.display()))
                .hint(format!("it was named by: {}", picked.source)));
        }
    }
    Ok(picked.value)
}

/// Everything that a run stands on, where the command has no options of its own for room on disks.
pub(super) fn services(
    layers: &Layers,
    cache: &CacheOption,
    repositories: &RepositoryOptions,
    definition_folders: &[PathBuf],
    sandbox_kind: Option<String>,
    phases: &PhaseLimits,
    bench: &Path,
) -> Result<Services, CliError> {
    let (_, disk) = BoundsOptions::default().resolve(layers)?;
    services_with(layers, cache, repositories, definition_folders, sandbox_kind, (phases, &disk), bench)
}

/// Everything that a run stands on.
pub(super) fn services_with(
    layers: &Layers,
    cache: &CacheOption,
    repositories: &RepositoryOptions,
    definition_folders: &[PathBuf],
    sandbox_kind: Option<String>,
    (phases, disk): (&PhaseLimits, &DiskSettings),
    bench: &Path,
) -> Result<Services, CliError> {
    let limit = cache.limit(layers)?;
    let cache = cache.resolve(layers)?.value;
    let repositories = repositories.resolve(layers)?;
    let kind = layers.pick(
        sandbox_kind,
        "REDGREEN_SANDBOX",
        |t| Ok(t.to_owned()),
        |f| Ok(f.sandbox.clone()),
        || "local".to_owned(),
    )?;
    if kind.value == "none" && kind.source != Source::CommandLine {
        return Err(CliError::usage("running without a sandbox must be asked for by `--sandbox none` each time")
            .hint(format!("it was set by: {}", kind.source)));
    }
    let scratch = scratch(&cache)?;
    let sandbox = sandbox(&kind.value, &kind.source, &scratch)?;
    let folders = definitions(layers, definition_folders)?;
    let mut frameworks = Frameworks::built_in();
    for folder in &folders {
        frameworks = frameworks.and_then(|_| Frameworks::with_folder(folder));
    }
    let frameworks = frameworks.map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    // In the process's own folder: what another process, or a crash of the machine, left of them is never used.
    let reporters = Reporters::install(scratch.path()).map_err(|e| {
        CliError::infra("the cache folder cannot be written")
            .because(&e)
            .hint("free some room there, or name another one with `--cache DIR`")
    })?;
    let uses = Uses::new(&scratch).map_err(|e| CliError::infra("the cache folder cannot be written").because(&e))?;
    let means = (Some(build_budget(&cache, limit, disk)), Some(uses.clone()));
    let environments = environments(&cache, repositories.offline.value, &folders, phases, sandbox.clone(), means)?;
    let mut sources = repo_sources(&repositories, &cache, vec![bench.join("repos")]);
    sources.retries.limit = phases.repository;
    Ok(Services {
        repositories: sources,
        overrides: Arc::new(overrides(layers, None)?),
        environments: Arc::new(environments),
        sandbox,
        cache,
        uses,
        scratch: Arc::new(scratch),
        frameworks: Arc::new(frameworks),
        reporters,
    })
}
