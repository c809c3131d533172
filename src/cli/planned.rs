//! Verbs that are planned and not there yet, told apart from typing mistakes.

use super::error::CliError;

const PLANNED: &[&str] =
    &["review", "revise", "compare", "judge", "metrics", "stats", "mine", "submit", "worker", "merge"];

/// The error for a word that is no verb.
pub(super) fn refuse(words: &[String]) -> CliError {
    let word = words.first().map_or("", String::as_str);
    if PLANNED.contains(&word) {
        CliError::usage(format!("`redgreen {word}` is planned and not there yet"))
            .hint("`redgreen --help` lists the verbs that are there")
    } else {
        CliError::usage(format!("`{word}` is no verb of redgreen")).hint("`redgreen --help` lists the verbs")
    }
}
