//! What the tests of the built binary share: a scrubbed environment, a folder of their own, outputs to compare.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

/// The built binary.
pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_redgreen")
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One cache for all tests of this process, so that layers and trees are made once. Removed with the target folder.
pub static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    fs_err::create_dir_all(&folder).unwrap();
    folder
});

/// A folder of one test, and commands in it with a scrubbed environment.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file or folder in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
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
        command
    }

    /// Runs `redgreen` and returns what came of it.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }
}

#[expect(clippy::disallowed_methods, reason = "a test stands where the person's shell stands")]
fn host(name: &str) -> Option<String> {
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
