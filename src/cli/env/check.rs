//! `redgreen env check`.

use std::collections::BTreeMap;

use serde_json::json;

use super::chosen::ChosenOptions;
use crate::cli::Outcome;
use crate::cli::error::Status;
use crate::cli::printer::Printer;
use crate::model::Digest;
use crate::report::counted;
use crate::stage::score::{Look, Standing, Survey};

/// Tell which environments of a benchmark are there, missing or stale, in seconds: nothing is built or fetched.
///
/// An environment is stale when it was made here and would be another one now: its spec, definition, toolchain, base or
/// trees changed, or something else was in its layers when they were made again. Exit code 1 when one is not ready.
///
/// Example: redgreen env check BENCH
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    chosen: ChosenOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let surveys = args.chosen.surveys(&printer, Look::AsItIs)?;
    let of = |standing: Standing| surveys.iter().filter(|survey| survey.standing == standing).count();
    let ready = of(Standing::Ready);
    let (missing, stale, unavailable) = (of(Standing::Missing), of(Standing::Stale), of(Standing::Unavailable));
    if args.json {
        printer.value(&json!({
            "ready": ready,
            "missing": missing,
            "stale": stale,
            "unavailable": unavailable,
            "bases": bases(&surveys),
            "instances": surveys,
        }))?;
    } else {
        let mut text = String::new();
        for survey in surveys.iter().filter(|survey| survey.standing != Standing::Ready) {
            text.push_str(&format!("{}: {}: {}\n", survey.instance_id, word(survey.standing), survey.reason));
        }
        for (base, _) in bases(&surveys).iter().filter(|(_, there)| !**there) {
            // One that was known by what is in it has no name here.
            let makes = if base.parse::<Digest>().is_ok() { "build BENCH".to_owned() } else { format!("base {base}") };
            text.push_str(&format!("base {base}: missing: `redgreen env {makes}` makes it\n"));
        }
        let count = counted(surveys.len() as u64, "environment");
        text.push_str(&format!(
            "{count}: {ready} ready, {missing} missing, {stale} stale, {unavailable} unavailable\n"
        ));
        printer.data(&text)?;
        if missing + stale > 0 {
            printer.note(&format!("hint: `redgreen env build {}` makes them", args.chosen.bench.display()));
        }
    }
    Ok(if ready == surveys.len() { Status::Done } else { Status::GateSaysNo })
}

/// What environments stand on beside the host, and whether it is there.
fn bases(surveys: &[Survey]) -> BTreeMap<&str, bool> {
    let bases = surveys.iter().filter(|survey| !survey.root.is_empty() && survey.root != "host");
    bases.map(|survey| (survey.root.as_str(), survey.root_there)).collect()
}

pub(super) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Ready => "ready",
        Standing::Missing => "missing",
        Standing::Stale => "stale",
        Standing::Unavailable => "unavailable",
    }
}
