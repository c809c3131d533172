//! The benchmark with the filter's rows in it.

use std::collections::BTreeMap;

use crate::model::{
    Arm, Attrition, AttritionReason, AttritionScope, CommentId, Extra, FilterDecision, FilterRow, InstanceId,
};
use crate::store::bench::Content;

/// Puts rows into a benchmark: as `filter.jsonl`, as attrition of what was dropped or failed, and as the category of
/// comments whose data has none. Rows of other comments that are there stay; all follow the order of the dataset.
pub fn compose(content: &mut Content, rows: &[FilterRow]) {
    let mut all: BTreeMap<(InstanceId, CommentId), FilterRow> = BTreeMap::new();
    for row in content.filter.drain(..).chain(rows.iter().cloned()) {
        all.insert((row.instance_id.clone(), row.comment.clone()), row);
    }
    content.attrition.retain(|old| old.stage != super::STAGE || old.scope != AttritionScope::Comment);
    for instance in &mut content.instances {
        for comment in &mut instance.reference_review_comments {
            let Some(row) = all.remove(&(instance.instance_id.clone(), comment.id.clone())) else { continue };
            if let Some(labels) = row.labels.as_ref().filter(|_| comment.category.is_none()) {
                comment.category = Some(labels.category.as_str().to_owned());
            }
            content.attrition.extend(attrition(&row));
            content.filter.push(row);
        }
    }
}

fn attrition(row: &FilterRow) -> Option<Attrition> {
    let (reason, why) = match row.decision {
        FilterDecision::Kept => return None,
        FilterDecision::Dropped => (AttritionReason::Filtered, row.reason.map(|reason| reason.as_str().to_owned())),
        FilterDecision::Failed => (AttritionReason::NoOutput, row.failure.clone()),
    };
    let why = why.unwrap_or_else(|| row.decision.as_str().to_owned());
    let detail = if row.detail.is_empty() { why } else { format!("{why}: {}", row.detail) };
    Some(Attrition {
        scope: AttritionScope::Comment,
        instance_id: Some(row.instance_id.to_string()),
        comment: Some(row.comment.clone()),
        arm: None::<Arm>,
        stage: super::STAGE.to_owned(),
        reason,
        detail,
        extra: Extra::new(),
    })
}
