//! The result channel's events, as redgreen's own reporters write them: one JSON object a line.
//!
//! The text comes from a process that also runs the code under test, so nothing in it is believed by itself: whatever
//! does not fit (garbage, two ends, a wrong count) makes the whole report odd.
//!
//! The lines were sealed with the run's token ([`super::seal`]), and two canaries of ours ran after the tests. What this
//! does not stop: under pytest and unittest the tests, the code under test and the reporter are one process. Code that
//! walks the interpreter's frames or objects up to the reporter can use it, or change the tests and not the canaries.

use serde::Deserialize;

use crate::model::ErrorKind;

use super::report::{Broken, Canary, Report, Role, TestId, TestResult, TestStatus};

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event {
    Start {},
    Test { id: String, status: Status, kind: Option<Kind>, message: Option<String> },
    CollectError { kind: Kind, exception: Option<String>, message: Option<String> },
    Canary { role: Role, status: Status, message: Option<String> },
    Odd { message: String },
    Crashed {},
    Audit { text: String },
    End { tests: usize, exit: Option<i32>, project: Option<bool> },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Passed,
    Failed,
    Errored,
    Skipped,
    Xfail,
    Xpass,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Exception,
    Import,
    Syntax,
    Runner,
}

impl Status {
    fn of(self, kind: Option<Kind>) -> TestStatus {
        match self {
            Self::Passed => TestStatus::Passed,
            Self::Failed => TestStatus::Failed,
            Self::Errored => TestStatus::Errored(kind.unwrap_or(Kind::Exception).into()),
            Self::Skipped | Self::Xfail | Self::Xpass => TestStatus::Unseen,
        }
    }
}

impl From<Kind> for ErrorKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Exception => Self::Exception,
            Kind::Import => Self::Import,
            Kind::Syntax => Self::Syntax,
            Kind::Runner => Self::Runner,
        }
    }
}

/// Whether the reporter came to its first event, so that the framework itself is there.
pub(super) fn started(bytes: &[u8]) -> bool {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    matches!(serde_json::from_slice::<Event>(line), Ok(Event::Start {}))
}

/// Reads what came through the channel of a run that ended with exit code `code`; `dropped` bytes more were cut off.
pub(super) fn parse(bytes: &[u8], dropped: u64, code: i32) -> Report {
    let mut report = Report { canaries: Some(Vec::new()), ..Report::default() };
    let mut odd = None;
    if dropped > 0 {
        odd = Some(format!("{dropped} bytes were cut off"));
    }
    let mut at_start = true;
    for (number, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            break; // a write that did not come to its end: the report is not complete
        };
        let problem = match serde_json::from_slice::<Event>(line) {
            Ok(event) => take(&mut report, event, &mut at_start, code).err(),
            Err(error) => Some(format!("no event: {error}")),
        };
        if let Some(problem) = problem {
            odd.get_or_insert(format!("line {}: {problem}", number + 1));
        }
    }
    report.odd = odd;
    report.check_ids();
    report
}

fn take(report: &mut Report, event: Event, at_start: &mut bool, code: i32) -> Result<(), String> {
    let first = std::mem::replace(at_start, false);
    if report.complete {
        return Err("an event after the end".to_owned());
    }
    match event {
        Event::Start {} if first => {}
        Event::Start {} => return Err("a second start".to_owned()),
        _ if first => return Err("an event before the start".to_owned()),
        Event::Test { id, status, kind, message } => {
            report.tests.push(TestResult { id: TestId::new(id), status: status.of(kind), message });
        }
        Event::CollectError { kind, exception, message } => {
            let message = match (exception, message) {
                (Some(exception), Some(message)) if !message.starts_with(&exception) => {
                    Some(format!("{exception}: {message}"))
                }
                (exception, message) => message.or(exception),
            };
            report.broken.get_or_insert(Broken { kind: kind.into(), message });
        }
        Event::Canary { role, status, message } => {
            report.canaries.get_or_insert_default().push(Canary { role, status: status.of(None), message });
        }
        Event::Odd { message } => return Err(message),
        Event::Crashed {} => report.crashed = true,
        Event::Audit { .. } if report.trace.is_some() => return Err("a second audit".to_owned()),
        Event::Audit { text } => {
            let trace = serde_json::from_str(&text).map_err(|error| format!("no trace: {error}"))?;
            report.trace = Some(trace);
        }
        Event::End { tests, exit, project } => {
            report.complete = true;
            report.ran_project = project;
            if tests != report.tests.len() {
                return Err(format!("the end counts {tests} tests, {} came", report.tests.len()));
            }
            if exit.is_some_and(|exit| exit != code) {
                return Err(format!("the end says exit code {exit:?}, the process left with {code}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = concat!(
        "{\"event\":\"start\",\"framework\":\"pytest\"}\n",
        "{\"event\":\"test\",\"id\":\"a\",\"status\":\"passed\"}\n",
        "{\"event\":\"test\",\"id\":\"b\",\"status\":\"errored\",\"kind\":\"syntax\",\"message\":\"m\"}\n",
        "{\"event\":\"canary\",\"role\":\"fail\",\"status\":\"failed\"}\n",
        "{\"event\":\"canary\",\"role\":\"pass\",\"status\":\"passed\"}\n",
        "{\"event\":\"end\",\"tests\":2,\"exit\":1,\"project\":true}\n",
    );

    #[test]
    fn a_good_report_is_complete_and_not_odd() {
        let report = parse(GOOD.as_bytes(), 0, 1);
        assert_eq!((report.complete, report.odd.clone(), report.ran_project), (true, None, Some(true)));
        assert_eq!(report.tests[1].status, TestStatus::Errored(ErrorKind::Syntax));
        assert_eq!(report.tests[1].message.as_deref(), Some("m"));
        assert_eq!(report.canary_problem(), None);
    }

    #[test]
    fn every_kind_of_misfit_is_odd() {
        let lines: Vec<&str> = GOOD.split_inclusive('\n').collect();
        let (start, a, b, canary, end) = (lines[0], lines[1], lines[2], lines[3], lines[5]);
        let odd = "{\"event\":\"odd\",\"message\":\"replaced\"}\n";
        for (text, part) in [
            (format!("{start}{a}{b}{end}{end}"), "after the end"),
            (format!("{start}{a}{b}{end}{a}"), "after the end"),
            (format!("{start}{start}{a}{b}{end}"), "second start"),
            (format!("{a}{b}{end}"), "before the start"),
            (format!("{start}{a}{end}"), "counts 2"),
            (format!("{start}{a}{a}{end}"), "twice"),
            (format!("{start}garbage\n{a}{b}{end}"), "no event"),
            (format!("{start}\n{a}{b}{end}"), "no event"),
            (format!("{start}{a}{b}{odd}{end}"), "replaced"),
            (format!("{start}{a}{b}{}{end}", canary.replace("\"fail\"", "\"both\"")), "no event"),
            (format!("{start}{}{b}{end}", a.replace("passed", "great")), "no event"),
        ] {
            let odd = parse(text.as_bytes(), 0, 1).odd.unwrap_or_default();
            assert!(odd.contains(part), "{text}\n{odd}");
        }
        assert!(parse(GOOD.as_bytes(), 0, 0).odd.unwrap().contains("exit code"));
        assert!(parse(GOOD.as_bytes(), 7, 1).odd.unwrap().contains("cut off"));
    }

    #[test]
    fn a_trace_is_read_once_and_must_be_one() {
        let end = GOOD.lines().last().unwrap();
        let tests = GOOD.replace(&format!("{end}\n"), "");
        let text = r#"{\"loaded\":[\"a.py\"],\"loaded_files\":1,\"called_functions\":2,\"lines\":{\"a.py\":[[1,3]]}}"#;
        let audit = format!("{{\"event\":\"audit\",\"text\":\"{text}\"}}\n");
        let report = parse(format!("{tests}{audit}{end}\n").as_bytes(), 0, 1);
        assert_eq!(report.odd, None);
        let trace = report.trace.unwrap();
        assert!(trace.called_functions == 2 && trace.ran("a.py", 3) && !trace.ran("a.py", 4));
        let twice = parse(format!("{tests}{audit}{audit}{end}\n").as_bytes(), 0, 1);
        assert!(twice.odd.unwrap().contains("second audit"));
        let none = parse(format!("{tests}{}{end}\n", audit.replace("loaded_files", "x")).as_bytes(), 0, 1);
        assert!(none.odd.unwrap().contains("no trace"));
    }

    #[test]
    fn a_report_that_breaks_off_is_incomplete() {
        for cut in 0..GOOD.len() {
            let report = parse(&GOOD.as_bytes()[..cut], 0, 1);
            assert!(!report.complete, "{cut}");
            assert_eq!(report.odd, None, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in any::<Vec<u8>>(), code in any::<i32>()) {
            let report = parse(&text, 0, code);
            prop_assert!(!report.complete || report.odd.is_some());
        }
    }
}
