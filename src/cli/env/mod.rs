//! `redgreen env`: one file a verb.

mod build;
mod detect;
mod list;

use clap::Subcommand;

use super::Outcome;

/// Build environments ahead, or list the definitions.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Build(Box<build::Args>),
    Detect(detect::Args),
    List(list::Args),
}

pub(super) fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Build(args) => build::run(*args),
        Verb::Detect(args) => detect::run(args),
        Verb::List(args) => list::run(args),
    }
}
