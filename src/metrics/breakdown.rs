//! The table again, by group.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::table::counted;
use super::{CommentRow, CommentSet};
use crate::model::{Arm, Verdict, VerdictKind};

/// The word for comments whose group the data does not say.
const UNSAID: &str = "unknown";

/// One group of comments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Group {
    /// Comments in it.
    pub total: usize,
    /// How many of them each arm passes.
    pub passed: BTreeMap<String, usize>,
}

/// Passes by group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Breakdown {
    /// By kind of concern, in the data's own words.
    pub category: BTreeMap<String, Group>,
    /// By the oracle's declared kind.
    pub kind: BTreeMap<String, Group>,
    /// By language.
    pub language: BTreeMap<String, Group>,
    /// By instance.
    pub instance: BTreeMap<String, Group>,
    /// Instances in the denominator.
    pub instances: usize,
    /// For each arm, the instances of which it passes every comment of the denominator.
    pub instances_all_passed: BTreeMap<String, usize>,
}

/// Passes of `arms` by category, kind, language and instance.
pub fn breakdown(set: &CommentSet, arms: &[Arm], verdicts: &[Verdict]) -> Breakdown {
    let counted = counted(set, verdicts);
    let by = |group: &dyn Fn(&CommentRow) -> String| {
        let mut groups: BTreeMap<String, (usize, Vec<usize>)> = BTreeMap::new();
        for (place, row) in set.rows.iter().enumerate() {
            let (total, passed) = groups.entry(group(row)).or_insert_with(|| (0, vec![0; arms.len()]));
            *total += 1;
            for (arm, passed) in arms.iter().zip(passed) {
                let is_pass = counted.of(arm, place).is_some_and(|v| v.verdict == VerdictKind::Pass);
                *passed += usize::from(is_pass);
            }
        }
        let named = |(total, passed): (usize, Vec<usize>)| Group {
            total,
            passed: arms.iter().map(ToString::to_string).zip(passed).collect(),
        };
        groups.into_iter().map(|(name, group)| (name, named(group))).collect::<BTreeMap<String, Group>>()
    };
    let unsaid = |word: Option<&str>| word.unwrap_or(UNSAID).to_owned();
    let instance = by(&|row| row.instance_id.to_string());
    let all_passed = |arm: &Arm| instance.values().filter(|g| g.passed.get(arm.as_str()) == Some(&g.total)).count();
    Breakdown {
        category: by(&|row| unsaid(row.category.as_deref())),
        kind: by(&|row| unsaid(row.kind)),
        language: by(&|row| unsaid(row.language.as_deref())),
        instances: instance.len(),
        instances_all_passed: arms.iter().map(|arm| (arm.to_string(), all_passed(arm))).collect(),
        instance,
    }
}
