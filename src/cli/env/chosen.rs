//! What verbs that look at environments share: a benchmark, the chosen instances, where things are.

use std::path::PathBuf;

use crate::cli::bounds::PhaseOption;
use crate::cli::common::{self, CacheOption, RepositoryOptions};
use crate::cli::error::CliError;
use crate::cli::printer::Printer;
use crate::cli::score;
use crate::metrics::Denominator;
use crate::model::{CommentId, Instance};
use crate::stage::score::{Look, Selection, Services, Survey, plan, survey};

/// The benchmark and where things are.
#[derive(Debug, clap::Args)]
pub(super) struct ChosenOptions {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    pub bench: PathBuf,
    /// Only instances whose id matches; may be repeated.
    #[arg(long, short = 'i', value_name = "GLOB")]
    pub instances: Vec<String>,
    #[command(flatten)]
    pub places: PlaceOptions,
}

/// Where things are.
#[derive(Debug, clap::Args)]
pub(super) struct PlaceOptions {
    /// For which sandbox: `local` (the default), `docker`, or `none` (no isolation; for root, and only when typed).
    #[arg(long, value_name = "SANDBOX", value_parser = ["local", "none", "docker"])]
    pub sandbox: Option<String>,
    /// Folder with environment definitions that add to or override the built-in ones; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    pub definitions: Vec<PathBuf>,
    /// Environments by hand, as lines `{"repo": "owner/name", "commits": ["1a2b3c", "from..to"], "environment": {…}}`;
    /// the longest prefix wins, and what is found is taken at its word.
    #[arg(long, value_name = "FILE")]
    pub overrides: Option<PathBuf>,
    /// Install nothing that came out after the day of the commit to review, where the language's clients can (Python by
    /// uv, node by npm; what a lock pins needs no bound). Where they cannot, the environment fails and says what helps.
    #[arg(long)]
    pub as_of_commit: bool,
    #[command(flatten)]
    pub phases: PhaseOption,
    #[command(flatten)]
    pub repositories: RepositoryOptions,
    #[command(flatten)]
    pub cache: CacheOption,
}

impl PlaceOptions {
    /// What the work stands on.
    pub fn services(&self, bench: &std::path::Path) -> Result<Services, CliError> {
        let layers = common::layers()?;
        let phases = self.phases.resolve(&layers)?;
        let (cache, repositories, sandbox) = (&self.cache, &self.repositories, self.sandbox.clone());
        let mut services = common::services(&layers, cache, repositories, &self.definitions, sandbox, &phases, bench)?;
        common::settle_environments(&mut services, &layers, self.overrides.as_deref(), self.as_of_commit)?;
        Ok(services)
    }
}

/// An instance, and the comments that have a test.
pub(super) type Chosen = (Instance, Vec<CommentId>);

impl ChosenOptions {
    /// The instances that have a test and match.
    pub fn chosen(&self, printer: &Printer) -> Result<Vec<Chosen>, CliError> {
        let loaded = common::load_benchmark(&common::absolute(&self.bench)?, printer)?;
        let selection = Selection {
            instances: score::parse_globs(&self.instances)?,
            slice: None,
            arms: Some(Vec::new()),
            denominator: Denominator::Valid,
        };
        let plan = plan(&loaded.instances, &[], None, &[], &selection);
        if plan.instances.is_empty() {
            return Err(CliError::usage("no instance with an oracle matches `--instances`")
                .hint(format!("`redgreen check {}` tells what the folder holds", self.bench.display())));
        }
        Ok(plan.instances.into_iter().map(|chosen| (chosen.instance.clone(), chosen.comments)).collect())
    }

    /// Looks at each of them.
    pub fn surveys(&self, printer: &Printer, look: Look) -> Result<Vec<Survey>, CliError> {
        let chosen = self.chosen(printer)?;
        let services = self.places.services(&common::absolute(&self.bench)?)?;
        Ok(survey_all(&services, &chosen, look))
    }
}

/// Looks at the environments of instances; from then on nothing of these services uses the network.
pub(super) fn survey_all(services: &Services, chosen: &[Chosen], look: Look) -> Vec<Survey> {
    services.environments.give_up_network();
    chosen.iter().map(|(instance, comments)| survey(services, instance, comments, look)).collect()
}

/// The instance of this id, or the only one that begins so.
pub(super) fn find<'a>(instances: &'a [Instance], name: &str) -> Result<&'a Instance, CliError> {
    let folded = name.to_ascii_lowercase();
    if let Some(exact) = instances.iter().find(|i| i.instance_id.folded() == folded) {
        return Ok(exact);
    }
    let found: Vec<&Instance> = instances.iter().filter(|i| i.instance_id.folded().starts_with(&folded)).collect();
    let names = |list: &[&Instance]| {
        let shown: Vec<String> = list.iter().take(8).map(|i| format!("`{}`", i.instance_id)).collect();
        shown.join(", ")
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(CliError::usage(format!("the benchmark has no instance `{name}`"))
            .hint(format!("it has {}", names(&instances.iter().collect::<Vec<_>>())))),
        several => Err(CliError::usage(format!("`{name}` is the beginning of several: {}", names(several)))),
    }
}
