//! `cargo test`: build messages first (`--message-format=json-render-diagnostics`), then libtest's text.
//!
//! libtest's JSON is for nightly compilers only, so its text is read, and checked against its own summary. A failing
//! test's last panic tells what it was: raised in the oracle's own file it is `failed`, elsewhere `errored`. The tests
//! share the output with the code under test, so the channel is weak.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use crate::model::ErrorKind;

use super::report::{Broken, Report, TestId, TestResult, TestStatus};

#[derive(Deserialize)]
struct BuildMessage {
    reason: String,
    success: Option<bool>,
}

/// Whether cargo came as far as its first build message.
pub(super) fn started(stdout: &[u8]) -> bool {
    stdout.starts_with(b"{\"reason\":")
}

/// The crate of the library that the built test is linked with: the one of the test's own package.
pub(super) fn library(stdout: &str) -> Option<String> {
    let artifacts: Vec<Artifact> = stdout
        .lines()
        .map_while(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| serde_json::from_value(message).ok())
        .collect();
    let test = artifacts.iter().rfind(|artifact| artifact.is(&["test"]))?;
    let kinds = ["lib", "rlib", "dylib", "proc-macro"];
    let library = artifacts.iter().find(|artifact| artifact.package_id == test.package_id && artifact.is(&kinds))?;
    let name = library.target.name.replace('-', "_");
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some(name)
}

#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    target: Target,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

impl Artifact {
    fn is(&self, kinds: &[&str]) -> bool {
        self.target.kind.iter().any(|kind| kinds.contains(&kind.as_str()))
    }
}

/// Reads one run. `own_file` is the oracle's file, relative to the workspace, with `/` between parts.
pub(super) fn parse(stdout: &str, stderr: &str, own_file: &str) -> Report {
    let mut built = None;
    let mut rest = stdout;
    while built.is_none() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if let Ok(message) = serde_json::from_str::<BuildMessage>(line)
            && message.reason == "build-finished"
        {
            built = Some(message.success.unwrap_or(false));
        }
        if after.is_empty() && built.is_none() {
            break;
        }
        rest = after;
    }
    match built {
        Some(true) => {
            let mut report = parse_text(rest, own_file);
            report.check_ids();
            if rest.lines().filter(|line| patterns::SUMMARY.is_match(line)).count() > 1 {
                report.odd.get_or_insert("there is more than one summary".to_owned());
            }
            report.crashed = !report.complete && died_by_signal(stderr);
            report
        }
        other => {
            let kind = if other.is_some() { ErrorKind::Compile } else { ErrorKind::Runner };
            Report { broken: Some(Broken { kind, message: first_error(stderr) }), ..Report::default() }
        }
    }
}

fn first_error(stderr: &str) -> Option<String> {
    stderr.lines().find(|line| line.starts_with("error:") || line.starts_with("error[")).map(str::to_owned)
}

fn died_by_signal(stderr: &str) -> bool {
    stderr
        .lines()
        .any(|line| line.trim_start().starts_with("process didn't exit successfully:") && line.contains("(signal: "))
}

#[expect(clippy::unwrap_used, reason = "constant patterns, compiled by the tests")]
mod patterns {
    use super::{LazyLock, Regex};

    /// A test's line; with one thread what the test itself wrote may stand before the last word.
    pub(super) static TEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^test (.+?)(?: - should panic)? \.\.\. ?(.*)$").unwrap());
    pub(super) static SUMMARY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; ").unwrap()
    });
    /// Since Rust 1.73 the place ends the line and the message follows.
    pub(super) static PANIC: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^thread '.*' (?:\(\d+\) )?panicked at (.+):\d+:\d+:$").unwrap());
    /// Before, the message came first, in quotes, over as many lines as it has.
    pub(super) static OLD_PANIC: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^thread '.*' panicked at '(.*)$").unwrap());
    pub(super) static OLD_PLACE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(.*)', ([^']+):\d+:\d+$").unwrap());
}

fn status_word(text: &str) -> Option<TestStatus> {
    if text.ends_with("ok") {
        Some(TestStatus::Passed)
    } else if text.ends_with("FAILED") || text.ends_with("failed") {
        Some(TestStatus::Failed)
    } else if text == "ignored" || text.starts_with("ignored, ") {
        Some(TestStatus::Unseen)
    } else {
        None
    }
}

fn parse_text(text: &str, own_file: &str) -> Report {
    let mut report = Report::default();
    let mut lines = text.lines();
    let mut open: Option<String> = None;
    for line in lines.by_ref() {
        if line == "failures:" {
            break;
        }
        if let Some(counts) = patterns::SUMMARY.captures(line) {
            finish(&mut report, &counts);
            return report;
        }
        if let Some(found) = patterns::TEST.captures(line) {
            open = match status_word(&found[2]) {
                Some(status) => {
                    report.tests.push(result(&found[1], status));
                    None
                }
                None => Some(found[1].to_owned()),
            };
        } else if let Some(name) = open.take() {
            match status_word(line) {
                Some(status) if status != TestStatus::Unseen => report.tests.push(result(&name, status)),
                _ => open = Some(name),
            }
        }
    }
    let mut section: Option<(String, Vec<&str>)> = None;
    for line in lines {
        if let Some(counts) = patterns::SUMMARY.captures(line) {
            finish(&mut report, &counts);
            break;
        }
        let head = line.strip_prefix("---- ").and_then(|l| l.strip_suffix(" stdout ----"));
        if head.is_some() || line == "failures:" {
            close(&mut report, section.take(), own_file);
            section = head.map(|name| (name.to_owned(), Vec::new()));
        } else if let Some((_, body)) = &mut section {
            body.push(line);
        }
    }
    close(&mut report, section, own_file);
    for test in &mut report.tests {
        if test.status == TestStatus::Failed && test.message.is_none() {
            test.status = TestStatus::Errored(ErrorKind::Exception); // failed, and no panic of its own was seen
        }
    }
    report
}

fn result(name: &str, status: TestStatus) -> TestResult {
    TestResult { id: TestId::new(name), status, message: None }
}

fn finish(report: &mut Report, counts: &regex::Captures<'_>) {
    report.complete = true;
    let seen = |wanted: fn(TestStatus) -> bool| report.tests.iter().filter(|t| wanted(t.status)).count();
    let here = [
        seen(|s| s == TestStatus::Passed),
        seen(|s| matches!(s, TestStatus::Failed | TestStatus::Errored(_))),
        seen(|s| s == TestStatus::Unseen),
    ];
    let told = [1, 2, 3].map(|group| counts[group].parse().unwrap_or(usize::MAX));
    if here != told {
        report.odd = Some(format!("the summary counts {told:?} (passed, failed, ignored), the lines {here:?}"));
    }
}

fn close(report: &mut Report, section: Option<(String, Vec<&str>)>, own_file: &str) {
    let Some((name, body)) = section else { return };
    let (status, message) = failure_of(&body, own_file);
    if let Some(test) = report.tests.iter_mut().find(|t| t.id.as_str() == name && t.status == TestStatus::Failed) {
        test.status = status;
        test.message = Some(message);
    }
}

/// What a failing test's captured output says: the last panic is the one that failed it.
fn failure_of(body: &[&str], own_file: &str) -> (TestStatus, String) {
    let errored = TestStatus::Errored(ErrorKind::Exception);
    let own_note = ["note: test did not panic as expected", "note: panic did not contain expected string"];
    if let Some(line) = body.iter().rev().find(|line| own_note.iter().any(|note| line.starts_with(note))) {
        return (TestStatus::Failed, line.trim_start_matches("note: ").to_owned());
    }
    let mut last = None;
    for (at, line) in body.iter().enumerate() {
        if let Some(found) = patterns::PANIC.captures(line) {
            let message = body.get(at + 1).copied().unwrap_or_default().to_owned();
            last = Some((found[1].to_owned(), message));
        } else if let Some(found) = patterns::OLD_PANIC.captures(line)
            && let Some(end) = body[at..].iter().find_map(|line| patterns::OLD_PLACE.captures(line))
        {
            let message = patterns::OLD_PLACE.captures(&found[1]).map_or(found[1].to_owned(), |c| c[1].to_owned());
            last = Some((end[2].to_owned(), message));
        }
    }
    match last {
        Some((place, message)) => (if same_file(&place, own_file) { TestStatus::Failed } else { errored }, message),
        None => (errored, body.iter().find(|line| !line.is_empty()).copied().unwrap_or_default().to_owned()),
    }
}

/// Whether a panic's place is the oracle's file. Places are relative to the Cargo workspace, which may lie above or
/// below the tree's root, so the shorter of the two must be the tail of the longer, by whole parts.
fn same_file(place: &str, own_file: &str) -> bool {
    let place = place.strip_prefix("./").unwrap_or(place);
    let (long, short) = if place.len() >= own_file.len() { (place, own_file) } else { (own_file, place) };
    short.contains('/') && (long == short || long.strip_suffix(short).is_some_and(|head| head.ends_with('/')))
}
