//! Which comments the tools pass together. Over tool arms only: controls would say nothing of tools.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::CommentSet;
use super::table::counted;
use crate::model::{Arm, Verdict, VerdictKind};

/// Overlaps of the tool arms' passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overlap {
    /// Comments that at least one tool passes.
    pub union: usize,
    /// Comments that this tool alone passes.
    pub exclusive: BTreeMap<String, usize>,
    /// For each pair of tools, the comments that both pass.
    pub pairs: Vec<(String, String, usize)>,
    /// Comments by how many tools pass them: index 0 is none, the last is all.
    pub by_count: Vec<usize>,
    /// Comments by exactly which tools pass them, without the empty region.
    pub regions: Vec<Region>,
}

/// The comments that exactly these tools pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Region {
    /// The tools, in the order of the arms.
    pub arms: Vec<String>,
    /// How many comments.
    pub comments: usize,
}

/// Overlaps over the tool arms among `arms`, in their order.
pub fn overlap(set: &CommentSet, arms: &[Arm], verdicts: &[Verdict]) -> Overlap {
    let counted = counted(set, verdicts);
    let tools: Vec<&Arm> = arms.iter().filter(|arm| !arm.is_control()).collect();
    let mut regions: BTreeMap<BTreeSet<usize>, usize> = BTreeMap::new();
    for place in 0..set.rows.len() {
        let passes = |arm: &&Arm| counted.of(arm, place).is_some_and(|v| v.verdict == VerdictKind::Pass);
        let who = tools.iter().enumerate().filter(|(_, arm)| passes(arm)).map(|(index, _)| index).collect();
        *regions.entry(who).or_insert(0) += 1;
    }
    let total = |wanted: &dyn Fn(&BTreeSet<usize>) -> bool| -> usize {
        regions.iter().filter(|(who, _)| wanted(who)).map(|(_, n)| n).sum()
    };
    let name = |index: usize| tools[index].to_string();
    let mut pairs = Vec::new();
    for a in 0..tools.len() {
        for b in a + 1..tools.len() {
            pairs.push((name(a), name(b), total(&|who| who.contains(&a) && who.contains(&b))));
        }
    }
    Overlap {
        union: total(&|who| !who.is_empty()),
        exclusive: (0..tools.len()).map(|i| (name(i), total(&|who| who.len() == 1 && who.contains(&i)))).collect(),
        pairs,
        by_count: (0..=tools.len()).map(|n| total(&|who| who.len() == n)).collect(),
        regions: regions
            .iter()
            .filter(|(who, _)| !who.is_empty())
            .map(|(who, n)| Region { arms: who.iter().map(|i| name(*i)).collect(), comments: *n })
            .collect(),
    }
}
