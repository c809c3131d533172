//! What the tables are made into: repositories with pinned identities and dates, instance folders, revisions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::Place;

/// One table: an instance, its oracle, and revisions with what is true of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Options of `score`.
    pub arguments: Vec<String>,
    /// Marks of every row whose oracle ran.
    #[serde(default)]
    pub marks: Vec<String>,
    instance: BTreeMap<String, Value>,
    pub oracle: Oracle,
    head: BTreeMap<String, String>,
    merged: BTreeMap<String, String>,
    #[serde(default)]
    pub revision: Vec<Revision>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oracle {
    framework: String,
    pub file: String,
    install_as: Option<String>,
    #[serde(default)]
    needs_conftest: bool,
    pub text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    pub name: String,
    pub truth: String,
    #[serde(default)]
    pub marks: Vec<String>,
    #[serde(default)]
    shape: Shape,
    #[serde(default)]
    write: BTreeMap<String, String>,
    #[serde(default)]
    delete: Vec<String>,
    patch: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    /// As `git diff` makes it.
    #[default]
    Plain,
    /// With carriage returns.
    Crlf,
    /// Without its last newline.
    Cut,
    /// In a fence, with talk around it.
    Fenced,
    /// Nothing at all.
    Empty,
}

impl Table {
    pub fn read(path: &Path) -> Self {
        let text = fs_err::read_to_string(path).unwrap();
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Commits the two states and leaves the head's tree there.
    pub fn commits(&self, repository: &Path) -> (String, String) {
        commits(repository, &self.head, &self.merged)
    }

    /// An `instance.json` without comments.
    pub fn instance(&self, repository: &str, pull: u64, head: &str, merged: Option<&str>) -> Value {
        let mut instance = instance(repository, pull, head, merged);
        for (name, value) in &self.instance {
            instance[name] = value.clone();
        }
        instance
    }
}

/// An `instance.json` without language and comments.
pub fn instance(repository: &str, pull: u64, head: &str, merged: Option<&str>) -> Value {
    json!({
        "instance_id": format!("truth__{repository}-{pull}@{}", &head[..7]),
        "repo": format!("truth/{repository}"),
        "pull_number": pull,
        "title": "Bounds",
        "head_commit": head,
        "merged_commit": merged,
    })
}

impl Oracle {
    /// A comment of an `instance.json` with this oracle.
    pub fn comment(&self, id: &str) -> Value {
        json!({
            "id": id,
            "text": "Values above the upper bound come through as they are.",
            "test": self.file,
            "framework": self.framework,
            "install_as": self.install_as,
            "needs_conftest": self.needs_conftest,
        })
    }
}

impl Revision {
    /// The patch that a coding agent would have handed in.
    pub fn patch(&self, repository: &Path, head: &str, fill: &dyn Fn(&str) -> String) -> String {
        if let Some(patch) = &self.patch {
            return fill(patch);
        }
        for path in &self.delete {
            fs_err::remove_file(repository.join(path)).unwrap();
        }
        let filled: BTreeMap<_, _> = self.write.iter().map(|(path, text)| (path.clone(), fill(text))).collect();
        let patch = difference(repository, head, &filled);
        match self.shape {
            Shape::Plain => assert!(!patch.is_empty(), "`{}` changes nothing", self.name),
            Shape::Empty => assert!(patch.is_empty(), "`{}` changes something", self.name),
            _ => {}
        }
        match self.shape {
            Shape::Plain | Shape::Empty => patch,
            Shape::Crlf => patch.replace('\n', "\r\n"),
            Shape::Cut => patch.trim_end_matches('\n').to_owned(),
            Shape::Fenced => format!("This cuts the values:\n\n```diff\n{patch}```\n\nAll is well now.\n"),
        }
    }
}

/// The patch from `head` to a tree with these files and the changes that are there already; the tree is head's again.
pub fn difference(repository: &Path, head: &str, files: &BTreeMap<String, String>) -> String {
    write(repository, files);
    git(repository, &["add", "--all"]);
    let patch = git(repository, &["diff", "--cached", "--binary", "--no-renames", head]);
    git(repository, &["reset", "--quiet", "--hard", head]);
    patch
}

/// Commits two states and leaves the first one's tree there.
pub fn commits(
    repository: &Path,
    head: &BTreeMap<String, String>,
    merged: &BTreeMap<String, String>,
) -> (String, String) {
    let commit = |files, message: &str| {
        write(repository, files);
        git(repository, &["add", "--all"]);
        git(repository, &["commit", "--quiet", "--message", message]);
        git(repository, &["rev-parse", "HEAD"]).trim().to_owned()
    };
    let (head, merged) = (commit(head, "Bound values"), commit(merged, "Cut values above"));
    git(repository, &["branch", "landed"]);
    git(repository, &["reset", "--quiet", "--hard", &head]);
    (head, merged)
}

pub fn write(folder: &Path, files: &BTreeMap<String, String>) {
    for (path, text) in files {
        let path = folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
}

/// The `git` program with nobody's configuration, and pinned names and dates.
pub fn git(repository: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(repository);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ada Example").env(format!("GIT_{who}_EMAIL"), "ada@example.org");
        command.env(format!("GIT_{who}_DATE"), "2021-03-04T05:06:07Z");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Instance folders, mirrors and revisions of one test.
pub struct Fixture<'a> {
    place: &'a Place,
    revisions: Vec<Value>,
    recorded: Vec<Value>,
}

impl<'a> Fixture<'a> {
    pub fn new(place: &'a Place) -> Self {
        Self { place, revisions: Vec::new(), recorded: Vec::new() }
    }

    pub fn mirrors(&self) -> String {
        self.place.join("mirrors").display().to_string()
    }

    /// An empty repository `truth/<name>` among the mirrors.
    pub fn repository(&self, name: &str) -> PathBuf {
        let folder = self.place.join("mirrors/truth").join(name);
        fs_err::create_dir_all(&folder).unwrap();
        git(&folder, &["init", "--quiet", "--initial-branch", "main"]);
        folder
    }

    /// Writes an instance's folder with its tests; returns its id.
    pub fn add(&mut self, instance: Value, tests: &[(&str, &str)]) -> String {
        let id = instance["instance_id"].as_str().unwrap().to_owned();
        let folder = self.place.join("instances").join(&id);
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("instance.json"), instance.to_string()).unwrap();
        for (name, text) in tests {
            fs_err::write(folder.join(name), text).unwrap();
        }
        id
    }

    pub fn revise(&mut self, id: &str, arm: &str, patch: &str) {
        self.revisions.push(json!({"instance_id": id, "arm": arm, "patch": patch}));
    }

    /// A revision of an agent that says that it changed nothing.
    pub fn revise_nothing(&mut self, id: &str, arm: &str) {
        self.revisions.push(json!({"instance_id": id, "arm": arm, "patch": "", "status": "no-changes"}));
    }

    /// A verdict that came with the data.
    pub fn record(&mut self, id: &str, comment: &str, arm: &str, passed: bool) {
        self.recorded.push(json!({"instance_id": id, "comment": comment, "arm": arm, "passed": passed}));
    }

    /// The same, for an agent that says that it changed nothing.
    pub fn record_nothing(&mut self, id: &str, comment: &str, arm: &str) {
        self.record(id, comment, arm, false);
        self.recorded.last_mut().unwrap()["error"] = "Agent made no changes".into();
    }

    /// Imports all of it through the binary; returns the benchmark's folder.
    pub fn import(&self) -> String {
        for (name, rows) in [("revisions.jsonl", &self.revisions), ("recorded.jsonl", &self.recorded)] {
            let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
            fs_err::write(self.place.join("instances").join(name), text).unwrap();
        }
        let bench = self.place.join("bench").display().to_string();
        let instances = self.place.join("instances").display().to_string();
        self.place.run(&["import", "folder", &instances, "--out", &bench]).exits(0);
        bench
    }
}
