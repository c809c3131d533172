//! `redgreen filter`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::error::{CliError, Status};
use super::llm::{LlmOptions, failed};
use super::printer::Printer;
use super::{Outcome, common, interrupt, runtime, score};
use crate::engine::{Events, Scheduler};
use crate::llm::{Llm, Sum};
use crate::model::{FilterDecision, FilterRow, Instance, Labels};
use crate::report::{counted, tables};
use crate::stage::filter::{
    self, Asking, Calibration, CommentKey, Filter, Filtered, Half, Open, Rules, Stopping, Summary, Told,
};
use crate::store::bench::{self, Benchmark, Content, WriteMode};
use crate::store::{LineFile, StoreError};

/// Classify comments: which of them can become oracles?
///
/// Rules come first (bots, the author's own words, too short, not on code, declined, withdrawn), then a language model says
/// of each comment whether it is actionable, specific and verifiable, what its concern is, and which kind of oracle could
/// check it. The new benchmark has a row of each comment in `filter.jsonl`, what was dropped in `attrition.jsonl`, and all
/// calls of the model in `llm.jsonl`. Comments in = comments out: kept, dropped, failed, or open, where the network or a
/// budget was in the way.
///
/// Running the same command again asks only what has no row yet, or what changed.
///
/// Example: redgreen filter BENCH --llm record:tape.jsonl --model gpt-4o-mini --out BENCH2
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
    /// Answers for each comment, of which the majority counts [default: 1].
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=25), hide_default_value = true)]
    votes: u32,
    /// Sampling temperature [default: 0 for one answer, 0.7 for several].
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// The most tokens of an answer [default: 600].
    #[arg(long, value_name = "N", default_value_t = 600, hide_default_value = true)]
    max_tokens: u32,
    /// A file with the rules before the model, in place of redgreen's own.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Ask anew also what has a row.
    #[arg(long)]
    redo: bool,
    /// Labels by people (JSON Lines of `instance_id`, `comment` and the labels): only their comments are asked about, and
    /// the filter is held against them: confusion, Cohen's kappa with its interval, precision and recall.
    #[arg(long, value_name = "GOLD")]
    calibrate: Option<PathBuf>,
    /// The half of the labels that counts: `held-out`, or `tune`, the one to look at while a prompt is made [default:
    /// held-out].
    #[arg(long, value_name = "HALF", requires = "calibrate")]
    half: Option<Half>,
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
    let globs = score::parse_globs(&args.instances)?;
    let chosen: Vec<&Instance> = bench
        .instances
        .iter()
        .filter(|one| globs.as_ref().is_none_or(|globs| globs.is_match(one.instance_id.folded())))
        .collect();
    if chosen.is_empty() {
        return Err(CliError::usage("no instance matches `--instances`").into());
    }
    let gold = args.calibrate.as_deref().map(|file| Gold::read(file, args.half, &chosen)).transpose()?;
    let rules = Rules::load(args.rules.as_deref()).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let prompts = args.llm.prompts.load(&layers)?;
    let prompt = prompts.get(filter::PROMPT).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let temperature = args.temperature.or(Some(if args.votes > 1 { 0.7 } else { 0.0 }));
    let asking = Asking { prompt: prompt.clone(), votes: args.votes, temperature, max_tokens: args.max_tokens };

    let opened = args.llm.open(&layers)?;

    // The folder is a benchmark from the beginning, so that what is finished is kept whatever ends the run.
    let mut content = common::copied(&bench)?;
    filter::strip(&mut content);
    let earlier = earlier(&args.out, &bench)?;
    content.filter.clone_from(&earlier);
    write(&args.out, &content)?;
    common::carry_bundles(&args.bench, &args.out)?;
    let llm = opened.with_ledger(&args.out.join(bench::LEDGER), &printer)?;
    let (journal, _) = LineFile::open(&args.out.join(bench::FILTER))?;

    let filter = Filter {
        rules: &rules,
        asking: &asking,
        llm: &llm,
        jobs: args.llm.jobs(),
        only: gold.as_ref().map(|gold| &gold.only),
    };
    let served: &[FilterRow] = if args.redo { &[] } else { &earlier };
    let filtered = work(&filter, &chosen, served, &journal, &printer)?;
    drop(journal);
    // What is open has no row, not even that of another prompt or model.
    content.filter.retain(|row| {
        !filtered.open.iter().any(|open| open.instance_id == row.instance_id && open.comment == row.comment)
    });
    filter::compose(&mut content, &filtered.rows);
    write(&args.out, &content)?;
    settle_ledger(&llm, &bench, filter::STAGE)?;
    let calls = llm.ledger().calls();
    let sum = Sum::of(calls.iter().filter(|call| call.stage == filter::STAGE));
    let calibration = gold.map(|gold| gold.compare(&filtered.rows));
    show(&args, &Summary::of(&filtered, sum), calibration.as_ref(), &llm, &printer)?;
    end(&filtered, &printer)
}

/// People's labels of one half.
struct Gold {
    half: Half,
    labels: BTreeMap<CommentKey, Labels>,
    only: BTreeSet<CommentKey>,
    unknown: usize,
}

impl Gold {
    fn read(file: &Path, half: Option<Half>, chosen: &[&Instance]) -> Result<Self, CliError> {
        let text = fs_err::read_to_string(file).map_err(|e| CliError::usage(e.to_string()))?;
        let (mut labels, errors) = filter::read_gold(&text);
        if let Some(error) = errors.first() {
            return Err(CliError::usage(format!("`{}`, {error}", file.display()))
                .hint("each line has `instance_id`, `comment`, `actionable`, `specific`, `verifiable`, `category` and `oracle`"));
        }
        let half = half.unwrap_or(Half::HeldOut);
        let all = labels.len();
        labels.retain(|(id, comment), _| {
            chosen.iter().any(|instance| instance.instance_id == *id && instance.comment(comment).is_some())
        });
        let only: BTreeSet<CommentKey> = labels.keys().filter(|(id, _)| Half::of(id) == half).cloned().collect();
        if only.is_empty() {
            let half = half.as_str();
            return Err(CliError::usage(format!(
                "no label of `{}` is of a chosen comment in the half `{half}`",
                file.display()
            )));
        }
        let unknown = all - labels.len();
        Ok(Self { half, labels, only, unknown })
    }

    fn compare(&self, rows: &[FilterRow]) -> Calibration {
        filter::calibrate(self.half, &self.labels, self.unknown, rows)
    }
}

/// Rows that are there already: of an earlier run into the same folder, else of the benchmark itself.
fn earlier(out: &Path, bench: &Benchmark) -> Result<Vec<FilterRow>, CliError> {
    if !Benchmark::is_at(out) {
        return Ok(bench.filter.clone());
    }
    let there = Benchmark::load(out).map_err(|e| CliError::usage(e.to_string()).because(&e))?.benchmark;
    let mut rows = bench.filter.clone();
    for row in there.filter {
        rows.retain(|old| (&old.instance_id, &old.comment) != (&row.instance_id, &row.comment));
        rows.push(row);
    }
    Ok(rows)
}

/// Writes it, into a new folder or over a benchmark.
pub(super) fn write(out: &Path, content: &Content) -> Result<(), CliError> {
    bench::write(out, content, WriteMode::Careful).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    Ok(())
}

fn work(
    filter: &Filter<'_>,
    chosen: &[&Instance],
    earlier: &[FilterRow],
    journal: &LineFile,
    printer: &Printer,
) -> Result<Filtered, CliError> {
    let all: usize = chosen.iter().map(|instance| instance.reference_review_comments.len()).sum();
    let total = filter.only.map_or(all, BTreeSet::len);
    let runtime = runtime()?;
    let done: Result<Filtered, StoreError> = runtime.block_on(async {
        let scheduler = Scheduler::new(1);
        let stopping = Stopping { drain: scheduler.drain.clone(), stop: scheduler.stop.clone() };
        // Nobody listens to events here; the first signal is told by the summary.
        let (events, _) = Events::channel();
        let watcher = tokio::spawn(interrupt::watch(scheduler, events));
        let mut ended = 0;
        let tell = |told: Told<'_>| {
            ended += 1;
            if let Some(line) = line(&told) {
                printer.note(&format!("{ended}/{total} {line}"));
            }
        };
        let done = filter.run(chosen, earlier, &stopping, |row| journal.append(row), tell).await;
        watcher.abort();
        done
    });
    runtime.shutdown_background();
    Ok(done?)
}

fn line(told: &Told<'_>) -> Option<String> {
    match told {
        Told::Row(row) => {
            let said = match (row.decision, &row.labels) {
                (FilterDecision::Kept, Some(labels)) => {
                    format!("kept ({}, {})", labels.category.as_str(), labels.oracle.as_str())
                }
                (FilterDecision::Kept, None) => "kept".to_owned(),
                (FilterDecision::Dropped, _) => format!("dropped, {}", row.reason.map_or("unknown", |r| r.as_str())),
                (FilterDecision::Failed, _) => {
                    format!("failed, {}: {}", row.failure.as_deref().unwrap_or("unknown"), row.detail)
                }
            };
            Some(format!("{} {}: {said}", row.instance_id, row.comment))
        }
        Told::Open(Open { error: None, .. }) => None,
        Told::Open(Open { instance_id, comment, error: Some(error) }) => {
            Some(format!("{instance_id} {comment}: open, {error}"))
        }
    }
}

/// Calls of a stage in the order of the dataset, so that equal runs leave equal files.
pub(super) fn settle_ledger(llm: &Llm, bench: &Benchmark, stage: &str) -> Result<(), CliError> {
    let subjects: std::collections::HashMap<String, usize> = bench
        .instances
        .iter()
        .flat_map(|instance| {
            let of_comment = |comment: &crate::model::Comment| format!("{} {}", instance.instance_id, comment.id);
            instance.reference_review_comments.iter().map(of_comment).collect::<Vec<_>>()
        })
        .enumerate()
        .map(|(at, subject)| (subject, at))
        .collect();
    llm.ledger().settle(|call| {
        let ours = call.stage == stage;
        (ours, subjects.get(&call.subject).copied().filter(|_| ours), call.sample, call.turn)
    })?;
    Ok(())
}

fn show(args: &Args, summary: &Summary, calibration: Option<&Calibration>, llm: &Llm, printer: &Printer) -> Outcome {
    if args.json {
        let mut value = json!({"benchmark": args.out, "model": llm.name(), "calibration": calibration});
        if let (Some(value), Ok(serde_json::Value::Object(counts))) =
            (value.as_object_mut(), serde_json::to_value(summary))
        {
            value.extend(counts);
        }
        printer.value(&value)?;
        return Ok(Status::Done);
    }
    let mut text =
        format!("{}: {} of {} kept\n", args.out.display(), summary.kept, counted(summary.comments as u64, "comment"));
    for (title, counts) in [
        ("dropped", &summary.dropped),
        ("failed", &summary.failed),
        ("open", &summary.open),
        ("concerns", &summary.categories),
        ("expected oracles", &summary.oracles),
    ] {
        if !counts.is_empty() {
            let list: Vec<_> = counts.iter().map(|(what, n)| format!("{what} {n}")).collect();
            text.push_str(&format!("{title}: {}\n", list.join(" · ")));
        }
    }
    let calls = &summary.calls;
    if calls.calls > 0 {
        let of_record = if calls.replayed > 0 { format!(" ({} from a record)", calls.replayed) } else { String::new() };
        text.push_str(&format!(
            "{}: {}{of_record}, {} tokens in, {} out, ${:.4}{}\n",
            llm.name(),
            counted(calls.calls, "call"),
            calls.usage.prompt(),
            calls.usage.output,
            calls.usd,
            if calls.unpriced > 0 { format!(", {} without a known price", calls.unpriced) } else { String::new() }
        ));
    }
    text.push_str(&calibration.map(calibrated).unwrap_or_default());
    printer.data(&text)?;
    Ok(Status::Done)
}

/// The filter beside people, for people.
fn calibrated(found: &Calibration) -> String {
    let mut text = format!(
        "\nbeside people's labels, half `{}`: {} labels, {} compared, {} by a rule, {} failed, {} open\n",
        found.half.as_str(),
        found.gold,
        found.compared,
        found.by_rule,
        found.failed,
        found.open
    );
    let number = |n: Option<f64>| n.map_or("-".to_owned(), |n| format!("{n:.2}"));
    for point in &found.points {
        let Some(kappa) = &point.kappa else { continue };
        let interval = kappa.interval.map_or(String::new(), |i| format!(" ({:.2} to {:.2})", i.0, i.1));
        text.push_str(&format!(
            "\n{}: {} of {} agree, kappa {}{interval}\n",
            point.point,
            (kappa.observed * kappa.n as f64).round(),
            kappa.n,
            number(kappa.kappa)
        ));
        let used = |at: usize| point.per_class[at].gold + point.per_class[at].chosen > 0;
        let classes: Vec<usize> = (0..point.per_class.len()).filter(|at| used(*at)).collect();
        let names: Vec<&str> = classes.iter().map(|at| point.confusion.classes[*at].as_str()).collect();
        let header: Vec<&str> =
            ["people \\ filter"].into_iter().chain(names.iter().copied()).chain(["precision", "recall"]).collect();
        let rows = classes.iter().map(|at| {
            let score = &point.per_class[*at];
            let counts = classes.iter().map(|other| point.confusion.matrix[*at][*other].to_string());
            [score.class.clone()]
                .into_iter()
                .chain(counts)
                .chain([number(score.precision), number(score.recall)])
                .collect()
        });
        text.push_str(&tables::plain(&header, rows.collect()));
    }
    text
}

fn end(filtered: &Filtered, printer: &Printer) -> Outcome {
    if filtered.interrupted {
        printer.note("interrupted: what was finished is kept, the same command goes on");
        return Ok(Status::Interrupted);
    }
    if let Some(error) = &filtered.stopped {
        return Err(failed(error).into());
    }
    Ok(if filtered.open.is_empty() { Status::Done } else { Status::Infra })
}
