//! How verbs run tests, and what the runs stand on: one set of options for all of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bounds::BoundsOptions;
use super::common::{self, CacheOption, RepositoryOptions};
use super::error::CliError;
use super::score::{jobs, parse_jobs};
use super::settings::{File, Layers, parse_seconds, parse_size, seconds_to_duration};
use crate::engine::Scheduler;
use crate::sandbox::Limits;
use crate::stage::score::{Services, Settings};

/// Options of every verb that runs tests of a benchmark.
#[derive(Debug, clap::Args)]
pub(super) struct RunningOptions {
    /// Seconds for one oracle run [default: 120].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Memory for one oracle run, as `512M` or `4G` [default: 2G].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Oracle runs at once [default: the number of processors].
    #[arg(long, short = 'j', value_name = "N", value_parser = parse_jobs)]
    jobs: Option<u32>,
    /// Where oracles run: `local` (the embedded sandbox, the default), `docker` (containers of an engine that answers
    /// here) or `none` (no isolation; for root, and only when typed).
    #[arg(long, value_name = "SANDBOX", value_parser = ["local", "none", "docker"])]
    sandbox: Option<String>,
    /// Folder with environment definitions that add to or override the built-in ones; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    definitions: Vec<PathBuf>,
    /// Install nothing that came out after the day of the commit to review, where the language's clients can (Python by
    /// uv, node by npm; what a lock pins needs no bound). Where they cannot, the environment fails and says what helps.
    #[arg(long)]
    as_of_commit: bool,
    /// Environments by hand (see `redgreen env build --help`), which go before the benchmark's own.
    #[arg(long, value_name = "FILE", help_heading = "Where things are")]
    overrides: Option<PathBuf>,
    #[command(flatten)]
    bounds: BoundsOptions,
    #[command(flatten)]
    repositories: RepositoryOptions,
    #[command(flatten)]
    cache: CacheOption,
}

/// What runs are made with.
pub(super) struct Ready {
    /// Limits, bounds and room on disks as they were asked for; the rest as by default.
    pub(super) settings: Settings,
    pub(super) services: Services,
    pub(super) scheduler: Scheduler,
}

impl RunningOptions {
    /// Everything, each option with the layers' precedence. Bundles are looked for in the benchmark's folder.
    pub(super) fn resolve(&self, layers: &Layers, bench: &Path) -> Result<Ready, CliError> {
        let scheduler = Scheduler::new(jobs(self.jobs, layers)?);
        let (bounds, disk) = self.bounds.resolve(layers)?;
        let settings = Settings { limits: self.limits(layers)?, bounds, disk, ..Settings::default() };
        let mut services = common::services_with(
            layers,
            &self.cache,
            &self.repositories,
            &self.definitions,
            self.sandbox.clone(),
            (&bounds.phases, &disk),
            bench,
        )?;
        common::settle_environments(&mut services, layers, self.overrides.as_deref(), self.as_of_commit)?;
        Ok(Ready { settings, services, scheduler })
    }

    /// Whether isolation was waived.
    pub(super) fn is_unprotected(&self) -> bool {
        self.sandbox.as_deref() == Some("none")
    }

    fn limits(&self, layers: &Layers) -> Result<Limits, CliError> {
        let mut limits = Limits::default();
        let wall = |file: &File| file.timeout.map(seconds_to_duration).transpose();
        limits.wall = layers.pick(self.timeout, "REDGREEN_TIMEOUT", parse_seconds, wall, || limits.wall)?.value;
        let memory = |file: &File| file.memory.as_deref().map(parse_size).transpose();
        limits.memory = layers.pick(self.memory, "REDGREEN_MEMORY", parse_size, memory, || limits.memory)?.value;
        Ok(limits)
    }
}
