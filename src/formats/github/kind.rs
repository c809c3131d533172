//! What an object of the API is, by the fields that it has.

use serde_json::{Map, Value};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pull,
    Commit,
    /// A node of a pull request's commits: `{"commit": {…}}`.
    CommitNode,
    Review,
    Comment,
    Thread,
    Issue,
    /// A pull request in the shape of an issue; the pull request itself says more.
    IssueOfPull,
    IssueComment,
    Event,
    /// A changed file with its patch; the repository says more.
    File,
    /// What the API says instead of an answer.
    Refusal,
    /// Holds others.
    Wrapper,
    Unknown,
}

/// Fields of wrappers whose values are looked into, with the context of the wrapper.
pub(super) const INSIDE: [&str; 28] = [
    "data",
    "repository",
    "pullRequest",
    "pullRequests",
    "pull_request",
    "pull_requests",
    "pull",
    "pulls",
    "search",
    "nodes",
    "edges",
    "node",
    "commits",
    "reviews",
    "comments",
    "review_comments",
    "reviewComments",
    "review_threads",
    "reviewThreads",
    "threads",
    "issue",
    "issues",
    "linked_issues",
    "closingIssuesReferences",
    "closing_issues",
    "issue_comments",
    "timeline",
    "timelineItems",
];

/// Recognises an object. The order matters: objects nest, and a comment has a pull request's fields as well.
pub(super) fn kind_of(object: &Map<String, Value>) -> Kind {
    let has = |names: &[&str]| names.iter().any(|name| object.contains_key(*name));
    let holds = |name: &str| object.get(name).is_some_and(Value::is_object);
    let says = |name: &str| object.get(name).is_some_and(Value::is_string);
    if has(&["diff_hunk", "diffHunk"])
        || (has(&["path"])
            && has(&["original_commit_id", "originalCommit", "in_reply_to_id", "pull_request_review_id"]))
    {
        Kind::Comment
    } else if has(&["isResolved", "is_resolved", "isOutdated", "is_outdated"]) {
        Kind::Thread
    } else if (holds("base") && holds("head"))
        || has(&["baseRefOid", "headRefOid", "baseRefName", "headRefName", "closingIssuesReferences"])
        || (has(&["reviewThreads"]) && !has(&["nameWithOwner"]))
    {
        Kind::Pull
    } else if (says("sha") && holds("commit")) || (says("oid") && has(&["message", "committedDate", "authoredDate"])) {
        Kind::Commit
    } else if holds("commit") && object["commit"].get("oid").is_some_and(Value::is_string) && !has(&["state", "body"]) {
        Kind::CommitNode
    } else if has(&["submitted_at", "submittedAt"])
        || (says("state") && has(&["commit_id", "commit"]) && has(&["body"]))
    {
        Kind::Review
    } else if has(&["filename"]) && has(&["status", "patch", "changes"]) {
        Kind::File
    } else if says("issue_url") && has(&["body"]) {
        Kind::IssueComment
    } else if says("event") || object.get("__typename").and_then(Value::as_str).is_some_and(|t| t.ends_with("Event")) {
        Kind::Event
    } else if has(&["number"]) && has(&["title"]) {
        if has(&["pull_request"]) && !holds_object(object, "pull_request") { Kind::IssueOfPull } else { Kind::Issue }
    } else if (says("message") && has(&["documentation_url", "status"])) || (has(&["errors"]) && !holds("data")) {
        Kind::Refusal
    } else if has(&INSIDE) {
        Kind::Wrapper
    } else {
        Kind::Unknown
    }
}

/// Whether the field is a pull request rather than the addresses of one.
fn holds_object(object: &Map<String, Value>, field: &str) -> bool {
    object.get(field).and_then(|v| v.get("number")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(value: Value) -> Kind {
        kind_of(value.as_object().unwrap())
    }

    #[test]
    fn objects_of_both_interfaces() {
        for (value, want) in [
            (json!({"number": 1, "title": "t", "base": {"sha": "a"}, "head": {"sha": "b"}, "body": null}), Kind::Pull),
            (json!({"number": 1, "baseRefOid": "a", "reviewThreads": {"nodes": []}}), Kind::Pull),
            (json!({"sha": "a", "commit": {"message": "m"}, "parents": []}), Kind::Commit),
            (json!({"oid": "a", "message": "m"}), Kind::Commit),
            (json!({"commit": {"oid": "a", "message": "m"}}), Kind::CommitNode),
            (json!({"id": 1, "state": "COMMENTED", "body": "", "commit_id": "a", "submitted_at": "x"}), Kind::Review),
            (json!({"id": "PRR", "state": "APPROVED", "body": "", "commit": {"oid": "a"}}), Kind::Review),
            (json!({"id": 1, "path": "a", "diff_hunk": "", "body": "b", "commit_id": "c"}), Kind::Comment),
            (json!({"id": "x", "path": "a", "originalCommit": null}), Kind::Comment),
            (json!({"id": "x", "isResolved": true, "path": "a", "comments": {"nodes": []}}), Kind::Thread),
            (json!({"number": 3, "title": "t", "body": "b"}), Kind::Issue),
            (json!({"number": 3, "title": "t", "pull_request": {"url": "u"}}), Kind::IssueOfPull),
            (json!({"issue_url": "u", "body": "b", "id": 1}), Kind::IssueComment),
            (json!({"event": "head_ref_force_pushed", "commit_id": "a"}), Kind::Event),
            (json!({"__typename": "HeadRefForcePushedEvent"}), Kind::Event),
            (json!({"filename": "a", "status": "added", "sha": "x"}), Kind::File),
            (json!({"message": "Not Found", "documentation_url": "u"}), Kind::Refusal),
            (json!({"data": null, "errors": [{"message": "m"}]}), Kind::Refusal),
            (json!({"data": {"repository": {}}, "errors": []}), Kind::Wrapper),
            (json!({"pull_request": {"number": 1}, "comments": []}), Kind::Wrapper),
            (json!({"hello": 1}), Kind::Unknown),
        ] {
            assert_eq!(kind(value.clone()), want, "{value}");
        }
    }
}
