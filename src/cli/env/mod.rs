//! `redgreen env`: one file a verb.

mod base;
mod build;
mod check;
mod chosen;
mod detect;
mod display;
mod du;
mod export;
pub(super) mod gc;
mod images;
mod import;
mod list;
mod plan;
mod shell;
mod stop;

use clap::Subcommand;

use super::Outcome;

/// Build environments ahead, make what they stand on, look at them, sit down in one, make room.
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
    Plan(Box<plan::Args>),
    Check(Box<check::Args>),
    Shell(Box<shell::Args>),
    Du(du::Args),
    Gc(gc::Args),
    Detect(detect::Args),
    List(list::Args),
}

pub(super) fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Base(args) => base::run(*args),
        Verb::Build(args) => build::run(*args),
        Verb::Export(args) => export::run(*args),
        Verb::Import(args) => import::run(args),
        Verb::Plan(args) => plan::run(*args),
        Verb::Check(args) => check::run(*args),
        Verb::Shell(args) => shell::run(*args),
        Verb::Du(args) => du::run(args),
        Verb::Gc(args) => gc::run(args),
        Verb::Detect(args) => detect::run(args),
        Verb::List(args) => list::run(args),
    }
}
