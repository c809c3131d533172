use serde_json::json;

use super::super::context::from_url;
use super::*;

fn take(files: &[(&str, String)]) -> Bag {
    let mut take = Take::new(None);
    files.iter().for_each(|(name, text)| take.file(name, text));
    take.finish()
}

fn key(number: u64) -> PullKey {
    PullKey { repo: "some-org/lamp".to_owned(), number }
}

fn counted(bag: &Bag, kind: &str) -> (usize, usize, usize, usize) {
    let c = bag.counted.get(kind).copied().unwrap_or_default();
    assert_eq!(c.read, c.kept + c.again + c.lost, "{kind}");
    (c.read, c.kept, c.again, c.lost)
}

const API: &str = "https://api.example.org/api/v3/repos/Some-Org/lamp";

fn rest_pull() -> Value {
    json!({
        "url": format!("{API}/pulls/4"), "number": 4, "title": "Dim it", "body": "Fixes #2", "state": "closed",
        "user": {"login": "ada", "type": "User"}, "created_at": "2026-01-01T00:00:00Z",
        "merged_at": "2026-01-03T00:00:00Z", "merged": true, "merge_commit_sha": "FF", "comments": 1, "commits": 2,
        "review_comments": 3, "base": {"ref": "main", "sha": "B0", "repo": {"full_name": "Some-Org/lamp", "language": "Python"}},
        "head": {"ref": "dim", "sha": "C2", "repo": null}
    })
}

fn rest_commit(sha: &str, parents: &[&str]) -> Value {
    let parents: Vec<_> = parents.iter().map(|p| json!({"sha": p})).collect();
    json!({"sha": sha, "url": format!("{API}/commits/{sha}"), "commit": {"message": "m"}, "parents": parents})
}

#[test]
fn rest_pages_become_one_pull_request() {
    let review = json!({"id": 9, "node_id": "R9", "user": {"login": "bob", "type": "User"}, "state": "CHANGES_REQUESTED",
                        "body": "See below", "commit_id": "C1", "submitted_at": "x", "pull_request_url": format!("{API}/pulls/4")});
    let issue = json!({"number": 2, "title": "Too bright", "body": null, "comments": 1, "repository_url": API});
    let said = json!({"id": 1, "issue_url": format!("{API}/issues/2"), "body": "Yes", "updated_at": "u"});
    let conversation = json!({"id": 2, "issue_url": format!("{API}/issues/4"), "body": "Nice", "updated_at": "u"});
    let view = json!({"number": 4, "title": "Dim it", "pull_request": {"url": "u"}, "repository_url": API});
    let file = json!({"filename": "lamp.py", "status": "modified", "sha": "x", "patch": "@@"});
    let pushed = json!({"event": "head_ref_force_pushed", "commit_id": "OLD"});
    let bag = take(&[
        ("pull.json", rest_pull().to_string()),
        (
            "commits.json",
            json!([rest_commit("c1", &["b0"]), rest_commit("C2", &["C1"]), rest_commit("zz", &["b0"])]).to_string(),
        ),
        ("reviews.json", format!("[{review}][{review}]")),
        ("more.json", format!("{issue}\n{said}\n{conversation}\n{view}\n{file}\n{pushed}\n")),
    ]);
    let pull = &bag.pulls[&key(4)];
    let details = pull.details.as_ref().unwrap();
    assert_eq!(pull.repo, "Some-Org/lamp");
    assert_eq!((details.title.as_deref(), details.language.as_deref()), (Some("Dim it"), Some("Python")));
    assert_eq!((details.merged, details.merge_commit.as_deref()), (Some(true), Some("ff")));
    assert_eq!(
        (details.base.as_deref(), details.base_name.as_deref(), details.head.as_deref()),
        (Some("b0"), Some("main"), Some("c2"))
    );
    // The commits that the head leads to, and no others of the repository.
    assert_eq!(bag.commits_of(&key(4), pull), ["c2", "c1"]);
    assert_eq!(pull.reviews.len(), 1);
    assert_eq!(pull.reviews[0].commit.as_deref(), Some("c1"));
    assert_eq!(bag.issues[&key(2)].title, "Too bright");
    assert_eq!(bag.issues[&key(2)].comments.len(), 1);
    assert_eq!(pull.conversation.len(), 1);
    assert_eq!(counted(&bag, "reviews"), (2, 1, 1, 0));
    // The event says of no pull request; file lists and views say nothing that is needed.
    let lost: Vec<_> = bag.lost.iter().map(|l| (l.file.as_str(), l.line, l.reason)).collect();
    use AttritionReason::Unused;
    assert_eq!(lost, [("more.json", 4, Unused), ("more.json", 5, Unused), ("more.json", 6, Unused)]);
}

/// A text, as the macro for values does not nest so deep.
const PAGE: &str = r##"{"data": {"repository": {"nameWithOwner": "Some-Org/lamp", "pullRequest": {
        "number": 4, "title": "Dim it", "body": "b", "baseRefOid": "B0", "baseRefName": "main", "headRefOid": "C2",
        "state": "MERGED", "mergedAt": "m", "mergeCommit": {"oid": "FF"}, "author": {"login": "ada", "__typename": "User"},
        "createdAt": "c", "repository": {"nameWithOwner": "Some-Org/lamp", "primaryLanguage": {"name": "Python"}},
        "commits": {"pageInfo": {"hasNextPage": true}, "nodes": [
            {"commit": {"oid": "C1", "message": "m", "committedDate": "d", "parents": {"nodes": [{"oid": "B0"}]}}}]},
        "reviews": {"nodes": [{"id": "R1", "state": "COMMENTED", "body": "", "author": null, "submittedAt": "s",
            "commit": {"oid": "C1"}, "comments": {"pageInfo": {"hasNextPage": true}, "nodes": [{
                "id": "K1", "databaseId": 77, "body": "why", "path": "lamp.py", "diffHunk": "@@ -1 +1 @@\n+a", "line": null,
                "originalLine": 1, "startLine": null, "originalStartLine": null, "createdAt": "t", "replyTo": null,
                "isMinimized": true, "minimizedReason": "RESOLVED", "commit": {"oid": "C2"}, "originalCommit": {"oid": "C1"}}]}}]},
        "comments": {"nodes": [{"id": "I1", "body": "on the whole", "createdAt": "t"}]},
        "closingIssuesReferences": {"nodes": [{"number": 8, "title": "There", "body": "x",
            "url": "https://github.com/other/place/issues/8",
            "comments": {"nodes": [{"id": "J1", "body": "hint", "updatedAt": "u"}]}}]},
        "timelineItems": {"nodes": [
            {"__typename": "HeadRefForcePushedEvent", "beforeCommit": {"oid": "OLD"}, "afterCommit": {"oid": "C2"}}]}
    }}}}"##;

/// Every place of a value.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, &format!("{here}/{i}"), found)),
        Value::Object(map) => map.iter().for_each(|(name, v)| places(v, &format!("{here}/{name}"), found)),
        _ => {}
    }
}

#[test]
fn whatever_stands_in_any_place_nothing_breaks_and_the_counts_add_up() {
    let page: Value = serde_json::from_str(PAGE).unwrap();
    let whole = json!([page, rest_pull(), rest_commit("c1", &["b0"])]);
    let mut found = Vec::new();
    places(&whole, "", &mut found);
    assert!(found.len() > 100);
    let others = [
        Value::Null,
        json!(-1),
        json!("x"),
        json!([]),
        json!([[{"id": 1}]]),
        json!({}),
        json!({"nodes": [{"id": ""}]}),
        json!(true),
    ];
    for place in &found {
        for other in &others {
            let mut value = whole.clone();
            *value.pointer_mut(place).unwrap() = other.clone();
            let bag = take(&[("p.json", value.to_string())]);
            for kind in bag.counted.keys() {
                counted(&bag, kind);
            }
            for (key, pull) in &bag.pulls {
                let messages: usize = super::super::threads(pull).iter().map(|t| t.messages.len()).sum();
                assert_eq!(messages, pull.comments.len(), "{place}: {other}");
                bag.commits_of(key, pull);
            }
        }
    }
    // Cut off anywhere, a file gives what is whole of it or says that it is broken.
    for end in (0..PAGE.len()).filter(|end| PAGE.is_char_boundary(*end)) {
        let bag = take(&[("p.json", PAGE[..end].to_owned())]);
        assert!(end == 0 || !bag.lost.is_empty(), "{end}");
    }
}

#[test]
fn a_graphql_page_becomes_the_same() {
    let bag = take(&[("p.json", PAGE.to_owned())]);
    assert_eq!(bag.lost, []);
    let pull = &bag.pulls[&key(4)];
    let details = pull.details.as_ref().unwrap();
    assert_eq!(
        (details.merged, details.merge_commit.as_deref(), details.language.as_deref()),
        (Some(true), Some("ff"), Some("Python"))
    );
    let comment = &pull.comments[0];
    assert_eq!((comment.ids.database, comment.ids.node.as_deref()), (Some(77), Some("K1")));
    assert_eq!((comment.original_commit.as_deref(), comment.commit.as_deref()), (Some("c1"), Some("c2")));
    assert_eq!(comment.minimized.as_deref(), Some("resolved"));
    assert_eq!(comment.review.as_ref().unwrap().node.as_deref(), Some("R1"));
    let there = PullKey { repo: "other/place".to_owned(), number: 8 };
    assert_eq!(pull.closes, std::slice::from_ref(&there));
    assert_eq!(bag.issues[&there].comments[0].body, "hint");
    assert_eq!((pull.conversation.len(), pull.pushed.as_slice()), (1, ["old".to_owned(), "c2".to_owned()].as_slice()));
    assert_eq!(bag.commits_of(&key(4), pull), ["c1"]);
    let unfinished: Vec<_> = bag.unfinished.iter().map(|(_, list)| list.as_str()).collect();
    assert_eq!(unfinished, ["comments of R1", "commits"]);
}

#[test]
fn one_object_with_everything_and_lines_of_whole_pull_requests() {
    let all = json!({"repo": "some-org/lamp", "number": 4, "pull_request": {"title": "T", "base": {"sha": "b"}, "head": {"sha": "c"}},
                     "review_comments": [{"id": 1, "path": "a", "diff_hunk": "", "body": "x"}],
                     "issues": [{"number": 3, "title": "I", "body": ""}], "linked_issues": [{"number": 5, "title": "L"}]});
    let row = json!({"url": "https://github.com/some-org/lamp/pull/6", "number": 6, "title": "S", "baseRefOid": "b", "headRefOid": "h"});
    let bag = take(&[("all.json", all.to_string()), ("rows.jsonl", format!("{row}\n{row}\n"))]);
    assert_eq!(bag.lost, []);
    let pull = &bag.pulls[&key(4)];
    assert_eq!((pull.comments.len(), pull.closes.as_slice()), (1, [key(5)].as_slice()));
    assert_eq!(counted(&bag, "issues"), (2, 2, 0, 0));
    assert_eq!(counted(&bag, "pull_requests"), (3, 2, 1, 0));
}

#[test]
fn what_cannot_be_placed_or_read_is_named_with_its_line() {
    let bag = take(&[
        ("a.json", "[\n{\"id\": 1, \"path\": \"a\", \"diff_hunk\": \"\"},\n{\"hello\": 1},\n7,\n{\"message\": \"Not Found\", \"status\": \"404\"}\n]".to_owned()),
        ("b.json", format!("{}\n{}", json!({"id": 1, "path": 5, "diff_hunk": "", "pull_request_url": format!("{API}/pulls/4")}), rest_pull())),
        ("c.json", "{\"data\": {\"repository\": null}, \"errors\": [{\"message\": \"rate\"}]}".to_owned()),
    ]);
    let lost: Vec<_> = bag.lost.iter().map(|l| (l.file.as_str(), l.line, l.field.as_str(), l.reason)).collect();
    use AttritionReason::{Malformed, NoPartner, NotInSource};
    assert_eq!(
        lost,
        [
            ("a.json", 2, "", NoPartner),
            ("a.json", 3, "", Malformed),
            ("a.json", 4, "", Malformed),
            ("a.json", 5, "", NotInSource),
            ("b.json", 1, "path", Malformed),
            ("c.json", 1, "", NotInSource),
        ]
    );
    assert!(bag.pulls[&key(4)].details.is_some());
}

#[test]
fn with_a_repository_named_objects_need_not_say_theirs() {
    let mut take = Take::new(Some("some-org/lamp"));
    take.file(
        "p.json",
        &json!({"data": {"repository": {"pullRequest": {"number": 4, "title": "T", "baseRefOid": "b"}}}}).to_string(),
    );
    take.file("c.json", &json!([{"sha": "aa", "commit": {}}]).to_string());
    let bag = take.finish();
    assert_eq!(bag.lost, []);
    assert!(bag.pulls.contains_key(&key(4)));
    assert!(bag.commits["some-org/lamp"].contains_key("aa"));
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{}1{}", "{\"nodes\":".repeat(100), "}".repeat(100));
    let bag = take(&[("d.json", deep)]);
    assert_eq!(bag.lost.len(), 1);
}

#[test]
fn addresses() {
    for (url, want) in [
        ("https://api.github.com/repos/o/r/pulls/3", Some(("o/r", Some(("pull", 3))))),
        ("https://github.com/o/r/pull/3#discussion_r5", Some(("o/r", Some(("pull", 3))))),
        ("https://h/api/v3/repos/o/r/issues/3", Some(("o/r", Some(("issue", 3))))),
        ("https://api.github.com/repos/o/r/pulls/comments/9", Some(("o/r", None))),
        ("https://api.github.com/repos/o/r", Some(("o/r", None))),
        ("nothing", None),
        ("https://h/", None),
    ] {
        let want = want.map(|(repo, at)| (repo.to_owned(), at));
        assert_eq!(from_url(url), want, "{url}");
    }
}
