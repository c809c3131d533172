//! `redgreen rerun`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::Outcome;
use super::bounds::PhaseOption;
use super::common::{self, CacheOption, RepositoryOptions};
use super::error::{CliError, Status};
use super::printer::Printer;
use super::settings::{parse_seconds, parse_size};
use super::terminal::Terminal;
use crate::engine::{Event, Events, Scheduler};
use crate::model::{Digest, Revision, RevisionStatus};
use crate::oracle::Policy;
use crate::report::{counted, rerun as text};
use crate::sandbox::{Exit, Task};
use crate::stage::score::{
    self, Again, AgainError, Found, Means, ORACLE_VARIABLE, OpenSeat, OracleRecord, Row, RowState, STAGE, Which,
};
use crate::store::bench::Benchmark;
use crate::store::{RunFolder, RunManifest, newest_run};

/// Repeat one oracle run of a run folder in a fresh sandbox, and compare it with what is on record.
///
/// What is to be repeated is named by the key of a record, of which the first characters are enough where they are
/// unique, or by instance, comment and arm (`ARM:2` for the second attempt). The patch, the limits and the expected
/// tests are those of the record; where an input cannot be had as it was any more, it is named. The run folder is not
/// changed, unless `--record` is given. Exit code 0 whatever comes out, 3 when it could not be run.
///
/// Example: redgreen rerun lantern-example__rotate-6 c1 owl-review --run redgreen-runs/quickstart-1
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The key of a record, or instance, comment and arm.
    #[arg(value_name = "KEY | INSTANCE COMMENT ARM[:ATTEMPT]", required = true, num_args = 1..=3)]
    what: Vec<String>,
    /// The run folder [default: the newest one in `redgreen-runs`].
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// The benchmark folder [default: the one that the run was made of].
    #[arg(long, value_name = "BENCH")]
    bench: Option<PathBuf>,
    /// Which of a row's repeats, from 1 [default: the one that decided the verdict].
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Sit down in the workspace: a shell in the sandbox, with the test in place and the oracle's command in
    /// `$REDGREEN_ORACLE`. Nothing that is written there is kept.
    #[arg(long, conflicts_with_all = ["record", "json"])]
    shell: bool,
    /// Put the new result on record in the old one's place.
    #[arg(long)]
    record: bool,
    /// Seconds for the run [default: as recorded].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Memory for the run, as `512M` or `4G` [default: as recorded].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    #[command(flatten)]
    phases: PhaseOption,
    /// Where to run: `local` (the default), `docker` or `none` (no isolation; for root, and only when typed).
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
    repositories: RepositoryOptions,
    #[command(flatten)]
    cache: CacheOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let run = open(args.run.as_deref())?;
    let manifest = run.manifest()?;
    let rows: Vec<Row> = run.rows()?;
    let typed = args.what.join(" ");
    let words: Vec<&str> = typed.split_whitespace().collect();
    let found = score::find_row(&rows, &words).map_err(|e| {
        CliError::usage(e.to_string())
            .hint("`redgreen report RUN --json` lists instance, comment, arm, attempt and key of every verdict")
    })?;
    let (old, repeat) = recorded(&run, &found, args.repeat)?;
    let bench = common::absolute(args.bench.as_deref().unwrap_or(&manifest.benchmark.path))?;
    let loaded = common::load_benchmark(&bench, &printer)?;
    let policy: Policy =
        manifest.policy.parse().map_err(|_| CliError::usage(format!("no policy `{}`", manifest.policy)))?;
    let which = which(&run, &rows, &found, &loaded, bench.clone(), old.clone(), repeat)?;
    let means = means(&args, &run, &manifest, &bench, policy, old.as_ref())?;
    let terminal = Terminal::default();
    let result = execute(which, means, seat(&args, &found.row, &terminal), args.record, &printer);
    terminal.close();
    let again = result?;
    show(&args, &printer, &run, &found.row, repeat, old.as_ref(), &again)
}

/// The run folder that was named, or the newest one.
fn open(named: Option<&Path>) -> Result<RunFolder, CliError> {
    let parent = Path::new("redgreen-runs");
    let root = match named {
        Some(root) => root.to_owned(),
        None => newest_run(parent)?.ok_or_else(|| {
            CliError::usage("there is no run folder in `redgreen-runs`").hint("name one with `--run RUN`")
        })?,
    };
    Ok(RunFolder::open(&root)?)
}

/// The record of the run that is meant, and its number among the repeats.
fn recorded(run: &RunFolder, found: &Found, asked: Option<usize>) -> Result<(Option<OracleRecord>, u32), CliError> {
    let keys: &[Digest] = match &found.row.state {
        RowState::Runs { with_head_configuration, .. } if found.with_head_configuration => with_head_configuration,
        RowState::Runs { keys, .. } => keys,
        RowState::NoOracle => return Err(CliError::usage("nothing to run: the comment has no accepted oracle")),
        RowState::Missing => return Err(CliError::usage("nothing to run: the arm has no revision for the instance")),
        _ => &[],
    };
    let records = keys.iter().map(|key| run.record(STAGE, key)).collect::<Result<Vec<Option<OracleRecord>>, _>>()?;
    let telling = records.iter().position(|r| r.as_ref().is_some_and(|r| r.outcome != crate::model::Outcome::Passed));
    let index = match asked {
        Some(0) => return Err(CliError::usage("repeats are counted from 1")),
        Some(number) if !keys.is_empty() && number > keys.len() => {
            return Err(CliError::usage(format!("the row has {}", counted(keys.len() as u64, "run"))));
        }
        Some(number) => number - 1,
        None => found.index.or(telling).unwrap_or(0),
    };
    let repeat = u32::try_from(index + 1).map_err(|_| CliError::usage("there are not so many repeats"))?;
    Ok((records.into_iter().nth(index).flatten(), repeat))
}

/// Everything that the run is made of: the test from the benchmark, patch and expected tests from the run folder.
fn which(
    run: &RunFolder,
    rows: &[Row],
    found: &Found,
    loaded: &Benchmark,
    bench_root: PathBuf,
    old: Option<OracleRecord>,
    repeat: u32,
) -> Result<Which, CliError> {
    let row = &found.row;
    let gone = |what: String| {
        CliError::usage(format!("the benchmark `{}` has no {what} any more", bench_root.display()))
            .hint("name the benchmark that the run was made of with `--bench`")
    };
    let instance = loaded.instances.iter().find(|i| i.instance_id.folded() == row.instance_id.folded());
    let instance = instance.ok_or_else(|| gone(format!("instance `{}`", row.instance_id)))?;
    if instance.oracle(&row.comment).is_none() {
        return Err(gone(format!("oracle for comment {} of `{}`", row.comment, row.instance_id)));
    }
    let expected = match &old {
        Some(old) => serde_json::from_value(old.inputs["expected"].clone()).unwrap_or_default(),
        None => expected_tests(run, rows, row)?,
    };
    let revision = match &row.patch {
        None => None,
        Some(patch) => Some(Revision {
            instance_id: row.instance_id.clone(),
            arm: row.arm.clone(),
            agent: row.agent.clone(),
            model: row.model.clone(),
            attempt: row.attempt,
            patch: String::from_utf8(run.blob(patch)?)
                .map_err(|_| CliError::usage("the kept patch is no text; score again"))?,
            status: RevisionStatus::Unknown,
            usage: Value::Null,
            trajectory: Value::Null,
            extra: Default::default(),
        }),
    };
    let laid_over = old.as_ref().map(|old| old.inputs["head_configuration"].clone()).unwrap_or_default();
    Ok(Which {
        with_head_versions_of: serde_json::from_value(laid_over).unwrap_or_default(),
        bench_root,
        instance: instance.clone(),
        comment: row.comment.clone(),
        arm: row.arm.clone(),
        revision,
        repeat,
        expected,
        old,
    })
}

/// The tests that the `merged` control's record shows.
fn expected_tests(run: &RunFolder, rows: &[Row], row: &Row) -> Result<Option<Vec<crate::oracle::TestId>>, CliError> {
    let control = rows.iter().find(|r| {
        r.arm.as_str() == crate::model::Arm::MERGED
            && r.comment == row.comment
            && r.instance_id.folded() == row.instance_id.folded()
    });
    let keys = control.map(Row::keys).unwrap_or_default();
    if row.arm.as_str() == crate::model::Arm::MERGED {
        return Ok(None);
    }
    for key in keys {
        if let Some(record) = run.record::<OracleRecord>(STAGE, key)?
            && record.outcome == crate::model::Outcome::Passed
        {
            return Ok(Some(record.passed));
        }
    }
    Ok(None)
}

fn means(
    args: &Args,
    run: &RunFolder,
    manifest: &RunManifest,
    bench: &Path,
    policy: Policy,
    old: Option<&OracleRecord>,
) -> Result<Means, CliError> {
    let layers = common::layers()?;
    let mut settings = score::Settings { policy, ..score::Settings::default() };
    settings.bounds.phases = args.phases.resolve(&layers)?;
    if let Some(old) = old {
        settings.set_recorded_limits(&old.inputs);
    }
    settings.limits.wall = args.timeout.unwrap_or(settings.limits.wall);
    settings.limits.memory = args.memory.unwrap_or(settings.limits.memory);
    let phases = settings.bounds.phases;
    let cache = args.cache.or(manifest.cache.as_deref());
    let mut services =
        common::services(&layers, &cache, &args.repositories, &args.definitions, args.sandbox.clone(), &phases, bench)?;
    common::settle_environments(&mut services, &layers, args.overrides.as_deref(), args.as_of_commit)?;
    let (events, mut receiver) = Events::channel();
    // Only what is being made is of interest here.
    std::thread::spawn(move || {
        while let Some(event) = receiver.blocking_recv() {
            match event {
                Event::Preparing { step, .. } => Printer.note(&format!("preparing: {step}")),
                Event::TaskRetried { reason, .. } => Printer.note(&format!("trying again after {reason}")),
                _ => {}
            }
        }
    });
    Ok(Means { settings, services, scheduler: Scheduler::new(1), events, run: run.clone() })
}

/// Says where one is, then opens the terminal.
fn seat(args: &Args, row: &Row, terminal: &Terminal) -> Option<OpenSeat> {
    let (label, terminal) = (score::label(row), terminal.clone());
    args.shell.then(|| -> OpenSeat {
        Box::new(move |task: &Task| {
            Printer.note(&format!(
                "you are in the workspace of {label}: {}\nthe oracle: {}\nas a variable: eval \"${ORACLE_VARIABLE}\"\nleave with `exit`; nothing that is written here is kept",
                task.cwd.display(),
                score::shell_line(&task.argv),
            ));
            terminal.open()
        })
    })
}

fn execute(
    which: Which,
    means: Means,
    seat: Option<OpenSeat>,
    keep: bool,
    printer: &Printer,
) -> Result<Again, CliError> {
    let runtime = super::runtime()?;
    let stop = means.scheduler.stop.clone();
    let attended = seat.is_some();
    let result = runtime.block_on(async {
        let watcher = tokio::spawn(async move {
            // Somebody who sits in the workspace has a terminal for this.
            if !attended && tokio::signal::ctrl_c().await.is_ok() {
                stop.cancel();
            }
        });
        let result = score::again(which, means, seat, keep).await;
        watcher.abort();
        result
    });
    // Work on a file system that does not answer must not hold the program.
    runtime.shutdown_background();
    result.map_err(|error| match error {
        AgainError::Unavailable(why) => {
            if let Some(log) = &why.log {
                printer.note(String::from_utf8_lossy(log).trim_end());
            }
            CliError::infra(format!("it could not be run: {}: {}", why.class.as_str(), why.detail))
        }
        AgainError::Patch(_) => CliError::usage(error.to_string()),
        AgainError::Differs(_) => CliError::usage(error.to_string())
            .hint("without `--record` it is run as it is now; `redgreen score` records it as what it is"),
        AgainError::Score(e) => CliError::infra(e.to_string()),
    })
}

fn show(
    args: &Args,
    printer: &Printer,
    run: &RunFolder,
    row: &Row,
    repeat: u32,
    old: Option<&OracleRecord>,
    again: &Again,
) -> Outcome {
    let Some(ended) = &again.ended else { return Ok(Status::Done) };
    let agree = old.map(|old| old.outcome == ended.outcome);
    let status = if ended.outcome.is_infra() { Status::Infra } else { Status::Done };
    if args.json {
        printer.value(&json!({
            "run": run.root(),
            "instance_id": row.instance_id,
            "comment": row.comment,
            "arm": row.arm,
            "attempt": row.attempt,
            "repeat": repeat,
            "key": again.key,
            "recorded_key": old.map(|old| &old.key),
            "inputs_changed": again.changes,
            "before": old.map(|old| json!({"outcome": old.outcome, "message": old.message, "seconds": old.seconds})),
            "now": {"outcome": ended.outcome, "message": ended.message, "seconds": ended.evidence.seconds()},
            "agree": agree,
            "recorded": ended.recorded,
            "tasks": again.tasks,
            "rebuild": ended.evidence.rebuild.as_ref().map(streams),
            "oracle": ended.evidence.exit.as_ref().map(streams),
        }))?;
        return Ok(status);
    }
    let mut out = format!("{}, run {repeat}\n", score::label(row));
    out.push_str(&format!("key     {}\n", again.key));
    let inputs = match (old, again.changes.as_slice()) {
        (None, _) => "nothing is on record to compare with".to_owned(),
        (Some(_), []) => "as recorded".to_owned(),
        (Some(old), changes) => format!(
            "not as recorded under {}: {}",
            old.key,
            changes.iter().map(score::InputChange::text).collect::<Vec<_>>().join(", ")
        ),
    };
    out.push_str(&format!("inputs  {inputs}\n"));
    let line = |word: &str, outcome: &crate::model::Outcome, message: Option<&String>| {
        let message = message.map(|m| format!(": {}", crate::report::one_line(m))).unwrap_or_default();
        format!("{word} {outcome}{message}\n")
    };
    match old {
        Some(old) => out.push_str(&line("before ", &old.outcome, old.message.as_ref())),
        None => out.push_str("before  not run\n"),
    }
    out.push_str(&line("now    ", &ended.outcome, ended.message.as_ref()));
    out.push_str(match (agree, again.changes.is_empty()) {
        (None, _) => "",
        (Some(true), _) => "agree   yes\n",
        (Some(false), true) => "agree   no: same inputs, another outcome: flaky\n",
        (Some(false), false) => "agree   no: the inputs are not the same\n",
    });
    if ended.recorded {
        out.push_str("on record now; `redgreen report` decides the verdict anew\n");
    }
    out.push_str("\ncommand in the sandbox, which adds HOME, TMPDIR and the result channel\n");
    for task in &again.tasks {
        out.push_str(&text::task(task));
    }
    let evidence = &ended.evidence;
    for (what, exit) in [("rebuild", &evidence.rebuild), ("oracle", &evidence.exit)] {
        let Some(exit) = exit else { continue };
        for (name, captured) in [("stdout", &exit.stdout), ("stderr", &exit.stderr)] {
            if !captured.bytes.is_empty() {
                out.push_str(&format!("\n{what}, {name}\n{}\n", captured.text().trim_end()));
            }
        }
    }
    printer.data(&out)?;
    Ok(status)
}

fn streams(exit: &Exit) -> Value {
    json!({"end": exit.end, "seconds": exit.seconds, "stdout": exit.stdout.text(), "stderr": exit.stderr.text()})
}
