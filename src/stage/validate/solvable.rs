//! Attempts counted up: a rate for each comment, and the benchmark with the rows in it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::Validated;
use crate::metrics::{Interval, wilson_95};
use crate::model::{CommentId, InstanceId, SolveStatus, ValidationRow};
use crate::store::bench::Content;

/// How often a comment was solved from its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Solvable {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// Attempts on record, by any agent.
    pub attempts: usize,
    /// Those that are answers: agents that broke gave none.
    pub answers: usize,
    /// Answers that pass the oracle.
    pub solved: usize,
    /// `solved / answers`; absent without an answer.
    pub rate: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
}

impl Solvable {
    /// Whether anybody solved it.
    pub fn is_solvable(&self) -> bool {
        self.solved > 0
    }
}

/// The comments that rows are of, in the order in which they first occur.
pub fn solvable(rows: &[ValidationRow]) -> Vec<Solvable> {
    let mut found: Vec<Solvable> = Vec::new();
    let mut places: BTreeMap<(&InstanceId, &CommentId), usize> = BTreeMap::new();
    for row in rows {
        let at = *places.entry((&row.instance_id, &row.comment)).or_insert_with(|| {
            let (instance_id, comment) = (row.instance_id.clone(), row.comment.clone());
            let (rate, interval) = (None, None);
            found.push(Solvable { instance_id, comment, attempts: 0, answers: 0, solved: 0, rate, interval });
            found.len() - 1
        });
        let one = &mut found[at];
        one.attempts += usize::from(row.status != SolveStatus::NoAttempt);
        one.answers += usize::from(row.status.is_answer());
        one.solved += usize::from(row.status == SolveStatus::Solved);
    }
    for one in &mut found {
        one.rate = (one.answers > 0).then(|| one.solved as f64 / one.answers as f64);
        one.interval = wilson_95(one.solved, one.answers);
    }
    found
}

/// Puts rows into a benchmark, in the order of the dataset. Rows of the same comment and agent that are there are
/// replaced; those of other agents stay.
pub fn compose(content: &mut Content, rows: &[ValidationRow]) {
    let is_new = |old: &ValidationRow| {
        let of_old = (&old.instance_id, &old.comment, &old.agent);
        rows.iter().any(|new| (&new.instance_id, &new.comment, &new.agent) == of_old)
    };
    let mut all: Vec<ValidationRow> = content.validate.drain(..).filter(|old| !is_new(old)).collect();
    all.extend(rows.iter().cloned());
    for instance in &content.instances {
        for comment in &instance.reference_review_comments {
            let is_of = |row: &ValidationRow| row.instance_id == instance.instance_id && row.comment == comment.id;
            let (mut own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of);
            all = others;
            own.sort_by(|a, b| (&a.agent, a.attempt).cmp(&(&b.agent, b.attempt)));
            content.validate.extend(own);
        }
    }
}

/// Counts of one run. `comments = solvable + unsolved + unanswered + open + left`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The format's version.
    pub schema: u32,
    /// Comments that went in.
    pub comments: usize,
    /// Those that some attempt solved.
    pub solvable: usize,
    /// Those that were answered and never solved.
    pub unsolved: usize,
    /// Those without an answer: agents that broke, no attempt on record, an oracle that says nothing here.
    pub unanswered: usize,
    /// Those with an attempt that is to be made again: the machine was in the way.
    pub open: usize,
    /// Those without an oracle.
    pub left: usize,
    /// Attempts by what they came to.
    pub attempts: BTreeMap<String, usize>,
    /// Attempts that are to be made again, by why.
    pub open_attempts: BTreeMap<String, usize>,
    /// Attempts whose patch an earlier run had made.
    pub served: usize,
    /// Each comment that has an attempt.
    pub solved: Vec<Solvable>,
}

impl Summary {
    /// Counts.
    pub fn of(validated: &Validated) -> Self {
        let mut summary = Self {
            schema: 1,
            comments: validated.comments,
            left: validated.left,
            served: validated.served,
            ..Self::default()
        };
        for row in &validated.rows {
            *summary.attempts.entry(row.status.as_str().to_owned()).or_default() += 1;
        }
        let mut open: Vec<(&InstanceId, &CommentId)> = Vec::new();
        for one in &validated.open {
            *summary.open_attempts.entry(one.why.clone()).or_default() += 1;
            if !open.contains(&(&one.instance_id, &one.comment)) {
                open.push((&one.instance_id, &one.comment));
            }
        }
        summary.open = open.len();
        summary.solved = solvable(&validated.rows);
        for one in &summary.solved {
            if open.contains(&(&one.instance_id, &one.comment)) {
                continue;
            }
            match (one.is_solvable(), one.answers) {
                (true, _) => summary.solvable += 1,
                (false, 0) => summary.unanswered += 1,
                (false, _) => summary.unsolved += 1,
            }
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Extra, digest_bytes};
    use serde_json::Value;

    fn row(comment: &str, attempt: u32, status: SolveStatus) -> ValidationRow {
        ValidationRow {
            instance_id: "o__r-1@0123abc".parse().unwrap(),
            comment: comment.parse().unwrap(),
            agent: "a".to_owned(),
            model: None,
            attempt,
            status,
            detail: String::new(),
            patch: String::new(),
            usage: Value::Null,
            trajectory: Value::Null,
            key: digest_bytes(b""),
            extra: Extra::new(),
        }
    }

    #[test]
    fn agents_that_broke_are_not_among_the_answers() {
        use SolveStatus::{AgentFailed, NoAttempt, NotSolved, Solved};
        let rows = [
            row("1", 1, Solved),
            row("1", 2, AgentFailed),
            row("1", 3, NotSolved),
            row("2", 1, AgentFailed),
            row("2", 2, NoAttempt),
        ];
        let found = solvable(&rows);
        assert_eq!((found[0].attempts, found[0].answers, found[0].solved, found[0].rate), (3, 2, 1, Some(0.5)));
        // Wilson's interval of 1 of 2.
        let Interval(low, high) = found[0].interval.unwrap();
        assert!((low - 0.0945).abs() < 1e-3 && (high - 0.9055).abs() < 1e-3, "{low} {high}");
        assert_eq!((found[1].attempts, found[1].answers, found[1].rate, found[1].interval), (1, 0, None, None));
    }
}
