//! `redgreen freeze`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::error::{CliError, Status};
use super::printer::Printer;
use super::running::{Ready, RunningOptions};
use super::{Outcome, common, score as runs};
use crate::metrics::Denominator;
use crate::model::{Arm, AttritionReason};
use crate::oracle::Policy;
use crate::report::counted;
use crate::stage::freeze::{self, Choice, Ground, GroundError, Thresholds};
use crate::stage::score::{self, Selection};
use crate::store::RunFolder;
use crate::store::bench::{self, Benchmark, WriteMode, dataset_digest};

/// Write a benchmark with a frozen set: the comments whose oracles' controls just did what they must, on this machine.
///
/// Each accepted oracle is run on the commit to review (it must fail) and on the merged commit (it must pass), each
/// several times, under policy strict and in new sandboxes; nothing is taken from earlier runs. What fails that is refused: it stays
/// in the data set as not accepted, with a typed line of attrition. There is no way around it.
///
/// Exit code 1 when no oracle is left, 3 when some could not be run. An interrupted freeze goes on with the same command.
///
/// Example: redgreen freeze BENCH --out BENCH2
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The benchmark folder to write.
    #[arg(long, value_name = "BENCH2")]
    out: PathBuf,
    /// A TOML file with more conditions: `text_only = "keep"`, `"drop"` or `"structural"`, `kinds = ["behavioral"]`.
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// The run folder for the controls [default: that of an unfinished freeze of this benchmark, else a new one in
    /// `redgreen-runs`].
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// Runs of each control; all must agree.
    #[arg(long, value_name = "N", default_value = "3", value_parser = runs::parse_repeat)]
    repeat: u32,
    #[command(flatten)]
    running: RunningOptions,
    /// Print the choice as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let bench = common::load_benchmark(&common::absolute(&args.bench)?, &printer)?;
    let thresholds = read_thresholds(args.thresholds.as_deref())?;
    refuse_unsound(&args, &bench)?;
    let digest = dataset_digest(&bench.instances, |test| fs_err::read(bench.dir.join(test)).ok());
    let selection = Selection {
        instances: None,
        slice: None,
        arms: Some(vec![Arm::head(), Arm::merged()]),
        denominator: Denominator::Valid,
    };
    let plan = score::plan(&bench.instances, &[], None, &[], &selection);
    if plan.instances.is_empty() {
        return Err(CliError::usage("the benchmark has no accepted oracle, so there is nothing to freeze").into());
    }
    let Ready { settings, services, scheduler } = args.running.resolve(&layers, &bench.dir)?;
    let settings = score::Settings { repeat: args.repeat, ..settings };

    let ground = Ground::here().map_err(ungrounded)?;
    let root = run_folder(&args, &bench, &digest, &ground)?;
    ground.check(&root).map_err(ungrounded)?;
    let opening = runs::Opening {
        root: &root,
        loaded: &bench,
        digest: &digest,
        policy: Policy::Strict,
        denominator: Denominator::Valid,
        cache: &services.cache,
    };
    let run = runs::open_run(&opening, false, &printer)?;
    // A folder that was opened and not marked is nobody's, and is never taken up again.
    ground.write(run.root()).map_err(ungrounded)?;
    printer.note(&format!("controls: {}", run.root().display()));
    let (status, _entered) = runs::execute(&printer, &plan, &bench, settings, scheduler, services, &run)?;
    if status == Status::Interrupted {
        printer.note("interrupted; nothing was written, and the same command goes on");
        return Ok(status);
    }
    let choice = choose(&run, &bench, args.repeat, &thresholds)?;
    if choice.frozen.is_empty() {
        show(&args, &bench, &choice, None)?;
        return Ok(if status == Status::Infra { status } else { Status::GateSaysNo });
    }
    let content = freeze::content(&bench, common::copied(&bench)?, &choice, args.repeat, &thresholds);
    let written = bench::write(&args.out, &content, WriteMode::Careful);
    let written = written.map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    common::carry_bundles(&bench.dir, &args.out)?;
    common::carry_ledger(&bench.dir, &args.out)?;
    let infra = choice.refused.iter().any(|r| r.reason == AttritionReason::Infra);
    if infra {
        printer.note("some controls could not be run; the same command tries these again and goes on with the others");
    } else {
        Ground { finished: true, ..ground }.write(run.root()).map_err(ungrounded)?;
    }
    show(&args, &bench, &choice, Some(written.dataset_digest.as_str()))?;
    Ok(if infra { Status::Infra } else { Status::Done })
}

fn ungrounded(error: GroundError) -> CliError {
    let text = error.to_string();
    match &error {
        GroundError::Store(_) | GroundError::Unreadable { .. } => CliError::infra(text).because(&error),
        _ => CliError::usage(text).hint("name another folder by `--run`, or leave it out"),
    }
}

fn read_thresholds(file: Option<&Path>) -> Result<Thresholds, CliError> {
    let Some(file) = file else { return Ok(Thresholds::default()) };
    let text =
        fs_err::read_to_string(file).map_err(|e| CliError::usage("the thresholds cannot be read").because(&e))?;
    Thresholds::parse(&file.display().to_string(), &text).map_err(|e| CliError::usage(e.to_string()))
}

/// A benchmark that is not sound is not frozen, nor is one frozen over itself or over something else.
fn refuse_unsound(args: &Args, bench: &Benchmark) -> Result<(), CliError> {
    if args.running.is_unprotected() {
        return Err(
            CliError::usage("nothing is frozen on what was seen without a sandbox").hint("leave out `--sandbox none`")
        );
    }
    let (from, to) = (&bench.dir, common::absolute(&args.out)?);
    let same = fs_err::canonicalize(from).ok().zip(fs_err::canonicalize(&to).ok()).is_some_and(|(a, b)| a == b);
    if same {
        return Err(CliError::usage("`--out` is the benchmark itself")
            .hint("name another folder: freezing leaves the benchmark as it is"));
    }
    let full = to.is_dir() && fs_err::read_dir(&to).is_ok_and(|mut d| d.next().is_some());
    if to.is_file() || (full && !Benchmark::is_at(&to)) {
        return Err(CliError::usage(format!("`{}` holds something else", to.display()))
            .hint("choose another folder for `--out`"));
    }
    let errors: Vec<_> = bench::check(from).into_iter().filter(bench::Problem::is_error).collect();
    match errors.first() {
        Some(first) => Err(CliError::usage(format!(
            "the benchmark has {}; the first: {first}",
            counted(errors.len() as u64, "error")
        ))
        .hint(format!("`redgreen check {}` names them all", args.bench.display()))),
        None => Ok(()),
    }
}

/// The folder of an unfinished freeze of this very benchmark on this machine, or a new one.
fn run_folder(
    args: &Args,
    bench: &Benchmark,
    digest: &crate::model::Digest,
    ground: &Ground,
) -> Result<PathBuf, CliError> {
    if let Some(run) = &args.run {
        return common::absolute(run);
    }
    let parent = Path::new("redgreen-runs");
    let name = format!("{}-freeze", bench.manifest.name);
    for entry in fs_err::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let unfinished = freeze::ground_of(&path).ok().flatten().is_some_and(|g| g == *ground);
        let ours =
            || RunFolder::open(&path).and_then(|run| run.manifest()).is_ok_and(|m| m.benchmark.digest == *digest);
        if unfinished && ours() {
            return common::absolute(&path);
        }
    }
    common::absolute(&runs::fresh_folder(parent, &name))
}

fn choose(run: &RunFolder, bench: &Benchmark, repeat: u32, thresholds: &Thresholds) -> Result<Choice, CliError> {
    let built = crate::report::build(run, Some(Denominator::Valid))
        .map_err(|e| CliError::infra("the controls' records cannot be read").because(&e))?;
    Ok(freeze::choose(&bench.instances, &built.report.verdicts, repeat, thresholds))
}

fn show(args: &Args, bench: &Benchmark, choice: &Choice, digest: Option<&str>) -> Outcome {
    let printer = Printer;
    let mut reasons = std::collections::BTreeMap::new();
    for refusal in &choice.refused {
        let word = serde_json::to_value(refusal.reason).ok().and_then(|v| v.as_str().map(str::to_owned));
        *reasons.entry(word.unwrap_or_default()).or_insert(0_u64) += 1;
    }
    if args.json {
        let out = digest.map(|_| args.out.display().to_string());
        printer.value(&json!({
            "out": out, "dataset_digest": digest, "repeat": args.repeat, "frozen": choice.frozen, "refused": choice.refused,
            "refused_by_reason": reasons, "without_oracle": choice.without_oracle, "text_only": choice.text_only,
        }))?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    for refusal in &choice.refused {
        let word = serde_json::to_value(refusal.reason).unwrap_or_default();
        let word = word.as_str().unwrap_or_default();
        text.push_str(&format!("refused: {} {}: {word}: {}\n", refusal.instance_id, refusal.comment, refusal.detail));
    }
    let total = choice.frozen.len() + choice.refused.len() + choice.without_oracle;
    text.push_str(&format!(
        "{} of {} frozen, {} refused, {} without an accepted oracle\n",
        choice.frozen.len(),
        counted(total as u64, "comment"),
        choice.refused.len(),
        choice.without_oracle
    ));
    if choice.text_only > 0 {
        text.push_str(&format!("{} of the frozen oracles only read the project's text\n", choice.text_only));
    }
    match digest {
        Some(digest) => text.push_str(&format!("{}: dataset digest {digest}\n", args.out.display())),
        None => text.push_str(&format!("nothing was written: no oracle of {} is left\n", bench.manifest.name)),
    }
    printer.data(&text)?;
    Ok(Status::Done)
}
