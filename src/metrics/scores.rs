//! All scores of one set of verdicts together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{ArmRow, Breakdown, CommentSet, Denominator, Overlap, arm_rows, breakdown, outcomes, overlap};
use crate::model::{Arm, Verdict};

/// Everything that follows from verdicts and a denominator.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Scores {
    /// Which comments count.
    pub denominator: Denominator,
    /// One row an arm.
    pub arms: Vec<ArmRow>,
    /// What the tools pass together.
    pub overlap: Overlap,
    /// For each arm, its comments by outcome.
    pub outcomes: BTreeMap<String, BTreeMap<String, usize>>,
    /// The passes by group.
    pub breakdown: Breakdown,
}

/// Scores of `arms` (in this order) over the comments of a denominator.
pub fn scores(set: &CommentSet, arms: &[Arm], verdicts: &[Verdict]) -> Scores {
    Scores {
        denominator: set.denominator,
        arms: arm_rows(set, arms, verdicts),
        overlap: overlap(set, arms, verdicts),
        outcomes: outcomes(set, arms, verdicts),
        breakdown: breakdown(set, arms, verdicts),
    }
}

/// Arms in the order of reports, each once: tools by name, then the controls `human`, `none`, `shuffled`, `head`,
/// `merged`.
pub fn arms_in_order<'a>(arms: impl IntoIterator<Item = &'a Arm>) -> Vec<Arm> {
    const CONTROLS: [&str; 5] = [Arm::HUMAN, Arm::NONE, Arm::SHUFFLED, Arm::HEAD, Arm::MERGED];
    let mut arms: Vec<Arm> = arms.into_iter().cloned().collect();
    arms.sort_by_key(|arm| (CONTROLS.iter().position(|c| *c == arm.as_str()).map_or(0, |n| n + 1), arm.clone()));
    arms.dedup();
    arms
}
