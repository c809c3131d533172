//! JUnit oracles: what an XML file says as a report.
//!
//! Writers differ in when they say `failure` and when `error` (pytest says `failure` for a TypeError in a test), so the
//! exception's name tells, where there is one; a `failure` without a name is an assertion.

use crate::formats::junit::{Case, CaseStatus, parse as read};
use crate::model::ErrorKind;

use super::report::{Report, TestId, TestResult, TestStatus, is_assertion};

/// Reads one XML text.
pub(super) fn parse(xml: &str) -> Report {
    if xml.trim().is_empty() {
        return Report::default();
    }
    let mut report = match read(xml) {
        Ok(cases) => Report { tests: cases.iter().map(result).collect(), complete: true, ..Report::default() },
        Err(error) => Report { odd: Some(error.to_string()), ..Report::default() },
    };
    report.check_ids();
    report
}

fn result(case: &Case) -> TestResult {
    let exception = case.exception.as_deref();
    let status = match case.status {
        CaseStatus::Passed => TestStatus::Passed,
        CaseStatus::Skipped => TestStatus::Unseen,
        CaseStatus::Failed if exception.is_none_or(is_assertion) => TestStatus::Failed,
        CaseStatus::Errored if exception.is_some_and(is_assertion) => TestStatus::Failed,
        CaseStatus::Failed | CaseStatus::Errored => TestStatus::Errored(kind_of(exception.unwrap_or_default())),
    };
    let is_bad = matches!(status, TestStatus::Failed | TestStatus::Errored(_));
    let message = case.message.as_ref().filter(|_| is_bad).or(case.exception.as_ref().filter(|_| is_bad));
    let first = message.and_then(|message| message.lines().next()).map(str::to_owned);
    TestResult { id: TestId::new(&case.id), status, message: first }
}

fn kind_of(exception: &str) -> ErrorKind {
    if exception.ends_with("SyntaxError") || exception.ends_with("IndentationError") {
        ErrorKind::Syntax
    } else if exception.ends_with("ImportError") || exception.ends_with("ModuleNotFoundError") {
        ErrorKind::Import
    } else {
        ErrorKind::Exception
    }
}
