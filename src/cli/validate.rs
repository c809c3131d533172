//! `redgreen validate`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::error::{CliError, Status};
use super::filter::write;
use super::llm::PromptOption;
use super::printer::Printer;
use super::running::{Ready, RunningOptions};
use super::settings::parse_seconds;
use super::synth::{chosen, run_folder};
use super::{Outcome, common, interrupt, runtime};
use crate::agent::{Agent, AgentStatus, CommandAgent, RecordedAgent};
use crate::engine::Events;
use crate::model::{Arm, Revision, ValidationRow};
use crate::report::{counted, one_line, tables};
use crate::sandbox::Limits;
use crate::stage::score::Services;
use crate::stage::validate::{self, Summary, Told, Validate, Validated};
use crate::store::bench::Benchmark;

/// Can coding agents solve the comments from their words? Several attempts each, scored by the oracles.
///
/// For each comment that has an oracle each agent makes some attempts. It sees the comment, the pull request and a checkout
/// that was looked through for anything later than the commit to review; never the oracle or the merged change. Its patch is
/// scored by the comment's oracle under policy `strict`. An agent that broke or ran out of time gave no answer and is
/// counted apart. Comments stay in the benchmark either way; the new one has a row of each attempt in `validate.jsonl`.
///
/// Agents: `command:PROGRAM`, a line of shell that is run in the sandbox without network, with the tree as the current
/// directory (`{repo}`) and what it is told in `{prompt_file}`; `recorded:FILE`, revisions (ours or SWE-bench predictions);
/// `recorded:ARM`, the benchmark's own revisions of an arm, as `recorded:human`. `NAME=` before it gives it a name.
///
/// Example: redgreen validate BENCH --agent recorded:human --attempts 1 --out BENCH2
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The benchmark folder to write; it may be the same.
    #[arg(long, value_name = "BENCH2")]
    out: PathBuf,
    /// An agent: `command:PROGRAM`, `recorded:FILE` or `recorded:ARM`; may be repeated.
    #[arg(long, value_name = "AGENT", required = true)]
    agent: Vec<String>,
    /// Attempts by each agent at each comment [default: 3].
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), hide_default_value = true)]
    attempts: u32,
    /// Only instances whose id matches; may be repeated. Others come through as they are.
    #[arg(long, short = 'i', value_name = "GLOB")]
    instances: Vec<String>,
    /// Seconds for one attempt of an agent [default: 600].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    agent_timeout: Option<Duration>,
    /// Ask agents again whose work is on record.
    #[arg(long)]
    redo: bool,
    #[command(flatten)]
    running: RunningOptions,
    #[command(flatten)]
    prompts: PromptOption,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let folder = common::absolute(&args.bench)?;
    let bench = common::load_benchmark(&folder, &printer)?;
    let instances = chosen(&bench, &args.instances)?;
    let prompts = args.prompts.load(&layers)?;
    let prompt = prompts.get(validate::PROMPT).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let Ready { mut settings, services, scheduler } = args.running.resolve(&layers, &folder)?;
    settings.redo = args.redo;
    let limits = Limits { wall: args.agent_timeout.unwrap_or(Duration::from_secs(600)), ..settings.limits.clone() };
    let agents = agents(&args.agent, &bench, &services, &limits, &printer)?;

    let mut content = common::copied(&bench)?;
    if Benchmark::is_at(&args.out) {
        content.validate = earlier(&args.out, &bench)?;
    }
    write(&args.out, &content)?;
    common::carry_bundles(&args.bench, &args.out)?;
    common::carry_ledger(&args.bench, &args.out)?;
    let run = run_folder(&args.out, validate::STAGE, &bench, &services.cache)?;
    let stage = Validate {
        agents: &agents,
        attempts: args.attempts,
        prompt,
        services: &services,
        settings: &settings,
        scheduler: &scheduler,
        run: &run,
        redo: args.redo,
    };
    let runtime = runtime()?;
    let validated = runtime.block_on(async {
        // Nobody listens to events here; what is told is told by attempts.
        let (events, _) = Events::channel();
        let watcher = tokio::spawn(interrupt::watch(scheduler.clone(), events.clone()));
        let tell = |told: Told<'_>| printer.note(&line(&told));
        let validated = stage.run(&instances, &folder, events, &tell).await;
        watcher.abort();
        validated
    });
    runtime.shutdown_background();
    let validated = validated.map_err(|e| match e {
        validate::ValidateError::Store(e) => CliError::from(e),
        e @ validate::ValidateError::Score(_) => CliError::infra(e.to_string()),
    })?;
    validate::compose(&mut content, &validated.rows);
    write(&args.out, &content)?;
    show(&args, &agents, &Summary::of(&validated), &printer)?;
    end(&validated, &printer)
}

/// Rows that are there already: those of the folder before those of the benchmark.
fn earlier(out: &Path, bench: &Benchmark) -> Result<Vec<ValidationRow>, CliError> {
    let there = Benchmark::load(out).map_err(|e| CliError::usage(e.to_string()).because(&e))?.benchmark.validate;
    let is_there = |row: &&ValidationRow| {
        let of_one = |other: &ValidationRow| {
            (&other.instance_id, &other.comment, &other.agent) == (&row.instance_id, &row.comment, &row.agent)
        };
        there.iter().any(of_one)
    };
    let mut rows: Vec<ValidationRow> = bench.validate.iter().filter(|row| !is_there(row)).cloned().collect();
    rows.extend(there);
    Ok(rows)
}

fn agents(
    specs: &[String],
    bench: &Benchmark,
    services: &Services,
    limits: &Limits,
    printer: &Printer,
) -> Result<Vec<Arc<dyn Agent>>, CliError> {
    let mut agents: Vec<Arc<dyn Agent>> = Vec::new();
    for spec in specs {
        let agent = agent(spec, bench, services, limits, printer)?;
        if agents.iter().any(|other| other.name() == agent.name()) {
            return Err(CliError::usage(format!("two agents have the name `{}`", agent.name()))
                .hint("`--agent NAME=command:…` gives one a name"));
        }
        agents.push(agent);
    }
    Ok(agents)
}

fn agent(
    spec: &str,
    bench: &Benchmark,
    services: &Services,
    limits: &Limits,
    printer: &Printer,
) -> Result<Arc<dyn Agent>, CliError> {
    let (name, what) = match spec.split_once('=') {
        Some((name, what)) if !name.contains(':') && !name.is_empty() => (Some(name), what),
        _ => (None, spec),
    };
    let stem = |text: &str| {
        Path::new(text).file_stem().map_or_else(|| text.to_owned(), |stem| stem.to_string_lossy().into_owned())
    };
    match what.split_once(':') {
        Some(("command", command)) if !command.trim().is_empty() => {
            let command = command.trim();
            let first = command.split_whitespace().next().unwrap_or_default();
            let own = common::absolute(Path::new(first))?;
            // A program of the current folder is found by its whole path inside.
            let line = if first.contains('/') && own.is_file() {
                format!("{}{}", own.display(), &command[first.len()..])
            } else {
                command.to_owned()
            };
            let name = name.map_or_else(|| stem(first), str::to_owned);
            let (sandbox, scratch) = (services.sandbox.clone(), services.scratch.path().to_owned());
            Ok(Arc::new(CommandAgent::new(&name, &line, sandbox, scratch, limits.clone())))
        }
        Some(("recorded", from)) if !from.is_empty() => {
            let file = Path::new(from);
            let revisions: Vec<Revision> = if file.is_file() {
                common::read_revisions(file, printer)?
            } else {
                let arm = Arm::new(from);
                bench.revisions.iter().filter(|one| one.arm == arm).cloned().collect()
            };
            if revisions.is_empty() {
                return Err(CliError::usage(format!("there are no revisions in `{from}`"))
                    .hint("name a file of revisions, or an arm of the benchmark's own"));
            }
            let name = name.map_or_else(|| stem(from), str::to_owned);
            Ok(Arc::new(RecordedAgent::new(&name, revisions)))
        }
        _ => Err(CliError::usage(format!("`{spec}` is no agent"))
            .hint("use `command:PROGRAM`, `recorded:FILE` or `recorded:ARM`")),
    }
}

fn line(told: &Told<'_>) -> String {
    match told {
        Told::Scoring(count) => format!("scoring {}", counted(*count as u64, "patch")),
        Told::Attempt { instance, comment, agent, attempt, ended } => {
            let how = match ended {
                Ok(AgentStatus::Done) => "a patch".to_owned(),
                Ok(AgentStatus::NoChanges) => "no changes".to_owned(),
                Ok(AgentStatus::Failed(why)) => format!("failed: {}", one_line(why)),
                Ok(AgentStatus::TimedOut) => "its time was over".to_owned(),
                Ok(AgentStatus::NoAttempt) => "no attempt on record".to_owned(),
                Err(error) => format!("open: {}", one_line(&error.to_string())),
            };
            format!("{instance} {comment}, {agent}, attempt {attempt}: {how}")
        }
    }
}

fn show(args: &Args, agents: &[Arc<dyn Agent>], summary: &Summary, printer: &Printer) -> Outcome {
    let names: Vec<&str> = agents.iter().map(|agent| agent.name()).collect();
    if args.json {
        let mut value = json!({"benchmark": args.out, "agents": names});
        if let (Some(value), Ok(serde_json::Value::Object(counts))) =
            (value.as_object_mut(), serde_json::to_value(summary))
        {
            value.extend(counts);
        }
        printer.value(&value)?;
        return Ok(Status::Done);
    }
    let asked = summary.comments - summary.left;
    let mut text = format!(
        "{}: {} of {} with an oracle solved at least once by {}; {} never, {} without an answer, {} open\n",
        args.out.display(),
        summary.solvable,
        counted(asked as u64, "comment"),
        names.join(", "),
        summary.unsolved,
        summary.unanswered,
        summary.open
    );
    let rows = summary.solved.iter().map(|one| {
        let rate = one.rate.map_or("-".to_owned(), |rate| format!("{:.0} %", 100.0 * rate));
        let interval = one.interval.map_or("-".to_owned(), |i| format!("{:.0} to {:.0} %", 100.0 * i.0, 100.0 * i.1));
        let answers = format!("{}/{}", one.solved, one.answers);
        vec![one.instance_id.to_string(), one.comment.to_string(), answers, rate, interval, one.attempts.to_string()]
    });
    text.push_str(&tables::plain(
        &["instance", "comment", "solved", "rate", "95 % interval", "attempts"],
        rows.collect(),
    ));
    printer.data(&text)?;
    Ok(Status::Done)
}

fn end(validated: &Validated, printer: &Printer) -> Outcome {
    for open in validated.open.iter().take(20) {
        let (id, comment, agent) = (&open.instance_id, &open.comment, &open.agent);
        printer.note(&format!(
            "{id} {comment}, {agent}, attempt {}: open, {}: {}",
            open.attempt,
            open.why,
            one_line(&open.detail)
        ));
    }
    if validated.interrupted {
        printer.note("interrupted: what was finished is kept, the same command goes on");
        return Ok(Status::Interrupted);
    }
    Ok(if validated.open.is_empty() { Status::Done } else { Status::Infra })
}
