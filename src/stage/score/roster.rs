//! What a report needs to know of a benchmark, kept in the run folder so that it needs nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::{CommentRow, CommentSet, Denominator};
use crate::model::{CommentId, Instance, InstanceId, OracleKind, RecordedVerdict};

/// The benchmark's comments and recorded verdicts, without texts, patches and tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Roster {
    /// The format's version.
    pub schema: u32,
    /// Every comment of every instance, in the dataset's order.
    pub comments: Vec<RosterComment>,
    /// Verdicts that came with the data.
    pub recorded: Vec<RecordedVerdict>,
    /// Whether the benchmark has a frozen choice of its own.
    pub has_frozen: bool,
}

/// One comment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RosterComment {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The kind of concern.
    pub category: Option<String>,
    /// The oracle's declared kind.
    pub kind: OracleKind,
    /// The language of its test, in lower case.
    pub language: String,
    /// Whether it has an accepted oracle (denominator `valid`).
    pub valid: bool,
    /// Whether it is in the frozen set (denominator `final`).
    pub frozen: bool,
    /// Outcome classes that count as failing before the fix, beside `failed`.
    pub before: Vec<String>,
}

impl Roster {
    /// The roster of a benchmark.
    pub fn new(
        instances: &[Instance],
        frozen: Option<&[crate::model::FrozenRow]>,
        recorded: &[RecordedVerdict],
    ) -> Self {
        let frozen_set: std::collections::BTreeSet<_> =
            frozen.unwrap_or_default().iter().map(|f| (f.instance_id.clone(), f.comment.clone())).collect();
        let comments = instances
            .iter()
            .flat_map(|instance| {
                instance.reference_review_comments.iter().map(|comment| {
                    let oracle = instance.oracle(&comment.id);
                    RosterComment {
                        instance_id: instance.instance_id.clone(),
                        comment: comment.id.clone(),
                        category: comment.category.clone(),
                        kind: oracle.map(|o| o.kind).unwrap_or_default(),
                        language: language_of(instance, comment),
                        valid: oracle.is_some(),
                        frozen: frozen_set.contains(&(instance.instance_id.clone(), comment.id.clone())),
                        before: oracle.map(|o| o.before.clone()).unwrap_or_default(),
                    }
                })
            })
            .collect();
        Self { schema: 1, comments, recorded: recorded.to_vec(), has_frozen: frozen.is_some() }
    }

    /// The comments that a denominator counts, of the instances that `keep` says.
    pub fn comment_set(&self, denominator: Denominator, keep: impl Fn(&InstanceId) -> bool) -> CommentSet {
        let counts = |c: &&RosterComment| match denominator {
            Denominator::All => true,
            Denominator::Valid => c.valid,
            Denominator::Final => c.frozen,
        };
        let mut rows: Vec<CommentRow> = self
            .comments
            .iter()
            .filter(counts)
            .filter(|c| keep(&c.instance_id))
            .map(|c| CommentRow {
                instance_id: c.instance_id.clone(),
                comment: c.comment.clone(),
                has_oracle: c.valid,
                category: c.category.clone(),
                kind: c.valid.then(|| c.kind.as_str()),
                language: (!c.language.is_empty()).then(|| c.language.clone()),
            })
            .collect();
        rows.sort_by(|a, b| a.key().cmp(&b.key()));
        CommentSet { denominator, rows }
    }

    /// The comments by instance and id.
    pub fn by_key(&self) -> BTreeMap<(&InstanceId, &CommentId), &RosterComment> {
        self.comments.iter().map(|c| ((&c.instance_id, &c.comment), c)).collect()
    }
}

/// The language of the comment's test where the data says so, else the instance's; in lower case.
fn language_of(instance: &Instance, comment: &crate::model::Comment) -> String {
    let own = comment.extra.get("language").and_then(serde_json::Value::as_str);
    own.unwrap_or(&instance.language).to_ascii_lowercase()
}
