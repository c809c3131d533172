//! What the comment filter says of a comment: its judgement, and whether the comment is kept.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CommentId, Digest, Extra, InstanceId};

/// The kind of concern that a comment raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConcernCategory {
    /// A wrong result or a missing part of the feature.
    Functional,
    /// Odd or hostile input, states, races, limits.
    Robustness,
    /// What happens when something fails.
    ErrorHandling,
    /// Harm by someone who means it.
    Security,
    /// Time, memory, repeated work.
    Efficiency,
    /// Other versions, platforms, callers, data.
    Compatibility,
    /// The tests of the change.
    Testing,
    /// Where things live, interfaces, dependencies.
    Design,
    /// Comments, docs, messages.
    Documentation,
    /// Names, duplication, style, dead code.
    Maintainability,
}

impl ConcernCategory {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Functional,
        Self::Robustness,
        Self::ErrorHandling,
        Self::Security,
        Self::Efficiency,
        Self::Compatibility,
        Self::Testing,
        Self::Design,
        Self::Documentation,
        Self::Maintainability,
    ];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Functional => "functional",
            Self::Robustness => "robustness",
            Self::ErrorHandling => "error-handling",
            Self::Security => "security",
            Self::Efficiency => "efficiency",
            Self::Compatibility => "compatibility",
            Self::Testing => "testing",
            Self::Design => "design",
            Self::Documentation => "documentation",
            Self::Maintainability => "maintainability",
        }
    }
}

/// The kind of oracle that could check a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedOracle {
    /// One that runs the project's code.
    Behavioral,
    /// One that inspects it.
    Structural,
    /// None.
    None,
}

impl ExpectedOracle {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Behavioral, Self::Structural, Self::None];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Behavioral => "behavioral",
            Self::Structural => "structural",
            Self::None => "none",
        }
    }
}

/// The labels of one comment, by a model or a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// It asks for a change.
    pub actionable: bool,
    /// It is clear where and which.
    pub specific: bool,
    /// A program could tell whether it was heeded.
    pub verifiable: bool,
    /// The main concern.
    pub category: ConcernCategory,
    /// The kind of test that could check it.
    pub oracle: ExpectedOracle,
    /// Why this kind.
    #[serde(default)]
    pub oracle_reason: String,
    /// What the comment wants.
    #[serde(default)]
    pub reason: String,
}

/// What became of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterDecision {
    /// It goes on.
    Kept,
    /// It leaves the funnel.
    Dropped,
    /// The model gave no usable answer.
    Failed,
}

impl FilterDecision {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        }
    }
}

/// Why a comment was dropped: by a rule before the model was asked, or by its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// A program wrote it.
    Bot,
    /// The author of the change wrote it.
    OwnAuthor,
    /// It has too few words to ask for anything.
    TooShort,
    /// It is on a file that is no code.
    NotCode,
    /// The author declined, and nobody insisted.
    Declined,
    /// It was withdrawn, or settled without a change.
    ResolvedOtherwise,
    /// It asks for no change.
    NotActionable,
    /// It is not clear what should change.
    NotSpecific,
    /// No program could tell whether it was heeded.
    NotVerifiable,
    /// No kind of oracle fits it.
    NoOracle,
}

impl DropReason {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 10] = [
        Self::Bot,
        Self::OwnAuthor,
        Self::TooShort,
        Self::NotCode,
        Self::Declined,
        Self::ResolvedOtherwise,
        Self::NotActionable,
        Self::NotSpecific,
        Self::NotVerifiable,
        Self::NoOracle,
    ];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bot => "bot",
            Self::OwnAuthor => "own-author",
            Self::TooShort => "too-short",
            Self::NotCode => "not-code",
            Self::Declined => "declined",
            Self::ResolvedOtherwise => "resolved-otherwise",
            Self::NotActionable => "not-actionable",
            Self::NotSpecific => "not-specific",
            Self::NotVerifiable => "not-verifiable",
            Self::NoOracle => "no-oracle",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Labels {
    /// Why a comment with these labels is dropped; `None`: it is kept.
    pub fn drop_reason(&self) -> Option<DropReason> {
        if !self.actionable {
            Some(DropReason::NotActionable)
        } else if !self.specific {
            Some(DropReason::NotSpecific)
        } else if !self.verifiable {
            Some(DropReason::NotVerifiable)
        } else if self.oracle == ExpectedOracle::None {
            Some(DropReason::NoOracle)
        } else {
            None
        }
    }
}

/// One line of `filter.jsonl`: what the filter says of one comment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterRow {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// What became of it.
    pub decision: FilterDecision,
    /// Why it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<DropReason>,
    /// The kind of failure, where there is no usable answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// In words: what a rule saw, or what was wrong with the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The labels; of several answers their majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// The single answers, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Labels>,
    /// The model that was asked; empty where a rule decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The digest of the prompt's template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Digest>,
    /// The digest of all that could change this row.
    pub key: Digest,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    fn same<T: Serialize + DeserializeOwned + PartialEq + fmt::Debug>(all: &[T], text: impl Fn(&T) -> &'static str) {
        for one in all {
            assert_eq!(serde_json::to_value(one).unwrap(), text(one));
            assert_eq!(&serde_json::from_value::<T>(text(one).into()).unwrap(), one);
        }
    }

    #[test]
    fn closed_sets_have_one_string_form() {
        same(&ConcernCategory::ALL, |one| one.as_str());
        same(&ExpectedOracle::ALL, |one| one.as_str());
        same(&DropReason::ALL, |one| one.as_str());
        same(&[FilterDecision::Kept, FilterDecision::Dropped, FilterDecision::Failed], |one| one.as_str());
    }
}
