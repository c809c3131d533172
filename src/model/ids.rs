//! Identifiers. Instance ids compare without case; the first spelling seen is kept for people.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An id that does not have the form `owner__repo-PULL@sha7`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{id}` is not an instance id: {problem} (wanted `owner__repo-PULL@sha7`)")]
pub struct IdError {
    /// What was given.
    pub id: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The id of an instance, `owner__repo-PULL@sha7` (SWE-CARE's form): one pull request frozen at one reviewed commit.
///
/// `owner` and `repo` are split at the first `__` (GitHub owners have no two underscores in a row), the pull number at
/// the last `-` before `@`. Two ids that differ only in case are equal.
#[derive(Debug, Clone)]
pub struct InstanceId {
    text: String,
    folded: String,
    slash: usize,
    dash: usize,
    at: usize,
    pull: u64,
}

impl InstanceId {
    /// The id's text in its original letter case.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The lower-case form that comparisons use.
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// The repository's owner.
    pub fn owner(&self) -> &str {
        &self.text[..self.slash]
    }

    /// The repository's name, without its owner.
    pub fn name(&self) -> &str {
        &self.text[self.slash + 2..self.dash]
    }

    /// `owner/name`.
    pub fn repo(&self) -> String {
        format!("{}/{}", self.owner(), self.name())
    }

    /// The pull request's number.
    pub fn pull(&self) -> u64 {
        self.pull
    }

    /// The abbreviated commit under review, as the id spells it (7 hex digits as a rule).
    pub fn short_commit(&self) -> &str {
        &self.text[self.at + 1..]
    }
}

impl FromStr for InstanceId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = |problem| IdError { id: text.to_owned(), problem };
        let at = text.find('@').ok_or_else(|| bad("there is no `@commit` part"))?;
        let left = &text[..at];
        let dash = left.rfind('-').ok_or_else(|| bad("there is no `-PULL` part"))?;
        let slash = left[..dash].find("__").ok_or_else(|| bad("there is no `__` between owner and repository"))?;
        if slash == 0 || slash + 2 >= dash {
            return Err(bad("owner or repository is empty"));
        }
        let digits = &left[dash + 1..];
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad("the pull number is not a number"));
        }
        let pull = digits.parse().map_err(|_| bad("the pull number is too large"))?;
        let commit = &text[at + 1..];
        if commit.len() < 4 || commit.len() > 64 || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad("the part after `@` is not a commit id"));
        }
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !left.chars().all(safe) || left.contains("..") {
            return Err(bad("owner or repository has a character that GitHub does not allow"));
        }
        Ok(Self { text: text.to_owned(), folded: text.to_ascii_lowercase(), slash, dash, at, pull })
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for InstanceId {
    fn eq(&self, other: &Self) -> bool {
        self.folded == other.folded
    }
}

impl Eq for InstanceId {}

impl Hash for InstanceId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded.hash(state);
    }
}

impl PartialOrd for InstanceId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InstanceId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.folded.cmp(&other.folded)
    }
}

impl Serialize for InstanceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for InstanceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The id of a comment inside its instance. c-CRAB's testgen index becomes its decimal text.
///
/// Ordered as people count: `2` before `10`, numbers before names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct CommentId(String);

impl CommentId {
    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of the comment at `index` of its instance's list.
    pub fn from_index(index: usize) -> Self {
        Self(index.to_string())
    }
}

impl FromStr for CommentId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let bad = |problem| Err(IdError { id: text.to_owned(), problem });
        if text.is_empty() || text.len() > 100 {
            return bad("a comment id has 1 to 100 characters");
        }
        if !text.chars().all(safe) || text.starts_with('.') {
            return bad("a comment id has only letters, digits, `_`, `-` and `.`, and does not start with a dot");
        }
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for CommentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = CommentId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a comment id (text or a whole number)")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<CommentId, E> {
                Ok(CommentId(value.to_string()))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<CommentId, E> {
                u64::try_from(value)
                    .map(|v| CommentId(v.to_string()))
                    .map_err(|_| E::custom("a comment id is not negative"))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<CommentId, E> {
                value.parse().map_err(|e: IdError| E::custom(e.problem))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl fmt::Display for CommentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl PartialOrd for CommentId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CommentId {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |s: &str| s.parse::<u64>().ok();
        match (number(&self.0), number(&other.0)) {
            (Some(a), Some(b)) => a.cmp(&b).then_with(|| self.0.cmp(&other.0)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.0.cmp(&other.0),
        }
    }
}

/// Where a revision's guidance came from: a review tool, or one of the control arms.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arm(String);

impl Arm {
    /// The reference comments of the human reviewers.
    pub const HUMAN: &'static str = "human";
    /// No review at all: the agent sees only the change.
    pub const NONE: &'static str = "none";
    /// Another instance's review.
    pub const SHUFFLED: &'static str = "shuffled";
    /// No revision: the reviewed commit itself.
    pub const HEAD: &'static str = "head";
    /// The gold patch: the merged commit.
    pub const MERGED: &'static str = "merged";

    /// An arm by name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The `head` control.
    pub fn head() -> Self {
        Self::new(Self::HEAD)
    }

    /// The `merged` control.
    pub fn merged() -> Self {
        Self::new(Self::MERGED)
    }

    /// The arm's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is a control arm. Overlaps, unions and ranks leave controls out.
    pub fn is_control(&self) -> bool {
        matches!(self.as_str(), Self::HUMAN | Self::NONE | Self::SHUFFLED | Self::HEAD | Self::MERGED)
    }

    /// Whether this arm is a state of the repository rather than somebody's revision.
    pub fn is_state(&self) -> bool {
        matches!(self.as_str(), Self::HEAD | Self::MERGED)
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for Arm {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_ids_are_taken_apart() {
        let id: InstanceId = "All-Hands-AI__OpenHands-8343@9d4e2af".parse().unwrap();
        assert_eq!(id.owner(), "All-Hands-AI");
        assert_eq!(id.name(), "OpenHands");
        assert_eq!(id.repo(), "All-Hands-AI/OpenHands");
        assert_eq!((id.pull(), id.short_commit()), (8343, "9d4e2af"));
    }

    #[test]
    fn repository_names_keep_their_dashes_and_double_underscores() {
        let id: InstanceId = "python-telegram-bot__python-telegram-bot-3514@0123abc".parse().unwrap();
        assert_eq!(id.repo(), "python-telegram-bot/python-telegram-bot");
        let id: InstanceId = "o__a__b-1@0123abc".parse().unwrap();
        assert_eq!(id.repo(), "o/a__b");
    }

    #[test]
    fn ids_compare_without_case() {
        let a: InstanceId = "A__B-1@0123abc".parse().unwrap();
        let b: InstanceId = "a__b-1@0123ABC".parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "A__B-1@0123abc");
    }

    #[test]
    fn broken_ids_say_what_is_wrong() {
        for (text, part) in [
            ("a__b-1", "@commit"),
            ("a__b@0123abc", "-PULL"),
            ("ab-1@0123abc", "`__`"),
            ("a__b-x@0123abc", "pull number"),
            ("a__b-1@xyz", "commit"),
            ("../../x__b-1@0123abc", "character"),
            ("__b-1@0123abc", "empty"),
        ] {
            let error = text.parse::<InstanceId>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn comment_ids_sort_as_people_count_and_may_be_numbers() {
        let mut ids: Vec<CommentId> = serde_json::from_str(r#"["10", 2, "c1", "9"]"#).unwrap();
        ids.sort();
        let ids: Vec<_> = ids.iter().map(CommentId::as_str).collect();
        assert_eq!(ids, ["2", "9", "10", "c1"]);
        assert!(serde_json::from_str::<CommentId>("-1").is_err());
        assert!(serde_json::from_str::<CommentId>("\"a/b\"").is_err());
    }

    #[test]
    fn only_the_five_named_arms_are_controls() {
        for name in ["human", "none", "shuffled", "head", "merged"] {
            assert!(Arm::from(name).is_control());
        }
        assert!(!Arm::from("codex").is_control());
        assert!(Arm::head().is_state() && !Arm::from("human").is_state());
    }
}
