//! The API's objects, as far as anything is made of them. A field of either interface (REST: `snake_case`, GraphQL: `camelCase`) that is not
//! there is null; what has another type is named by its field.

use serde::Deserialize;

/// A number (REST), or a text (GraphQL).
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum AnyId {
    Number(u64),
    Text(String),
}

impl AnyId {
    /// The number in it, where it is one; GraphQL writes big ones as texts.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(n) => Some(*n),
            Self::Text(text) => text.parse().ok(),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// An object that is only pointed to.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Pointer {
    pub id: Option<AnyId>,
    pub node_id: Option<String>,
    #[serde(rename = "databaseId")]
    pub database_id: Option<AnyId>,
    #[serde(rename = "fullDatabaseId")]
    pub full_database_id: Option<AnyId>,
    pub oid: Option<String>,
    pub sha: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "nameWithOwner", alias = "full_name")]
    pub full_name: Option<String>,
    pub language: Option<String>,
    #[serde(rename = "primaryLanguage")]
    pub primary_language: Option<Box<Pointer>>,
    pub repo: Option<Box<Pointer>>,
    #[serde(rename = "ref")]
    pub reference: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct WireUser {
    pub login: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(rename = "__typename")]
    pub typename: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WirePull {
    pub title: Option<String>,
    pub body: Option<String>,
    pub user: Option<WireUser>,
    pub author: Option<WireUser>,
    #[serde(rename = "createdAt", alias = "created_at")]
    pub created_at: Option<String>,
    #[serde(rename = "mergedAt", alias = "merged_at")]
    pub merged_at: Option<String>,
    pub merged: Option<bool>,
    pub state: Option<String>,
    pub merge_commit_sha: Option<String>,
    #[serde(rename = "mergeCommit")]
    pub merge_commit: Option<Pointer>,
    pub base: Option<Pointer>,
    pub head: Option<Pointer>,
    #[serde(rename = "baseRefOid")]
    pub base_oid: Option<String>,
    #[serde(rename = "baseRefName")]
    pub base_name: Option<String>,
    #[serde(rename = "headRefOid")]
    pub head_oid: Option<String>,
    #[serde(rename = "baseRepository")]
    pub base_repository: Option<Pointer>,
    pub repository: Option<Pointer>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireCommit {
    pub sha: Option<String>,
    pub oid: Option<String>,
    pub parents: Option<WireParents>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WireParents {
    List(Vec<Pointer>),
    Page { nodes: Vec<Pointer> },
}

#[derive(Debug, Deserialize)]
pub(super) struct WireReview {
    pub id: Option<AnyId>,
    pub node_id: Option<String>,
    #[serde(rename = "databaseId")]
    pub database_id: Option<AnyId>,
    #[serde(rename = "fullDatabaseId")]
    pub full_database_id: Option<AnyId>,
    pub user: Option<WireUser>,
    pub author: Option<WireUser>,
    pub state: Option<String>,
    pub body: Option<String>,
    pub commit_id: Option<String>,
    pub commit: Option<Pointer>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireComment {
    pub id: Option<AnyId>,
    pub node_id: Option<String>,
    #[serde(rename = "databaseId")]
    pub database_id: Option<AnyId>,
    #[serde(rename = "fullDatabaseId")]
    pub full_database_id: Option<AnyId>,
    pub in_reply_to_id: Option<AnyId>,
    #[serde(rename = "replyTo")]
    pub reply_to: Option<Pointer>,
    pub pull_request_review_id: Option<AnyId>,
    #[serde(rename = "pullRequestReview")]
    pub review: Option<Pointer>,
    pub user: Option<WireUser>,
    pub author: Option<WireUser>,
    #[serde(rename = "authorAssociation", alias = "author_association")]
    pub association: Option<String>,
    pub body: Option<String>,
    pub path: Option<String>,
    #[serde(rename = "diffSide", alias = "side")]
    pub side: Option<String>,
    #[serde(rename = "startDiffSide", alias = "start_side")]
    pub start_side: Option<String>,
    pub line: Option<u64>,
    #[serde(rename = "startLine", alias = "start_line")]
    pub start_line: Option<u64>,
    #[serde(rename = "originalLine", alias = "original_line")]
    pub original_line: Option<u64>,
    #[serde(rename = "originalStartLine", alias = "original_start_line")]
    pub original_start_line: Option<u64>,
    #[serde(rename = "diffHunk", alias = "diff_hunk")]
    pub diff_hunk: Option<String>,
    pub commit_id: Option<String>,
    pub original_commit_id: Option<String>,
    pub commit: Option<Pointer>,
    #[serde(rename = "originalCommit")]
    pub original_commit: Option<Pointer>,
    #[serde(rename = "createdAt", alias = "created_at")]
    pub created_at: Option<String>,
    #[serde(rename = "subjectType", alias = "subject_type")]
    pub subject: Option<String>,
    pub outdated: Option<bool>,
    #[serde(rename = "isMinimized")]
    pub minimized: Option<bool>,
    #[serde(rename = "minimizedReason")]
    pub minimized_reason: Option<String>,
    pub state: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireThread {
    pub id: Option<AnyId>,
    #[serde(rename = "isResolved", alias = "is_resolved")]
    pub resolved: Option<bool>,
    #[serde(rename = "isOutdated", alias = "is_outdated")]
    pub outdated: Option<bool>,
    #[serde(rename = "isCollapsed", alias = "is_collapsed")]
    pub collapsed: Option<bool>,
    pub path: Option<String>,
    #[serde(rename = "diffSide", alias = "side")]
    pub side: Option<String>,
    #[serde(rename = "startDiffSide", alias = "start_side")]
    pub start_side: Option<String>,
    pub line: Option<u64>,
    #[serde(rename = "startLine", alias = "start_line")]
    pub start_line: Option<u64>,
    #[serde(rename = "originalLine", alias = "original_line")]
    pub original_line: Option<u64>,
    #[serde(rename = "originalStartLine", alias = "original_start_line")]
    pub original_start_line: Option<u64>,
    #[serde(rename = "subjectType", alias = "subject_type")]
    pub subject: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireIssue {
    pub number: u64,
    pub title: Option<String>,
    pub body: Option<String>,
    pub repository: Option<Pointer>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireIssueComment {
    pub id: Option<AnyId>,
    pub node_id: Option<String>,
    pub body: Option<String>,
    #[serde(rename = "createdAt", alias = "created_at")]
    pub created_at: Option<String>,
    #[serde(rename = "updatedAt", alias = "updated_at")]
    pub updated_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireEvent {
    pub event: Option<String>,
    #[serde(rename = "__typename")]
    pub typename: Option<String>,
    pub commit_id: Option<String>,
    #[serde(rename = "beforeCommit")]
    pub before: Option<Pointer>,
    #[serde(rename = "afterCommit")]
    pub after: Option<Pointer>,
}

/// `pageInfo` of a GraphQL connection.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageInfo {
    #[serde(rename = "hasNextPage")]
    pub more: bool,
}
