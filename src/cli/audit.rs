//! `redgreen audit`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::Outcome;
use super::common;
use super::error::{CliError, Status};
use super::printer::Printer;
use super::running::{Ready, RunningOptions};
use super::score::{parse_denominator, parse_globs, parse_policy, parse_repeat, parse_slice, tell_infra};
use crate::engine::{Dispatcher, Event, Events, Reporter, Scheduler};
use crate::metrics::Denominator;
use crate::model::digest_bytes;
use crate::oracle::Policy;
use crate::report::{EventLog, LineProgress, TerminalProgress, audit as text, counted, human_seconds};
use crate::stage::audit::{Budgets, Card, Thresholds, audit, summary};
use crate::stage::score::{self, Selection, Workbench};
use crate::store::bench::{Benchmark, dataset_digest};
use crate::store::{BenchmarkRef, MANIFEST_SCHEMA, RunFolder, RunManifest, write_json};

/// Ask of each oracle whether it measures the concern, or the wording of one fix.
///
/// The merged fix is varied, and the oracle runs on every variant in a clean sandbox: it must not pass where the concern
/// is as it was (near-misses), must pass where the fix is only written in another way (rewrites), and should notice small
/// mistakes (mutants). A tracer says whether the test runs project code at all, and which lines of the fix. A card is printed
/// for each oracle and a table for all. docs/AUDIT.md says what each number means, and what it does not say.
///
/// Running the same command again goes on where it stopped: what is on record is not run again.
///
/// Example: redgreen audit examples/quickstart --budget-per-oracle 12
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The folder for records, made where it is not there [default: one in `redgreen-audits`, by the benchmark's name].
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Only instances whose id matches; may be repeated. `*` matches anything.
    #[arg(long, short = 'i', value_name = "GLOB")]
    instances: Vec<String>,
    /// Only a slice of the chosen instances, counted from 0: `10:20`, `:5`, `7:`.
    #[arg(long, value_name = "A:B", value_parser = parse_slice)]
    slice: Option<(usize, Option<usize>)>,
    /// Which comments to take: `valid` (with an accepted oracle) or `final` (the benchmark's own choice)
    /// [default: final where there is one, else valid].
    #[arg(long, value_name = "WHICH", value_parser = parse_denominator)]
    denominator: Option<Denominator>,
    /// Verdict policy: `strict` (the default), or `c-crab` to run oracles by that release's own rule. Tracing is strict.
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    policy: Option<Policy>,
    /// What an oracle must show to be kept, as TOML [default: all near-misses fail, all rewrites pass, half of the mutants
    /// are noticed, not flaky, text-only only where it says that it is structural].
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// Draws mutants, and the order of tests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Mutants and dropped hunks of one oracle, at most; controls and rewrites come on top.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=1000))]
    budget_per_oracle: u16,
    /// Runs of the controls `head` and `merged`; with 1 nothing is said of flakiness [default: 3].
    #[arg(long, value_name = "N", value_parser = parse_repeat)]
    repeat: Option<u32>,
    /// Run again what is on record.
    #[arg(long)]
    redo: bool,
    #[command(flatten)]
    running: RunningOptions,
    /// Print the cards and the table as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let thresholds = thresholds(args.thresholds.as_deref())?;
    let loaded = common::load_benchmark(&common::absolute(&args.bench)?, &printer)?;
    let frozen = loaded.manifest.frozen.as_deref();
    let denominator = args.denominator.unwrap_or_else(|| Denominator::default_for(&loaded.manifest));
    if denominator == Denominator::Final && frozen.is_none() {
        return Err(CliError::usage("this benchmark has no frozen choice of its own")
            .hint("use `--denominator valid`")
            .into());
    }
    let selection = Selection { instances: parse_globs(&args.instances)?, slice: args.slice, arms: None, denominator };
    let plan = score::plan(&loaded.instances, &[], frozen, &[], &selection);
    let comments: usize = plan.instances.iter().map(|plan| plan.comments.len()).sum();
    let with_oracle = plan
        .instances
        .iter()
        .flat_map(|plan| plan.comments.iter().map(|comment| (plan.instance, comment)))
        .filter(|(instance, comment)| instance.oracle(comment).is_some())
        .count();
    if with_oracle == 0 {
        return Err(CliError::usage("nothing to audit: no chosen comment has an oracle")
            .hint("`--instances` and `--denominator` choose; `redgreen check BENCH` looks at the benchmark")
            .into());
    }
    let policy = args.policy.unwrap_or(Policy::Strict);
    let Ready { settings, services, scheduler } = args.running.resolve(&layers, &common::absolute(&args.bench)?)?;
    let settings = score::Settings { policy, redo: args.redo, ..settings };
    let budgets =
        Budgets { per_oracle: usize::from(args.budget_per_oracle), seed: args.seed, repeats: args.repeat.unwrap_or(3) };
    let run = open_run(&args, &loaded, policy, denominator, &services.cache)?;
    printer.note(&format!("records: {}", run.root().display()));
    let work = Work { plan: &plan, loaded: &loaded, settings, services, budgets, thresholds, scheduler };
    let entered = run.enter()?;
    entered.share()?;
    let (cards, status) = execute(&printer, work, &run)?;
    let summary = summary(&cards);
    let result = json!({
        "benchmark": loaded.manifest.name,
        "denominator": denominator.as_str(),
        "policy": policy.as_str(),
        "seed": budgets.seed,
        "budget_per_oracle": budgets.per_oracle,
        "repeat": budgets.repeats,
        "comments": comments,
        "without_oracle": comments - with_oracle,
        "oracles": cards,
        "summary": summary,
    });
    write_json(&run.root().join("audit.json"), &result)?;
    if args.json {
        printer.value(&result)?;
    } else {
        let cards: Vec<String> = cards.iter().map(text::card).collect();
        printer.data(&format!("{}\n\n{}", cards.join("\n").trim_end(), text::table(&summary)))?;
    }
    printer.note(&format!("cards: {}", run.root().join("audit.json").display()));
    Ok(status)
}

fn thresholds(file: Option<&Path>) -> Result<Thresholds, CliError> {
    let read = match file {
        None => Thresholds::built_in(),
        Some(file) => {
            let text = fs_err::read_to_string(file)
                .map_err(|e| CliError::usage("the thresholds cannot be read").because(&e))?;
            Thresholds::parse(&text, &file.display().to_string())
        }
    };
    read.map_err(|e| CliError::usage(e.to_string()).hint("docs/AUDIT.md shows a file with all fields"))
}

/// Audits have folders of their own, so that no scoring takes one for a run of its arms.
fn open_run(
    args: &Args,
    loaded: &Benchmark,
    policy: Policy,
    denominator: Denominator,
    cache: &Path,
) -> Result<RunFolder, CliError> {
    let name = format!("{}-{}", super::score::safe_name(&loaded.manifest.name), policy.as_str());
    let root = args.out.clone().unwrap_or_else(|| Path::new("redgreen-audits").join(name));
    let root = common::absolute(&root)?;
    let of_tests = score::Roster::new(
        &loaded.instances,
        loaded.manifest.frozen.as_deref(),
        &loaded.recorded,
        &loaded.attrition,
        |path| fs_err::read(loaded.dir.join(path)).ok().map(|bytes| digest_bytes(&bytes)),
    );
    let roster = serde_json::to_vec(&of_tests).map_err(|e| CliError::infra("could not write JSON").because(&e))?;
    let manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now(),
        benchmark: BenchmarkRef {
            name: loaded.manifest.name.clone(),
            path: common::absolute(&args.bench)?,
            digest: dataset_digest(&loaded.instances, |test| fs_err::read(loaded.dir.join(test)).ok()),
        },
        policy: policy.as_str().to_owned(),
        roster: digest_bytes(&roster),
        denominator: denominator.as_str().to_owned(),
        cache: Some(cache.to_owned()),
    };
    let run = RunFolder::create(&root, &manifest)
        .map_err(|e| CliError::from(e).hint("the folder can't be used; name another one with `--out`"))?;
    let there = run.manifest()?;
    if (&there.policy, &there.benchmark.name) != (&manifest.policy, &manifest.benchmark.name) {
        let said =
            format!("`{}` is of benchmark `{}` and policy `{}`", root.display(), there.benchmark.name, there.policy);
        return Err(CliError::usage(said).hint("name another folder with `--out`"));
    }
    run.put_sound_blob(&roster)?;
    run.set_manifest(&manifest)?;
    Ok(run)
}

struct Work<'a> {
    plan: &'a score::Plan<'a>,
    loaded: &'a Benchmark,
    settings: score::Settings,
    services: score::Services,
    budgets: Budgets,
    thresholds: Thresholds,
    scheduler: Scheduler,
}

fn execute(printer: &Printer, work: Work<'_>, run: &RunFolder) -> Result<(Vec<Card>, Status), CliError> {
    let runtime = super::runtime()?;
    let (events, receiver) = Events::channel();
    let mut reporters: Vec<Box<dyn Reporter>> = vec![Box::new(EventLog::new(run.clone()))];
    if printer.is_terminal() {
        reporters.push(Box::new(TerminalProgress::default()));
    } else {
        reporters.push(Box::new(LineProgress::new(std::io::stderr(), Duration::from_secs(10))));
    }
    let dispatcher = Dispatcher::new(receiver, reporters);
    let scheduler = work.scheduler;
    let policy = work.settings.policy;
    let bench = Workbench::new(
        (work.loaded.dir.clone(), work.plan.instances.len()),
        work.settings,
        work.services,
        scheduler.clone(),
        events.clone(),
        run.clone(),
    );
    let result = runtime.block_on(async {
        let watcher = tokio::spawn(super::interrupt::watch(scheduler.clone(), events.clone()));
        let shown = tokio::spawn(dispatcher.run());
        let how = (work.thresholds, work.budgets, policy, scheduler.jobs());
        let cards = audit(work.plan, work.loaded.manifest.frozen.as_deref(), bench.clone(), how).await;
        events.send(Event::RunFinished);
        let progress = shown.await.map_err(|e| CliError::infra("the display broke").because(&e))?;
        watcher.abort();
        let cards = cards.map_err(|e| CliError::infra(e.to_string()).because(&e))?;
        Ok::<_, CliError>((cards, progress))
    });
    runtime.shutdown_background();
    let (cards, progress) = result?;
    let summary = bench.summary();
    printer.note(&format!(
        "{} made in {}, {} served from records, {} infra{}",
        counted(summary.made, "oracle run"),
        human_seconds(progress.started.elapsed().as_secs_f64()),
        summary.cached,
        summary.infra,
        if summary.interrupted { "; interrupted: the same command goes on" } else { "" }
    ));
    tell_infra(printer, &summary, run);
    let status = match (summary.interrupted, summary.infra) {
        (true, _) => Status::Interrupted,
        (false, 0) => Status::Done,
        (false, _) => Status::Infra,
    };
    Ok((cards, status))
}
