//! An instance: one pull request frozen at the commit that a human reviewed, in SWE-CARE's field names.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{CommentId, EnvironmentSpec, Extra, InstanceId, Oracle};

/// One line of `dataset.jsonl`. The names are those of SWE-CARE (arXiv 2509.14856), so its files load unchanged;
/// `merged_kind`, `environment` and `oracles` are ours. Missing nullable fields read as null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// `owner__repo-PULL@sha7`.
    pub instance_id: InstanceId,
    /// `owner/name`.
    pub repo: String,
    /// The repository's main language, as the source calls it.
    #[serde(default)]
    pub language: String,
    /// The pull request's number.
    #[serde(default)]
    pub pull_number: u64,
    /// The pull request's title.
    #[serde(default, deserialize_with = "null_as_default")]
    pub title: String,
    /// The pull request's description.
    #[serde(default)]
    pub body: Option<String>,
    /// When the pull request was opened (ISO 8601).
    #[serde(default, deserialize_with = "null_as_default")]
    pub created_at: String,
    /// The text of the issues that the pull request closes.
    #[serde(default, deserialize_with = "null_as_default")]
    pub problem_statement: String,
    /// Earlier comments on those issues.
    #[serde(default, deserialize_with = "null_as_default")]
    pub hints_text: String,
    /// The issues themselves, as the source has them.
    #[serde(default, deserialize_with = "null_as_default")]
    pub resolved_issues: Vec<Value>,
    /// The commit that the pull request branched from, or would be merged into.
    #[serde(default)]
    pub base_commit: Option<String>,
    /// The commit to review.
    pub commit_to_review: CommitToReview,
    /// The human comments on that commit. Two comments with the same text stay two comments.
    #[serde(default, deserialize_with = "comments_with_ids")]
    pub reference_review_comments: Vec<Comment>,
    /// The commit that addressed the review, where it is known.
    #[serde(default)]
    pub merged_commit: Option<String>,
    /// What `merged_commit` is.
    #[serde(default)]
    pub merged_kind: MergedKind,
    /// The diff of the whole pull request.
    #[serde(default)]
    pub merged_patch: Option<String>,
    /// Labels that came with the data.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// How the code is made runnable; absent where nobody has said so yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentSpec>,
    /// The tests bound to comments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oracles: Vec<Oracle>,
    /// Fields of a newer or foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Instance {
    /// The commit to review, in full or abbreviated as the data has it.
    pub fn head_commit(&self) -> &str {
        &self.commit_to_review.head_commit
    }

    /// The comment with this id.
    pub fn comment(&self, id: &CommentId) -> Option<&Comment> {
        self.reference_review_comments.iter().find(|c| c.id == *id)
    }

    /// The accepted oracle of this comment.
    pub fn oracle(&self, comment: &CommentId) -> Option<&Oracle> {
        self.oracles.iter().find(|o| o.comment == *comment && o.accepted)
    }
}

/// The commit under review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitToReview {
    /// Its id, in full or abbreviated.
    pub head_commit: String,
    /// Its message.
    #[serde(default, deserialize_with = "null_as_default")]
    pub head_commit_message: String,
    /// The diff from the base to this commit.
    #[serde(default, deserialize_with = "null_as_default")]
    pub patch_to_review: String,
    /// Fields of a newer or foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One human review comment: a thread, anonymised and joined, at a place of the diff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comment {
    /// The comment's id inside its instance; its index where the data gives none.
    pub id: CommentId,
    /// The thread's text.
    pub text: String,
    /// The commented file; may be empty.
    #[serde(default, deserialize_with = "null_as_default")]
    pub path: String,
    /// The hunk as the host showed it.
    #[serde(default)]
    pub diff_hunk: Option<String>,
    /// The last commented line in the new file; null where the comment is outdated.
    #[serde(default)]
    pub line: Option<u64>,
    /// The first commented line of a multi-line comment.
    #[serde(default)]
    pub start_line: Option<u64>,
    /// `line` when the comment was written.
    #[serde(default)]
    pub original_line: Option<u64>,
    /// `start_line` when the comment was written.
    #[serde(default)]
    pub original_start_line: Option<u64>,
    /// The kind of concern, in the data's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Fields of a newer or foreign writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What an instance's merged commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergedKind {
    /// The last commit of the pull request's branch (SWE-CARE's meaning).
    BranchHead,
    /// A merge commit on the default branch.
    Merge,
    /// One commit on the default branch that holds the whole pull request.
    Squash,
    /// Not said.
    #[default]
    Unknown,
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Gives a comment without an id its index as id.
fn comments_with_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Comment>, D::Error> {
    struct Comments;
    impl<'de> serde::de::Visitor<'de> for Comments {
        type Value = Vec<Comment>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of review comments")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut comments = Vec::new();
            while let Some(mut fields) = seq.next_element::<Extra>()? {
                let index = comments.len();
                fields.entry("id").or_insert_with(|| Value::from(index.to_string()));
                let comment = super::from_value(Value::Object(fields)).map_err(|(field, problem)| {
                    serde::de::Error::custom(format!("comment {index}, field `{field}`: {problem}"))
                })?;
                comments.push(comment);
            }
            Ok(comments)
        }
    }
    deserializer.deserialize_any(Comments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn swe_care_row() -> Value {
        json!({
            "instance_id": "o__r-7@0123abc", "repo": "o/r", "language": "Python", "pull_number": 7,
            "title": "t", "body": null, "created_at": "2024-01-01T00:00:00Z", "problem_statement": "",
            "hints_text": "", "resolved_issues": [{"number": 1, "title": "x", "body": "y"}],
            "base_commit": "00", "commit_to_review": {"head_commit": "0123abc", "head_commit_message": "m",
            "patch_to_review": "d", "x_new": 1},
            "reference_review_comments": [
                {"text": "same", "path": "a.py", "diff_hunk": null, "line": null, "start_line": null,
                 "original_line": 3, "original_start_line": null},
                {"text": "same", "path": "a.py", "diff_hunk": "@@", "line": 3, "start_line": null,
                 "original_line": 3, "original_start_line": null, "stars": 5}],
            "merged_commit": "ff", "merged_patch": "p", "metadata": {"difficulty": null}, "later": [1]
        })
    }

    #[test]
    fn a_swe_care_row_loads_and_two_equal_comments_stay_two() {
        let instance: Instance = serde_json::from_value(swe_care_row()).unwrap();
        let ids: Vec<_> = instance.reference_review_comments.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["0", "1"]);
        assert_eq!(instance.merged_kind, MergedKind::Unknown);
    }

    #[test]
    fn unknown_fields_survive_a_round_trip() {
        let instance: Instance = serde_json::from_value(swe_care_row()).unwrap();
        let back = serde_json::to_value(&instance).unwrap();
        assert_eq!(back["later"], json!([1]));
        assert_eq!(back["commit_to_review"]["x_new"], 1);
        assert_eq!(back["reference_review_comments"][1]["stars"], 5);
        let again: Instance = serde_json::from_value(back).unwrap();
        assert_eq!(again, instance);
    }

    #[test]
    fn an_error_inside_a_comment_names_comment_and_field() {
        let mut row = swe_care_row();
        row["reference_review_comments"][1]["line"] = json!("three");
        let parsed = super::super::parse_jsonl::<Instance>(&row.to_string());
        let error = parsed.errors[0].to_string();
        assert!(error.contains("reference_review_comments"), "{error}");
        assert!(error.contains("comment 1, field `line`"), "{error}");
    }
}
