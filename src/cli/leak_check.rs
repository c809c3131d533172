//! `redgreen leak-check`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Outcome;
use super::common::{self, CacheOption, RepositoryOptions};
use super::error::{CliError, Status};
use super::printer::Printer;
use super::snapshot::of_repo;
use crate::model::Instance;
use crate::repo::Repository;
use crate::repo::leak::{LeakCheck, LeakError, LeakMode, LeakReport};
use crate::report::counted;
use crate::store::cache::Bucket;

/// Look through a checkout for anything later than the commit to review.
///
/// Any checkout will do, also one that another harness made. Nothing in it is run and none of its settings are obeyed.
/// Looked at are refs, reflogs, all objects whether reachable or not, alternates, caches, submodules, notes, stashes,
/// bundles, the index, the work tree, compiled files, and installed or cached packages of the project itself.
/// With `--instance` (or `--reference`) commits are looked up in a full repository, and more is known for certain.
///
/// Exit code 1 when there is any finding. docs/LEAKS.md tells of every kind.
///
/// Example: redgreen leak-check shelf --mode review --instance examples/quickstart '*shelf-4*'
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The checkout.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// What it may hold: one commit (`run`), or the history up to the base and the change on top (`review`).
    #[arg(long, value_enum)]
    mode: Mode,
    /// The benchmark and the instance that the checkout is of (an id, or a pattern that fits it alone).
    #[arg(long, num_args = 2, value_names = ["BENCH", "ID"], conflicts_with_all = ["head", "base", "merged"])]
    instance: Option<Vec<String>>,
    /// The commit to review [default in `run`: the checkout's `HEAD`].
    #[arg(long, value_name = "COMMIT")]
    head: Option<String>,
    /// The commit that it is based on [default in `review`: the checkout's `HEAD`].
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// The commit that addressed the review: what only it has is certainly later.
    #[arg(long, value_name = "COMMIT")]
    merged: Option<String>,
    /// A full repository, for commits that the checkout does not have.
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// A folder with packages (site-packages, a cache of pip, npm or cargo) to look through as well; may be repeated.
    #[arg(long, value_name = "DIR")]
    packages: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheOption,
    #[command(flatten)]
    repositories: RepositoryOptions,
}

/// What a checkout holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    /// One commit.
    Run,
    /// The history up to the base, and the change as work on top.
    Review,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Review => "review",
        }
    }
}

/// Says now and then how far long work is.
pub(super) struct Counter {
    printer: Printer,
    next: Instant,
}

impl Counter {
    const EVERY: Duration = Duration::from_secs(3);

    pub(super) fn new(printer: Printer) -> Self {
        Self { printer, next: Instant::now() + Self::EVERY }
    }

    pub(super) fn tell(&mut self, what: &str, count: u64) {
        // The clock is not asked for each of a million objects.
        if count.is_multiple_of(64) && Instant::now() >= self.next {
            self.next = Instant::now() + Self::EVERY;
            self.printer.note(&format!("{count} {what}"));
        }
    }
}

/// The one instance of a benchmark that an id or pattern names.
pub(super) fn instance(bench: &Path, wanted: &str, printer: &Printer) -> Result<Instance, CliError> {
    let bench = common::load_benchmark(bench, printer)?;
    let glob = globset::GlobBuilder::new(wanted).case_insensitive(true).build();
    let glob = glob.map_err(|e| CliError::usage(format!("`{wanted}` is no id and no pattern")).because(&e))?;
    let glob = glob.compile_matcher();
    let found: Vec<&Instance> = bench
        .instances
        .iter()
        .filter(|i| {
            let id = i.instance_id.to_string();
            id.eq_ignore_ascii_case(wanted) || glob.is_match(&id)
        })
        .collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(CliError::usage(format!("no instance of `{}` is `{wanted}`", bench.dir.display()))
            .hint("the ids stand in `dataset.jsonl`; `*` fits any text")),
        several => Err(CliError::usage(format!("`{wanted}` fits {} instances", several.len()))
            .hint(format!("name one of them, such as `{}`", several[0].instance_id))),
    }
}

/// The commits in question and where they are looked up.
#[derive(Default)]
struct Subject {
    head: Option<String>,
    base: Option<String>,
    merged: Option<String>,
    project: Option<String>,
    reference: Option<Repository>,
}

fn subject(args: &Args, cache: &Path, printer: &Printer) -> Result<Subject, CliError> {
    let open = |path: &Path| Repository::open(path).map_err(|e| of_repo(&e));
    let given = args.reference.as_deref().map(open).transpose()?;
    let Some([bench, id]) = args.instance.as_deref() else {
        let (head, base, merged) = (args.head.clone(), args.base.clone(), args.merged.clone());
        return Ok(Subject { head, base, merged, project: None, reference: given });
    };
    let bench = PathBuf::from(bench);
    let instance = instance(&bench, id, printer)?;
    let reference = match given {
        Some(given) => given,
        None => {
            let repositories = args.repositories.resolve(&common::layers()?)?;
            let sources = common::repo_sources(&repositories, cache, vec![bench.join("repos")]);
            sources.open(&instance.repo).map_err(|e| of_repo(&e))?
        }
    };
    Ok(Subject {
        head: Some(instance.head_commit().to_owned()),
        base: instance.base_commit.clone().filter(|_| args.mode == Mode::Review),
        merged: instance.merged_commit.clone(),
        project: Some(instance.repo.clone()),
        reference: Some(reference),
    })
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    for folder in &args.packages {
        if !folder.is_dir() {
            return Err(
                CliError::usage(format!("there is no folder `{}`, named by `--packages`", folder.display())).into()
            );
        }
    }
    let cache = args.cache.resolve(&common::layers()?)?.value;
    let subject = subject(&args, &cache, &printer)?;
    let check = LeakCheck {
        path: &args.path,
        mode: match args.mode {
            Mode::Run => LeakMode::Run,
            Mode::Review => LeakMode::Review,
        },
        head: subject.head.as_deref(),
        base: subject.base.as_deref(),
        merged: subject.merged.as_deref(),
        reference: subject.reference.as_ref(),
        project: subject.project.as_deref(),
        packages: &args.packages,
        scratch: &Bucket::Scratch.path(&cache),
    };
    let mut counter = Counter::new(printer);
    let report = check.make(&mut |what, count| counter.tell(what, count)).map_err(|e| failed(&e))?;
    if args.json {
        printer.value(&json!({
            "schema": 1,
            "path": args.path,
            "mode": args.mode.name(),
            "clean": report.findings.is_empty(),
            "findings": report.findings,
            "notes": report.notes,
            "checked": report.checked,
        }))?;
    } else {
        for note in &report.notes {
            printer.note(&format!("note: {note}"));
        }
        printer.data(&render(&report))?;
    }
    Ok(if report.findings.is_empty() { Status::Done } else { Status::GateSaysNo })
}

fn failed(error: &LeakError) -> CliError {
    let text = error.to_string();
    if error.is_infra() { CliError::infra(text) } else { CliError::usage(text) }.because(error)
}

/// Findings for people.
pub(super) fn render(report: &LeakReport) -> String {
    let mut text = String::new();
    for (at, finding) in report.findings.iter().enumerate() {
        text.push_str(&format!(
            "{}: {} (later: {}): {}\n",
            finding.place,
            finding.kind.name(),
            finding.later.name(),
            finding.what
        ));
        for commit in &finding.commits {
            text.push_str(&format!("    {} {} {}\n", commit.id, commit.date, commit.subject));
        }
        // Said once for several that are removed in the same way.
        if report.findings.get(at + 1).is_none_or(|next| next.remove != finding.remove) {
            text.push_str(&format!("    to remove it: {}\n", finding.remove));
        }
    }
    let checked = &report.checked;
    text.push_str(&format!(
        "{}; looked at {}, {}, {}{}\n",
        match report.findings.len() {
            0 => "nothing later than the commit to review was found".to_owned(),
            n => counted(n as u64, "finding"),
        },
        counted(checked.objects, "object"),
        counted(checked.refs, "ref"),
        counted(checked.files, "file"),
        if checked.packages > 0 {
            format!(", {} of packages", counted(checked.packages, "file"))
        } else {
            String::new()
        }
    ));
    text
}
