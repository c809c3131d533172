//! TAP oracles: what a stream of test points says as a report.

use crate::formats::tap::{Directive, TapProblem, Test, parse as read};
use crate::model::ErrorKind;

use super::report::{Broken, Report, TestId, TestResult, TestStatus, is_assertion};

/// Reads the standard output of a run. Subtests are summed up in their parent's test point.
pub(super) fn parse(stdout: &str) -> Report {
    let tap = read(stdout);
    let comments = comments(stdout);
    let aligned = comments.len() == tap.tests.len();
    let tests = tap.tests.iter().enumerate().map(|(at, test)| {
        let comment = comments.get(at).filter(|_| aligned).cloned().flatten();
        result(test, comment)
    });
    let mut report = Report { tests: tests.collect(), ..Report::default() };
    report.broken =
        tap.bail_out.map(|reason| Broken { kind: ErrorKind::Runner, message: Some(format!("bailed out: {reason}")) });
    let (open, odd): (Vec<_>, Vec<_>) = tap
        .problems
        .into_iter()
        .filter(|problem| !matches!(problem, TapProblem::OpenYaml(_)))
        .partition(|problem| matches!(problem, TapProblem::NoPlan | TapProblem::Missing { .. }));
    // A script that leaves at its first failure never comes to a plan at its end; that says enough.
    let is_bad = |test: &TestResult| matches!(test.status, TestStatus::Failed | TestStatus::Errored(_));
    report.complete = open.is_empty() || report.tests.iter().any(is_bad);
    report.odd = odd.first().map(TapProblem::to_string);
    report.check_ids();
    report
}

/// An id is the number and the description, so that two equal descriptions stay two.
fn result(test: &Test, comment: Option<String>) -> TestResult {
    let status = match (&test.directive, test.ok) {
        (Some(Directive::Skip(_) | Directive::Todo(_)), _) => TestStatus::Unseen,
        (None, true) => TestStatus::Passed,
        (None, false) => match test.diagnostics.get("name") {
            Some(exception) if !is_assertion(exception) => TestStatus::Errored(ErrorKind::Exception),
            _ => TestStatus::Failed,
        },
    };
    let is_bad = matches!(status, TestStatus::Failed | TestStatus::Errored(_));
    let message = is_bad
        .then(|| test.message().map(str::to_owned).or(comment).unwrap_or_else(|| test.description.clone()))
        .filter(|message| !message.is_empty());
    TestResult { id: TestId::new(format!("{} {}", test.number, test.description).trim_end()), status, message }
}

/// The comment right below each test point of the top level, where there is one: shell scripts explain failures so.
fn comments(stdout: &str) -> Vec<Option<String>> {
    let mut all = Vec::new();
    let mut below = false;
    for line in stdout.lines() {
        let is_test = ["ok", "not ok"]
            .iter()
            .any(|word| line.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])));
        if is_test {
            all.push(None);
        } else if let (true, Some(text), Some(last)) = (below, line.strip_prefix('#'), all.last_mut()) {
            *last = Some(text.trim().to_owned());
        }
        below = is_test;
    }
    all
}
