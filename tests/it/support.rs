//! What the tests of the built binary share: a scrubbed environment, a folder of their own, outputs to compare.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The built binary.
pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_redgreen")
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The bundled example.
pub fn example() -> String {
    root().join("examples/quickstart").display().to_string()
}

/// One cache for all tests of this process, so that layers and trees are made once. Removed with the target folder.
pub static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    fs_err::create_dir_all(&folder).unwrap();
    folder
});

/// A run folder of the whole example.
static SCORED: LazyLock<PathBuf> = LazyLock::new(|| {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scored");
    fs_err::create_dir_all(&parent).unwrap();
    // What earlier test processes left; another one may be running now.
    for entry in fs_err::read_dir(&parent).unwrap() {
        let entry = entry.unwrap();
        if !Path::new("/proc").join(entry.file_name()).exists() {
            fs_err::remove_dir_all(entry.path()).unwrap();
        }
    }
    let run = parent.join(std::process::id().to_string()).join("run");
    let out = run.display().to_string();
    Place::new().run(&["score", &example(), "--out", &out, "--denominator", "all"]).exits(0);
    run
});

/// A folder of one test, and commands in it with a scrubbed environment.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with a copy of the example at `bench`.
    pub fn with_bench() -> Self {
        let place = Self::new();
        copy_folder(&root().join("examples/quickstart"), &place.join("bench"));
        place
    }

    /// A place with a copy of the example at `bench`, and at `run` a copy of a run of all of it (denominator `all`),
    /// made once for all tests.
    pub fn scored() -> Self {
        let place = Self::with_bench();
        copy_folder(&SCORED, &place.join("run"));
        place
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file or folder in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Rewrites a file in it.
    #[track_caller]
    pub fn edit(&self, file: &str, edit: impl FnOnce(String) -> String) {
        let path = self.join(file);
        let before = fs_err::read_to_string(&path).unwrap();
        let after = edit(before.clone());
        assert_ne!(before, after, "the edit of {file} changed nothing");
        fs_err::write(&path, after).unwrap();
    }

    /// Rewrites the JSON lines of a file in it, those that `edit` gets hold of.
    #[track_caller]
    pub fn edit_rows(&self, file: &str, mut edit: impl FnMut(&mut Value)) {
        self.edit(file, |text| {
            let row = |line: &str| {
                let mut row: Value = serde_json::from_str(line).unwrap();
                edit(&mut row);
                format!("{row}\n")
            };
            text.lines().map(row).collect()
        });
    }

    /// `redgreen` with these arguments, in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.path()).env_clear();
        // Toolchains are found through these, as they are for a person.
        for name in ["PATH", "RUSTUP_HOME", "CARGO_HOME", "PYENV_ROOT"] {
            if let Some(value) = host(name) {
                command.env(name, value);
            }
        }
        let home = host("HOME").unwrap_or_else(|| "/nonexistent".to_owned());
        command.env("HOME", home).env("REDGREEN_CACHE", &*CACHE).env("COLUMNS", "100").env("TZ", "UTC");
        // What an engine of this machine holds has no part in what a person sees; tests that need one set it back.
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        command
    }

    /// Runs `redgreen` and returns what came of it.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// What a person sees, without what differs from machine to machine and from run to run.
    pub fn shown(&self, ran: &Ran) -> String {
        static DIGEST: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{32,}\b").unwrap());
        static SHARD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"/[0-9a-f]{2}/\[digest\]").unwrap());
        static TEMPORARY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\.tmp|\breporters|\bprocess)-\w+").unwrap());
        static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"made in \d+ (s|min \d+ s)").unwrap());
        static STATUS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^\d+/\d+ \d+ passed, .*\n").unwrap());
        let filter = |text: &str| {
            let text = text
                .replace(&self.path().display().to_string(), "[place]")
                .replace(&CACHE.display().to_string(), "[cache]")
                .replace(&root().display().to_string(), "[root]");
            let text = DIGEST.replace_all(&text, "[digest]");
            let text = SHARD.replace_all(&text, "/[digest]");
            let text = TEMPORARY.replace_all(&text, "[temporary]");
            let text = TIME.replace_all(&text, "made in [time]");
            STATUS.replace_all(&text, "").into_owned()
        };
        let mut out = format!("exit code {}\n", ran.code.map_or("none".to_owned(), |code| code.to_string()));
        for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            if !text.is_empty() {
                out.push_str(&format!("----- {name}\n{}", filter(text)));
            }
        }
        out.trim_end().to_owned()
    }

    /// The same without the tables of standard output.
    pub fn notes(&self, ran: &Ran) -> String {
        self.shown(&Ran { code: ran.code, stdout: String::new(), stderr: ran.stderr.clone() })
    }

    /// Runs `redgreen` and returns what a person sees.
    pub fn see(&self, arguments: &[&str]) -> String {
        self.shown(&self.run(arguments))
    }
}

#[expect(clippy::disallowed_methods, reason = "a test stands where the person's shell stands")]
pub fn host(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What a command wrote and how it ended.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts the exit code; shows everything when it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}\n{}\n{}", self.stdout, self.stderr))
    }

    /// Oracle runs made and served from records, by what the program says.
    #[track_caller]
    pub fn made_and_served(&self) -> (u64, u64) {
        static LINE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?m)^(\d+) oracle runs? made in .*?, (\d+) served from records").unwrap());
        let found = LINE.captures(&self.stderr).unwrap_or_else(|| panic!("no summary in\n{}", self.stderr));
        (found[1].parse().unwrap(), found[2].parse().unwrap())
    }
}

/// Instance, comment and arm of one verdict.
pub type Cell = (String, String, String);

/// Verdict and reason of each row, by instance, comment and arm.
pub fn cells(report: &Value) -> BTreeMap<Cell, (String, String)> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let key = (text(row, "instance_id"), text(row, "comment"), text(row, "arm"));
            (key, (text(row, "verdict"), text(row, "reason")))
        })
        .collect()
}

/// The cells that differ between two reports.
pub fn changed(before: &Value, after: &Value) -> Vec<Cell> {
    let (before, after) = (cells(before), cells(after));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    before.iter().filter(|(cell, verdict)| after[*cell] != **verdict).map(|(cell, _)| cell.clone()).collect()
}

/// A report without what may differ between two runs of the same thing.
pub fn timeless(report: &Value) -> Value {
    let mut report = report.clone();
    for row in report["verdicts"].as_array_mut().unwrap() {
        row["seconds"] = Value::Null;
        // Logs hold times; their digests follow.
        row["evidence"] = Value::Null;
    }
    report
}

/// Says something whatever the test runner captures: what is left out must be seen.
pub fn loudly(text: &str) {
    std::io::stderr().write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// Whether the tests run as root; those that need it say so when they are left out.
pub fn is_root(what: &str) -> bool {
    let root = rustix::process::getuid().is_root();
    if !root {
        loudly(&format!("LEFT OUT, as it needs root: {what}"));
    }
    root
}

/// Copies a folder.
pub fn copy_folder(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs_err::create_dir_all(&target).unwrap();
        } else {
            fs_err::copy(entry.path(), &target).unwrap();
        }
    }
}
