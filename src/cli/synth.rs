//! `redgreen synth`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::error::{CliError, Status};
use super::filter::{settle_ledger, write};
use super::llm::{LlmOptions, failed};
use super::printer::Printer;
use super::running::{Ready, RunningOptions};
use super::{Outcome, common, interrupt, runtime, score};
use crate::engine::Events;
use crate::llm::Sum;
use crate::model::{CommentId, Digest, Instance, InstanceId, SynthRow, digest_bytes};
use crate::oracle::Policy;
use crate::report::{counted, one_line, tables};
use crate::stage::score::Trials;
use crate::stage::synth::{self, Asking, CommentEnd, Done, Kit, Open, See, Summary, Synth, Told};
use crate::store::bench::{self, Benchmark};
use crate::store::{BenchmarkRef, LineFile, MANIFEST_SCHEMA, RunFolder, RunManifest, StoreError};

/// Turn comments into tests: a language model writes them, and what fails before and passes after is kept.
///
/// For each comment that the filter kept (without its labels: each comment) the model writes a test, static checks look at
/// it, and it is run at the commit to review and at the merged commit in fresh sandboxes, as `score` would run it. What
/// really happened goes back to the model, for a few attempts. A test is accepted when every run before fails by an
/// assertion and every run after passes. The new benchmark has the accepted tests as oracles, every attempt with its
/// evidence in `synth.jsonl`, and a typed reason in `attrition.jsonl` for each comment without a test.
///
/// Running the same command again goes on where it stopped; a changed prompt, model, environment or comment asks again
/// exactly what depends on it.
///
/// Example: redgreen synth BENCH --llm record:tape.jsonl --model gpt-4o --out BENCH2
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The benchmark folder to write; it may be the same.
    #[arg(long, value_name = "BENCH2")]
    out: PathBuf,
    /// Only instances whose id matches; may be repeated. Others come through as they are.
    #[arg(long, short = 'i', value_name = "GLOB")]
    instances: Vec<String>,
    /// When the model is shown how the authors changed the commented file afterwards: `before`, never; `later`, from the
    /// second attempt on; `after`, from the first [default: later].
    #[arg(long, value_name = "WHEN")]
    see: Option<See>,
    /// Attempts for each comment [default: 3].
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20), hide_default_value = true)]
    attempts: u32,
    /// Runs on each commit that an accepted test must have [default: 3].
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), hide_default_value = true)]
    repeat: u32,
    /// Sampling temperature [default: 0].
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// The most tokens of an answer [default: 4000].
    #[arg(long, value_name = "N", default_value_t = 4000, hide_default_value = true)]
    max_tokens: u32,
    /// A file with frameworks, static rules and patterns, in place of redgreen's own (`templates/synth.toml`).
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Ask anew also what has a row.
    #[arg(long)]
    redo: bool,
    #[command(flatten)]
    running: RunningOptions,
    #[command(flatten)]
    llm: LlmOptions,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let bench = common::load_benchmark(&args.bench, &printer)?;
    let chosen = chosen(&bench, &args.instances)?;
    let kit = Kit::load(args.rules.as_deref()).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let prompts = args.llm.prompts.load(&layers)?;
    let prompt = |name| prompts.get(name).cloned().map_err(|e| CliError::usage(e.to_string()).because(&e));
    let asking = Asking {
        prompt: prompt(synth::PROMPT)?,
        again: prompt(synth::AGAIN)?,
        see: args.see.unwrap_or_default(),
        attempts: args.attempts,
        temperature: args.temperature.or(Some(0.0)),
        max_tokens: args.max_tokens,
    };
    let Ready { mut settings, services, scheduler } = args.running.resolve(&layers, &common::absolute(&args.bench)?)?;

    settings.redo = args.redo;

    // Whatever is wrong with its settings is said before anything is written.
    let opened = args.llm.open(&layers)?;
    // The folder is a benchmark from the beginning, so that what is finished is kept whatever ends the run.
    let mut content = common::copied(&bench)?;
    let earlier = earlier(&args.out, &bench)?;
    content.synth.clone_from(&earlier);
    synth::compose(&mut content, &kit, &[], &[]);
    write(&args.out, &content)?;
    common::carry_bundles(&args.bench, &args.out)?;
    let llm = opened.with_ledger(&args.out.join(bench::LEDGER), &printer)?;
    let (journal, _) = LineFile::open(&args.out.join(bench::SYNTH))?;
    let run = run_folder(&args.out, synth::STAGE, &bench, &services.cache)?;
    let tests = tempfile::Builder::new().prefix("synth-").tempdir_in(services.scratch.path());
    let tests = tests.map_err(|e| CliError::infra("the cache folder cannot be written").because(&e))?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(tests.path(), open)
        .map_err(|e| CliError::infra("the cache folder cannot be written").because(&e))?;
    // Nobody listens to events here; what is told is told by attempts.
    let (events, _) = Events::channel();
    let trials = Trials::new(tests.path().to_owned(), settings, services, scheduler.clone(), events.clone(), run);
    let stage = Synth {
        kit: &kit,
        asking: &asking,
        llm: &llm,
        trials: &trials,
        scheduler: &scheduler,
        closing: CancellationToken::new(),
        repeat: args.repeat,
        jobs: args.llm.jobs(),
    };
    let served: &[SynthRow] = if args.redo { &[] } else { &earlier };
    let done = work(&stage, &chosen, &bench, served, &journal, events, &printer)?;
    drop(journal);
    let undecided: Vec<(InstanceId, CommentId)> = done
        .comments
        .iter()
        .filter(|(_, _, end)| matches!(end, CommentEnd::Open(_)))
        .map(|(a, b, _)| (a.clone(), b.clone()))
        .collect();
    synth::compose(&mut content, &kit, &done.rows, &undecided);
    write(&args.out, &content)?;
    settle_ledger(&llm, &bench, synth::STAGE)?;
    let calls = llm.ledger().calls();
    let summary = Summary::of(&done, Sum::of(calls.iter().filter(|call| call.stage == synth::STAGE)));
    show(&args, &summary, llm.name(), &printer)?;
    end(&done, &printer)
}

/// The instances whose ids match.
pub(super) fn chosen<'a>(bench: &'a Benchmark, patterns: &[String]) -> Result<Vec<&'a Instance>, CliError> {
    let globs = score::parse_globs(patterns)?;
    let matches = |one: &&Instance| globs.as_ref().is_none_or(|globs| globs.is_match(one.instance_id.folded()));
    let chosen: Vec<&Instance> = bench.instances.iter().filter(matches).collect();
    if chosen.is_empty() {
        return Err(CliError::usage("no instance matches `--instances`"));
    }
    Ok(chosen)
}

/// Rows that are there already: of an earlier run into the same folder, else of the benchmark itself.
fn earlier(out: &Path, bench: &Benchmark) -> Result<Vec<SynthRow>, CliError> {
    if !Benchmark::is_at(out) {
        return Ok(bench.synth.clone());
    }
    let there = Benchmark::load(out).map_err(|e| CliError::usage(e.to_string()).because(&e))?.benchmark;
    let is_of =
        |row: &SynthRow, other: &SynthRow| (&row.instance_id, &row.comment) == (&other.instance_id, &other.comment);
    let mut rows = bench.synth.clone();
    rows.retain(|row| !there.synth.iter().any(|other| is_of(row, other)));
    // A run that was killed may have left an attempt twice, the newer one last.
    for row in there.synth {
        rows.retain(|old| !(is_of(old, &row) && old.attempt == row.attempt));
        rows.push(row);
    }
    Ok(rows)
}

/// The run folder of a stage in a benchmark's folder: records and logs of what it ran.
pub(super) fn run_folder(out: &Path, stage: &str, bench: &Benchmark, cache: &Path) -> Result<RunFolder, CliError> {
    let roster = crate::stage::score::Roster::new(
        &bench.instances,
        bench.manifest.frozen.as_deref(),
        &bench.recorded,
        &bench.attrition,
        |path| fs_err::read(bench.dir.join(path)).ok().map(|bytes| digest_bytes(&bytes)),
    );
    let roster = serde_json::to_vec(&roster).map_err(|e| CliError::infra("could not write JSON").because(&e))?;
    let digest: Digest = bench.digest.clone();
    let manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now(),
        benchmark: BenchmarkRef { name: bench.manifest.name.clone(), path: common::absolute(&bench.dir)?, digest },
        policy: Policy::Strict.as_str().to_owned(),
        roster: digest_bytes(&roster),
        denominator: "all".to_owned(),
        cache: Some(cache.to_owned()),
    };
    let run = RunFolder::create(&common::absolute(&out.join("runs").join(stage))?, &manifest)?;
    run.put_sound_blob(&roster)?;
    Ok(run)
}

fn work(
    stage: &Synth<'_>,
    chosen: &[&Instance],
    bench: &Benchmark,
    earlier: &[SynthRow],
    journal: &LineFile,
    events: Events,
    printer: &Printer,
) -> Result<Done, CliError> {
    let total: usize = chosen.iter().map(|instance| instance.reference_review_comments.len()).sum();
    let runtime = runtime()?;
    let done: Result<Done, StoreError> = runtime.block_on(async {
        let watcher = tokio::spawn(interrupt::watch(stage.scheduler.clone(), events));
        let ended = AtomicUsize::new(0);
        let tell = |told: Told<'_>| {
            let is_end = match &told {
                Told::Row(row) => !row.again || row.attempt == stage.asking.attempts,
                Told::Open(_) => true,
            };
            let count = ended.fetch_add(usize::from(is_end), Ordering::Relaxed) + usize::from(is_end);
            printer.note(&format!("{count}/{total} {}", line(&told)));
        };
        let save = |row: &SynthRow| journal.append(row);
        let done = stage.run(chosen, &bench.filter, earlier, &save, &tell).await;
        watcher.abort();
        done
    });
    runtime.shutdown_background();
    Ok(done?)
}

fn line(told: &Told<'_>) -> String {
    match told {
        Told::Row(row) => {
            let what = match (&row.answer, row.reason) {
                (Some(answer), None) => format!("accepted ({})", answer.kind.as_str()),
                (_, Some(reason)) => format!("{reason}: {}", one_line(&row.detail)),
                (None, None) => "accepted".to_owned(),
            };
            format!("{} {}, attempt {}: {what}", row.instance_id, row.comment, row.attempt)
        }
        Told::Open(Open { instance_id, comment, why, detail, .. }) => {
            format!("{instance_id} {comment}: open, {why}: {}", one_line(detail))
        }
    }
}

fn show(args: &Args, summary: &Summary, model: &str, printer: &Printer) -> Outcome {
    if args.json {
        let mut value = json!({"benchmark": args.out, "model": model, "see": args.see.unwrap_or_default()});
        if let (Some(value), Ok(serde_json::Value::Object(counts))) =
            (value.as_object_mut(), serde_json::to_value(summary))
        {
            value.extend(counts);
        }
        printer.value(&value)?;
        return Ok(Status::Done);
    }
    let comments = counted(summary.comments as u64, "comment");
    let mut text = format!("{}: {} of {comments} with a test now\n", args.out.display(), summary.accepted);
    let mut rows = Vec::new();
    for (title, counts) in [("rejected", &summary.rejected), ("open", &summary.open), ("left", &summary.left)] {
        rows.extend(counts.iter().map(|(why, n)| vec![title.to_owned(), why.clone(), n.to_string()]));
    }
    rows.extend(summary.kinds.iter().map(|(kind, n)| vec!["accepted".to_owned(), kind.clone(), n.to_string()]));
    if !rows.is_empty() {
        text.push_str(&tables::plain(&["comments", "why or kind", "count"], rows));
    }
    text.push_str(&format!(
        "{}, {} of them made before; {} of the accepted tests by a model that was shown the merged change\n",
        counted(summary.attempts as u64, "attempt"),
        summary.served,
        summary.saw_merged
    ));
    let calls = &summary.calls;
    if calls.calls > 0 {
        text.push_str(&format!(
            "{model}: {} ({} from a record), {} tokens in, {} out, ${:.4}\n",
            counted(calls.calls, "call"),
            calls.replayed,
            calls.usage.prompt(),
            calls.usage.output,
            calls.usd
        ));
    }
    printer.data(&text)?;
    Ok(Status::Done)
}

fn end(done: &Done, printer: &Printer) -> Outcome {
    if done.interrupted {
        printer.note("interrupted: what was finished is kept, the same command goes on");
        return Ok(Status::Interrupted);
    }
    if let Some(error) = &done.stopped {
        return Err(failed(error).into());
    }
    let open = done.comments.iter().any(|(_, _, end)| matches!(end, CommentEnd::Open(_)));
    Ok(if open { Status::Infra } else { Status::Done })
}
