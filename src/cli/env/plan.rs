//! `redgreen env plan`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::check::word;
use super::chosen::{ChosenOptions, find};
use crate::cli::Outcome;
use crate::cli::common;
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::engine::size;
use crate::environment::LayerState;
use crate::model::Instance;
use crate::report::{counted, human_seconds};
use crate::stage::score::{self, Look, Standing, Survey};

/// Tell what `env build` would do: for each instance what is in the cache and what would be made, with size and time.
///
/// Nothing is built, fetched or cloned, and nothing stays in the cache. Sizes and times are those that earlier layers of
/// the same kind took in this cache (their median); without one they are unknown. `redgreen env build --dry-run` is the
/// same.
///
/// Example: redgreen env plan BENCH --instances '*rotate*'
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    chosen: ChosenOptions,
    /// Print this instance's environment as a Dockerfile instead.
    #[arg(long, value_name = "INSTANCE", conflicts_with = "json")]
    dockerfile: Option<String>,
    /// The image below everything in the Dockerfile [default: the language's for the version].
    #[arg(long, value_name = "IMAGE", requires = "dockerfile")]
    from: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    if let Some(name) = &args.dockerfile {
        return dockerfile(&args, name, &printer);
    }
    let surveys = args.chosen.surveys(&printer, Look::Through)?;
    show(&surveys, args.json, &printer)
}

fn dockerfile(args: &Args, name: &str, printer: &Printer) -> Outcome {
    let chosen = args.chosen.chosen(printer)?;
    let instances: Vec<Instance> = chosen.iter().map(|(instance, _)| instance.clone()).collect();
    let id = &find(&instances, name)?.instance_id;
    let services = args.chosen.places.services(&common::absolute(&args.chosen.bench)?)?;
    services.environments.give_up_network();
    for (instance, comments) in chosen.iter().filter(|(instance, _)| instance.instance_id == *id) {
        let text = score::dockerfile(&services, instance, comments, args.from.as_deref());
        let text = text.map_err(|why| {
            CliError::infra(format!("there is no recipe for `{id}`: {}: {}", why.class.as_str(), why.detail))
        })?;
        printer.data(&text)?;
    }
    Ok(Status::Done)
}

/// Prints a plan.
pub(super) fn show(surveys: &[Survey], as_json: bool, printer: &Printer) -> Outcome {
    let total = Total::of(surveys);
    if as_json {
        printer.value(&json!({"instances": surveys, "to_make": total.json()}))?;
    } else {
        let mut text: String = surveys.iter().map(of_instance).collect();
        text.push_str(&total.text(surveys));
        printer.data(&text)?;
    }
    let stuck = surveys.iter().any(|survey| survey.standing == Standing::Unavailable);
    Ok(if stuck { Status::Infra } else { Status::Done })
}

fn of_instance(survey: &Survey) -> String {
    let reason = if survey.reason.is_empty() { String::new() } else { format!(": {}", survey.reason) };
    let mut out = format!("{}: {}{reason}\n", survey.instance_id, word(survey.standing));
    if survey.standing == Standing::Ready {
        return out;
    }
    if !survey.root.is_empty() {
        let make = if survey.root_there { "have" } else { "make" };
        out.push_str(&format!("  {make}  base   {}\n", survey.root));
    }
    for tree in &survey.trees {
        let make = if tree.cached { "have" } else { "make" };
        out.push_str(&format!("  {make}  tree   {} {}\n", tree.of, &tree.commit[..tree.commit.len().min(12)]));
    }
    for layer in &survey.layers {
        out.push_str(&format!("  {}\n", of_layer(layer)));
    }
    out
}

fn of_layer(layer: &LayerState) -> String {
    let make = if layer.cached { "have" } else { "make" };
    let network = if layer.network && !layer.cached { ", with network" } else { "" };
    let known = match (layer.cost.seconds, layer.cost.bytes) {
        (Some(seconds), Some(bytes)) => format!("{}, {}", human_seconds(seconds), size(bytes)),
        _ => "size and time unknown".to_owned(),
    };
    let guess = match layer.cost.guessed_from {
        0 => String::new(),
        1 => ", as an earlier one".to_owned(),
        count => format!(", as the median of {count}"),
    };
    format!("{make}  layer  {} ({known}{guess}{network})", layer.kind)
}

/// All that would be made, each thing once.
struct Total<'a> {
    layers: BTreeMap<&'a Path, &'a LayerState>,
    trees: BTreeMap<&'a Path, ()>,
    bases: BTreeMap<&'a str, ()>,
}

impl<'a> Total<'a> {
    fn of(surveys: &'a [Survey]) -> Self {
        let layers = surveys.iter().flat_map(|survey| &survey.layers).filter(|layer| !layer.cached);
        let trees = surveys.iter().flat_map(|survey| &survey.trees).filter(|tree| !tree.cached);
        let bases = surveys.iter().filter(|survey| !survey.root_there && !survey.root.is_empty());
        Self {
            layers: layers.map(|layer| (layer.folder.as_path(), layer)).collect(),
            trees: trees.map(|tree| (tree.folder.as_path(), ())).collect(),
            bases: bases.map(|survey| (survey.root.as_str(), ())).collect(),
        }
    }

    fn seconds(&self) -> f64 {
        self.layers.values().filter_map(|layer| layer.cost.seconds).sum()
    }

    fn bytes(&self) -> u64 {
        self.layers.values().filter_map(|layer| layer.cost.bytes).fold(0, u64::saturating_add)
    }

    fn unknown(&self) -> usize {
        self.layers.values().filter(|layer| layer.cost.bytes.is_none()).count()
    }

    fn json(&self) -> Value {
        json!({
            "layers": self.layers.len(),
            "trees": self.trees.len(),
            "bases": self.bases.keys().collect::<Vec<_>>(),
            "seconds": self.seconds(),
            "bytes": self.bytes(),
            "layers_of_unknown_cost": self.unknown(),
        })
    }

    fn text(&self, surveys: &[Survey]) -> String {
        let ready = surveys.iter().filter(|survey| survey.standing == Standing::Ready).count();
        let mut out = format!("{}: {ready} ready\n", counted(surveys.len() as u64, "environment"));
        let mut things = Vec::new();
        for (count, what) in [(self.bases.len(), "base"), (self.trees.len(), "tree"), (self.layers.len(), "layer")] {
            if count > 0 {
                things.push(counted(count as u64, what));
            }
        }
        if things.is_empty() {
            return out;
        }
        out.push_str(&format!("to make: {}", things.join(", ")));
        if self.layers.len() > self.unknown() {
            let one_by_one = human_seconds(self.seconds());
            out.push_str(&format!("; the layers about {} and {one_by_one} one after another", size(self.bytes())));
        }
        if self.unknown() > 0 {
            out.push_str(&format!("; {} of unknown size and time", counted(self.unknown() as u64, "layer")));
        }
        out.push('\n');
        out
    }
}
