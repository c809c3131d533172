//! TAP on standard output, as far as an oracle's verdict needs it: the plan, the top-level test lines and their
//! directives, and `Bail out!` (Test Anything Protocol, versions 12 to 14). Subtests and diagnostics are indented or
//! start with `#` and say nothing of their own.

use crate::model::ErrorKind;

use super::report::{Broken, Report, TestId, TestResult, TestStatus};

/// Reads the standard output of a run.
pub(super) fn parse(stdout: &str) -> Report {
    let mut report = Report::default();
    let mut plan: Option<usize> = None;
    let mut diagnostics_of: Option<usize> = None;
    for line in stdout.lines() {
        let line = line.trim_end();
        if let Some(count) = line.strip_prefix("1..") {
            let number = count.split([' ', '#']).next().unwrap_or_default().parse().ok();
            match (number, plan) {
                (Some(number), None) => plan = Some(number),
                (_, Some(_)) => odd(&mut report, "a second plan".to_owned()),
                (None, None) => odd(&mut report, format!("`{line}` is no plan")),
            }
        } else if let Some(reason) = line.strip_prefix("Bail out!") {
            report.broken = Some(Broken { kind: ErrorKind::Runner, message: Some(format!("bailed out:{reason}")) });
            break;
        } else if let Some(test) = test_line(line, report.tests.len() + 1) {
            match test {
                Ok(test) => report.tests.push(test),
                Err(problem) => odd(&mut report, problem),
            }
            diagnostics_of = Some(report.tests.len().saturating_sub(1));
        } else if let (Some(at), Some(text)) = (diagnostics_of, line.trim_start().strip_prefix('#'))
            && let Some(test) = report.tests.get_mut(at)
            && test.status == TestStatus::Failed
        {
            test.message.get_or_insert(text.trim().to_owned());
        }
    }
    let bad = report.tests.iter().any(|t| t.status == TestStatus::Failed);
    // A script that leaves at its first failure never comes to a plan at its end; that says enough.
    report.complete = plan.map_or(bad, |plan| plan == report.tests.len() || bad);
    if let Some(plan) = plan
        && report.tests.len() > plan
    {
        let problem = format!("{} tests, {plan} planned", report.tests.len());
        odd(&mut report, problem);
    }
    for test in &mut report.tests {
        if test.status == TestStatus::Failed {
            test.message.get_or_insert_with(|| test.id.to_string());
        }
    }
    report.check_ids();
    report
}

fn odd(report: &mut Report, problem: String) {
    report.odd.get_or_insert(problem);
}

/// A test line, when this is one. An id is the number and the description, so that two equal descriptions stay two.
fn test_line(line: &str, next: usize) -> Option<Result<TestResult, String>> {
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let rest = rest.trim_start();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    if !number.is_empty() && number.parse() != Ok(next) {
        return Some(Err(format!("test {number} where {next} is next")));
    }
    let rest = rest.trim_start().trim_start_matches("- ");
    let (text, directive) = rest.split_once('#').map_or((rest, ""), |(text, directive)| (text, directive));
    let directive = directive.trim_start().to_ascii_uppercase();
    let is_unseen = directive.starts_with("SKIP") || directive.starts_with("TODO");
    let text = if is_unseen { text.trim_end() } else { rest };
    let status = match (is_unseen, ok) {
        (true, _) => TestStatus::Unseen,
        (false, true) => TestStatus::Passed,
        (false, false) => TestStatus::Failed,
    };
    let id = TestId::new(format!("{next} {text}").trim_end());
    Some(Ok(TestResult { id, status, message: None }))
}
