//! Rows and records → verdicts. Pure over what it is handed; nothing is run.

use std::collections::{HashMap, HashSet};

use super::record::RecordView;
use super::roster::{Roster, RosterComment};
use super::row::{Row, RowState};
use crate::model::{
    Arm, CommentId, Digest, Extra, InfraReason, InstanceId, Outcome, Verdict, VerdictKind, VerdictReason,
};
use crate::oracle::{self, Attempt, Controls, Decision, Policy};

/// The verdicts of a run, and what a report needs beside them.
#[derive(Debug, Clone)]
pub struct Scored {
    /// One verdict for each row that the report shows, ordered by instance, comment, arm, attempt.
    pub verdicts: Vec<Verdict>,
    /// First lines of failing assertions, by the verdict's place in `verdicts`, where the oracle's framework gives them.
    pub first_lines: Vec<Option<String>>,
    /// Rows whose records are gone.
    pub lost: usize,
}

/// Decides the verdicts of every row. `read` reads records by their keys, in the keys' order; one may come twice.
///
/// # Errors
/// What `read` says.
pub fn verdicts<E>(
    roster: &Roster,
    rows: &[Row],
    policy: Policy,
    read: impl FnOnce(&[&Digest]) -> Result<Vec<Option<RecordView>>, E>,
) -> Result<Scored, E> {
    let known = in_order(roster, rows);

    let of_row = |row: &Row| match &row.state {
        RowState::Runs { keys, with_head_configuration } => keys.len() + with_head_configuration.len(),
        _ => 0,
    };
    let mut all_keys = Vec::with_capacity(known.iter().map(|(row, _)| of_row(row)).sum());
    for (row, _) in &known {
        if let RowState::Runs { keys, with_head_configuration } = &row.state {
            all_keys.extend(keys.iter().chain(with_head_configuration));
        }
    }
    let mut read = read(&all_keys)?.into_iter();
    drop(all_keys);
    // In the order of `known`.
    let mut loaded: Vec<Loaded> = Vec::with_capacity(known.len());
    let mut lost = 0;
    for (row, _) in &known {
        let RowState::Runs { keys, with_head_configuration } = &row.state else {
            loaded.push(Loaded::default());
            continue;
        };
        let mut records: Vec<RecordView> = read.by_ref().take(of_row(row)).flatten().collect();
        let found = if records.len() == keys.len() + with_head_configuration.len() {
            let with_head_configuration = records.split_off(keys.len());
            Loaded { records, with_head_configuration }
        } else {
            lost += 1;
            Loaded::default()
        };
        loaded.push(found);
    }

    let mut controls: HashMap<(&InstanceId, &CommentId), ControlRuns> = HashMap::new();
    for ((row, comment), loaded) in known.iter().zip(&loaded) {
        if !row.arm.is_state() {
            continue;
        }
        let outcomes = match &row.state {
            RowState::Runs { .. } => outcomes_of(loaded),
            RowState::Infra { class, .. } => vec![Outcome::Infra(*class)],
            _ => continue,
        };
        let entry = controls
            .entry((&row.instance_id, &row.comment))
            .or_insert_with(|| ControlRuns { before: comment.before.clone(), ..ControlRuns::default() });
        entry.measure(loaded.records.iter());
        if row.arm.as_str() == Arm::MERGED {
            entry.merged = Some(outcomes);
        } else {
            entry.head = outcomes;
        }
    }

    // Every oracle has a row for each control, be it that there is nothing to run. One that a crash of the machine took
    // away must not read as a control that does not exist.
    let there: HashSet<(&InstanceId, &CommentId, &str)> = known
        .iter()
        .filter(|(row, _)| row.arm.is_state())
        .map(|(row, _)| (&row.instance_id, &row.comment, row.arm.as_str()))
        .collect();
    let gone = |row: &Row| {
        let is_gone = |arm: &&str| !there.contains(&(&row.instance_id, &row.comment, *arm));
        [Arm::HEAD, Arm::MERGED].into_iter().find(is_gone).filter(|_| policy == Policy::Strict)
    };

    let none = ControlRuns::default();
    let mut scored = Scored { verdicts: Vec::new(), first_lines: Vec::new(), lost };
    for ((row, _), loaded) in known.iter().zip(&loaded).filter(|((row, _), _)| row.shown) {
        let controls = controls.get(&(&row.instance_id, &row.comment)).unwrap_or(&none);
        scored.first_lines.push(loaded.bad(row).and_then(|r| r.first_line.clone()));
        let text_only = controls.is_text_only() && matches!(row.state, RowState::Runs { .. });
        let mut verdict = verdict(row, loaded, &controls.borrowed(), policy, gone(row));
        verdict.marks.extend(text_only.then(|| "text-only".to_owned()));
        scored.verdicts.push(verdict);
    }
    Ok(scored)
}

/// The records behind one row.
#[derive(Debug, Default)]
struct Loaded {
    records: Vec<RecordView>,
    with_head_configuration: Vec<RecordView>,
}

impl Loaded {
    fn all(&self) -> impl Iterator<Item = &RecordView> {
        self.records.iter().chain(&self.with_head_configuration)
    }

    /// The first run that did not pass. What the fix shows with head's test configuration is nothing against it.
    fn bad(&self, row: &Row) -> Option<&RecordView> {
        let second = self.with_head_configuration.iter().filter(|_| !row.arm.is_state());
        self.records.iter().chain(second).find(|r| r.outcome != Outcome::Passed)
    }
}

/// The outcomes of one oracle's controls.
#[derive(Debug, Default)]
struct ControlRuns {
    merged: Option<Vec<Outcome>>,
    head: Vec<Outcome>,
    before: Vec<String>,
    ran_project: bool,
    measured: bool,
}

impl ControlRuns {
    /// Notes whether these runs of a control loaded the project's code. One that broke says nothing of what it would
    /// have loaded.
    fn measure<'a>(&mut self, records: impl Iterator<Item = &'a RecordView>) {
        let whole = records.filter(|record| matches!(record.outcome, Outcome::Passed | Outcome::Failed));
        for text_only in whole.filter_map(|record| record.text_only) {
            self.measured = true;
            self.ran_project |= !text_only;
        }
    }

    /// Whether the oracle only reads text. Its controls tell: a revision that cannot be imported loads nothing either.
    fn is_text_only(&self) -> bool {
        self.measured && !self.ran_project
    }

    fn borrowed(&self) -> Controls<'_> {
        Controls { head: &self.head, merged: self.merged.as_deref(), before: &self.before }
    }
}

/// The rows of known comments by instance, comment, arm, agent, model and attempt.
fn in_order<'a>(roster: &'a Roster, rows: &'a [Row]) -> Vec<(&'a Row, &'a RosterComment)> {
    let mut comments: Vec<_> = roster.by_key().into_iter().collect();
    comments.sort_unstable_by_key(|(key, _)| *key);
    // Numbers compare faster than names that are alike, and there are many rows of each comment.
    let ranks: HashMap<_, _> =
        comments.iter().enumerate().map(|(rank, (key, comment))| (*key, (rank, *comment))).collect();
    let ranked = |row: &'a Row| {
        let (rank, comment) = ranks.get(&(&row.instance_id, &row.comment)).copied()?;
        Some((rank, row, comment))
    };
    let mut known: Vec<_> = rows.iter().filter_map(ranked).collect();
    known.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| within(x).cmp(&within(y))));
    known.into_iter().map(|(_, row, comment)| (row, comment)).collect()
}

fn within(row: &Row) -> (&Arm, &Option<String>, &Option<String>, u32) {
    (&row.arm, &row.agent, &row.model, row.attempt)
}

fn outcomes_of(loaded: &Loaded) -> Vec<Outcome> {
    let outcomes: Vec<_> = loaded.records.iter().map(|r| r.outcome.clone()).collect();
    if outcomes.is_empty() { vec![Outcome::Infra(InfraReason::Interrupted)] } else { outcomes }
}

fn verdict(row: &Row, loaded: &Loaded, controls: &Controls<'_>, policy: Policy, gone: Option<&str>) -> Verdict {
    let outcomes = |records: &[RecordView]| records.iter().map(|r| r.outcome.clone()).collect::<Vec<_>>();
    let with_head_configuration = outcomes(&loaded.with_head_configuration);
    let records = loaded.records.as_slice();
    let mut outcomes = outcomes(records);
    let mut marks = row.marks.clone();
    let mut log_of_failure = None;
    let plain = |kind, reason| Decision { verdict: kind, reason: Some(reason), marks: Vec::new() };
    let decision = match &row.state {
        RowState::Runs { .. } if records.is_empty() => {
            plain(VerdictKind::Invalid, VerdictReason::Infra("the record is gone: score again".to_owned()))
        }
        RowState::Runs { .. } | RowState::Patch { .. } | RowState::NoChanges if gone.is_some() => {
            let control = gone.unwrap_or_default();
            plain(
                VerdictKind::Invalid,
                VerdictReason::Infra(format!("the row of control `{control}` is gone: score again")),
            )
        }
        RowState::Runs { .. } if row.arm.is_state() || with_head_configuration.is_empty() => {
            oracle::decide(policy, controls, Attempt::Runs(&outcomes))
        }
        RowState::Runs { .. } => {
            let attempt = Attempt::RunsTwice { runs: &outcomes, with_head_configuration: &with_head_configuration };
            oracle::decide(policy, controls, attempt)
        }
        RowState::Missing => oracle::decide(policy, controls, Attempt::Missing),
        RowState::NoChanges => oracle::decide(policy, controls, Attempt::NoChanges),
        RowState::Patch { problem } => oracle::decide(policy, controls, Attempt::Patch(problem)),
        RowState::NoOracle => plain(VerdictKind::Invalid, VerdictReason::NoOracle),
        RowState::NotRun { reason } => plain(VerdictKind::Invalid, VerdictReason::NotRun(reason.clone())),
        RowState::BadControl => plain(
            VerdictKind::Invalid,
            oracle::check(controls).unwrap_or_else(|| VerdictReason::Control("bad when it was run".to_owned())),
        ),
        RowState::Infra { class, detail, log } => {
            log_of_failure.clone_from(log);
            outcomes = vec![Outcome::Infra(*class)];
            plain(VerdictKind::Invalid, VerdictReason::Infra(format!("{}: {detail}", class.as_str())))
        }
    };
    marks.extend(decision.marks.iter().map(|m| (*m).to_owned()));
    if loaded.all().any(|r| r.channel == "weak") {
        marks.push("channel: weak".to_owned());
    }
    let telling = loaded.bad(row).or_else(|| records.first());
    let mut evidence = Extra::new();
    if let Some(record) = telling {
        evidence.extend(record.evidence.iter().map(|(name, digest)| (name.clone(), digest.as_str().into())));
    }
    if let Some(log) = &log_of_failure {
        evidence.insert("log".to_owned(), log.as_str().into());
    }
    if let Some(patch) = &row.patch {
        evidence.insert("patch".to_owned(), patch.as_str().into());
    }
    Verdict {
        instance_id: row.instance_id.clone(),
        comment: row.comment.clone(),
        arm: row.arm.clone(),
        agent: row.agent.clone(),
        model: row.model.clone(),
        attempt: row.attempt,
        outcomes,
        with_head_configuration,
        verdict: decision.verdict,
        reason: decision.reason.map(|r| r.to_string()),
        marks,
        message: telling.and_then(|r| r.message.clone()),
        // Not `sum`, which makes nothing at all a negative zero.
        seconds: loaded.all().fold(0.0, |seconds, r| seconds + r.seconds),
        isolation: telling.and_then(|r| serde_json::to_value(&r.isolation).ok()).unwrap_or_default(),
        key: telling.map(|r| r.key.clone()),
        evidence,
    }
}
