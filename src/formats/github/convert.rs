//! The API's objects in the bag's types.

use serde_json::{Map, Value};

use super::bag::{Author, Details, Ids, ReviewComment, ThreadFacts};
use super::hunk::Side;
use super::wire::{AnyId, Pointer, WireComment, WirePull, WireThread, WireUser};
use crate::model::from_value;

/// The objects of a list, or of a page of one.
pub(super) fn list(value: &Value, take: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        Value::Array(entries) => entries.iter().filter_map(Value::as_object).for_each(take),
        Value::Object(page) => {
            if let Some(nodes) = page.get("nodes") {
                list(nodes, take);
            }
            let edges = page.get("edges").and_then(Value::as_array).into_iter().flatten();
            edges.filter_map(|edge| edge.get("node")?.as_object()).for_each(take);
        }
        _ => {}
    }
}

pub(super) fn ids_of(object: &Map<String, Value>) -> Ids {
    let id = |name: &str| object.get(name).cloned().and_then(|v| from_value::<AnyId>(v).ok());
    let node = object.get("node_id").and_then(Value::as_str).map(str::to_owned);
    ids(id("id"), node, [id("databaseId"), id("fullDatabaseId")])
}

pub(super) fn ids(id: Option<AnyId>, node: Option<String>, database: [Option<AnyId>; 2]) -> Ids {
    let number = id.as_ref().and_then(AnyId::number);
    let text = id.filter(|_| number.is_none()).map(|id| id.text());
    let database = database.into_iter().flatten().find_map(|id| id.number());
    Ids { database: number.or(database), node: node.or(text).filter(|t| !t.is_empty()) }
}

pub(super) fn pointed(pointer: Pointer) -> Ids {
    ids(pointer.id, pointer.node_id, [pointer.database_id, pointer.full_database_id])
}

pub(super) fn author(user: WireUser) -> Option<Author> {
    let login = user.login.filter(|l| !l.is_empty())?;
    let says = |kind: &Option<String>| kind.as_deref() == Some("Bot");
    let bot = says(&user.kind) || says(&user.typename) || login.ends_with("[bot]");
    Some(Author { login, bot })
}

pub(super) fn side(text: Option<String>) -> Option<Side> {
    match text?.as_str() {
        "LEFT" => Some(Side::Old),
        "RIGHT" => Some(Side::New),
        _ => None,
    }
}

pub(super) fn file_level(subject: Option<String>) -> Option<bool> {
    subject.map(|s| s.eq_ignore_ascii_case("file"))
}

pub(super) fn details(wire: WirePull) -> Details {
    let base = wire.base.unwrap_or_default();
    let repository = base.repo.map(|r| *r).or(wire.base_repository).or(wire.repository).unwrap_or_default();
    let merged = wire.merged.or_else(|| wire.merged_at.as_ref().map(|_| true)).or_else(|| {
        let state = wire.state.as_deref()?;
        (state == "MERGED")
            .then_some(true)
            .or_else(|| matches!(state, "OPEN" | "open" | "CLOSED" | "closed").then_some(false))
    });
    let lower = |sha: Option<String>| sha.map(|s| s.to_ascii_lowercase()).filter(|s| !s.is_empty());
    Details {
        repo: repository.full_name,
        language: repository.language.or(repository.primary_language.and_then(|l| l.name)),
        title: wire.title,
        body: wire.body,
        author: wire.user.or(wire.author).and_then(author),
        created_at: wire.created_at,
        merged,
        merge_commit: lower(wire.merge_commit_sha.or(wire.merge_commit.and_then(|c| c.oid))),
        base_name: base.reference.or(wire.base_name),
        base: lower(base.sha.or(wire.base_oid)),
        head: lower(wire.head.and_then(|h| h.sha).or(wire.head_oid)),
    }
}

pub(super) fn comment(wire: WireComment) -> ReviewComment {
    let lower = |sha: Option<String>| sha.map(|s| s.to_ascii_lowercase()).filter(|s| !s.is_empty());
    let some = |ids: Ids| (!ids.is_empty()).then_some(ids);
    let number = |n: Option<u64>| n.filter(|n| *n > 0);
    let minimized = wire.minimized == Some(true);
    ReviewComment {
        ids: ids(wire.id, wire.node_id, [wire.database_id, wire.full_database_id]),
        reply_to: some(ids(wire.in_reply_to_id, None, [None, None]))
            .or_else(|| wire.reply_to.map(pointed).and_then(some)),
        review: some(ids(wire.pull_request_review_id, None, [None, None]))
            .or_else(|| wire.review.map(pointed).and_then(some)),
        author: wire.user.or(wire.author).and_then(author),
        association: wire.association,
        body: wire.body,
        path: wire.path.filter(|p| !p.is_empty()),
        side: side(wire.side),
        start_side: side(wire.start_side),
        line: number(wire.line),
        start_line: number(wire.start_line),
        original_line: number(wire.original_line),
        original_start_line: number(wire.original_start_line),
        diff_hunk: wire.diff_hunk,
        commit: lower(wire.commit_id.or(wire.commit.and_then(|c| c.oid))),
        original_commit: lower(wire.original_commit_id.or(wire.original_commit.and_then(|c| c.oid))),
        created_at: wire.created_at,
        file_level: file_level(wire.subject),
        outdated: wire.outdated,
        minimized: minimized.then(|| wire.minimized_reason.unwrap_or_default().to_ascii_lowercase()),
        pending: wire.state.as_deref() == Some("PENDING"),
    }
}

pub(super) fn thread(wire: WireThread) -> ThreadFacts {
    let place = ReviewComment {
        path: wire.path.filter(|p| !p.is_empty()),
        side: side(wire.side),
        start_side: side(wire.start_side),
        line: wire.line,
        start_line: wire.start_line,
        original_line: wire.original_line,
        original_start_line: wire.original_start_line,
        file_level: file_level(wire.subject),
        ..ReviewComment::default()
    };
    ThreadFacts {
        ids: ids(wire.id, None, [None, None]),
        resolved: wire.resolved,
        outdated: wire.outdated,
        collapsed: wire.collapsed,
        place,
        comments: Vec::new(),
    }
}

pub(super) fn refusal(object: &Map<String, Value>) -> String {
    let first = object.get("errors").and_then(|e| e.get(0)).and_then(|e| e.get("message")).and_then(Value::as_str);
    let message = first.or_else(|| object.get("message").and_then(Value::as_str)).unwrap_or("no message");
    message.chars().take(200).collect()
}
