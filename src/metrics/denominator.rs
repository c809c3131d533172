//! Which comments count.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{BenchManifest, Comment, CommentId, Instance, InstanceId};

/// A choice of comments to divide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Denominator {
    /// Every comment.
    All,
    /// Comments with an accepted oracle.
    Valid,
    /// The benchmark's own frozen choice.
    Final,
}

impl Denominator {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Valid => "valid",
            Self::Final => "final",
        }
    }

    /// `final` where the benchmark has a frozen choice, else `valid`.
    pub fn default_for(manifest: &BenchManifest) -> Self {
        if manifest.frozen.is_some() { Self::Final } else { Self::Valid }
    }
}

impl fmt::Display for Denominator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A denominator that does not exist, or that the benchmark does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DenominatorError {
    /// Not one of the three words.
    #[error("`{0}` is no denominator; use `all`, `valid` or `final`")]
    Unknown(String),
    /// `final` without a frozen choice.
    #[error("the benchmark `{0}` has no frozen choice of comments; use denominator `valid` or `all`")]
    NoFrozen(String),
}

impl FromStr for Denominator {
    type Err = DenominatorError;

    fn from_str(text: &str) -> Result<Self, DenominatorError> {
        [Self::All, Self::Valid, Self::Final]
            .into_iter()
            .find(|d| d.as_str() == text)
            .ok_or_else(|| DenominatorError::Unknown(text.to_owned()))
    }
}

/// One comment of a denominator and what it is grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentRow {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// Whether it has an accepted oracle.
    pub has_oracle: bool,
    /// The kind of concern, in the data's own word.
    pub category: Option<String>,
    /// The oracle's declared kind.
    pub kind: Option<&'static str>,
    /// The language of the comment's test where the data says so, else the instance's; in lower case.
    pub language: Option<String>,
}

/// The comments of a denominator, each once, ordered by instance and comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentSet {
    /// Which choice it is.
    pub denominator: Denominator,
    /// The comments.
    pub rows: Vec<CommentRow>,
}

impl CommentSet {
    /// The comments that a denominator counts. A frozen comment that the dataset does not have stays in, so that the
    /// total is the frozen one; nothing can pass it.
    ///
    /// # Errors
    /// When `final` is asked for and the benchmark made no choice.
    pub fn of(
        manifest: &BenchManifest,
        instances: &[Instance],
        denominator: Denominator,
    ) -> Result<Self, DenominatorError> {
        let all =
            || instances.iter().flat_map(|i| i.reference_review_comments.iter().map(move |comment| row(i, comment)));
        let mut rows: Vec<CommentRow> = match denominator {
            Denominator::All => all().collect(),
            Denominator::Valid => all().filter(|row| row.has_oracle).collect(),
            Denominator::Final => {
                let frozen =
                    manifest.frozen.as_ref().ok_or_else(|| DenominatorError::NoFrozen(manifest.name.clone()))?;
                frozen.iter().map(|f| frozen_row(instances, &f.instance_id, &f.comment)).collect()
            }
        };
        rows.sort_by(|a, b| a.key().cmp(&b.key()));
        rows.dedup_by(|a, b| a.key() == b.key());
        Ok(Self { denominator, rows })
    }

    /// Keeps the comments of the instances that `keep` says.
    pub fn retain(&mut self, keep: impl Fn(&InstanceId) -> bool) {
        self.rows.retain(|row| keep(&row.instance_id));
    }
}

impl CommentRow {
    /// What a comment is known by.
    pub fn key(&self) -> (&InstanceId, &CommentId) {
        (&self.instance_id, &self.comment)
    }
}

fn frozen_row(instances: &[Instance], id: &InstanceId, comment: &CommentId) -> CommentRow {
    let known = instances
        .iter()
        .find(|i| i.instance_id == *id)
        .and_then(|instance| instance.comment(comment).map(|comment| row(instance, comment)));
    known.unwrap_or_else(|| CommentRow {
        instance_id: id.clone(),
        comment: comment.clone(),
        has_oracle: false,
        category: None,
        kind: None,
        language: None,
    })
}

fn row(instance: &Instance, comment: &Comment) -> CommentRow {
    let oracle = instance.oracle(&comment.id);
    let own = comment.extra.get("language").and_then(serde_json::Value::as_str);
    let language = own.unwrap_or(&instance.language).to_ascii_lowercase();
    CommentRow {
        instance_id: instance.instance_id.clone(),
        comment: comment.id.clone(),
        has_oracle: oracle.is_some(),
        category: comment.category.clone(),
        kind: oracle.map(|o| o.kind.as_str()),
        language: (!language.is_empty()).then_some(language),
    }
}
