//! JUnit XML, as far as an oracle's verdict needs it: test cases and what went wrong in them.
//!
//! Writers differ in when they say `failure` and when `error` (pytest says `failure` for a TypeError in a test), so the
//! exception's name tells, where there is one; `failure` without a name is an assertion.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::model::ErrorKind;

use super::report::{Report, TestId, TestResult, TestStatus};

/// Reads one XML text.
pub(super) fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut reader = Reader::from_str(text);
    let mut open: Option<TestResult> = None;
    let mut depth = 0_usize;
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => {
                report.odd = Some(format!("no XML at byte {}: {error}", reader.error_position()));
                break;
            }
        };
        match event {
            Event::Start(tag) => {
                depth += 1;
                element(&tag, &mut open);
            }
            Event::Empty(tag) => {
                element(&tag, &mut open);
                if tag.local_name().as_ref() == "testcase" {
                    report.tests.extend(open.take());
                }
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                if tag.local_name().as_ref() == "testcase" {
                    report.tests.extend(open.take());
                }
                report.complete |= depth == 0;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    report.complete &= depth == 0 && report.odd.is_none();
    report.check_ids();
    report
}

fn element(tag: &BytesStart<'_>, open: &mut Option<TestResult>) {
    match tag.local_name().as_ref() {
        "testcase" => {
            let name = attribute(tag, "name").unwrap_or_default();
            let id = attribute(tag, "classname").filter(|class| !class.is_empty());
            let id = TestId::new(id.map_or_else(|| name.clone(), |class| format!("{class}.{name}")));
            *open = Some(TestResult { id, status: TestStatus::Passed, message: None });
        }
        "skipped" => {
            if let Some(test) = open
                && test.status == TestStatus::Passed
            {
                test.status = TestStatus::Unseen;
            }
        }
        kind @ ("failure" | "error") => {
            if let Some(test) = open {
                let message = attribute(tag, "message").unwrap_or_default();
                let first = message.lines().next().unwrap_or_default().to_owned();
                let name = attribute(tag, "type").filter(|name| !name.is_empty());
                let name = name.or_else(|| exception_in(&first).map(str::to_owned));
                let status = status_of(kind == "failure", name.as_deref());
                if !matches!(test.status, TestStatus::Errored(_)) {
                    test.status = status;
                    test.message = Some(first).filter(|text| !text.is_empty()).or(name);
                }
            }
        }
        _ => {}
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let value = tag.try_get_attribute(name).ok()??;
    value.normalized_value(XmlVersion::Explicit1_0).ok().map(std::borrow::Cow::into_owned)
}

/// The exception that a message begins with: `TypeError: …`, `java.lang.AssertionError: …`.
fn exception_in(message: &str) -> Option<&str> {
    let end =
        message.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | ':'))).unwrap_or(message.len());
    let name = message[..end].trim_end_matches(':');
    let looks = name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Failed");
    looks.then_some(name)
}

fn status_of(is_failure: bool, name: Option<&str>) -> TestStatus {
    let last = name.map(|name| name.rsplit(['.', ':', '$']).next().unwrap_or(name).to_ascii_lowercase());
    match last {
        Some(name)
            if name.contains("assert")
                || name == "failed"
                || name.contains("comparisonfail")
                || name.contains("expectationfail") =>
        {
            TestStatus::Failed
        }
        Some(name) if name.contains("syntaxerror") => TestStatus::Errored(ErrorKind::Syntax),
        Some(name) if name.contains("importerror") || name.contains("modulenotfound") => {
            TestStatus::Errored(ErrorKind::Import)
        }
        Some(name) if !is_failure || name.ends_with("error") || name.ends_with("exception") => {
            TestStatus::Errored(ErrorKind::Exception)
        }
        _ if is_failure => TestStatus::Failed,
        _ => TestStatus::Errored(ErrorKind::Exception),
    }
}
