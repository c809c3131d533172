//! Repositories with pinned people and dates, and what the API says of their pull requests. Hunks are cut out of what the
//! git program prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Place, host};

pub const REPO: &str = "glade-example/lamp";
pub const API: &str = "https://api.github.com/repos/glade-example/lamp";

/// A place with a work tree, from which a mirror is made.
pub struct Stand {
    pub place: Place,
    clock: std::cell::Cell<u64>,
}

impl Stand {
    pub fn new() -> Self {
        let stand = Self { place: Place::new(), clock: std::cell::Cell::new(0) };
        fs_err::create_dir_all(stand.work()).unwrap();
        stand.git(&["init", "--quiet", "--initial-branch=main", "."]);
        stand
    }

    pub fn work(&self) -> PathBuf {
        self.place.join("work")
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let date = format!("{} +0000", 1_760_000_000 + 60 * self.clock.get());
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", host("PATH").unwrap())
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("HOME", "/nonexistent"),
                ("TZ", "UTC"),
            ])
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org"), ("GIT_EDITOR", "true")])
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.org")])
            .envs([("GIT_AUTHOR_DATE", &date), ("GIT_COMMITTER_DATE", &date)])
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// The API's time of now; a minute passes with each commit.
    pub fn now(&self) -> String {
        let seconds = i64::try_from(1_760_000_000 + 60 * self.clock.get() + 30).unwrap();
        jiff::Timestamp::from_second(seconds).unwrap().to_string()
    }

    /// Commits all of these files (`None` removes one).
    pub fn commit(&self, message: &str, files: &[(&str, Option<&str>)]) -> String {
        for (path, text) in files {
            let path = self.work().join(path);
            match text {
                Some(text) => {
                    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                    fs_err::write(path, text).unwrap();
                }
                None => fs_err::remove_file(path).unwrap(),
            }
        }
        self.clock.set(self.clock.get() + 1);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
        self.head()
    }

    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// A clone of all references, without the objects that none of them leads to. Gives the mirrors' folder.
    pub fn mirror(&self) -> String {
        let from = format!("file://{}", self.work().display());
        let to = self.place.join("mirrors").join(REPO);
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        self.git(&["clone", "--quiet", "--mirror", &from, to.to_str().unwrap()]);
        self.place.join("mirrors").display().to_string()
    }

    /// Line of a file at a commit.
    pub fn line(&self, commit: &str, path: &str, line: u64) -> String {
        let text = self.git(&["show", &format!("{commit}:{path}")]);
        text.lines().nth(usize::try_from(line).unwrap() - 1).unwrap_or_default().to_owned()
    }

    /// The hunk of `git diff base...commit` down to a line, as the API gives it.
    pub fn hunk(&self, base: &str, commit: &str, path: &str, old_side: bool, line: u64) -> String {
        let diff = self.git(&["diff", &format!("{base}...{commit}"), "--", path]);
        let mut kept: Vec<&str> = Vec::new();
        let (mut old, mut new) = (0, 0);
        for row in diff.lines() {
            if let Some(numbers) = row.strip_prefix("@@ ") {
                let mut starts = numbers.split(' ').map(|n| n[1..].split(',').next().unwrap().parse::<u64>().unwrap());
                (old, new) = (starts.next().unwrap(), starts.next().unwrap());
                kept = vec![row];
                continue;
            }
            if kept.is_empty() {
                continue;
            }
            kept.push(row);
            let here = match &row[..1] {
                "-" => old_side && old == line,
                "+" => !old_side && new == line,
                _ => (if old_side { old } else { new }) == line,
            };
            if here {
                return kept.join("\n");
            }
            old += u64::from(!row.starts_with('+'));
            new += u64::from(!row.starts_with('-'));
        }
        panic!("line {line} of {path} is in no hunk of\n{diff}");
    }

    /// A review comment on the new side.
    pub fn comment(
        &self,
        pull: u64,
        id: u64,
        (base, commit): (&str, &str),
        path: &str,
        line: u64,
        body: &str,
    ) -> Value {
        json!({
            "id": id, "node_id": format!("PRRC_{id}"), "pull_request_review_id": 9000 + pull, "path": path,
            "user": {"login": "bob", "type": "User"}, "author_association": "MEMBER", "body": body,
            "pull_request_url": format!("{API}/pulls/{pull}"), "side": "RIGHT", "start_side": null,
            "line": line, "start_line": null, "original_line": line, "original_start_line": null,
            "diff_hunk": self.hunk(base, commit, path, false, line), "commit_id": commit, "original_commit_id": commit,
            "created_at": self.now(), "updated_at": self.now(), "subject_type": "line"
        })
    }

    pub fn reply(&self, to: &Value, id: u64, login: &str, kind: &str, body: &str) -> Value {
        let mut reply = to.clone();
        reply["id"] = json!(id);
        reply["node_id"] = json!(format!("PRRC_{id}"));
        reply["in_reply_to_id"] = to["id"].clone();
        reply["user"] = json!({"login": login, "type": kind});
        reply["author_association"] = json!("CONTRIBUTOR");
        reply["body"] = json!(body);
        reply["created_at"] = json!(self.now().replace(":30Z", ":45Z"));
        reply
    }

    /// A pull request of `ada`'s for `main`.
    pub fn pull(&self, number: u64, base: &str, head: &str, merge_commit: Option<&str>, merged: bool) -> Value {
        json!({
            "url": format!("{API}/pulls/{number}"), "number": number, "title": format!("Change {number}"),
            "body": "As discussed.", "state": "closed", "user": {"login": "ada", "type": "User"},
            "created_at": "2025-10-09T08:53:20Z", "merged_at": merged.then_some("2025-10-19T00:00:00Z"), "merged": merged,
            "merge_commit_sha": merge_commit, "comments": 0, "commits": 1, "review_comments": 1,
            "base": {"ref": "main", "sha": base, "repo": {"full_name": "Glade-Example/lamp", "language": "Python"}},
            "head": {"ref": "topic", "sha": head, "repo": {"full_name": "ada/lamp"}}
        })
    }

    /// The API's list of `base..head`.
    pub fn commits(&self, base: &str, head: &str) -> Value {
        let rows = self.git(&["log", "--reverse", "--format=%H %P", &format!("{base}..{head}")]);
        let rows = rows.lines().map(|row| {
            let mut ids = row.split(' ');
            let sha = ids.next().unwrap();
            let parents: Vec<Value> = ids.map(|p| json!({"sha": p})).collect();
            json!({"sha": sha, "url": format!("{API}/commits/{sha}"), "commit": {"message": "m"}, "parents": parents})
        });
        Value::Array(rows.collect())
    }

    pub fn review(&self, pull: u64, commit: &str, body: &str) -> Value {
        json!({"id": 9000 + pull, "node_id": format!("PRR_{pull}"), "user": {"login": "bob", "type": "User"}, "body": body,
               "state": "CHANGES_REQUESTED", "commit_id": commit, "submitted_at": self.now(),
               "pull_request_url": format!("{API}/pulls/{pull}")})
    }

    /// Writes a file of the API's answers.
    pub fn answer(&self, name: &str, text: impl ToString) {
        let path = self.place.join("api").join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text.to_string()).unwrap();
    }
}

/// Rows of a JSON Lines file; none where it is not there.
pub fn rows(path: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
