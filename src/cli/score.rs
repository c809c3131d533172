//! `redgreen score`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{CliError, Status};
use super::printer::Printer;
use super::running::{Ready, RunningOptions};
use super::settings::Layers;
use super::{Outcome, common};
use crate::engine::{Dispatcher, Event, Events, Reporter, Scheduler};
use crate::metrics::Denominator;
use crate::model::{Arm, Revision};
use crate::oracle::Policy;
use crate::report::{EventLog, LineProgress, TerminalProgress, counted, human_seconds, one_line};
use crate::stage::score::{self, Selection};
use crate::store::bench::{Benchmark, dataset_digest};
use crate::store::{BenchmarkRef, Entered, MANIFEST_SCHEMA, RunFolder, RunManifest, find_run};

/// Run every oracle on every revision in a clean sandbox, decide verdicts, report pass rates per arm.
///
/// An oracle is the test bound to one human comment; a revision is a coding agent's patch; an arm is where the agent's
/// guidance came from, as a rule a review tool. The report is printed and written to the run folder.
///
/// Running the same command again goes on where it stopped: what is on record is not run again, and infrastructure
/// failures are tried again. The controls `head` (no change: must fail) and `merged` (the gold patch: must pass) are run
/// first, on this machine, whether or not they are among `--arms`.
///
/// Example: redgreen score examples/quickstart
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The run folder, made where it is not there [default: the newest fitting one in `redgreen-runs`, else a new one].
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Start a new run folder even where a fitting one is there.
    #[arg(long, conflicts_with = "out")]
    new: bool,
    /// Arms to score, by name [default: all recorded ones, `head` and `merged`]. Arms that the run folder holds from
    /// earlier are still in its report.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    arms: Vec<String>,
    /// Only instances whose id matches; may be repeated. `*` matches anything.
    #[arg(long, short = 'i', value_name = "GLOB")]
    instances: Vec<String>,
    /// Only a slice of the chosen instances, counted from 0: `10:20`, `:5`, `7:`.
    #[arg(long, value_name = "A:B", value_parser = parse_slice)]
    slice: Option<(usize, Option<usize>)>,
    /// Which comments count: `all`, `valid` (with an accepted oracle) or `final` (the benchmark's own choice)
    /// [default: final where there is one, else valid].
    #[arg(long, value_name = "WHICH", value_parser = parse_denominator)]
    denominator: Option<Denominator>,
    /// Verdict policy: `strict` (the default), or `c-crab` to replay that release by its own rule.
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    policy: Option<Policy>,
    /// More revisions (ours or SWE-bench predictions); one with the same key replaces the benchmark's. May be repeated.
    #[arg(long, value_name = "FILE")]
    revisions: Vec<PathBuf>,
    /// Runs of each oracle; repeats that differ are a flaky fail [default: 1].
    #[arg(long, value_name = "N", value_parser = parse_repeat)]
    repeat: Option<u32>,
    /// Run again what is on record.
    #[arg(long)]
    redo: bool,
    /// Run again what is on record with this outcome; may be repeated. `infra` is never on record and always tried again.
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',', value_parser = parse_retry)]
    retry: Vec<String>,
    /// Run only what was never tried: what ended as infra is left as it is, not tried again.
    #[arg(long, conflicts_with_all = ["redo", "retry"])]
    only_missing: bool,
    #[command(flatten)]
    running: RunningOptions,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn parse_slice(text: &str) -> Result<(usize, Option<usize>), String> {
    let bad = || format!("`{text}` is no slice (use `10:20`, `:5`, `7:`)");
    let (start, end) = text.split_once(':').ok_or_else(bad)?;
    let start = if start.is_empty() { 0 } else { start.parse().map_err(|_| bad())? };
    let end = if end.is_empty() { None } else { Some(end.parse().map_err(|_| bad())?) };
    match end {
        Some(end) if end <= start => Err(format!("the slice `{text}` is empty")),
        end => Ok((start, end)),
    }
}

pub(super) fn parse_number(text: &str, most: u32) -> Result<u32, String> {
    let number: Option<u32> = text.trim().parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| format!("`{text}` is no number from 1 to {most}"))
}

fn parse_retry(text: &str) -> Result<String, String> {
    const OUTCOMES: [&str; 7] = ["infra", "timed-out", "out-of-memory", "crashed", "errored", "no-tests", "failed"];
    match text.trim() {
        "timeout" => Ok("timed-out".to_owned()),
        word if OUTCOMES.contains(&word) => Ok(word.to_owned()),
        _ => Err(format!("`{text}` is no outcome to run again (use {}, or `timeout`)", OUTCOMES.join(", "))),
    }
}

pub(super) fn parse_jobs(text: &str) -> Result<u32, String> {
    parse_number(text, 4096)
}

pub(super) fn parse_repeat(text: &str) -> Result<u32, String> {
    parse_number(text, 100)
}

pub(super) fn parse_denominator(text: &str) -> Result<Denominator, String> {
    text.parse().map_err(|_| format!("`{text}` is no denominator (use `all`, `valid` or `final`)"))
}

pub(super) fn parse_policy(text: &str) -> Result<Policy, String> {
    text.parse().map_err(|_| format!("`{text}` is no policy (use `strict` or `c-crab`)"))
}

/// Globs over instance ids, without case.
/// How many things to run at once: what was asked for, else the number of processors.
pub(super) fn jobs(option: Option<u32>, layers: &Layers) -> Result<usize, CliError> {
    let picked = layers.pick(
        option.map(|n| n as usize),
        "REDGREEN_JOBS",
        |t| parse_jobs(t).map(|n| n as usize),
        |f| f.jobs.map(|n| parse_jobs(&n.to_string()).map(|n| n as usize)).transpose(),
        || std::thread::available_parallelism().map_or(1, usize::from),
    )?;
    Ok(picked.value)
}

/// Patterns of instance ids; `None` for all.
pub(super) fn parse_globs(patterns: &[String]) -> Result<Option<globset::GlobSet>, CliError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        let glob = globset::Glob::new(&pattern.to_ascii_lowercase())
            .map_err(|e| CliError::usage(format!("`{pattern}` is no pattern for instance ids")).because(&e))?;
        set.add(glob);
    }
    Ok(Some(set.build().map_err(|e| CliError::usage("the patterns for instance ids are too large").because(&e))?))
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let loaded = common::load_benchmark(&common::absolute(&args.bench)?, &printer)?;
    let revisions = all_revisions(&args, &loaded, &printer)?;
    let frozen = loaded.manifest.frozen.as_deref();
    let denominator = layers
        .pick(
            args.denominator,
            "REDGREEN_DENOMINATOR",
            parse_denominator,
            |f| f.denominator.as_deref().map(parse_denominator).transpose(),
            || if frozen.is_some() { Denominator::Final } else { Denominator::Valid },
        )?
        .value;
    if denominator == Denominator::Final && frozen.is_none() {
        return Err(CliError::usage("this benchmark has no frozen choice of its own")
            .hint("use `--denominator valid` or `all`")
            .into());
    }
    let policy = layers
        .pick(
            args.policy,
            "REDGREEN_POLICY",
            parse_policy,
            |f| f.policy.as_deref().map(parse_policy).transpose(),
            || Policy::Strict,
        )?
        .value;
    let selection = Selection {
        instances: parse_globs(&args.instances)?,
        slice: args.slice,
        arms: (!args.arms.is_empty()).then(|| args.arms.iter().map(|a| Arm::new(a.trim())).collect()),
        denominator,
    };
    let known: Vec<Arm> = loaded.manifest.arms.iter().map(|a| Arm::new(a.as_str())).collect();
    let plan = score::plan(&loaded.instances, &revisions, frozen, &known, &selection);
    if let Some(arm) = plan.unknown_arms.first() {
        return Err(unknown_arm(arm, &known, &revisions).into());
    }
    if plan.instances.is_empty() {
        return Err(nothing_chosen(&loaded, &selection).into());
    }

    let Ready { settings, services, scheduler } = args.running.resolve(&layers, &common::absolute(&args.bench)?)?;
    let settings = score::Settings {
        policy,
        repeat: layers
            .pick(
                args.repeat,
                "REDGREEN_REPEAT",
                parse_repeat,
                |f| f.repeat.map(|n| parse_repeat(&n.to_string())).transpose(),
                || 1,
            )?
            .value,
        redo: args.redo,
        retry: args.retry.clone(),
        only_missing: args.only_missing,
        infra_retries: 2,
        ..settings
    };
    // Only now that everything that was asked for is known to make sense does a folder appear.
    let digest = dataset_digest(&loaded.instances, |test| fs_err::read(loaded.dir.join(test)).ok());
    let parent = Path::new("redgreen-runs");
    let root = match &args.out {
        Some(out) => out.clone(),
        None => {
            let found = if args.new { None } else { find_run(parent, &digest, policy.as_str())? };
            found.unwrap_or_else(|| fresh_folder(parent, &loaded.manifest.name))
        }
    };
    let partly = !args.instances.is_empty() || args.slice.is_some() || !args.arms.is_empty();
    let opening =
        Opening { root: &root, loaded: &loaded, digest: &digest, policy, denominator, cache: &services.cache };
    let run = open_run(&opening, partly, &printer)?;
    printer.note(&format!("run: {}", run.root().display()));
    let (status, _entered) = execute(&printer, &plan, &loaded, settings, scheduler, services, &run)?;
    super::report::show(&printer, &run, Some(denominator), args.json, super::report::Files::UnlessThere)?;
    printer.note(&format!("run: {}", run.root().display()));
    Ok(status)
}

fn all_revisions(args: &Args, loaded: &Benchmark, printer: &Printer) -> Result<Vec<Revision>, CliError> {
    let mut revisions = loaded.revisions.clone();
    for file in &args.revisions {
        for revision in common::read_revisions(file, printer)? {
            match revisions.iter_mut().find(|r| r.same_key(&revision)) {
                Some(old) => *old = revision,
                None => revisions.push(revision),
            }
        }
    }
    Ok(revisions)
}

/// Which of the choices left nothing over.
fn nothing_chosen(loaded: &Benchmark, selection: &Selection) -> CliError {
    let names = || {
        let ids: Vec<&str> = loaded.instances.iter().take(5).map(|i| i.instance_id.as_str()).collect();
        let more = if loaded.instances.len() > ids.len() { ", …" } else { "" };
        format!("its instances are: {}{more}", ids.join(", "))
    };
    let matching =
        |globs: &globset::GlobSet| loaded.instances.iter().filter(|i| globs.is_match(i.instance_id.folded())).count();
    let chosen = selection.instances.as_ref().map_or(loaded.instances.len(), matching);
    if chosen == 0 {
        return CliError::usage("nothing to score: no instance matches `--instances`").hint(names());
    }
    if selection.slice.is_some_and(|(start, _)| start >= chosen) {
        return CliError::usage(format!("nothing to score: `--slice` begins behind the last of {chosen} instances"))
            .hint("slices are counted from 0: `10:20`, `:5`, `7:`");
    }
    let which = selection.denominator.as_str();
    CliError::usage(format!("nothing to score: denominator `{which}` counts no comment of the chosen instances"))
        .hint("use `--denominator all`, or choose other instances")
}

fn unknown_arm(arm: &Arm, known: &[Arm], revisions: &[Revision]) -> CliError {
    let mut names: Vec<&str> = known.iter().chain(revisions.iter().map(|r| &r.arm)).map(Arm::as_str).collect();
    names.extend([Arm::HEAD, Arm::MERGED]);
    names.sort_unstable();
    names.dedup();
    CliError::usage(format!("there is no arm `{arm}`")).hint(format!("the arms are: {}", names.join(", ")))
}

/// A run folder to be opened, and what it is a run of.
pub(super) struct Opening<'a> {
    pub(super) root: &'a Path,
    pub(super) loaded: &'a Benchmark,
    pub(super) digest: &'a crate::model::Digest,
    pub(super) policy: Policy,
    pub(super) denominator: Denominator,
    pub(super) cache: &'a Path,
}

/// Opens a run folder, making it where it is not there. `partly` says that not everything of the benchmark is run.
pub(super) fn open_run(opening: &Opening<'_>, partly: bool, printer: &Printer) -> Result<RunFolder, CliError> {
    let Opening { loaded, digest, policy, denominator, cache, .. } = *opening;
    let root = common::absolute(opening.root)?;
    let of_tests = score::Roster::new(
        &loaded.instances,
        loaded.manifest.frozen.as_deref(),
        &loaded.recorded,
        &loaded.attrition,
        |path| fs_err::read(loaded.dir.join(path)).ok().map(|bytes| crate::model::digest_bytes(&bytes)),
    );
    let roster = serde_json::to_vec(&of_tests).map_err(|e| CliError::infra("could not write JSON").because(&e))?;
    let mut manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now(),
        benchmark: BenchmarkRef {
            name: loaded.manifest.name.clone(),
            path: common::absolute(&loaded.dir)?,
            digest: digest.clone(),
        },
        policy: policy.as_str().to_owned(),
        roster: crate::model::digest_bytes(&roster),
        denominator: denominator.as_str().to_owned(),
        cache: Some(cache.to_owned()),
    };
    let run = RunFolder::create(&root, &manifest).map_err(|e| {
        let full = e.is_disk_full();
        let error = CliError::from(e);
        if full || error.status == Status::Usage {
            error
        } else {
            error.hint("the run folder cannot be written; name another one with `--out`")
        }
    })?;
    let there = run.manifest()?;
    if there.policy != manifest.policy {
        return Err(CliError::usage(format!("`{}` is a run of policy `{}`", root.display(), there.policy))
            .hint("the policy is part of a run: name another folder with `--out`"));
    }
    if there.benchmark.name != manifest.benchmark.name {
        return Err(CliError::usage(format!("`{}` is a run of benchmark `{}`", root.display(), there.benchmark.name))
            .hint("name another folder with `--out`"));
    }
    // A changed test or environment makes a new benchmark digest; records of what did not change still serve.
    if there.benchmark.digest != manifest.benchmark.digest && partly {
        printer.note(
            "note: the benchmark has changed since this folder was scored last; what is not chosen now keeps its earlier verdicts",
        );
    }
    manifest.created = there.created;
    run.put_sound_blob(&roster)?;
    put_tests(&run, &of_tests, &loaded.dir)?;
    run.set_manifest(&manifest)?;
    Ok(run)
}

/// Keeps the tests' sources with the run, so that its report shows them without the benchmark.
fn put_tests(run: &RunFolder, roster: &score::Roster, bench: &Path) -> Result<(), CliError> {
    for test in roster.comments.iter().filter_map(|c| c.test.as_ref()) {
        let Some(source) = &test.source else { continue };
        if run.blob_path(source).exists() {
            continue;
        }
        // One that cannot be read any more is said to be missing when it is to be run.
        if let Ok(bytes) = fs_err::read(bench.join(&test.path)) {
            run.put_blob(&bytes)?;
        }
    }
    Ok(())
}

/// `redgreen-runs/<name>-<n>`, the first number that is free.
pub(super) fn fresh_folder(parent: &Path, name: &str) -> PathBuf {
    let safe = safe_name(name);
    (1..).map(|n| parent.join(format!("{safe}-{n}"))).find(|p| !p.exists()).unwrap_or_else(|| parent.join(safe))
}

/// A benchmark's name as part of a folder's.
pub(super) fn safe_name(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    let safe = safe.trim_start_matches('.');
    if safe.is_empty() { "run".to_owned() } else { safe.to_owned() }
}

/// Runs a plan, with progress on standard error.
pub(super) fn execute(
    printer: &Printer,
    plan: &score::Plan<'_>,
    loaded: &Benchmark,
    settings: score::Settings,
    scheduler: Scheduler,
    services: score::Services,
    run: &RunFolder,
) -> Result<(Status, Entered), CliError> {
    let runtime = super::runtime()?;
    let (events, receiver) = Events::channel();
    let mut reporters: Vec<Box<dyn Reporter>> = vec![Box::new(EventLog::new(run.clone()))];
    if printer.is_terminal() {
        reporters.push(Box::new(TerminalProgress::default()));
    } else {
        reporters.push(Box::new(LineProgress::new(std::io::stderr(), Duration::from_secs(10))));
    }
    let dispatcher = Dispatcher::new(receiver, reporters);
    let result = runtime.block_on(async {
        let watcher = tokio::spawn(super::interrupt::watch(scheduler.clone(), events.clone()));
        let shown = tokio::spawn(dispatcher.run());
        let summary =
            score::score(plan, &loaded.dir, settings, services, scheduler.clone(), events.clone(), run.clone()).await;
        events.send(Event::RunFinished);
        let progress = shown.await.map_err(|e| CliError::infra("the display broke").because(&e))?;
        watcher.abort();
        let summary = summary.map_err(|e| match e {
            score::ScoreError::Store(e) => CliError::from(e),
            e => CliError::infra(e.to_string()),
        })?;
        Ok::<_, CliError>((summary, progress))
    });
    // Work on a file system that does not answer must not hold the program.
    runtime.shutdown_background();
    let ((summary, entered), progress) = result?;
    printer.note(&format!(
        "{} made in {}, {} served from records, {} infra{}",
        counted(summary.made, "oracle run"),
        human_seconds(progress.started.elapsed().as_secs_f64()),
        summary.cached,
        summary.infra,
        if summary.interrupted { "; interrupted: the same command goes on" } else { "" }
    ));
    for (reason, count) in &summary.again {
        printer.note(&format!("  run again, {count}: {reason}"));
    }
    if summary.left > 0 {
        printer.note(&format!(
            "  {} left as infra by `--only-missing`; without it they are tried again",
            counted(summary.left, "row")
        ));
    }
    tell_infra(printer, &summary, run);
    let status = if summary.interrupted {
        Status::Interrupted
    } else if summary.infra + summary.left > 0 {
        Status::Infra
    } else {
        Status::Done
    };
    Ok((status, entered))
}

/// Why rows are infra, where the logs are, and what helps.
pub(super) fn tell_infra(printer: &Printer, summary: &score::Summary, run: &RunFolder) {
    for (cause, count) in &summary.infra_reasons {
        printer.note(&format!("  infra, {}: {}: {}", counted(*count, "row"), cause.class, one_line(&cause.detail)));
        if let Some(log) = &cause.log {
            printer.note(&format!("    log: {}", run.blob_path(log).display()));
        }
    }
    let mut classes: Vec<&str> = summary.infra_reasons.keys().map(|cause| cause.class).collect();
    classes.dedup();
    for class in classes {
        let hint = match class {
            "repository" => "`--mirrors DIR` and `--clone-from URL` name more places for repositories",
            "toolchain" => "`redgreen doctor` tells what is found on this machine, and where it was looked for",
            "sandbox" => "`redgreen doctor` tells what this machine can do",
            "deadline" => {
                "`--phase-timeout`, `--task-budget` and `--run-budget` set the times; the same command goes on"
            }
            "disk" => "free some room, or name another cache with `--cache DIR`; the same command goes on",
            "network" => "without `--offline` and with network `redgreen env build BENCH` fetches everything ahead",
            _ => continue,
        };
        printer.note(&format!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices() {
        assert_eq!(parse_slice("10:20"), Ok((10, Some(20))));
        assert_eq!(parse_slice(":5"), Ok((0, Some(5))));
        assert_eq!(parse_slice("7:"), Ok((7, None)));
        assert!(parse_slice("7").is_err() && parse_slice("5:5").is_err() && parse_slice("x:").is_err());
    }
}
