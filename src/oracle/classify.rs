//! From what a run left behind to its outcome. Pure; the order of signs is the design's: deadline and memory before a
//! signal, that before the result channel, that before missing tests.

use serde::Serialize;

use crate::model::{ErrorKind, InfraReason, Outcome};
use crate::sandbox::{End, Exit};

use super::alive::printed;
use super::framework::ResultKind;
use super::plan::Plan;
use super::policy::Policy;
use super::report::{Report, TestId, TestResult, TestStatus};
use super::run::{RunEvidence, is_good};
use super::trace::Trace;
use super::{channel, junit, libtest, tap};

/// How far a result can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// Events of redgreen's own reporter, through an owned descriptor.
    Reporter,
    /// An exit code, text or a file that the code under test can leave as well.
    Weak,
}

impl Channel {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reporter => "reporter",
            Self::Weak => "weak",
        }
    }
}

/// One run, classified.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Classified {
    /// What the run showed.
    pub outcome: Outcome,
    /// The tests that were seen (ran to a result), in order.
    pub seen: Vec<TestResult>,
    /// The first line of what the first failing assertion, exception or compiler error said.
    pub message: Option<String>,
    /// The first line of standard output that pytest marks with `E `, without the mark.
    pub first_line: Option<String>,
    /// How far the result can be believed.
    pub channel: Channel,
    /// Whether the oracle never loaded the project's code; `None` where that was not measured.
    pub text_only: Option<bool>,
    /// What was seen of the project's code, where the run was traced.
    pub trace: Option<Trace>,
}

impl Classified {
    /// Nothing is known yet.
    fn unknown(channel: Channel) -> Self {
        Self {
            outcome: Outcome::Infra(InfraReason::Interrupted),
            seen: Vec::new(),
            message: None,
            first_line: None,
            channel,
            text_only: None,
            trace: None,
        }
    }

    /// The ids of the tests that passed: what a passing `merged` run expects of all others.
    pub fn passed_ids(&self) -> Vec<TestId> {
        self.seen.iter().filter(|t| t.status == TestStatus::Passed).map(|t| t.id.clone()).collect()
    }
}

/// Classifies the evidence of one run of `plan`. `expected` are the ids that the `merged` control passed; `None` while
/// that control itself runs, or where there is none.
pub fn classify(plan: &Plan, evidence: &RunEvidence, expected: Option<&[TestId]>) -> Classified {
    let channel = match plan.result {
        ResultKind::Reporter => Channel::Reporter,
        ResultKind::Junit | ResultKind::Libtest | ResultKind::Tap | ResultKind::Exit => Channel::Weak,
    };
    let mut classified = Classified::unknown(channel);
    if let Some(rebuild) = evidence.rebuild.as_ref().filter(|exit| !is_good(exit)) {
        let compile = Outcome::Errored(ErrorKind::Compile);
        classified.outcome = end_of(rebuild).map_or_else(|outcome| outcome, |_| compile);
        classified.message = last_line(&rebuild.stderr.text());
        return classified;
    }
    classify_run(plan, evidence, expected, &mut classified);
    if let (ResultKind::Libtest, Outcome::Passed) = (plan.result, &classified.outcome) {
        check_canary_run(plan, evidence, &mut classified);
    }
    classified
}

/// Whether the oracle's own run of cargo shows a pass, so that it is worth a canary run.
pub(super) fn passes_without_canary(plan: &Plan, evidence: &RunEvidence) -> bool {
    let mut classified = Classified::unknown(Channel::Weak);
    classify_run(plan, evidence, None, &mut classified);
    classified.outcome == Outcome::Passed
}

/// A pass is one when the canary run, too, went as it must.
fn check_canary_run(plan: &Plan, evidence: &RunEvidence, classified: &mut Classified) {
    let problem = match &evidence.canary {
        None => Some("there was no canary run".to_owned()),
        Some(run) => match end_of(&run.exit) {
            Ok(code) => run.problem(code, &plan.placement.own_file()),
            Err(outcome) => {
                classified.outcome = outcome;
                return;
            }
        },
    };
    if problem.is_some() {
        classified.outcome = Outcome::Errored(ErrorKind::ResultChannel);
        classified.message = problem;
    }
}

/// The oracle's own run, whatever a canary run says.
fn classify_run(plan: &Plan, evidence: &RunEvidence, expected: Option<&[TestId]>, classified: &mut Classified) {
    let Some(exit) = &evidence.exit else { return };
    let stdout = exit.stdout.text();
    classified.first_line = stdout.lines().find_map(|line| line.strip_prefix("E ")).map(|line| line.trim().to_owned());
    let code = match end_of(exit) {
        Ok(code) => code,
        Err(outcome) => {
            classified.outcome = outcome;
            return;
        }
    };
    if let Some(probe) = evidence.probe.as_ref().filter(|probe| !is_good(probe)) {
        let reason = if probe.cancelled { InfraReason::Interrupted } else { InfraReason::Environment };
        classified.outcome = Outcome::Infra(reason);
        let said = last_line(&probe.stderr.text()).unwrap_or_else(|| "it says nothing".to_owned());
        let name = plan.framework.as_str();
        classified.message = Some(format!(
            "the environment cannot run `{name}`: {said}; is `{name}` among the environment's `packages`?"
        ));
        return;
    }
    if plan.result == ResultKind::Exit {
        classified.outcome = by_exit_code(plan, exit, code);
        classified.message = classified.first_line.clone().filter(|_| classified.outcome != Outcome::Passed);
        return;
    }
    let mut report = read(plan, exit, &stdout, code);
    if let Some(forged) = &evidence.forged {
        // What was put in may make any line after it odd, too.
        report.odd = Some(forged.clone());
    }
    let outcome = judge(&report, code, Fit::of(plan.result), expected);
    classified.message = message_of(&report, &outcome);
    classified.text_only = report.ran_project.map(|ran| !ran);
    classified.trace.clone_from(&report.trace);
    classified.seen = report.seen().cloned().collect();
    classified.outcome = outcome;
}

/// The exit code, or the outcome that the end of the process itself is.
fn end_of(exit: &Exit) -> Result<i32, Outcome> {
    if exit.cancelled {
        return Err(Outcome::Infra(InfraReason::Interrupted));
    }
    if exit.timed_out {
        return Err(Outcome::TimedOut);
    }
    if exit.out_of_memory {
        return Err(Outcome::OutOfMemory);
    }
    match exit.end {
        End::Signaled(_) => Err(Outcome::Crashed),
        End::Exited(code) => Ok(code),
    }
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn by_exit_code(plan: &Plan, exit: &Exit, code: i32) -> Outcome {
    let believed = match plan.policy {
        // The release's rule: 0 passes whatever was printed. Any other code without a sign of life says nothing.
        Policy::CCrab => code == 0 || plan.rule.alive.as_deref().is_none_or(|pattern| printed(pattern, exit)),
        Policy::Strict => plan.rule.must_print.as_deref().is_none_or(|pattern| printed(pattern, exit)),
    };
    let outcome = plan.rule.codes.get(&code).filter(|_| believed).cloned();
    outcome.unwrap_or(Outcome::Errored(ErrorKind::Runner))
}

fn read(plan: &Plan, exit: &Exit, stdout: &str, code: i32) -> Report {
    let mut report = match plan.result {
        ResultKind::Reporter => channel::parse(&exit.result.bytes, exit.result.dropped, code),
        ResultKind::Junit => junit::parse(&exit.result.text()),
        ResultKind::Tap => tap::parse(stdout),
        ResultKind::Libtest => libtest::parse(stdout, &exit.stderr.text(), &plan.placement.own_file()),
        ResultKind::Exit => Report::default(),
    };
    let cut = if plan.result == ResultKind::Junit { exit.result.dropped } else { exit.stdout.dropped };
    if cut > 0 && plan.result != ResultKind::Reporter {
        report.odd.get_or_insert_with(|| format!("{cut} bytes were cut off"));
    }
    report
}

/// Which exit codes fit which reports.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// Whether code 0 is possible with failing tests.
    zero_with_bad: bool,
    /// The one code that says "tests failed"; `None`: any other than 0 does.
    bad: Option<i32>,
    /// The code that says "there were no tests", beside 0.
    none: Option<i32>,
}

impl Fit {
    fn of(result: ResultKind) -> Self {
        match result {
            ResultKind::Reporter => Self { zero_with_bad: false, bad: Some(1), none: Some(5) },
            ResultKind::Libtest => Self { zero_with_bad: false, bad: Some(101), none: None },
            ResultKind::Tap | ResultKind::Junit | ResultKind::Exit => {
                Self { zero_with_bad: true, bad: None, none: None }
            }
        }
    }
}

/// The outcome of a report and an exit code together.
fn judge(report: &Report, code: i32, fit: Fit, expected: Option<&[TestId]>) -> Outcome {
    let channel = Outcome::Errored(ErrorKind::ResultChannel);
    let runner = Outcome::Errored(ErrorKind::Runner);
    if report.crashed {
        return Outcome::Crashed;
    }
    if report.odd.is_some() {
        return channel;
    }
    if let Some(broken) = &report.broken {
        // Whatever broke must have left its mark on the exit code.
        return if code == 0 && !fit.zero_with_bad { channel } else { Outcome::Errored(broken.kind) };
    }
    if !report.complete {
        return if code == 0 { channel } else { runner };
    }
    let says_something = code == 0 || fit.bad == Some(code) || fit.none == Some(code);
    if says_something && report.canary_problem().is_some() {
        return channel;
    }
    let statuses: Vec<TestStatus> = report.seen().map(|test| test.status).collect();
    let errored = statuses.iter().find_map(|status| match status {
        TestStatus::Errored(kind) => Some(Outcome::Errored(*kind)),
        _ => None,
    });
    let bad = errored.or_else(|| statuses.contains(&TestStatus::Failed).then_some(Outcome::Failed));
    match bad {
        Some(_) if code == 0 && !fit.zero_with_bad => channel,
        Some(outcome) if code == 0 || fit.bad.is_none_or(|bad| bad == code) => outcome,
        Some(_) if fit.none == Some(code) => channel,
        Some(_) => runner,
        None if code == 0 || (fit.none == Some(code) && statuses.is_empty()) => {
            let is_seen = |id: &TestId| report.seen().any(|test| test.id == *id);
            let missing = expected.is_some_and(|ids| !ids.iter().all(is_seen));
            if statuses.is_empty() || missing { Outcome::NoTests } else { Outcome::Passed }
        }
        // The code says that tests failed, or that there were none, and the report knows otherwise.
        None if fit.bad.is_none_or(|bad| bad == code) || fit.none == Some(code) => channel,
        None => runner,
    }
}

fn message_of(report: &Report, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Passed | Outcome::NoTests => None,
        Outcome::Errored(ErrorKind::ResultChannel) => {
            let said = report.odd.clone().or_else(|| report.canary_problem());
            Some(said.unwrap_or_else(|| "the report and the exit code do not fit together".to_owned()))
        }
        _ => {
            let broken = report.broken.iter().find_map(|broken| broken.message.clone());
            let wanted = |test: &&TestResult| match (outcome, test.status) {
                (Outcome::Errored(kind), TestStatus::Errored(other)) => *kind == other,
                (Outcome::Failed, status) => status == TestStatus::Failed,
                _ => false,
            };
            broken.or_else(|| report.seen().find(wanted).and_then(|test| test.message.clone()))
        }
    }
}
