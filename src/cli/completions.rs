//! `redgreen completions`.

use clap_complete::Shell;

use super::Outcome;
use super::error::Status;
use super::printer::Printer;

/// Print a completion script for a shell.
///
/// Example: redgreen completions bash > ~/.local/share/bash-completion/completions/redgreen
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: Args, mut command: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "redgreen", &mut script);
    Printer.data(&String::from_utf8_lossy(&script))?;
    Ok(Status::Done)
}
