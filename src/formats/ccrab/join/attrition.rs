//! What did not come through, once everything has been read.

use std::collections::{BTreeMap, BTreeSet};

use super::instance::{State, Tested};
use super::{Evaluated, Joined, frozen_set};
use crate::formats::ccrab::Release;
use crate::model::{Arm, AttritionReason, AttritionScope, InstanceId};

/// One line for each comment outside of the frozen set.
pub(super) fn comments(table: &BTreeMap<InstanceId, Tested>, joined: &mut Joined) {
    let frozen = frozen_set(joined);
    let human: BTreeSet<_> = joined
        .recorded
        .iter()
        .filter(|r| r.arm.as_str() == Arm::HUMAN)
        .map(|r| (r.instance_id.clone(), r.comment.clone()))
        .collect();
    for (id, tested) in table {
        for comment in &tested.comments {
            let key = (id.clone(), comment.id.clone());
            if frozen.contains(&key) {
                continue;
            }
            // The filter and the resolver work on texts: what they say of a comment, they say of its twins as well.
            let stands_for = tested.by_text(&comment.text).map(|c| (id.clone(), c.id.clone()));
            let given = stands_for.as_ref().is_some_and(|key| human.contains(key));
            let solved = stands_for.as_ref().filter(|key| frozen.contains(key));
            let (stage, reason, detail) = match (&comment.state, solved) {
                (State::Lost(reason, detail), _) => ("testgen", *reason, detail.clone()),
                (State::Valid, Some((_, twin))) => {
                    let detail = format!("its text is that of comment {twin}, which is in the frozen set");
                    ("resolution", AttritionReason::Duplicate, detail)
                }
                (State::Valid, None) if given => {
                    ("resolution", AttritionReason::NotSolved, "the resolver did not solve it".to_owned())
                }
                (State::Valid, None) => {
                    ("filter", AttritionReason::Filtered, "the resolver was not given it".to_owned())
                }
            };
            let row = joined.lose(AttritionScope::Comment, stage, reason, detail);
            row.instance_id = Some(id.to_string());
            row.comment = Some(comment.id.clone());
        }
    }
}

/// One line for each tool without an output for an instance that another tool was evaluated on, or that has a frozen
/// comment.
pub(super) fn missing_outputs(evaluated: &Evaluated, table: &BTreeMap<InstanceId, Tested>, joined: &mut Joined) {
    let mut wanted: BTreeSet<&InstanceId> = evaluated.values().flatten().collect();
    let frozen: Vec<InstanceId> = joined.frozen.iter().map(|row| row.instance_id.clone()).collect();
    wanted.extend(&frozen);
    for (arm, seen) in evaluated {
        for id in wanted.iter().filter(|id| table.contains_key(**id) && !seen.contains(**id)) {
            let detail = format!("the release has no output of `{arm}` for this instance");
            let row = joined.lose(AttritionScope::Revision, "evaluation", AttritionReason::NoOutput, detail);
            row.instance_id = Some(id.to_string());
            row.arm = Some(arm.clone());
        }
    }
}

/// One line for each listed instance that test generation does not have.
pub(super) fn missing_instances(release: &Release, table: &BTreeMap<InstanceId, Tested>, joined: &mut Joined) {
    let lost: BTreeSet<String> = joined
        .attrition
        .iter()
        .filter(|a| a.scope == AttritionScope::Instance)
        .filter_map(|a| a.instance_id.as_deref().map(str::to_ascii_lowercase))
        .collect();
    let mut told = BTreeSet::new();
    for line in &release.listed {
        let id = line.strip_prefix("reviewbench/").unwrap_or(line).to_ascii_lowercase();
        let known = id.parse::<InstanceId>().is_ok_and(|id| table.contains_key(&id));
        if known || lost.contains(&id) || !told.insert(id.clone()) {
            continue;
        }
        let detail = format!("`{line}` is listed, but test generation has no folder for it");
        let row = joined.lose(AttritionScope::Instance, "testgen", AttritionReason::NotInSource, detail);
        row.instance_id = Some(id);
    }
}
