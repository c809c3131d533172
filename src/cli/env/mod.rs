//! `redgreen env`: one file a verb.

mod base;
mod build;
mod export;
mod import;
mod list;

use clap::Subcommand;

use super::Outcome;

/// Build environments ahead, make what they stand on, or list the definitions.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Base(Box<base::Args>),
    Build(Box<build::Args>),
    Export(Box<export::Args>),
    Import(import::Args),
    List(list::Args),
}

pub(super) fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Base(args) => base::run(*args),
        Verb::Build(args) => build::run(*args),
        Verb::Export(args) => export::run(*args),
        Verb::Import(args) => import::run(args),
        Verb::List(args) => list::run(args),
    }
}
