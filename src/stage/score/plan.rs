//! What is to be scored: instances, comments and arms chosen, revisions laid out. Pure.

use std::collections::{BTreeMap, BTreeSet};

use globset::GlobSet;

use crate::metrics::Denominator;
use crate::model::{Arm, CommentId, FrozenRow, Instance, Revision};

/// What a person chose.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Instance ids to take; `None`: all.
    pub instances: Option<GlobSet>,
    /// A slice of the chosen instances that have a comment in the denominator, in the dataset's order: start and end.
    pub slice: Option<(usize, Option<usize>)>,
    /// Arms to take; `None`: all recorded ones plus `head` and `merged`.
    pub arms: Option<Vec<Arm>>,
    /// Which comments to take.
    pub denominator: Denominator,
}

/// One instance with everything that is to be run on it.
#[derive(Debug, Clone)]
pub struct InstancePlan<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// The chosen comments.
    pub comments: Vec<CommentId>,
    /// The revisions of the chosen arms.
    pub revisions: Vec<&'a Revision>,
    /// Chosen arms that have no revision here.
    pub missing: Vec<Arm>,
}

/// The whole plan.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// Instance by instance, in the dataset's order.
    pub instances: Vec<InstancePlan<'a>>,
    /// Whether `head` is among the arms that the report shows.
    pub shows_head: bool,
    /// Whether `merged` is.
    pub shows_merged: bool,
    /// Arms that were asked for by name and that nothing is known of.
    pub unknown_arms: Vec<Arm>,
}

/// Lays out a plan. `known_arms` are arms that belong to the benchmark even where they have no revision at all.
pub fn plan<'a>(
    instances: &'a [Instance],
    revisions: &'a [Revision],
    frozen: Option<&[FrozenRow]>,
    known_arms: &[Arm],
    selection: &Selection,
) -> Plan<'a> {
    let mut recorded: BTreeSet<Arm> = known_arms.iter().filter(|a| !a.is_state()).cloned().collect();
    recorded.extend(revisions.iter().map(|r| r.arm.clone()).filter(|a| !a.is_state()));
    let (arms, shows_head, shows_merged, unknown_arms) = match &selection.arms {
        None => (recorded, true, true, Vec::new()),
        Some(asked) => {
            let has = |arm: &str| asked.iter().any(|a| a.as_str() == arm);
            let wanted: BTreeSet<Arm> = asked.iter().filter(|a| !a.is_state()).cloned().collect();
            let unknown = wanted.iter().filter(|a| !recorded.contains(*a)).cloned().collect();
            (wanted.intersection(&recorded).cloned().collect(), has(Arm::HEAD), has(Arm::MERGED), unknown)
        }
    };
    let mut by_instance: BTreeMap<&str, Vec<&Revision>> = BTreeMap::new();
    for revision in revisions.iter().filter(|r| arms.contains(&r.arm)) {
        by_instance.entry(revision.instance_id.folded()).or_default().push(revision);
    }
    let frozen: BTreeSet<_> =
        frozen.unwrap_or_default().iter().map(|f| (f.instance_id.folded(), f.comment.clone())).collect();
    let chosen = instances
        .iter()
        .filter(|i| selection.instances.as_ref().is_none_or(|globs| globs.is_match(i.instance_id.folded())));
    let (start, end) = selection.slice.unwrap_or((0, None));
    let plans = chosen
        .filter_map(|instance| {
            let in_denominator = |id: &CommentId| match selection.denominator {
                Denominator::All => true,
                Denominator::Valid => instance.oracle(id).is_some(),
                Denominator::Final => frozen.contains(&(instance.instance_id.folded(), id.clone())),
            };
            let comments: Vec<_> = instance
                .reference_review_comments
                .iter()
                .map(|c| c.id.clone())
                .filter(|id| in_denominator(id))
                .collect();
            if comments.is_empty() {
                return None;
            }
            let mut revisions = by_instance.get(instance.instance_id.folded()).cloned().unwrap_or_default();
            revisions
                .sort_by(|a, b| (&a.arm, &a.agent, &a.model, a.attempt).cmp(&(&b.arm, &b.agent, &b.model, b.attempt)));
            let present: BTreeSet<&Arm> = revisions.iter().map(|r| &r.arm).collect();
            let missing = arms.iter().filter(|a| !present.contains(a)).cloned().collect();
            Some(InstancePlan { instance, comments, revisions, missing })
        })
        .skip(start)
        .take(end.map_or(usize::MAX, |end| end.saturating_sub(start)))
        .collect();
    Plan { instances: plans, shows_head, shows_merged, unknown_arms }
}

impl Plan<'_> {
    /// How many oracle runs the plan needs at most, controls included.
    pub fn tasks(&self, repeat: u32) -> u64 {
        self.instances
            .iter()
            .map(|plan| {
                let oracles = plan.comments.iter().filter(|c| plan.instance.oracle(c).is_some()).count() as u64;
                let controls = 1 + u64::from(plan.instance.merged_commit.is_some());
                oracles * (plan.revisions.len() as u64 + controls) * u64::from(repeat)
            })
            .sum()
    }
}
