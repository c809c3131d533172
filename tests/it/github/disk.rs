//! Pull requests on disk.

use std::path::Path;

use serde_json::{Value, json};

use super::stand::{API, REPO, Stand, rows};

const LAMP: &str = "def on():\n    return 1\n\n\ndef off():\n    return 0\n";
const DIM: &str = "\n\ndef dim(level):\n    if level > 9:\n        level = 9\n    return level / 9\n";
const FIXED: &str = "\n\ndef dim(level):\n    level = max(0, min(level, 9))\n    return level / 9\n";
const MOVED: &str = "import os\n\nNAME = os.name\n\n\n";

fn find<'r>(rows: &'r [Value], field: &str, value: &str) -> Option<&'r Value> {
    rows.iter().find(|row| row[field] == value)
}

fn comment<'r>(rows: &'r [Value], id: &str) -> (&'r Value, &'r Value) {
    let of = |row: &'r Value| row["reference_review_comments"].as_array().unwrap().iter().find(|c| c["id"] == id);
    rows.iter().find_map(|row| Some((row, of(row)?))).unwrap_or_else(|| panic!("no comment {id} in {rows:#?}"))
}

/// The commented lines are where the data set says, in the file of the commit that it says.
#[track_caller]
fn holds(stand: &Stand, rows: &[Value], id: &str, want: &str) {
    let (row, comment) = comment(rows, id);
    let (path, line) = (comment["path"].as_str().unwrap(), comment["original_line"].as_u64().unwrap());
    let commit = if comment["side"] == "old" { &row["base_commit"] } else { &row["commit_to_review"]["head_commit"] };
    assert_eq!(stand.line(commit.as_str().unwrap(), path, line), want, "{comment:#}");
}

/// Comments in the files are comments in the data set, or have a line of attrition.
#[track_caller]
fn nothing_is_lost(summary: &Value, data: &[Value], attrition: &[Value]) {
    let messages = |row: &Value| row["messages"].as_array().map_or(0, Vec::len);
    let kept: usize =
        data.iter().flat_map(|row| row["reference_review_comments"].as_array().unwrap()).map(messages).sum();
    let lost: u64 = attrition.iter().filter(|a| a["scope"] == "comment").filter_map(|a| a["messages"].as_u64()).sum();
    let read = &summary["read"]["review_comments"];
    assert_eq!(kept as u64 + lost, read["kept"].as_u64().unwrap(), "{summary:#}");
    for (kind, counted) in summary["read"].as_object().unwrap() {
        let number = |name: &str| counted[name].as_u64().unwrap();
        assert_eq!(number("read"), number("kept") + number("again") + number("lost"), "{kind}");
    }
}

/// A branch that is reviewed, rebased, pushed by force and merged as one commit: the reviewed commits are nowhere any more.
#[test]
fn comments_on_commits_that_a_rebase_took_away_are_found_by_their_lines() {
    let stand = Stand::new();
    let base = stand.commit(
        "start",
        &[("lamp.py", Some(LAMP)), ("old.py", Some("first()\nsecond()\n")), ("notes.txt", Some("a\nb\nc\n"))],
    );
    stand.git(&["checkout", "--quiet", "-b", "topic"]);
    stand.commit("dim", &[("lamp.py", Some(&format!("{LAMP}{DIM}"))), ("old.py", None)]);
    let reviewed = stand.commit("notes", &[("notes.txt", Some("a\nc\n"))]);
    let at = (base.as_str(), reviewed.as_str());

    let mut several = stand.comment(
        1,
        101,
        at,
        "lamp.py",
        11,
        "@ada please clamp:\r\n```suggestion\r\n    level = max(0, level)\r\n```",
    );
    (several["original_start_line"], several["start_side"]) = (json!(10), json!("RIGHT"));
    (several["line"], several["commit_id"]) = (Value::Null, json!("f".repeat(40)));
    let answer = stand.reply(&several, 102, "ada", "User", "Yes, @bob");
    let robot = stand.reply(&several, 103, "helper[bot]", "Bot", "Noted.");
    let mut removed = stand.comment(1, 104, at, "lamp.py", 11, "Why remove it?");
    (removed["path"], removed["side"], removed["original_line"]) = (json!("notes.txt"), json!("LEFT"), json!(2));
    removed["diff_hunk"] = json!(stand.hunk(&base, &reviewed, "notes.txt", true, 2));
    let mut gone = removed.clone();
    (gone["id"], gone["node_id"], gone["path"], gone["body"]) =
        (json!(105), json!("PRRC_105"), json!("old.py"), json!("Keep the file."));
    gone["diff_hunk"] = json!(stand.hunk(&base, &reviewed, "old.py", true, 2));
    let mut whole = stand.comment(1, 106, at, "lamp.py", 11, "Split this file.");
    (whole["subject_type"], whole["line"], whole["original_line"]) = (json!("file"), Value::Null, Value::Null);
    whole["diff_hunk"] = json!("");
    let mut nowhere = stand.comment(1, 107, at, "lamp.py", 11, "Never seen.");
    nowhere["diff_hunk"] = json!("@@ -1,1 +1,2 @@\n+def never(seen):\n+    return it");
    let review = stand.review(1, &reviewed, "Some remarks.");

    // The base moves, the branch is put on top of it with other ids, then the answer to the review follows.
    stand.git(&["checkout", "--quiet", "main"]);
    let moved = stand.commit("imports", &[("lamp.py", Some(&format!("{MOVED}{LAMP}")))]);
    stand.git(&["checkout", "--quiet", "topic"]);
    stand.git(&["rebase", "--quiet", "main"]);
    let rebased = stand.head();
    assert_ne!(rebased, reviewed);
    let last = stand.commit("clamp", &[("lamp.py", Some(&format!("{MOVED}{LAMP}{FIXED}")))]);
    stand.git(&["update-ref", "refs/pull/1/head", &last]);
    let commits = stand.commits("main", "topic");
    stand.git(&["checkout", "--quiet", "main"]);
    stand.git(&["merge", "--quiet", "--squash", "topic"]);
    let squash = stand.commit("Dim the lamp (#1)", &[]);
    stand.git(&["branch", "--quiet", "-D", "topic"]);
    let mirrors = stand.mirror();

    let mut pull = stand.pull(1, &moved, &last, Some(&squash), true);
    pull["body"] = json!("Fixes #7, closes #8.\r\n");
    let issue =
        json!({"number": 7, "title": "Too bright", "body": "It blinds.\r\n", "comments": 2, "repository_url": API});
    let early = json!({"id": 1, "issue_url": format!("{API}/issues/7"), "body": "Me too.", "updated_at": "2025-10-09T08:00:00Z"});
    let late = json!({"id": 2, "issue_url": format!("{API}/issues/7"), "body": "Clamp it.", "updated_at": "2026-01-01T00:00:00Z"});
    stand.answer("pull.json", &pull);
    stand.answer("commits.json", commits);
    // Two pages, as `gh api --paginate` writes them.
    stand.answer(
        "comments.json",
        format!("{}{}", json!([several, answer, removed, nowhere]), json!([robot, gone, whole])),
    );
    stand.answer("more/rest.jsonl", format!("{review}\n{issue}\n{early}\n{late}\n"));
    stand.answer("README.md", "not the API's");

    let import = ["import", "github", "api", "--mirrors", &mirrors, "--out", "bench", "--json"];
    let ran = stand.place.run(&import).exits(0);
    let summary = ran.json();
    let (data, attrition) =
        (rows(&stand.place.join("bench/dataset.jsonl")), rows(&stand.place.join("bench/attrition.jsonl")));
    nothing_is_lost(&summary, &data, &attrition);
    assert_eq!(data.len(), 1, "{data:#?}");
    let row = &data[0];
    assert_eq!(row["instance_id"], format!("Glade-Example__lamp-1@{}", &rebased[..7]));
    assert_eq!(row["commit_to_review"]["head_commit"], rebased.as_str());
    assert_eq!((&row["base_commit"], &row["merged_commit"]), (&json!(moved), &json!(squash)));
    assert_eq!((&row["merged_kind"], &row["language"]), (&json!("squash"), &json!("Python")));
    assert_eq!(row["problem_statement"], "Too bright\nIt blinds.");
    assert_eq!(row["hints_text"], "Me too.");
    assert_eq!(row["resolved_issues"][0]["number"], 7);
    let patch = row["commit_to_review"]["patch_to_review"].as_str().unwrap();
    assert!(patch.contains("+def dim(level):") && !patch.contains("import os"), "{patch}");
    assert!(row["merged_patch"].as_str().unwrap().contains("+    level = max(0, min(level, 9))"));

    holds(&stand, &data, "101", "        level = 9");
    holds(&stand, &data, "104", "b");
    holds(&stand, &data, "105", "second()");
    let (_, several) = comment(&data, "101");
    let (first, last_line) =
        (several["original_start_line"].as_u64().unwrap(), several["original_line"].as_u64().unwrap());
    assert_eq!((first, last_line), (15, 16));
    assert_eq!(
        several["located"],
        json!({"how": "hunk", "commit": reviewed, "candidates": 2, "line": 11, "start_line": 10})
    );
    assert_eq!(
        several["text"],
        "@user1:\n@author please clamp:\n```suggestion\n    level = max(0, level)\n```\n\n@author:\nYes, @user1\n\n@user2:\nNoted."
    );
    assert_eq!(
        (&several["suggestions"], &several["outdated"]),
        (&json!(["    level = max(0, level)\n"]), &json!(true))
    );
    let said = several["messages"].as_array().unwrap();
    let flags: Vec<_> =
        said.iter().map(|m| (m["bot"] == true, m["pull_author"] == true, m["member"] == true)).collect();
    assert_eq!(flags, [(false, false, true), (false, true, false), (true, false, false)]);
    let text = fs_err::read_to_string(stand.place.join("bench/dataset.jsonl")).unwrap();
    assert!(!text.contains("\"login\"") && !text.contains("helper"), "a name is left");
    let (_, whole) = comment(&data, "106");
    assert_eq!((&whole["subject"], &whole["located"]["how"]), (&json!("file"), &json!("file")));

    let lost = find(&attrition, "comment", "107").unwrap();
    assert_eq!((&lost["reason"], &lost["messages"]), (&json!("not-located"), &json!(1)));
    assert!(find(&attrition, "reason", "not-inline").unwrap()["detail"].as_str().unwrap().contains("summary"));
    assert!(find(&attrition, "reason", "not-in-source").unwrap()["detail"].as_str().unwrap().contains("#8"));
    stand.place.run(&["check", "bench"]).exits(0);

    // The same bytes again, and with names where they are asked for.
    let before = fs_err::read(stand.place.join("bench/dataset.jsonl")).unwrap();
    stand.place.run(&import).exits(0);
    assert!(before == fs_err::read(stand.place.join("bench/dataset.jsonl")).unwrap());
    stand
        .place
        .run(&["import", "github", "api", "--mirrors", &mirrors, "--out", "named", "--authors", "real"])
        .exits(0);
    let data = rows(&stand.place.join("named/dataset.jsonl"));
    let (_, named) = comment(&data, "101");
    assert_eq!(
        (&named["messages"][2]["login"], &named["messages"][2]["author"]),
        (&json!("helper[bot]"), &json!("@user2"))
    );
}

/// One pull request for each way to be merged, or not.
#[test]
fn what_became_of_a_pull_request_is_found_and_typed() {
    let stand = Stand::new();
    stand.commit("start", &[("lamp.py", Some(LAMP))]);
    let mut pulls = Vec::new();
    let mut want = Vec::new();
    for (number, way) in [(1, "merge"), (2, "rebase"), (3, "fast"), (4, "squash"), (5, "closed"), (6, "unsaid")] {
        let base = stand.head();
        let file = format!("m{number}.py");
        stand.git(&["checkout", "--quiet", "-b", "topic"]);
        stand.commit("one", &[(&file, Some("a = 1\nb = 2\n"))]);
        let reviewed = stand.commit("two", &[("other.py", Some(&format!("n = {number}\n")))]);
        let comment = stand.comment(number, 100 + number, (&base, &reviewed), &file, 2, "Should be 3.");
        let last = stand.commit("three", &[(&file, Some("a = 1\nb = 3\n"))]);
        stand.git(&["update-ref", &format!("refs/pull/{number}/head"), &last]);
        stand.git(&["checkout", "--quiet", "main"]);
        if way != "fast" {
            stand.commit("meanwhile", &[(&format!("x{number}.py"), Some("x = 1\n"))]);
        }
        let merged = match way {
            "merge" | "unsaid" => {
                stand.git(&[
                    "merge",
                    "--quiet",
                    "--no-ff",
                    "-m",
                    &format!("Merge pull request #{number} from ada/topic"),
                    "topic",
                ]);
                Some(stand.head())
            }
            "rebase" => {
                stand.git(&["cherry-pick", &format!("{base}..topic")]);
                Some(stand.head())
            }
            "fast" => {
                stand.git(&["merge", "--quiet", "--ff-only", "topic"]);
                Some(stand.head())
            }
            "squash" => {
                stand.git(&["merge", "--quiet", "--squash", "topic"]);
                Some(stand.commit("All of it (#4)", &[]))
            }
            // A trial merge of the host's, which means nothing.
            _ => Some("e".repeat(40)),
        };
        stand.git(&["branch", "--quiet", "-D", "topic"]);
        let said = merged.as_deref().filter(|_| way != "unsaid");
        let pull = stand.pull(number, &base, &last, said, way != "closed");
        pulls.push(json!({"pull_request": pull, "review_comments": [comment]}));
        let commit = merged.filter(|_| way != "closed").map_or(Value::Null, Value::from);
        let kind = match way {
            "merge" | "unsaid" => "merge",
            "fast" => "branch-head",
            "squash" => "squash",
            _ => "unknown",
        };
        let how = if way == "rebase" { json!("rebase") } else { Value::Null };
        want.push((number, json!(reviewed), json!(base), commit, json!(kind), how));
    }
    stand.answer("all.json", Value::Array(pulls));
    let mirrors = stand.mirror();
    stand.place.run(&["import", "github", "api", "--mirrors", &mirrors, "--out", "bench"]).exits(0);
    let data = rows(&stand.place.join("bench/dataset.jsonl"));
    let found: Vec<_> = data
        .iter()
        .map(|row| {
            let head = row["commit_to_review"]["head_commit"].clone();
            let how = row.get("merged_how").cloned().unwrap_or_default();
            let (base, merged, kind) =
                (row["base_commit"].clone(), row["merged_commit"].clone(), row["merged_kind"].clone());
            (row["pull_number"].as_u64().unwrap(), head, base, merged, kind, how)
        })
        .collect();
    assert_eq!(found, want);
    assert_eq!(comment(&data, "101").1["located"], json!({"how": "commit"}));
    // Only issues say what is to be solved; without one the pull request does.
    assert_eq!(data[0]["problem_statement"], "Change 1\nAs discussed.");
}

/// GraphQL alone, with what only it says.
#[test]
fn a_graphql_page_is_enough() {
    let stand = Stand::new();
    let base = stand.commit("start", &[("lamp.py", Some(LAMP))]);
    stand.git(&["checkout", "--quiet", "-b", "topic"]);
    let reviewed = stand.commit("dim", &[("lamp.py", Some(&format!("{LAMP}{DIM}")))]);
    stand.git(&["checkout", "--quiet", "main"]);
    let hunk = stand.hunk(&base, &reviewed, "lamp.py", false, 10);
    let first = json!({"id": "PRRC_a=", "body": "Clamp.", "path": "lamp.py", "diffHunk": hunk, "originalLine": 10, "line": 10,
        "author": {"login": "bob", "__typename": "User"}, "createdAt": stand.now(), "originalCommit": {"oid": reviewed}});
    let second = json!({"id": "PRRC_b", "body": "Done.", "author": null, "createdAt": stand.now(), "replyTo": {"id": "PRRC_a="}});
    let thread = json!({"id": "PRRT_1", "isResolved": true, "isOutdated": false, "isCollapsed": true, "diffSide": "RIGHT",
        "comments": {"pageInfo": {"hasNextPage": true}, "nodes": [first, second]}});
    let pull = json!({"number": 3, "title": "Dim", "body": "", "state": "OPEN", "baseRefName": "main", "baseRefOid": base,
        "headRefOid": reviewed, "author": {"login": "ada"}, "reviewThreads": {"nodes": [thread]}});
    stand.answer("page.json", json!({"data": {"repository": {"pullRequest": pull}}}));
    let mirrors = stand.mirror();
    let without = stand.place.run(&["import", "github", "api", "--mirrors", &mirrors, "--out", "bench"]).exits(2);
    assert!(without.stderr.contains("--repo"), "{}", without.stderr);
    let ran = stand
        .place
        .run(&["import", "github", "api", "--repo", REPO, "--mirrors", &mirrors, "--out", "bench", "--json"])
        .exits(0);
    assert!(ran.stderr.contains("last page of `comments of PRRT_1`"), "{}", ran.stderr);
    let data = rows(&stand.place.join("bench/dataset.jsonl"));
    nothing_is_lost(&ran.json(), &data, &[]);
    let (row, one) = comment(&data, "PRRC_a_");
    assert_eq!((&row["merged_commit"], &row["merged_kind"]), (&Value::Null, &json!("unknown")));
    assert_eq!(one["text"], "@user1:\nClamp.\n\n@unknown:\nDone.");
    assert_eq!((&one["resolved"], &one["outdated"], &one["collapsed"]), (&json!(true), &json!(false), &json!(true)));
    holds(&stand, &data, "PRRC_a_", "    if level > 9:");
}

/// Whatever is broken or missing is named, and the others come through.
#[test]
fn what_is_broken_is_named_and_the_rest_stays() {
    let stand = Stand::new();
    let base = stand.commit("start", &[("lamp.py", Some(LAMP))]);
    stand.git(&["checkout", "--quiet", "-b", "topic"]);
    let reviewed = stand.commit("dim", &[("lamp.py", Some(&format!("{LAMP}{DIM}")))]);
    stand.git(&["checkout", "--quiet", "main"]);
    let good = stand.comment(1, 101, (&base, &reviewed), "lamp.py", 10, "Clamp.");
    let mut bad = good.clone();
    (bad["id"], bad["line"]) = (json!(102), json!("ten"));
    let mut stray = good.clone();
    (stray["id"], stray["node_id"], stray["pull_request_url"]) =
        (json!(103), json!("x"), json!(format!("{API}/pulls/9")));
    let mut elsewhere = stand.pull(2, &base, &reviewed, None, false);
    elsewhere["base"]["repo"]["full_name"] = json!("glade-example/kettle");
    elsewhere["url"] = json!("https://api.github.com/repos/glade-example/kettle/pulls/2");
    let mut there = good.clone();
    (there["id"], there["node_id"]) = (json!(104), json!("y"));
    there["pull_request_url"] = elsewhere["url"].clone();
    let silent = stand.pull(5, &base, &reviewed, None, false);
    stand.answer("a.json", format!("[\n{good},\n{bad},\n{stray}\n]"));
    stand.answer(
        "b.json",
        format!("{}\n{elsewhere}\n{there}\n{silent}\n{{\"hello\": 1}}\n", stand.pull(1, &base, &reviewed, None, false)),
    );
    stand.answer("c.json", "[{\"id\": 7, \"path\"");
    stand.answer("d.json", "<html>sorry</html>");
    stand.answer("e.json", "{\"message\": \"API rate limit exceeded\", \"documentation_url\": \"u\"}");
    let mirrors = stand.mirror();
    let ran = stand.place.run(&["import", "github", "api", "--mirrors", &mirrors, "--out", "bench", "--json"]).exits(0);
    let summary = ran.json();
    let (data, attrition) =
        (rows(&stand.place.join("bench/dataset.jsonl")), rows(&stand.place.join("bench/attrition.jsonl")));
    assert_eq!(data.len(), 1);
    nothing_is_lost(&summary, &data, &attrition);
    let problems: Vec<(String, u64, String)> = summary["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| {
            let file = Path::new(p["file"].as_str().unwrap()).file_name().unwrap().to_string_lossy().into_owned();
            (file, p["line"].as_u64().unwrap_or_default(), p["field"].as_str().unwrap().to_owned())
        })
        .collect();
    let want = [("a.json", 3, "line"), ("b.json", 5, ""), ("c.json", 1, ""), ("d.json", 1, ""), ("e.json", 1, "")];
    assert_eq!(problems, want.map(|(file, line, field)| (file.to_owned(), line, field.to_owned())));
    let reasons = |instance: &str| -> Vec<String> {
        let of = attrition.iter().filter(|a| a["instance_id"] == instance);
        of.map(|a| format!("{}: {}", a["scope"].as_str().unwrap(), a["reason"].as_str().unwrap())).collect()
    };
    assert_eq!(reasons("Glade-Example__lamp-5"), ["instance: no-comments"]);
    assert_eq!(reasons("glade-example__kettle-2"), ["comment: no-commit", "instance: no-commit"]);
    assert_eq!(reasons("glade-example__lamp-9"), ["comment: no-partner", "instance: no-partner"]);

    let none = stand.place.run(&["import", "github", "api/d.json", "--out", "other"]).exits(2);
    assert!(
        none.stderr.contains("no pull request that can be read") && none.stderr.contains("d.json:1"),
        "{}",
        none.stderr
    );
    let nothing = stand.place.run(&["import", "github", "nowhere", "--out", "other"]).exits(2);
    assert!(nothing.stderr.contains("nowhere"), "{}", nothing.stderr);
}
