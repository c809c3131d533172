//! Frameworks as data: how each is started and how its result is read (`environments/frameworks.toml`).

use std::collections::BTreeMap;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::model::{Digest, Framework, Outcome, digest_json};

use super::error::OracleError;
use super::policy::Policy;

const BUILT_IN: &str = include_str!("../../environments/frameworks.toml");
const FILE: &str = "frameworks.toml";
const SCHEMA: u32 = 1;

/// All framework definitions of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frameworks {
    schema: u32,
    /// Variables of every run, below those of the environment and the framework.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    framework: BTreeMap<String, Definition>,
}

/// One framework's definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// The command of strict runs, with placeholders; empty where only an oracle's own command makes sense.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The command where the repository's own test configuration must be in force.
    #[serde(default)]
    configured: Option<Vec<String>>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// Variables instead of `variables` where the repository's own test configuration must be in force.
    #[serde(default)]
    configured_variables: Option<BTreeMap<String, String>>,
    /// Whether an oracle's own command replaces `command`.
    #[serde(default)]
    pub(super) own_command: bool,
    /// Variables that are lists of folders, whose entries in the tree only the reporter puts in.
    #[serde(default)]
    late: Vec<String>,
    pub(super) place: Place,
    pub(super) result: ResultKind,
    #[serde(default)]
    codes: BTreeMap<String, Outcome>,
    #[serde(default)]
    must_print: Option<String>,
    #[serde(default)]
    pub(super) probe: Vec<String>,
    #[serde(default)]
    configuration: Vec<String>,
    /// The same where the oracle brings a command of its own, which may start anything.
    #[serde(default)]
    own_configuration: Vec<String>,
    #[serde(default)]
    replay: Option<Replay>,
}

/// How the c-CRAB release ran a framework.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    command: Vec<String>,
    place: Place,
    codes: BTreeMap<String, Outcome>,
    #[serde(default)]
    alive: Option<String>,
}

/// Where a test lies that does not say so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    /// Read-only, outside the tree.
    Outside,
    /// In the tree's `tests` folder.
    Tests,
    /// At the tree's root.
    Root,
}

/// How a framework's result is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// Events of redgreen's own reporter through the result channel.
    Reporter,
    /// cargo's build messages and libtest's text on standard output.
    Libtest,
    /// TAP on standard output.
    Tap,
    /// A JUnit XML file, brought out through the result channel.
    Junit,
    /// The exit code, and at most a line that must have been printed.
    Exit,
}

/// What is left to decide how one run's exit code is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExitRule {
    /// What a code means; any other is `errored(runner)`.
    pub codes: BTreeMap<i32, Outcome>,
    /// Without a line that matches, no code is believed.
    pub must_print: Option<String>,
    /// Without a line that matches, the framework itself may be missing; tried by the probe.
    pub alive: Option<String>,
}

/// A definition settled for one policy and configuration need.
pub(super) struct Settled<'a> {
    pub(super) command: &'a [String],
    pub(super) variables: BTreeMap<String, String>,
    pub(super) late: &'a [String],
    pub(super) place: Place,
    pub(super) result: ResultKind,
    pub(super) rule: ExitRule,
}

impl Frameworks {
    /// The definitions that redgreen brings along.
    pub fn built_in() -> Result<Self, OracleError> {
        Self::parse(BUILT_IN, "the built-in frameworks.toml")
    }

    /// The built-in definitions with the tables of `folder`'s `frameworks.toml`, where there is one, over them.
    pub fn with_folder(folder: &Path) -> Result<Self, OracleError> {
        let mut all = Self::built_in()?;
        let path = folder.join(FILE);
        if path.is_file() {
            let text = fs_err::read_to_string(&path).map_err(|source| OracleError::File { source })?;
            let own = Self::parse(&text, &path.display().to_string())?;
            all.variables.extend(own.variables);
            all.framework.extend(own.framework);
        }
        Ok(all)
    }

    /// Definitions from a text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Self, OracleError> {
        let broken = |problem: String| OracleError::Definitions { origin: origin.to_owned(), problem };
        let all: Self = toml::from_str(text).map_err(|error| broken(error.to_string()))?;
        if all.schema != SCHEMA {
            return Err(broken(format!("schema {} is not known, only {SCHEMA}", all.schema)));
        }
        for (name, definition) in &all.framework {
            if serde_json::from_value::<Framework>(serde_json::Value::from(name.as_str())).is_err() {
                return Err(broken(format!("`{name}` is not a framework")));
            }
            definition.check().map_err(|problem| broken(format!("`{name}`: {problem}")))?;
        }
        Ok(all)
    }

    /// The variables of every run.
    pub(super) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    pub(super) fn get(&self, framework: Framework) -> Result<&Definition, OracleError> {
        let missing = || OracleError::NoDefinition { framework };
        self.framework.get(framework.as_str()).ok_or_else(missing)
    }

    /// The digest of all that these definitions say of one framework; part of the key of every run with it.
    pub fn digest(&self, framework: Framework) -> Result<Digest, OracleError> {
        let value = serde_json::json!({ "variables": self.variables, "definition": self.get(framework)? });
        Ok(digest_json(&value))
    }

    /// What steers a framework's tests: conftest files, ini files, manifests, compiled code that is believed. Of an oracle
    /// with a command of its own (`own_command`) that is what steers the usual runners.
    pub fn test_configuration(
        &self,
        framework: Framework,
        own_command: bool,
    ) -> Result<TestConfiguration, OracleError> {
        self.get(framework)?.test_configuration(own_command).map_err(|problem| OracleError::Definitions {
            origin: FILE.to_owned(),
            problem: format!("`{}`: {problem}", framework.as_str()),
        })
    }
}

/// Which paths of a tree steer a framework's tests.
#[derive(Debug, Clone)]
pub struct TestConfiguration(GlobSet);

impl TestConfiguration {
    /// From globs of paths relative to the tree. Letter case counts, as it does where tests run.
    fn new<'a>(globs: impl Iterator<Item = &'a String> + Clone) -> Result<Self, String> {
        // What lies in the place of a folder may be a link to another one: `.cargo` for `**/.cargo/config.toml`. Of
        // `**/conftest.py` no folder is left to name, and the file that a link leads to goes by its own name.
        let folders = globs.clone().flat_map(|glob| {
            let above = glob.match_indices('/').map(|(at, _)| &glob[..at]);
            above.filter(|folder| !folder.ends_with("**"))
        });
        let mut set = GlobSetBuilder::new();
        for glob in globs.map(String::as_str).chain(folders) {
            set.add(GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| error.to_string())?);
        }
        Ok(Self(set.build().map_err(|error| error.to_string())?))
    }

    /// Whether a file or link at `path` (relative to the tree) steers tests.
    pub fn has(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }
}

impl Definition {
    fn check(&self) -> Result<(), String> {
        self.test_configuration(true)?;
        exit_codes(&self.codes)?;
        let mut patterns = vec![self.must_print.as_deref()];
        if let Some(replay) = &self.replay {
            exit_codes(&replay.codes)?;
            patterns.push(replay.alive.as_deref());
            if replay.command.is_empty() {
                return Err("the replay's command is empty".to_owned());
            }
        }
        for pattern in patterns.into_iter().flatten() {
            Regex::new(pattern).map_err(|error| error.to_string())?;
        }
        if self.command.is_empty() && !self.own_command {
            return Err("the command is empty and an oracle may not bring its own".to_owned());
        }
        Ok(())
    }

    fn test_configuration(&self, own_command: bool) -> Result<TestConfiguration, String> {
        let own = if own_command { self.own_configuration.as_slice() } else { &[] };
        TestConfiguration::new(self.configuration.iter().chain(own))
    }

    /// What holds under `policy`, with or without the repository's own test configuration. A framework that the
    /// release did not know runs the strict way, and policy `c-crab` looks at its exit code alone.
    pub(super) fn settle(&self, policy: Policy, needs_configuration: bool) -> Result<Settled<'_>, String> {
        if let (Policy::CCrab, Some(replay)) = (policy, &self.replay) {
            let rule = ExitRule { codes: exit_codes(&replay.codes)?, must_print: None, alive: replay.alive.clone() };
            let variables = BTreeMap::new();
            return Ok(Settled {
                command: &replay.command,
                variables,
                late: &[],
                place: replay.place,
                result: ResultKind::Exit,
                rule,
            });
        }
        let (mut command, mut variables) = (&self.command, &self.variables);
        if needs_configuration {
            command = self.configured.as_ref().unwrap_or(command);
            variables = self.configured_variables.as_ref().unwrap_or(variables);
        }
        let mut rule = ExitRule { codes: exit_codes(&self.codes)?, must_print: self.must_print.clone(), alive: None };
        let mut result = self.result;
        if policy == Policy::CCrab {
            result = ResultKind::Exit;
            rule.must_print = None;
            if rule.codes.is_empty() {
                rule.codes = BTreeMap::from([(0, Outcome::Passed), (1, Outcome::Failed)]);
            }
        }
        // Only a reporter knows what to do with them.
        let late = if result == ResultKind::Reporter { self.late.as_slice() } else { &[] };
        Ok(Settled { command, variables: variables.clone(), late, place: self.place, result, rule })
    }
}

fn exit_codes(codes: &BTreeMap<String, Outcome>) -> Result<BTreeMap<i32, Outcome>, String> {
    codes
        .iter()
        .map(|(code, outcome)| {
            let number = code.parse().map_err(|_| format!("`{code}` is not an exit code"))?;
            Ok((number, outcome.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_framework_has_a_built_in_definition() {
        let all = Frameworks::built_in().unwrap();
        for name in ["pytest", "unittest", "cargo", "node", "jest", "go", "tap", "junit", "exit"] {
            let framework: Framework = serde_json::from_value(name.into()).unwrap();
            assert!(all.get(framework).is_ok(), "{name}");
        }
    }

    #[test]
    fn broken_definitions_say_where_and_what() {
        let good = "schema = 1\n[framework.exit]\ncommand = [\"x\"]\nplace = \"root\"\nresult = \"exit\"\n";
        assert!(Frameworks::parse(good, "x").is_ok());
        for (text, part) in [
            (good.replace("schema = 1", "schema = 9"), "schema 9"),
            (good.replace("framework.exit", "framework.nose"), "`nose`"),
            (good.replace("[\"x\"]", "[]"), "empty"),
            (format!("{good}codes = {{ x = \"passed\" }}\n"), "`x` is not an exit code"),
            (format!("{good}codes = {{ 1 = \"great\" }}\n"), "great"),
            (format!("{good}must_print = \"(\"\n"), "regex"),
            (format!("{good}configuration = [\"a[\"]\n"), "a["),
            (format!("{good}nonsense = 1\n"), "nonsense"),
        ] {
            let error = Frameworks::parse(&text, "the file").unwrap_err().to_string();
            assert!(error.contains("the file") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn test_configuration_is_known_by_its_path() {
        let all = Frameworks::built_in().unwrap();
        let has = |framework, path: &str| all.test_configuration(framework, false).unwrap().has(Path::new(path));
        for path in [
            "conftest.py",
            "a/b/conftest.py",
            "pytest.ini",
            "setup.cfg",
            "x/pyproject.toml",
            "_pytest/__init__.py",
            "src/pytest.py",
            "pluggy/__init__.py",
            "evil.egg-info/entry_points.txt",
            "src/evil-1.0.dist-info/METADATA",
            "sitecustomize/__init__.py",
            "__pycache__/a.cpython-311.pyc",
            "a.pyc",
        ] {
            assert!(has(Framework::Pytest, path), "{path}");
        }
        for path in [
            "src/conftest_helper.py",
            "a.py",
            "docs/pytest.ini.md",
            "lib/pytest.py",
            "src/packaging/tags.py",
            "Conftest.py",
            "conftest.py.txt",
            "pytest/notes.txt",
        ] {
            assert!(!has(Framework::Pytest, path), "{path}");
        }
        for path in ["crates/a/build.rs", "Cargo.toml", ".cargo/config.toml", "target/debug/x", "a/rust-toolchain"] {
            assert!(has(Framework::Cargo, path), "{path}");
        }
        assert!(!has(Framework::Cargo, "src/target/mod.rs"));
        assert!(has(Framework::Node, "package.json") && has(Framework::Jest, "web/jest.config.mjs"));
        assert!(!has(Framework::Exit, "conftest.py"));
        assert!(all.test_configuration(Framework::Exit, true).unwrap().has(Path::new("sub/Makefile")));
        // Not UTF-8, and steers all the same.
        let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff/conftest.py");
        assert!(all.test_configuration(Framework::Pytest, false).unwrap().has(Path::new(odd)));
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_counts() {
        let all = Frameworks::built_in().unwrap();
        let has = |framework, path: &str| all.test_configuration(framework, false).unwrap().has(Path::new(path));
        for (framework, path) in [
            (Framework::Cargo, ".cargo"),
            (Framework::Cargo, "a/.cargo"),
            (Framework::Pytest, "src/x.dist-info"),
            (Framework::Pytest, "_pytest"),
        ] {
            assert!(has(framework, path), "{path}");
        }
        assert!(!has(Framework::Pytest, "tests") && !has(Framework::Cargo, "src"));
    }

    #[test]
    fn a_folder_replaces_single_tables() {
        let folder = tempfile::tempdir().unwrap();
        let text = "schema = 1\n[framework.exit]\ncommand = [\"mine\"]\nplace = \"root\"\nresult = \"exit\"\n";
        fs_err::write(folder.path().join(FILE), text).unwrap();
        let all = Frameworks::with_folder(folder.path()).unwrap();
        assert_eq!(all.get(Framework::Exit).unwrap().command, ["mine"]);
        assert!(all.get(Framework::Pytest).is_ok());
        let own = Frameworks::built_in().unwrap();
        assert_ne!(all.digest(Framework::Exit).unwrap(), own.digest(Framework::Exit).unwrap());
        assert_eq!(all.digest(Framework::Tap).unwrap(), own.digest(Framework::Tap).unwrap());
    }
}
