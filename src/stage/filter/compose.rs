//! The benchmark with the filter's rows in it.

use std::collections::BTreeMap;

use crate::model::{
    Arm, Attrition, AttritionReason, AttritionScope, CommentId, Extra, FilterDecision, FilterRow, InstanceId,
};
use crate::store::bench::Content;

/// The field of a comment that says who gave it its category, where the data did not.
const CATEGORY_BY: &str = "category_by";

/// Takes out of a benchmark what its own `filter.jsonl` put into its attrition, and into its comments. What a source of
/// the benchmark calls filtered stays.
pub fn strip(content: &mut Content) {
    let ours: Vec<Attrition> = content.filter.iter().filter_map(attrition).collect();
    content.attrition.retain(|row| !ours.contains(row));
    for comment in content.instances.iter_mut().flat_map(|instance| &mut instance.reference_review_comments) {
        if comment.extra.get(CATEGORY_BY).is_some_and(|by| by == super::STAGE) {
            comment.extra.remove(CATEGORY_BY);
            comment.category = None;
        }
    }
}

/// Puts rows into a benchmark that was [stripped](strip): as `filter.jsonl`, as attrition of what was dropped or failed,
/// and as the category of comments whose data has none. Rows of other comments that are there stay; all follow the order
/// of the dataset.
pub fn compose(content: &mut Content, rows: &[FilterRow]) {
    let mut all: BTreeMap<(InstanceId, CommentId), FilterRow> = BTreeMap::new();
    for row in content.filter.drain(..).chain(rows.iter().cloned()) {
        all.insert((row.instance_id.clone(), row.comment.clone()), row);
    }
    for instance in &mut content.instances {
        for comment in &mut instance.reference_review_comments {
            let Some(row) = all.remove(&(instance.instance_id.clone(), comment.id.clone())) else { continue };
            if let Some(labels) = row.labels.as_ref().filter(|_| comment.category.is_none()) {
                comment.category = Some(labels.category.as_str().to_owned());
                comment.extra.insert(CATEGORY_BY.to_owned(), super::STAGE.into());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BenchManifest, DropReason, digest_bytes};
    use serde_json::json;

    #[test]
    fn what_the_filter_put_in_comes_out_again_and_a_sources_words_stay() {
        let manifest: BenchManifest = serde_json::from_value(json!({"schema": 1, "name": "b"})).unwrap();
        let mut content = Content::new(manifest);
        let row = json!({
            "instance_id": "o__r-1@0123abc", "repo": "o/r", "commit_to_review": {"head_commit": "0123abc"},
            "reference_review_comments": [{"text": "a"}, {"text": "b", "category": "theirs"}, {"text": "c"}],
        });
        content.instances.push(serde_json::from_value(row).unwrap());
        let theirs = json!({"scope": "comment", "instance_id": "o__r-1@0123abc", "comment": "2", "stage": "filter", "reason": "filtered"});
        content.attrition.push(serde_json::from_value(theirs).unwrap());
        let before = content.clone();
        let rows: Vec<FilterRow> = ["1", "0"]
            .map(|comment| {
                let labels = json!({"actionable": false, "specific": false, "verifiable": false, "category": "design", "oracle": "none"});
                let row = json!({"instance_id": "O__r-1@0123abc", "comment": comment, "decision": "dropped",
                    "reason": DropReason::NotActionable, "labels": labels, "key": digest_bytes(b"k")});
                serde_json::from_value(row).unwrap()
            })
            .to_vec();
        compose(&mut content, &rows);
        assert_eq!((content.attrition.len(), content.filter.len()), (3, 2));
        assert_eq!(content.filter[0].comment.as_str(), "0");
        let category =
            |content: &Content, at: usize| content.instances[0].reference_review_comments[at].category.clone();
        assert_eq!(category(&content, 0).as_deref(), Some("design"));
        assert_eq!(category(&content, 1).as_deref(), Some("theirs"));
        let once = content.clone();
        strip(&mut content);
        assert_eq!((&content.attrition, &content.instances), (&before.attrition, &before.instances));
        compose(&mut content, &[]);
        assert_eq!(content, once);
    }
}
