//! `redgreen snapshot`.

use std::path::PathBuf;

use serde_json::json;

use super::Outcome;
use super::common::{self, CacheOption, RepositoryOptions};
use super::error::{CliError, Status};
use super::leak_check::{Counter, Mode, instance, render};
use super::printer::Printer;
use crate::repo::{HandOut, HandOutError, RepoError, Repository, SnapshotMode};
use crate::report::counted;
use crate::store::cache::Bucket;

/// Make a checkout of one instance for a review tool or an agent, in which nothing is later than the commit to review.
///
/// `review`: the history up to the base, and the change as staged work, so that `git diff HEAD` shows it. `run`: the same
/// files and a `.git` with one commit. The checkout has no remote, and it is checked as by `redgreen leak-check` before
/// it appears.
///
/// Example: redgreen snapshot examples/quickstart '*shelf-4*' --mode review --out shelf
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The benchmark folder.
    #[arg(value_name = "BENCH")]
    bench: PathBuf,
    /// The instance's id, or a pattern that fits it alone.
    #[arg(value_name = "INSTANCE")]
    instance: String,
    /// What the `.git` holds.
    #[arg(long, value_enum, default_value_t = Mode::Review)]
    mode: Mode,
    /// The folder to make; it must not be there yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheOption,
    #[command(flatten)]
    repositories: RepositoryOptions,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let instance = instance(&args.bench, &args.instance, &printer)?;
    let cache = args.cache.resolve(&layers)?.value;
    let repositories = args.repositories.resolve(&layers)?;
    let sources = common::repo_sources(&repositories, &cache, vec![args.bench.join("repos")]);
    let repository = sources.open(&instance.repo).map_err(|e| of_repo(&e))?;
    let repository = match repository.resolve(instance.head_commit()) {
        Err(RepoError::NoSuchCommit { .. }) => sources.refresh(&instance.repo).map_err(|e| of_repo(&e))?,
        _ => repository,
    };
    let mode = match args.mode {
        Mode::Run => SnapshotMode::Run,
        Mode::Review => SnapshotMode::Review {
            base: instance.base_commit.clone().ok_or_else(|| {
                CliError::usage(format!("{} has no `base_commit`, which `--mode review` needs", instance.instance_id))
                    .hint("add it to `dataset.jsonl`, or use `--mode run`")
            })?,
        },
    };
    make(&args, &printer, &repository, &mode, &instance, &Bucket::Scratch.path(&cache))
}

fn make(
    args: &Args,
    printer: &Printer,
    repository: &Repository,
    mode: &SnapshotMode,
    instance: &crate::model::Instance,
    scratch: &std::path::Path,
) -> Outcome {
    let hand_out = HandOut {
        repository,
        mode,
        commit: instance.head_commit(),
        merged: instance.merged_commit.as_deref(),
        project: &instance.repo,
        out: &common::absolute(&args.out)?,
        scratch,
        owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    let mut counter = Counter::new(*printer);
    let (snapshot, report) = match hand_out.make(&mut |what, count| counter.tell(what, count)) {
        Ok(made) => made,
        Err(HandOutError::Leaks(report)) => {
            let error = CliError::infra(HandOutError::Leaks(report.clone()).to_string());
            printer.note(render(&report).trim_end());
            return Err(error.hint("this should not be: please report it with the lines above").into());
        }
        Err(error) => {
            let text = error.to_string();
            return Err(if error.is_infra() { CliError::infra(text) } else { CliError::usage(text) }
                .because(&error)
                .into());
        }
    };
    let notes: Vec<String> =
        snapshot.notes.iter().map(ToString::to_string).chain(report.notes.iter().cloned()).collect();
    if args.json {
        printer.value(&json!({
            "schema": 1,
            "instance_id": instance.instance_id,
            "mode": args.mode.name(),
            "path": snapshot.dir,
            "head": snapshot.commit,
            "tree": snapshot.tree,
            "base": snapshot.base,
            "commits": snapshot.commits,
            "files": snapshot.files,
            "notes": notes,
        }))?;
        return Ok(Status::Done);
    }
    for note in notes.iter().take(20) {
        printer.note(note);
    }
    if notes.len() > 20 {
        printer.note(&format!("… and {} more", notes.len() - 20));
    }
    printer.data(&format!(
        "{}: {}, {}; nothing later than {}\n",
        snapshot.dir.display(),
        counted(snapshot.files as u64, "file"),
        counted(snapshot.commits, "commit"),
        snapshot.commit
    ))?;
    Ok(Status::Done)
}

/// An error of the repositories: the machine's fault or the data's.
pub(super) fn of_repo(error: &RepoError) -> CliError {
    let missing = matches!(error, RepoError::NotFound { .. });
    let made = if error.is_infra() { CliError::infra(error.to_string()) } else { CliError::usage(error.to_string()) };
    let made = made.because(error);
    if missing {
        made.hint("name a folder that has it with `--mirrors`, or an address with `--clone-from`")
    } else {
        made
    }
}
