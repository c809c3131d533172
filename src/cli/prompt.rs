//! `redgreen prompt`.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::common::{self, CacheOption, RepositoryOptions};
use super::error::{CliError, Status};
use super::llm::PromptOption;
use super::printer::Printer;
use super::{Outcome, snapshot};
use crate::environment::Definitions;
use crate::llm::{Prompt, PromptError, Rendered};
use crate::model::{Comment, CommentId, Instance, InstanceId};
use crate::stage::synth::{self, Kit, Material};
use crate::stage::{filter, validate};

/// Look at the prompts that language models get.
///
/// Prompts are templates: redgreen's own, and the `*.hbs` files of `--prompts DIR`, which go before them. A line
/// `--- user ---` parts the system text from the message. The digest of a prompt's text is in every record that it made.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the prompts with their digests.
    ///
    /// Example: redgreen prompt list
    List(List),
    /// Render a prompt as a comment would get it.
    ///
    /// Example: redgreen prompt show filter lantern-example__tally-3@2a8c4ad --bench examples/quickstart
    Show(Box<Show>),
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    prompts: PromptOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The prompt's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// The instance's id.
    #[arg(value_name = "INSTANCE")]
    instance: InstanceId,
    /// The benchmark folder.
    #[arg(long, value_name = "BENCH", default_value = ".")]
    bench: PathBuf,
    /// The comment [default: the first one].
    #[arg(long, value_name = "ID")]
    comment: Option<CommentId>,
    #[command(flatten)]
    repositories: RepositoryOptions,
    #[command(flatten)]
    cache: CacheOption,
    #[command(flatten)]
    prompts: PromptOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    match args.what {
        What::List(args) => list(&args),
        What::Show(args) => show(&args),
    }
}

fn list(args: &List) -> Outcome {
    let prompts = args.prompts.load(&common::layers()?)?;
    let mut rows: Vec<&Prompt> = prompts.iter().collect();
    rows.sort_by(|a, b| a.id.name.cmp(&b.id.name));
    if args.json {
        let rows: Vec<_> =
            rows.iter().map(|one| json!({"name": one.id.name, "digest": one.id.digest, "place": one.place})).collect();
        Printer.value(&rows)?;
    } else {
        let line = |one: &&Prompt| format!("{:<12} {}  {}\n", one.id.name, one.id.digest.short(), one.place);
        Printer.data(&rows.iter().map(line).collect::<String>())?;
    }
    Ok(Status::Done)
}

fn show(args: &Show) -> Outcome {
    let printer = Printer;
    let prompts = args.prompts.load(&common::layers()?)?;
    let unknown = |e: PromptError| CliError::usage(e.to_string()).because(&e);
    let prompt = prompts.get(&args.name).map_err(unknown)?;
    let bench = common::load_benchmark(&args.bench, &printer)?;
    let instance = bench.instance(&args.instance).ok_or_else(|| {
        CliError::usage(format!("there is no instance `{}` in `{}`", args.instance, args.bench.display()))
    })?;
    let comment = match &args.comment {
        Some(id) => instance.comment(id),
        None => instance.reference_review_comments.first(),
    };
    let comment = comment.ok_or_else(|| {
        let wanted = args.comment.as_ref().map_or("any comment".to_owned(), |id| format!("a comment `{id}`"));
        let known: Vec<_> = instance.reference_review_comments.iter().map(|comment| comment.id.as_str()).collect();
        CliError::usage(format!("`{}` has not {wanted}", instance.instance_id))
            .hint(format!("it has: {}", known.join(", ")))
    })?;
    let rendered = render(args, prompt, instance, comment)?;
    if args.json {
        printer.value(&json!({"name": prompt.id.name, "digest": prompt.id.digest, "place": prompt.place,
            "instance_id": instance.instance_id, "comment": comment.id, "system": rendered.system, "user": rendered.user}))?;
    } else {
        printer.data(&format!("--- system ---\n{}\n--- user ---\n{}\n", rendered.system, rendered.user))?;
    }
    Ok(Status::Done)
}

/// The prompt as this comment would get it. One of the user's own, of another name, gets the filter's values.
fn render(args: &Show, prompt: &Prompt, instance: &Instance, comment: &Comment) -> Result<Rendered, CliError> {
    let unfit = |e: PromptError| CliError::usage(e.to_string()).because(&e);
    match prompt.id.name.as_str() {
        synth::PROMPT => prompt.render(&material(args, instance, comment)?.values(false)).map_err(unfit),
        synth::AGAIN => Err(CliError::usage(format!("`{}` is made of what became of a test", synth::AGAIN))
            .hint("`redgreen prompt show synth …` shows the first question")),
        validate::PROMPT => prompt.render(&validate::Values::of(instance, comment)).map_err(unfit),
        _ => prompt.render(&filter::Values::of(instance, comment)).map_err(unfit),
    }
}

/// What `synth` shows of a comment, without the merged change.
fn material(args: &Show, instance: &Instance, comment: &Comment) -> Result<Material, CliError> {
    let layers = common::layers()?;
    let kit = Kit::load(None).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let definitions = Definitions::load(&[]).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let cache = args.cache.resolve(&layers)?.value;
    let sources = common::repo_sources(&args.repositories.resolve(&layers)?, &cache, vec![args.bench.join("repos")]);
    let repository = sources.open(&instance.repo).map_err(|e| snapshot::of_repo(&e))?;
    let (language, offered) = synth::offered(&kit, &definitions, instance);
    Material::gather(&repository, instance, comment, &language, offered).map_err(|e| snapshot::of_repo(&e))
}
