//! Our verdicts beside those that came with the data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{
    CommentId, ErrorKind, InstanceId, Outcome, RecordedVerdict, Revision, RevisionStatus, Verdict, VerdictKind,
};

/// How far our verdicts agree with the recorded ones. `compared = agree + disagree.len()`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Agreement {
    /// Pairs that were compared.
    pub compared: usize,
    /// Pairs that agree.
    pub agree: usize,
    /// Pairs that do not.
    pub disagree: Vec<Disagreement>,
    /// Recorded pairs of which there is nothing to compare, by reason.
    pub not_run: BTreeMap<String, usize>,
    /// Where both fail, the first failing assertion's line.
    pub first_line: FirstLine,
}

/// One pair that does not agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disagreement {
    /// The instance.
    pub instance_id: String,
    /// The comment.
    pub comment: String,
    /// The arm.
    pub arm: String,
    /// `pass` or `fail`, as recorded.
    pub recorded: String,
    /// `pass` or `fail`, as found here.
    pub here: String,
    /// Why it is so here.
    pub reason: Option<String>,
}

/// How often the first failing assertion's line is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FirstLine {
    /// Equal lines.
    pub equal: usize,
    /// Pairs where both fail and both have a line.
    pub compared: usize,
}

/// A verdict of ours and what its run showed beside it.
#[derive(Debug, Clone, Copy)]
pub struct Replayed<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// The exit code of its (first failing) run, where it is known.
    pub exit_code: Option<i32>,
    /// The first failing assertion's line, where there is one.
    pub first_line: Option<&'a str>,
}

/// Compares verdicts of recorded revisions with the recorded verdicts, whatever the denominator.
///
/// A pair is a recorded verdict whose comment and arm have a row here (so a run over some instances is compared on
/// these); the states `head` and `merged` are never recorded revisions, and of several attempts the first one counts.
/// Not compared, but counted in `not_run`: exit codes other than 0 and 1 (the recorded `fail` of such a run says
/// nothing), runs that ended without an exit code of their own, patches that do not apply, empty recorded diffs without
/// a note, invalid verdicts. A recorded "Agent made no changes" compares as a fail without a run.
pub fn agreement(recorded: &[RecordedVerdict], revisions: &[Revision], replayed: &[Replayed<'_>]) -> Agreement {
    let mut rows: BTreeMap<(&InstanceId, &CommentId, &str), &Replayed<'_>> = BTreeMap::new();
    for row in replayed {
        let verdict = row.verdict;
        rows.entry((&verdict.instance_id, &verdict.comment, verdict.arm.as_str()))
            .and_modify(|first| {
                if verdict.attempt < first.verdict.attempt {
                    *first = row;
                }
            })
            .or_insert(row);
    }
    let mut first_revisions: BTreeMap<(&InstanceId, &str), &Revision> = BTreeMap::new();
    for revision in revisions {
        first_revisions
            .entry((&revision.instance_id, revision.arm.as_str()))
            .and_modify(|first| {
                if revision.attempt < first.attempt {
                    *first = revision;
                }
            })
            .or_insert(revision);
    }
    let mut out = Agreement::default();
    for row in recorded.iter().filter(|row| !row.arm.is_state()) {
        let Some(here) = rows.get(&(&row.instance_id, &row.comment, row.arm.as_str())) else { continue };
        let revision = first_revisions.get(&(&row.instance_id, row.arm.as_str())).copied();
        match compare(row, revision, here) {
            Err(reason) => *out.not_run.entry(reason).or_insert(0) += 1,
            Ok(passed) => out.add(row, here, passed),
        }
    }
    out
}

/// Whether the pair passes here, or why it says nothing.
fn compare(recorded: &RecordedVerdict, revision: Option<&Revision>, replayed: &Replayed<'_>) -> Result<bool, String> {
    let here = replayed.verdict;
    if recorded.says_no_changes() {
        return Ok(false);
    }
    let Some(revision) = revision else { return Err("no revision".to_owned()) };
    if revision.patch.trim().is_empty() && revision.status != RevisionStatus::NoChanges {
        return Err("empty diff".to_owned());
    }
    let reason = || here.reason.clone().unwrap_or_else(|| here.verdict.as_str().to_owned());
    match here.verdict {
        VerdictKind::Pass => Ok(true),
        VerdictKind::Fail if here.outcomes.is_empty() => Err(first_words(&reason())),
        VerdictKind::Fail => match replayed.exit_code {
            Some(0 | 1) => Ok(false),
            Some(code) => Err(format!("exit code {code}")),
            None => match here.outcomes.iter().find(|outcome| !is_test_result(outcome)) {
                Some(outcome) => Err(outcome.to_string()),
                None => Ok(false),
            },
        },
        VerdictKind::Invalid | VerdictKind::Missing => Err(first_words(&reason())),
    }
}

/// Whether a run with this outcome can have ended with exit code 0 or 1, as far as the outcome alone can tell.
fn is_test_result(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Passed | Outcome::Failed | Outcome::Errored(ErrorKind::Exception))
}

/// The class of a reason, without the detail that would make every pair a reason of its own.
fn first_words(reason: &str) -> String {
    match reason.split_once(": ") {
        // The detail of `not run` is its class.
        Some(("not run", detail)) => detail.to_owned(),
        Some((class, _)) => class.to_owned(),
        None => reason.to_owned(),
    }
}

impl Agreement {
    fn add(&mut self, recorded: &RecordedVerdict, here: &Replayed<'_>, passed: bool) {
        self.compared += 1;
        let word = |passed| if passed { VerdictKind::Pass } else { VerdictKind::Fail }.as_str().to_owned();
        if passed != recorded.passed {
            self.disagree.push(Disagreement {
                instance_id: recorded.instance_id.to_string(),
                comment: recorded.comment.to_string(),
                arm: recorded.arm.to_string(),
                recorded: word(recorded.passed),
                here: word(passed),
                reason: here.verdict.reason.clone(),
            });
            return;
        }
        self.agree += 1;
        if passed {
            return;
        }
        if let (Some(theirs), Some(ours)) = (&recorded.first_line, here.first_line) {
            self.first_line.compared += 1;
            self.first_line.equal += usize::from(plain_line(theirs) == plain_line(ours));
        }
    }
}

/// A first line without what only pytest's version decides: newer ones write `DID NOT RAISE ValueError` where older ones
/// write `DID NOT RAISE <class 'ValueError'>`, with the module's name before it.
fn plain_line(line: &str) -> String {
    let line = line.trim();
    let class = line
        .strip_prefix("Failed: DID NOT RAISE <class '")
        .and_then(|rest| rest.strip_suffix("'>"))
        .map(|path| path.rsplit('.').next().unwrap_or(path));
    class.map_or_else(|| line.to_owned(), |class| format!("Failed: DID NOT RAISE {class}"))
}

#[cfg(test)]
mod tests;
