//! One file a verb: arguments → library call → exit code. The only room that prints or reads environment variables.

mod audit;
mod bounds;
mod check;
mod common;
mod completions;
mod connection;
mod diff;
mod doctor;
mod env;
mod error;
mod filter;
mod freeze;
mod funnel;
mod gc;
mod import;
mod interrupt;
mod label;
mod leak_check;
mod live;
mod llm;
mod planned;
mod printer;
mod prompt;
mod report;
mod rerun;
mod running;
mod score;
mod settings;
mod snapshot;
mod synth;
mod terminal;
mod validate;
mod variables;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::{CliError, Status};
use printer::{OutputError, Printer};

use crate::fault;

/// The execution-based test oracle runner for code review.
///
/// A review is worth what it changes: following it must turn a red test green. redgreen takes a benchmark (pull
/// requests with human comments and tests bound to them) and revisions (patches that a coding agent made from a tool's
/// review), runs every test on every revision in a clean sandbox, and reports pass rates per tool.
#[derive(Debug, Parser)]
#[command(name = "redgreen", version, about, long_about, max_term_width = 120)]
#[command(after_help = "\
Exit codes:
  0    done; a low pass rate is no error
  1    a check that you asked for says no
  2    wrong usage or input
  3    some work ended as infra: the machine's fault, tried again by the next run
  130  interrupted: the same command goes on

Example: redgreen score examples/quickstart")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(doctor::Args),
    Import(Box<import::Args>),
    Check(check::Args),
    LeakCheck(Box<leak_check::Args>),
    Snapshot(snapshot::Args),
    Score(Box<score::Args>),
    Audit(Box<audit::Args>),
    Report(report::Args),
    Diff(diff::Args),
    Rerun(Box<rerun::Args>),
    Freeze(Box<freeze::Args>),
    Funnel(funnel::Args),
    Label(label::Args),
    Env(env::Args),
    Filter(Box<filter::Args>),
    Synth(Box<synth::Args>),
    Validate(Box<validate::Args>),
    Prompt(prompt::Args),
    Gc(gc::Args),
    Completions(completions::Args),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// What a verb gives back: its status, or why it could not do its work. A closed output pipe is a quiet success.
type Outcome = Result<Status, Failure>;

/// Why a verb ended early.
enum Failure {
    Error(Box<CliError>),
    ClosedPipe,
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::ClosedPipe => Self::ClosedPipe,
            OutputError::Unwritable(e) => CliError::infra("could not write to standard output").because(&e).into(),
        }
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        CliError::from(error).into()
    }
}

/// Runs the program on the process's own arguments.
pub fn main() -> ExitCode {
    // The sandbox starts this same program as its helper; that must happen before any thread exists.
    if let Some(code) = crate::sandbox::local::helper_main_if_asked() {
        return code;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // clap prints help and version to standard output and mistakes to standard error.
            let _ = error.print();
            return if error.use_stderr() { Status::Usage } else { Status::Done }.into();
        }
    };
    if let Err(error) = faults() {
        Printer.note(error.render().trim_end());
        return error.status.into();
    }
    let outcome = match args.verb {
        Verb::Doctor(args) => doctor::run(args),
        Verb::Import(args) => import::run(*args),
        Verb::Check(args) => check::run(args),
        Verb::LeakCheck(args) => leak_check::run(*args),
        Verb::Snapshot(args) => snapshot::run(args),
        Verb::Score(args) => score::run(*args),
        Verb::Audit(args) => audit::run(*args),
        Verb::Report(args) => report::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Rerun(args) => rerun::run(*args),
        Verb::Freeze(args) => freeze::run(*args),
        Verb::Funnel(args) => funnel::run(args),
        Verb::Label(args) => label::run(args),
        Verb::Env(args) => env::run(args),
        Verb::Filter(args) => filter::run(*args),
        Verb::Synth(args) => synth::run(*args),
        Verb::Validate(args) => validate::run(*args),
        Verb::Prompt(args) => prompt::run(args),
        Verb::Gc(args) => gc::run(args),
        Verb::Completions(args) => completions::run(args, <Args as clap::CommandFactory>::command()),
        Verb::Other(words) => Err(planned::refuse(&words).into()),
    };
    match outcome {
        Ok(status) => status.into(),
        Err(Failure::ClosedPipe) => Status::Done.into(),
        Err(Failure::Error(error)) => {
            Printer.note(error.render().trim_end());
            error.status.into()
        }
    }
}

/// Arms the fault points where a test asks for it; only builds with `debug_assertions` do.
fn faults() -> Result<(), CliError> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let Some(folder) = variables::get("REDGREEN_FAULT_FOLDER") else { return Ok(()) };
    let setting = fault::Setting::new(folder.into(), variables::get("REDGREEN_FAULT").as_deref());
    let setting = setting.map_err(|e| CliError::usage(e.to_string()))?;
    fault::arm(setting).map_err(|e| CliError::usage("the folder of `REDGREEN_FAULT_FOLDER` cannot be used").because(&e))
}

/// The async runtime of verbs that run things.
pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::infra("could not start the async runtime").because(&e))
}
