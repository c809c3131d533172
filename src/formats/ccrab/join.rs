//! Joins the release's files into instances, oracles, revisions, recorded verdicts and attrition.

mod attrition;
mod instance;
mod outputs;

use std::collections::{BTreeMap, BTreeSet};

use super::Release;
use crate::model::{
    Arm, Attrition, AttritionReason, AttritionScope, CommentId, Extra, FrozenRow, Instance, InstanceId,
    RecordedVerdict, Revision,
};
use instance::Tested;

/// What a release says, in the model's words.
#[derive(Debug, Clone, Default)]
pub struct Joined {
    /// Instances with comments and oracles, by id.
    pub instances: Vec<Instance>,
    /// The tests' bytes by their path in the benchmark folder.
    pub tests: BTreeMap<String, Vec<u8>>,
    /// One revision per instance and arm.
    pub revisions: Vec<Revision>,
    /// One verdict per instance, comment and arm.
    pub recorded: Vec<RecordedVerdict>,
    /// Everything that did not come through.
    pub attrition: Vec<Attrition>,
    /// The comments that the resolver solved: denominator `final`.
    pub frozen: Vec<FrozenRow>,
    /// The arms, tools first.
    pub arms: Vec<String>,
}

/// Joins a release.
///
/// Every comment of test generation stays in the dataset, and either is in the frozen set or has exactly one line of
/// attrition that says why not. Evaluations join by the index of test generation, resolution by the exact text with the
/// first comment of that text that has a valid test.
pub fn join(release: &Release) -> Joined {
    let mut joined = Joined::default();
    let mut table: BTreeMap<InstanceId, Tested> = BTreeMap::new();
    for (folder, files) in &release.testgen {
        let Some((instance, tested)) = instance::read(folder, files, &mut joined) else { continue };
        if table.contains_key(&instance.instance_id) {
            let detail = format!("folder `{folder}` has the id of another one (ids compare without case)");
            joined.lose(AttritionScope::Instance, "testgen", AttritionReason::Duplicate, detail).instance_id =
                Some(instance.instance_id.to_string());
            continue;
        }
        joined.tests.extend(tested.files.clone());
        table.insert(instance.instance_id.clone(), tested);
        joined.instances.push(instance);
    }
    joined.instances.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));

    outputs::resolution(release, &table, &mut joined);
    let evaluated = outputs::evaluations(release, &table, &mut joined);
    attrition::comments(&table, &mut joined);
    attrition::missing_outputs(&evaluated, &table, &mut joined);
    attrition::missing_instances(release, &table, &mut joined);
    joined.arms = release.evaluations.keys().cloned().chain([Arm::HUMAN.to_owned()]).collect();
    joined.sort();
    joined
}

/// The instances that each tool has an output for.
type Evaluated = BTreeMap<Arm, BTreeSet<InstanceId>>;

impl Joined {
    /// Adds a line of attrition, to be filled in further.
    fn lose(
        &mut self,
        scope: AttritionScope,
        stage: &str,
        reason: AttritionReason,
        detail: impl Into<String>,
    ) -> &mut Attrition {
        let index = self.attrition.len();
        self.attrition.push(Attrition {
            scope,
            instance_id: None,
            comment: None,
            arm: None,
            stage: stage.to_owned(),
            reason,
            detail: detail.into(),
            extra: Extra::new(),
        });
        &mut self.attrition[index]
    }

    /// One order, whatever the order of the files.
    fn sort(&mut self) {
        self.revisions.sort_by(|a, b| (&a.instance_id, &a.arm).cmp(&(&b.instance_id, &b.arm)));
        self.recorded.sort_by(|a, b| (&a.instance_id, &a.comment, &a.arm).cmp(&(&b.instance_id, &b.comment, &b.arm)));
        self.frozen.sort_by(|a, b| (&a.instance_id, &a.comment).cmp(&(&b.instance_id, &b.comment)));
        let key = |a: &Attrition| {
            let id = a.instance_id.as_deref().map(str::to_ascii_lowercase);
            (id, a.comment.clone(), a.arm.clone(), a.scope, a.reason, a.detail.clone())
        };
        self.attrition.sort_by_cached_key(key);
    }
}

/// The frozen comments as a set to look up in.
fn frozen_set(joined: &Joined) -> BTreeSet<(InstanceId, CommentId)> {
    joined.frozen.iter().map(|row| (row.instance_id.clone(), row.comment.clone())).collect()
}
