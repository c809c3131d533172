//! The lines of a log that say what went wrong, by the patterns of a definition.

use regex::Regex;

use crate::environment::definition::Definition;
use crate::environment::pattern::compiled;
use crate::environment::trouble::FailureKind;
use crate::sandbox::OVER_DISK;

/// How many decisive lines a failure shows.
pub(super) const LINES: usize = 8;

/// How long a decisive line may be, in characters.
pub(super) const LINE_LENGTH: usize = 400;

/// The first pattern that matches a line of the log, in the definition's order, with the lines that match it. What only
/// the sandbox can know is not believed from a log.
pub(super) fn decisive(definition: &Definition, text: &str) -> Option<(FailureKind, Vec<String>)> {
    first(definition, text, |kind| !kind.is_the_sandboxs())
}

/// Whether a step that had the network failed for it: where it is the first thing that the definition's patterns find.
pub fn is_of_the_network(definition: &Definition, text: &str) -> bool {
    let believed = |kind: FailureKind| kind == FailureKind::Network || !kind.is_the_sandboxs();
    first(definition, text, believed).is_some_and(|(kind, _)| kind == FailureKind::Network)
}

/// Whether a pattern of a kind matches a line.
pub fn says(definition: &Definition, kind: FailureKind, text: &str) -> bool {
    !of_kind(definition, kind, text).is_empty()
}

/// That a compiler or a build failed says the least: anything that says why goes before it.
fn first(
    definition: &Definition,
    text: &str,
    believed: impl Fn(FailureKind) -> bool,
) -> Option<(FailureKind, Vec<String>)> {
    let of = |of_compilers: bool| {
        let known = definition.failures.iter().filter(|failure| believed(failure.kind));
        let mut known = known.filter(|failure| (failure.kind == FailureKind::Compiler) == of_compilers);
        known.find_map(|failure| {
            let pattern = compiled(&failure.pattern)?;
            let lines = matching(text, |line| pattern.is_match(line));
            (!lines.is_empty()).then_some((failure.kind, lines))
        })
    };
    of(false).or_else(|| of(true))
}

/// The lines that tell of something that the sandbox knows already; the last ones where none does.
pub(super) fn telling(definition: Option<&Definition>, text: &str, kind: FailureKind) -> Vec<String> {
    let mut found = definition.map(|definition| of_kind(definition, kind, text)).unwrap_or_default();
    if found.is_empty() && kind == FailureKind::Disk {
        found = matching(text, |line| line.contains(OVER_DISK));
    }
    if found.is_empty() { last_lines(text) } else { found }
}

fn of_kind(definition: &Definition, kind: FailureKind, text: &str) -> Vec<String> {
    let patterns = definition.failures.iter().filter(|failure| failure.kind == kind);
    let patterns: Vec<Regex> = patterns.filter_map(|failure| compiled(&failure.pattern)).collect();
    matching(text, |line| patterns.iter().any(|pattern| pattern.is_match(line)))
}

fn matching(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| fits(line)) {
        let line = shortened(line);
        if !out.contains(&line) {
            out.push(line);
        }
        if out.len() == LINES {
            break;
        }
    }
    out
}

pub(super) fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(|line| shortened(line)).collect()
}

pub(super) fn shortened(line: &str) -> String {
    let line = line.trim();
    if line.chars().count() <= LINE_LENGTH {
        return line.to_owned();
    }
    format!("{}…", line.chars().take(LINE_LENGTH).collect::<String>())
}
