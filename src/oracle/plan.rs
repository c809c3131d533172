//! From an oracle to what is run: the command, where the test lies, how the result is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::model::{Framework, Oracle};
use crate::sandbox::WORKSPACE;

use super::error::OracleError;
use super::framework::{ExitRule, Frameworks, Place, ResultKind};
use super::policy::Policy;
use super::reporters::{REPORTERS, Reporters};

/// Where tests that are not in the tree lie inside.
pub const OUTSIDE: &str = "/oracle";
/// The variable that names the file a `junit` oracle writes its XML to.
pub const JUNIT_VARIABLE: &str = "REDGREEN_JUNIT";
const JUNIT_FILE: &str = "/tmp/redgreen-junit.xml";
const DEFAULT_SHELL: &str = "/bin/sh";

/// All that is settled of a run before it is known what it stands on. Serialised it is the part of a record's key that
/// says how the oracle is run; paths of the host are left out.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The framework.
    pub framework: Framework,
    /// The policy.
    pub policy: Policy,
    /// The command.
    pub argv: Vec<String>,
    /// The current directory inside.
    pub cwd: PathBuf,
    /// Variables that give way to the environment's.
    pub defaults: BTreeMap<String, String>,
    /// Variables that go before the environment's.
    pub variables: BTreeMap<String, String>,
    /// Variables that are lists of folders, those in the tree are kept from the interpreter's start and given to the
    /// reporter, which puts them in.
    pub late: Vec<String>,
    /// Where the test lies.
    pub placement: Placement,
    /// How the result is read.
    pub result: ResultKind,
    /// How the exit code is read where it is all there is.
    pub rule: ExitRule,
    /// Run without the workspace when a run shows no sign of life; empty: there is nothing to try.
    pub probe: Vec<String>,
    /// The shell inside.
    pub shell: String,
    /// The test file on the host.
    #[serde(skip)]
    pub test: PathBuf,
    /// The reporters' folder on the host.
    #[serde(skip)]
    pub reporters: PathBuf,
}

/// Where an oracle's test lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Placement {
    /// Read-only, outside the tree, at this path inside.
    Outside {
        /// The file inside.
        path: PathBuf,
    },
    /// In the tree, over whatever lies there.
    InTree {
        /// Relative to the tree, with `/` between parts.
        path: String,
    },
}

impl Placement {
    /// The test's path inside.
    pub fn inside(&self) -> PathBuf {
        match self {
            Self::Outside { path } => path.clone(),
            Self::InTree { path } => Path::new(WORKSPACE).join(path),
        }
    }

    /// The test's file as messages of its framework name it: relative to the tree where it lies in it.
    pub(super) fn own_file(&self) -> String {
        match self {
            Self::InTree { path } => path.clone(),
            Self::Outside { path } => path.to_string_lossy().into_owned(),
        }
    }
}

/// Settles how `oracle`, whose test file is `test` on the host, is run under `policy`. `tools` are the programs of its
/// environment: name to path inside.
pub fn plan(
    oracle: &Oracle,
    test: &Path,
    definitions: &Frameworks,
    reporters: &Reporters,
    tools: &BTreeMap<String, String>,
    policy: Policy,
) -> Result<Plan, OracleError> {
    let framework = oracle.framework;
    let definition = definitions.get(framework)?;
    let settled = definition.settle(policy, oracle.needs_conftest).map_err(|problem| OracleError::Definitions {
        origin: "frameworks.toml".to_owned(),
        problem: format!("`{}`: {problem}", framework.as_str()),
    })?;
    let placement = place(oracle, test, settled.place)?;
    let values = Values { framework, tools, inside: placement.inside(), placement: &placement };
    let shell = values.tool("sh").unwrap_or_else(|| DEFAULT_SHELL.to_owned());

    let mut argv = match (oracle.command.as_slice(), definition.own_command) {
        ([], _) if settled.command.is_empty() => {
            return Err(OracleError::Command { framework, problem: "must say its `command`" });
        }
        ([], _) => settled.command.iter().map(|part| values.fill(part)).collect::<Result<Vec<_>, _>>()?,
        (_, false) => return Err(OracleError::Command { framework, problem: "can't bring a `command` of its own" }),
        // Braces that are no placeholders are the command's own.
        (own, true) => own.iter().map(|part| values.fill_known(part)).collect::<Result<Vec<_>, _>>()?,
    };
    if !oracle.command.is_empty() && argv.first().is_some_and(|program| program.contains('/')) {
        // The program may be the tree's: if a revision removes it, that is a result and not a missing toolchain.
        argv = [&shell, "-c", r#"exec "$@""#, "sh"].map(str::to_owned).into_iter().chain(argv).collect();
    }
    let mut variables = settled.variables;
    if settled.result == ResultKind::Junit {
        variables.insert(JUNIT_VARIABLE.to_owned(), JUNIT_FILE.to_owned());
        argv = carry_out_junit(&shell, argv);
    }
    let probe = definition.probe.iter().map(|part| values.fill(part)).collect::<Result<Vec<_>, _>>()?;
    Ok(Plan {
        framework,
        policy,
        argv,
        cwd: PathBuf::from(WORKSPACE),
        defaults: definitions.variables().clone(),
        variables,
        late: settled.late.to_vec(),
        result: settled.result,
        rule: settled.rule,
        probe,
        shell,
        test: test.to_owned(),
        reporters: reporters.folder().to_owned(),
        placement,
    })
}

/// Wraps a command so that its JUnit file comes out through the result channel, which the command itself does not get.
/// The sandbox's descriptor has one digit, as POSIX shells can't name others.
fn carry_out_junit(shell: &str, argv: Vec<String>) -> Vec<String> {
    let script = concat!(
        "fd=$REDGREEN_RESULT_FD; unset REDGREEN_RESULT_FD; ",
        "token=${REDGREEN_TOKEN_FD:-$fd}; unset REDGREEN_TOKEN_FD; ",
        "(eval \"exec $fd>&- $token<&-\"; exec \"$@\"); code=$?; ",
        "[ ! -f \"$REDGREEN_JUNIT\" ] || cat \"$REDGREEN_JUNIT\" >&\"$fd\"; exit $code",
    );
    [shell, "-c", script, "sh"].map(str::to_owned).into_iter().chain(argv).collect()
}

fn place(oracle: &Oracle, test: &Path, default: Place) -> Result<Placement, OracleError> {
    let name = test.file_name().and_then(|name| name.to_str());
    let bad = |path: &str, problem| OracleError::Place { path: path.to_owned(), problem };
    let name = name.ok_or_else(|| bad(&test.to_string_lossy(), "the test file has no name in UTF-8"))?;
    let path = match (&oracle.install_as, default) {
        (Some(path), _) => path.clone(),
        (None, Place::Tests) => format!("tests/{name}"),
        (None, Place::Root) => name.to_owned(),
        // The repository's configuration is looked for along the test's own path.
        (None, Place::Outside) if oracle.needs_conftest => name.to_owned(),
        (None, Place::Outside) => return Ok(Placement::Outside { path: Path::new(OUTSIDE).join(name) }),
    };
    let mut parts = path.split('/');
    if path.contains(['\\', '\0']) || parts.any(|part| part.is_empty() || part == "." || part == "..") {
        return Err(bad(&path, "it must be a relative path without `.`, `..`, back slashes or empty parts"));
    }
    if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(bad(&path, "it lies in `.git`"));
    }
    Ok(Placement::InTree { path })
}

struct Values<'a> {
    framework: Framework,
    tools: &'a BTreeMap<String, String>,
    inside: PathBuf,
    placement: &'a Placement,
}

impl Values<'_> {
    fn tool(&self, name: &str) -> Option<String> {
        self.tools.get(name).cloned()
    }

    /// The value of a placeholder; `None` when there is no such placeholder.
    fn value(&self, name: &str) -> Result<Option<String>, OracleError> {
        let text = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Some(match name {
            "test" => text(Some(&self.inside)),
            "test_file" => match self.placement {
                Placement::InTree { path } => path.clone(),
                Placement::Outside { path } => text(path.file_name().map(Path::new)),
            },
            "test_name" => text(self.cargo_target().file_stem().map(Path::new)),
            "test_dir" => text(self.inside.parent()),
            "package" => text(self.cargo_target().parent().and_then(Path::parent)),
            "reporters" => REPORTERS.to_owned(),
            "sh" => self.tool("sh").unwrap_or_else(|| DEFAULT_SHELL.to_owned()),
            "python" | "node" | "npx" | "cargo" | "go" => self
                .tool(name)
                .ok_or_else(|| OracleError::MissingTool { framework: self.framework, tool: name.to_owned() })?,
            _ => return Ok(None),
        }))
    }

    /// The file or folder below `tests/` that names the Cargo target: `tests/a.rs`, or `tests/a` for `tests/a/main.rs`.
    fn cargo_target(&self) -> &Path {
        let is_main = self.framework == Framework::Cargo && self.inside.ends_with("main.rs");
        if is_main { self.inside.parent().unwrap_or(&self.inside) } else { &self.inside }
    }

    fn fill(&self, text: &str) -> Result<String, OracleError> {
        self.replace(text, |name| Err(OracleError::Placeholder { framework: self.framework, name: name.to_owned() }))
    }

    fn fill_known(&self, text: &str) -> Result<String, OracleError> {
        self.replace(text, |name| Ok(format!("{{{name}}}")))
    }

    fn replace(
        &self,
        text: &str,
        unknown: impl Fn(&str) -> Result<String, OracleError>,
    ) -> Result<String, OracleError> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, after) = rest.split_at(open);
            out.push_str(before);
            let name_length = after[1..].find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(0);
            let name = &after[1..=name_length];
            if name.is_empty() || !after[1 + name_length..].starts_with('}') {
                out.push('{');
                rest = &after[1..];
                continue;
            }
            out.push_str(&match self.value(name)? {
                Some(value) => value,
                None => unknown(name)?,
            });
            rest = &after[name_length + 2..];
        }
        out.push_str(rest);
        Ok(out)
    }
}
