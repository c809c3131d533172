//! `redgreen import`.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::Outcome;
use super::common::{self, CacheOption, RepositoryOptions};
use super::error::{CliError, Status};
use super::printer::Printer;
use super::settings::parse_seconds;
use crate::host::PullName;
use crate::model::{Instance, MergedKind};
use crate::repo::RepoSources;
use crate::report::counted;
use crate::stage::import::{
    self, Authors, Environments, GithubOptions, ImportError, Imported, Options, Source, Summary,
};
use crate::store::bench::{self, Content, WriteMode};

/// Turn foreign data into a benchmark folder.
///
/// Whatever does not come through is named: as a problem with file and line, or as a typed row of `attrition.jsonl`.
/// With `--mirrors`, merged commits that the data lacks are looked for there. An import never uses the network, apart
/// from `github --live`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    source: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A SWE-CARE data set (JSON Lines): instances and comments, no oracles.
    ///
    /// Example: redgreen import swe-care test.jsonl --out bench
    SweCare(One),
    /// The c-CRAB release: a folder, a folder of zips, or a git directory as PATH@REV.
    ///
    /// Example: redgreen import c-crab ~/c-crab@856dfa3 --out bench --mirrors ~/mirrors
    CCrab(One),
    /// Pull requests with their review comments, as GitHub's API gives them (REST or GraphQL), from files or asked for now.
    ///
    /// Each commit that was reviewed becomes an instance; commits that a rebase took away are found by the lines that
    /// were commented. It needs the repositories: `--mirrors`.
    ///
    /// Example: redgreen import github pulls/ --mirrors ~/mirrors --out bench
    ///
    /// Example: redgreen import github --live owner/name#12 --save pulls --mirrors ~/mirrors --out bench
    Github(Box<Github>),
    /// Instances written by a person: folders with an `instance.json` and its tests, or folders of such folders.
    ///
    /// Example: redgreen import folder my-instances --out bench
    Folder(Several),
    /// SWE-bench predictions (JSON Lines, list or map) as revisions of an existing benchmark.
    ///
    /// Example: redgreen import predictions preds.jsonl --out bench
    Predictions(Predictions),
}

#[derive(Debug, clap::Args)]
struct One {
    /// What to import: a file or folder; for c-CRAB also PATH@REV, a git directory at a revision.
    #[arg(value_name = "SRC")]
    source: PathBuf,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
struct Several {
    /// The instances' folders, or folders of them.
    #[arg(value_name = "DIR", required = true)]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
struct Github {
    /// Files of the API, or folders with such files (`.json`, `.jsonl`, `.ndjson`).
    #[arg(value_name = "PATH", required_unless_present = "live")]
    sources: Vec<PathBuf>,
    /// The repository of objects that do not say theirs.
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<String>,
    /// Whether logins are kept: `anonymous` has stand-ins only, `real` has logins beside them.
    #[arg(long, value_name = "WHOSE", default_value = "anonymous", value_parser = ["anonymous", "real"])]
    authors: String,
    /// Ask the API for this pull request; may be repeated. A token is taken from GITHUB_TOKEN, or from `--token-file`.
    #[arg(long, value_name = "OWNER/NAME#N", requires = "save", help_heading = "Asking the API")]
    live: Vec<PullName>,
    /// Where the API's answers are kept, as they came: another import reads them from there.
    #[arg(long, value_name = "DIR", requires = "live", help_heading = "Asking the API")]
    save: Option<PathBuf>,
    /// File with a token.
    #[arg(long, value_name = "FILE", requires = "live", help_heading = "Asking the API")]
    token_file: Option<PathBuf>,
    /// The API's address [default: GITHUB_API_URL, or https://api.github.com].
    #[arg(long, value_name = "URL", requires = "live", help_heading = "Asking the API")]
    api_url: Option<String>,
    /// The longest that the API's limits may make us wait, in seconds [default: 4500].
    #[arg(long, value_name = "SECONDS", requires = "live", value_parser = parse_seconds, help_heading = "Asking the API")]
    max_wait: Option<std::time::Duration>,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
struct To {
    /// The benchmark folder to write.
    #[arg(long, value_name = "BENCH")]
    out: PathBuf,
    /// The benchmark's name [default: the format's own].
    #[arg(long)]
    name: Option<String>,
    /// Environments by repository: JSON Lines of `{"repo": …, "environment": {…}}`.
    #[arg(long, value_name = "FILE")]
    environments: Option<PathBuf>,
    /// Write into a folder that holds something else.
    #[arg(long)]
    force: bool,
    /// Folder with repositories, to find merged commits in; may be repeated. An import never clones.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    mirrors: Vec<PathBuf>,
    #[command(flatten)]
    cache: CacheOption,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Predictions {
    /// The predictions, or revisions in redgreen's own form.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The benchmark folder to add them to.
    #[arg(long, value_name = "BENCH")]
    out: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    match args.source {
        What::SweCare(one) => import_with(&one.to, |options, _| import::swe_care(&one.source, options)),
        What::CCrab(one) => import_with(&one.to, |options, _| import::ccrab(&Source::parse(&one.source)?, options)),
        What::Folder(several) => import_with(&several.to, |options, _| import::folder(&several.sources, options)),
        What::Github(args) => github(&args),
        What::Predictions(args) => predictions(&args),
    }
}

fn failed(error: &ImportError) -> CliError {
    CliError::usage(error.to_string()).because(error)
}

/// Asks the API where that is wanted, then imports what is on disk.
fn github(args: &Github) -> Outcome {
    let mut paths = args.sources.clone();
    if let Some(save) = &args.save {
        paths.extend(super::live::fetch(&super::live::Asked {
            pulls: &args.live,
            save,
            token_file: args.token_file.as_deref(),
            api: args.api_url.as_deref(),
            patience: args.max_wait,
        })?);
    }
    let authors = if args.authors == "real" { Authors::Real } else { Authors::Anonymous };
    import_with(&args.to, |common, sources| {
        let open = |repo: &str| sources.open(repo);
        import::github(&paths, &GithubOptions { common: *common, repo: args.repo.as_deref(), authors, open: &open })
    })
}

fn import_with(to: &To, work: impl FnOnce(&Options<'_>, &RepoSources) -> Result<Imported, ImportError>) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let environments = to.environments.as_deref().map(Environments::read).transpose().map_err(|e| failed(&e))?;
    let cache = to.cache.resolve(&layers)?.value;
    // Merged commits are looked for only where the repositories are at hand: an import does not clone.
    let repositories =
        RepositoryOptions { mirrors: to.mirrors.clone(), clone_from: None, offline: true }.resolve(&layers)?;
    let sources = common::repo_sources(&repositories, &cache, Vec::new());
    let notes = std::cell::RefCell::new(Vec::new());
    let find = |instance: &Instance| -> Option<(String, MergedKind)> {
        let found = sources.open(&instance.repo).and_then(|repository| {
            let head = repository.resolve(instance.head_commit())?;
            repository.find_merged(instance.pull_number, &head)
        });
        found.unwrap_or_else(|error| {
            notes.borrow_mut().push(format!("{}: {error}", instance.instance_id));
            None
        })
    };
    let finder: import::MergedFinder<'_> = &find;
    let options = Options {
        name: to.name.as_deref(),
        environments: environments.as_ref(),
        merged: (!repositories.mirrors.value.is_empty()).then_some(finder),
    };
    let imported = work(&options, &sources).map_err(|e| failed(&e))?;
    let notes = notes.into_inner();
    for note in notes.iter().take(5) {
        printer.note(&format!("merged commit not found: {note}"));
    }
    if notes.len() > 5 {
        printer.note(&format!("… and {} more without a repository or commit", notes.len() - 5));
    }
    write(&printer, &to.out, &imported.content, if to.force { WriteMode::Force } else { WriteMode::Careful })?;
    summarise(&printer, &to.out, &imported.summary, to.json)
}

fn write(printer: &Printer, out: &Path, content: &Content, mode: WriteMode) -> Result<(), CliError> {
    let written = bench::write(out, content, mode).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    printer.note(&format!("{}: {} files, dataset digest {}", out.display(), written.files, written.dataset_digest));
    Ok(())
}

fn summarise(printer: &Printer, out: &Path, summary: &Summary, json: bool) -> Outcome {
    common::tell(printer, &summary.problems);
    if json {
        printer.value(summary)?;
        return Ok(Status::Done);
    }
    let mut text = format!(
        "{}: {} instances, {} comments, {} accepted oracles",
        out.display(),
        summary.instances,
        summary.comments,
        summary.accepted_oracles
    );
    if let Some(frozen) = summary.frozen {
        text.push_str(&format!(", {frozen} in the frozen set"));
    }
    text.push('\n');
    for (title, counts) in [
        ("revisions", &summary.revisions),
        ("recorded verdicts", &summary.recorded),
        ("reviews", &summary.reviews),
        ("attrition", &summary.attrition),
    ] {
        if !counts.is_empty() {
            let list: Vec<_> = counts.iter().map(|(what, n)| format!("{what} {n}")).collect();
            text.push_str(&format!("{title}: {}\n", list.join(" · ")));
        }
    }
    if summary.environments > 0 {
        text.push_str(&format!("environments given to {} instances\n", summary.environments));
    }
    for repo in &summary.unknown_environment_repos {
        text.push_str(&format!("no instance is of the environment file's `{repo}`\n"));
    }
    if summary.merged_found + summary.merged_not_found > 0 {
        text.push_str(&format!(
            "merged commits found for {} instances, not found for {}\n",
            summary.merged_found, summary.merged_not_found
        ));
    }
    for (kind, counted) in &summary.read {
        text.push_str(&format!(
            "{}: {} read, {} kept, {} known already, {} without a place\n",
            kind.replace('_', " "),
            counted.read,
            counted.kept,
            counted.again,
            counted.lost
        ));
    }
    if !summary.problems.is_empty() {
        text.push_str(&format!("{} rows could not be read\n", summary.problems.len()));
    }
    printer.data(&text)?;
    Ok(Status::Done)
}

/// Adds predictions to a benchmark: one with the same key as a revision that is there replaces it.
fn predictions(args: &Predictions) -> Outcome {
    let printer = Printer;
    let loaded = common::load_benchmark(&args.out, &printer)?;
    let read = import::predictions(&args.file).map_err(|e| failed(&e))?;
    common::tell(&printer, &read.problems);
    let mut revisions = loaded.revisions.clone();
    let (mut added, mut replaced, mut unknown) = (0_u64, 0, 0);
    for revision in read.revisions {
        if loaded.instance(&revision.instance_id).is_none() {
            unknown += 1;
            printer.note(&format!("`{}` is no instance of this benchmark", revision.instance_id));
            continue;
        }
        match revisions.iter_mut().find(|r| r.same_key(&revision)) {
            Some(old) => {
                *old = revision;
                replaced += 1;
            }
            None => {
                revisions.push(revision);
                added += 1;
            }
        }
    }
    let text = crate::model::to_jsonl(&revisions).map_err(|e| CliError::infra("could not write JSON").because(&e))?;
    crate::store::write_atomic(&args.out.join(bench::REVISIONS), text.as_bytes())?;
    let counts = serde_json::json!({
        "added": added, "replaced": replaced, "unknown_instances": unknown, "problems": read.problems,
    });
    if args.json {
        printer.value(&counts)?;
    } else {
        printer.data(&format!(
            "{}: {} added, {replaced} replaced, {unknown} of unknown instances, {} not read\n",
            args.out.display(),
            counted(added, "revision"),
            counted(read.problems.len() as u64, "row")
        ))?;
    }
    Ok(Status::Done)
}
