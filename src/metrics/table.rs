//! One row an arm: passed, failed, invalid, missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::{CommentRow, CommentSet, Interval, wilson_95};
use crate::model::{Arm, CommentId, InstanceId, Verdict, VerdictKind};

/// One arm's row. `passed + failed + invalid + missing = total`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ArmRow {
    /// The arm.
    pub arm: String,
    /// Whether it is a control arm.
    pub control: bool,
    /// Comments whose oracle passed.
    pub passed: usize,
    /// Comments whose oracle failed.
    pub failed: usize,
    /// Comments of which nothing can be said.
    pub invalid: usize,
    /// Comments without a revision of this arm.
    pub missing: usize,
    /// Instances that have a missing comment.
    pub missing_instances: usize,
    /// All comments of the denominator.
    pub total: usize,
    /// `passed / total`; null when there is nothing to count.
    pub rate: Option<f64>,
    /// The 95 % Wilson interval of `rate`.
    pub rate_interval: Option<Interval>,
    /// `passed / (passed + failed)`; null when nothing was scored.
    pub rate_scored: Option<f64>,
    /// The 95 % Wilson interval of `rate_scored`.
    pub rate_scored_interval: Option<Interval>,
}

/// The verdict of each comment of an arm that counts: of the lowest attempt, the first row.
pub(super) struct Counted<'a>(HashMap<&'a Arm, Vec<Option<&'a Verdict>>>);

impl<'a> Counted<'a> {
    /// The verdict of an arm on the comment at this place of the set.
    pub(super) fn of(&self, arm: &Arm, place: usize) -> Option<&'a Verdict> {
        self.0.get(arm)?.get(place).copied().flatten()
    }
}

pub(super) fn counted<'a>(set: &CommentSet, verdicts: &'a [Verdict]) -> Counted<'a> {
    let places: HashMap<(&InstanceId, &CommentId), usize> =
        set.rows.iter().enumerate().map(|(place, row)| (row.key(), place)).collect();
    let mut counted: HashMap<&Arm, Vec<Option<&Verdict>>> = HashMap::new();
    for verdict in verdicts {
        let Some(place) = places.get(&(&verdict.instance_id, &verdict.comment)) else { continue };
        let first = &mut counted.entry(&verdict.arm).or_insert_with(|| vec![None; set.rows.len()])[*place];
        if first.is_none_or(|first| verdict.attempt < first.attempt) {
            *first = Some(verdict);
        }
    }
    Counted(counted)
}

/// What a comment counts as for an arm. No verdict: a comment without an oracle is invalid, any other one missing.
pub(super) fn kind_of(row: &CommentRow, verdict: Option<&Verdict>) -> VerdictKind {
    match verdict {
        Some(verdict) => verdict.verdict,
        None if row.has_oracle => VerdictKind::Missing,
        None => VerdictKind::Invalid,
    }
}

/// The rows of `arms`, in their order, over the comments of a denominator.
pub fn arm_rows(set: &CommentSet, arms: &[Arm], verdicts: &[Verdict]) -> Vec<ArmRow> {
    let counted = counted(set, verdicts);
    arms.iter()
        .map(|arm| {
            let mut counts = BTreeMap::new();
            let mut missing_instances = BTreeSet::new();
            for (place, row) in set.rows.iter().enumerate() {
                let kind = kind_of(row, counted.of(arm, place));
                *counts.entry(kind).or_insert(0_usize) += 1;
                if kind == VerdictKind::Missing {
                    missing_instances.insert(&row.instance_id);
                }
            }
            let count = |kind| counts.get(&kind).copied().unwrap_or(0);
            let (passed, failed) = (count(VerdictKind::Pass), count(VerdictKind::Fail));
            let total = set.rows.len();
            ArmRow {
                arm: arm.to_string(),
                control: arm.is_control(),
                passed,
                failed,
                invalid: count(VerdictKind::Invalid),
                missing: count(VerdictKind::Missing),
                missing_instances: missing_instances.len(),
                total,
                rate: ratio(passed, total),
                rate_interval: wilson_95(passed, total),
                rate_scored: ratio(passed, passed + failed),
                rate_scored_interval: wilson_95(passed, passed + failed),
            }
        })
        .collect()
}

fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// For each arm, how many of its counted comments showed each outcome. A comment whose repeats differ counts once, as
/// `flaky`; a comment that was not run is not here.
pub fn outcomes(set: &CommentSet, arms: &[Arm], verdicts: &[Verdict]) -> BTreeMap<String, BTreeMap<String, usize>> {
    let counted = counted(set, verdicts);
    let mut all = BTreeMap::new();
    for arm in arms {
        let mut counts = BTreeMap::new();
        for place in 0..set.rows.len() {
            let Some(verdict) = counted.of(arm, place) else { continue };
            let Some(first) = verdict.outcomes.first() else { continue };
            let same = verdict.outcomes.iter().all(|outcome| outcome == first);
            let word = if same { first.to_string() } else { "flaky".to_owned() };
            *counts.entry(word).or_insert(0) += 1;
        }
        all.insert(arm.to_string(), counts);
    }
    all
}
