//! What a report needs to know of a benchmark, kept in the run folder so that it needs nothing else.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::metrics::{CommentRow, CommentSet, Denominator};
use crate::model::{Attrition, Comment, CommentId, Digest, Instance, InstanceId, Oracle, OracleKind, RecordedVerdict};

/// The benchmark's comments and recorded verdicts. The comments' words and tests are here for people who read the
/// report; rosters of older runs lack them (and instances, and attrition), and are reported all the same.
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
    /// Every instance, in the dataset's order.
    #[serde(default)]
    pub instances: Vec<RosterInstance>,
    /// What the benchmark lost on the way, and why.
    #[serde(default)]
    pub attrition: Vec<Attrition>,
}

/// One instance, as far as a reader of the report wants to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RosterInstance {
    /// The instance.
    pub instance_id: InstanceId,
    /// `owner/name`.
    pub repo: String,
    /// The pull request's title.
    pub title: String,
    /// The reviewed commit.
    pub head_commit: String,
    /// The commit that addressed the review, where it is known.
    pub merged_commit: Option<String>,
}

/// The test of an oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterTest {
    /// The framework that runs it.
    pub framework: String,
    /// The file in the benchmark folder.
    pub path: String,
    /// The blob with its source; absent where the benchmark lacks the file.
    pub source: Option<Digest>,
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
    /// What the human said.
    #[serde(default)]
    pub text: String,
    /// The commented file.
    #[serde(default)]
    pub path: String,
    /// The commented lines as people write them: `12`, `12-15`; empty where no line is known.
    #[serde(default)]
    pub lines: String,
    /// The accepted oracle's test.
    #[serde(default)]
    pub test: Option<RosterTest>,
}

impl Roster {
    /// The roster of a benchmark. `source` gives the blob of a test's source by the test's path in the benchmark folder.
    pub fn new(
        instances: &[Instance],
        frozen: Option<&[crate::model::FrozenRow]>,
        recorded: &[RecordedVerdict],
        attrition: &[Attrition],
        source: impl Fn(&str) -> Option<Digest>,
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
                        text: comment.text.clone(),
                        path: comment.path.clone(),
                        lines: lines_of(comment),
                        test: oracle.map(|o| test_of(o, &source)),
                    }
                })
            })
            .collect();
        Self {
            schema: 1,
            comments,
            recorded: recorded.to_vec(),
            has_frozen: frozen.is_some(),
            instances: instances.iter().map(RosterInstance::new).collect(),
            attrition: attrition.to_vec(),
        }
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
    pub fn by_key(&self) -> HashMap<(&InstanceId, &CommentId), &RosterComment> {
        self.comments.iter().map(|c| ((&c.instance_id, &c.comment), c)).collect()
    }
}

impl RosterInstance {
    fn new(instance: &Instance) -> Self {
        Self {
            instance_id: instance.instance_id.clone(),
            repo: instance.repo.clone(),
            title: instance.title.clone(),
            head_commit: instance.head_commit().to_owned(),
            merged_commit: instance.merged_commit.clone(),
        }
    }
}

fn test_of(oracle: &Oracle, source: impl Fn(&str) -> Option<Digest>) -> RosterTest {
    RosterTest {
        framework: oracle.framework.as_str().to_owned(),
        path: oracle.test.clone(),
        source: source(&oracle.test),
    }
}

/// The commented lines: those of now, or of when the comment was written where it is outdated.
fn lines_of(comment: &Comment) -> String {
    let (start, end) = match comment.line {
        Some(line) => (comment.start_line, line),
        None => match comment.original_line {
            Some(line) => (comment.original_start_line, line),
            None => return String::new(),
        },
    };
    match start {
        Some(start) if start < end => format!("{start}-{end}"),
        _ => end.to_string(),
    }
}

/// The language of the comment's test where the data says so, else the instance's; in lower case.
fn language_of(instance: &Instance, comment: &Comment) -> String {
    let own = comment.extra.get("language").and_then(serde_json::Value::as_str);
    own.unwrap_or(&instance.language).to_ascii_lowercase()
}
