//! `redgreen env detect`, and the scripts of the definitions run for real.

mod pip;
mod proofs;
mod requirements;
mod verb;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes files below a folder.
fn files(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let place = folder.join(name);
        fs_err::create_dir_all(place.parent().unwrap()).unwrap();
        fs_err::write(place, text).unwrap();
    }
}

/// The text of a script of `environments/scripts`.
fn script(name: &str) -> String {
    fs_err::read_to_string(crate::support::root().join("environments/scripts").join(name)).unwrap()
}

/// Runs a command; `None` where the program is not on this machine.
fn run(command: &mut Command) -> Option<Output> {
    command.stdin(Stdio::null()).output().ok()
}

/// The JSON object in the last line that a command wrote.
#[track_caller]
fn last_line(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {text}\n{}", String::from_utf8_lossy(&output.stderr)))
}
