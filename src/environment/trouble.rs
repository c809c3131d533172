//! What failed builds say and what helps, as data: `[[failure]]` and `[[repair]]` of a definition.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check::fault_of_trouble;
use super::definition::{DEFINITION_SCHEMA, Definition};
use super::definitions::parse_toml;
use super::error::EnvironmentError;
use crate::model::ProjectMode;

/// A kind of failure and the line by which it is known. The first pattern that matches decides.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureDefinition {
    /// The kind.
    pub kind: FailureKind,
    /// A pattern over single lines of the log.
    pub pattern: String,
}

/// Why there is no environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The network, or what it leads to, did not answer.
    Network,
    /// A package of the system (a library, a header, a program) is not there.
    MissingSystemPackage,
    /// A required version does not exist, or not for this toolchain.
    NoSuchVersion,
    /// A version that was withdrawn.
    Yanked,
    /// Requirements that exclude each other.
    VersionConflict,
    /// A compiler says no.
    Compiler,
    /// The test framework is not there.
    NoTestFramework,
    /// The project's package does not import, or only from its own folder.
    NotImportable,
    /// The tests do not collect.
    NotCollected,
    /// No sampled test passes.
    NoTestPasses,
    /// Disk, or the allowance of it.
    Disk,
    /// Memory.
    Memory,
    /// A deadline.
    Deadline,
    /// There is no toolchain or base of the wanted version.
    Toolchain,
    /// The language is not known.
    Language,
    /// Something else; the lines tell.
    Other,
}

/// A change that helps against a failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairDefinition {
    /// Its name, for records.
    pub name: String,
    /// A pattern over single lines of the log. `$1` and so on in the change stand for its groups.
    pub pattern: String,
    /// What to change.
    pub change: SpecChange,
}

/// Failures and repairs of all languages: `environments/failures.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommonTrouble {
    /// The version of this shape.
    schema: u32,
    /// Failures that go before each definition's own.
    #[serde(default)]
    first: Vec<FailureDefinition>,
    /// Those that go after them.
    #[serde(default, rename = "failure")]
    failures: Vec<FailureDefinition>,
    /// What helps; after each definition's own.
    #[serde(default, rename = "repair")]
    repairs: Vec<RepairDefinition>,
}

impl CommonTrouble {
    /// Reads the file; an error names it and the line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, EnvironmentError> {
        let common: Self = parse_toml(file, text)?;
        let fail = |line, message| EnvironmentError::Definition { file: file.to_owned(), line, message };
        if common.schema != DEFINITION_SCHEMA {
            return Err(fail(None, format!("schema {} is not {DEFINITION_SCHEMA}", common.schema)));
        }
        match fault_of_trouble(common.first.iter().chain(&common.failures), &common.repairs) {
            Some(fault) => Err(fail(fault.line(text), fault.message)),
            None => Ok(common),
        }
    }

    /// A definition with these around its own.
    pub fn around(&self, mut definition: Definition) -> Definition {
        definition.failures.splice(0..0, self.first.iter().cloned());
        definition.failures.extend(self.failures.iter().cloned());
        definition.repairs.extend(self.repairs.iter().cloned());
        definition
    }
}

/// A change of an environment's spec: what a rule, a model or a person proposes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecChange {
    /// Another version of the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Requirements that are added, or take the place of those of the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Names of packages that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Packages of the system that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_packages: Vec<String>,
    /// Another mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMode>,
    /// With or without build isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_isolation: Option<bool>,
    /// Variables that are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Commands of the build phase that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Commands after a patch that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuild: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use regex::Regex;

    use super::*;
    use crate::environment::Definitions;

    /// The patterns of a definition, compiled once.
    struct Compiled {
        failures: Vec<(Regex, FailureKind)>,
        repairs: Vec<(Regex, SpecChange)>,
    }

    fn compiled() -> HashMap<&'static str, Compiled> {
        let definitions = Definitions::load(&[]).unwrap();
        let of = |language| {
            let definition = definitions.get(language).unwrap();
            let regex = |pattern: &str| Regex::new(pattern).unwrap();
            let failures = definition.failures.iter().map(|f| (regex(&f.pattern), f.kind)).collect();
            let repairs = definition.repairs.iter().map(|r| (regex(&r.pattern), r.change.clone())).collect();
            (language, Compiled { failures, repairs })
        };
        ["python", "node", "rust", "go", "java", "c"].map(of).into()
    }

    /// Lines as pip, gcc, cargo, npm and others print them.
    #[test]
    fn failures_are_known_by_what_tools_really_print() {
        use FailureKind as K;
        let compiled = compiled();
        for (language, line, expected) in [
            ("python", "ERROR: No matching distribution found for six==99", K::NoSuchVersion),
            (
                "python",
                "ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0)",
                K::NoSuchVersion,
            ),
            (
                "python",
                "ERROR: Ignored the following versions that require a different python version: 6.0 Requires-Python >=3.12",
                K::NoSuchVersion,
            ),
            ("python", "ERROR: Package 'x' requires a different Python: 3.11.7 not in '>=3.99'", K::NoSuchVersion),
            (
                "python",
                "ERROR: Cannot install requests==2.31.0 and urllib3<1.20 because these package versions have conflicting dependencies.",
                K::VersionConflict,
            ),
            ("python", "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/", K::VersionConflict),
            ("python", "  × No solution found when resolving dependencies:", K::VersionConflict),
            (
                "python",
                "WARNING: Retrying (Retry(total=4, ...)) after connection broken by 'NewConnectionError('...')': /simple/six/",
                K::Network,
            ),
            ("python", "OSError: [Errno 28] No space left on device", K::Disk),
            ("python", "x86_64-linux-gnu-gcc: fatal error: Killed signal terminated program cc1plus", K::Memory),
            ("python", "src/a.c:1:10: fatal error: ffi.h: No such file or directory", K::MissingSystemPackage),
            ("python", "      Error: pg_config executable not found.", K::MissingSystemPackage),
            ("python", "error: can't find Rust compiler", K::MissingSystemPackage),
            ("python", "FileNotFoundError: [Errno 2] No such file or directory: 'cmake'", K::MissingSystemPackage),
            ("python", "    error: command 'gcc' failed with exit status 1", K::Compiler),
            ("python", "/usr/bin/python3: No module named pytest", K::NoTestFramework),
            ("python", "ModuleNotFoundError: No module named 'pytest'", K::NoTestFramework),
            (
                "python",
                "ERROR: usage: pytest [options]\\npytest: error: unrecognized arguments: --cov=x",
                K::NotCollected,
            ),
            ("python", "own: ModuleNotFoundError: No module named 'own'", K::NotImportable),
            ("python", "own is imported from /usr/lib/x.py and not from the project", K::NotImportable),
            ("node", "npm error notarget No matching version found for lodash@99.", K::NoSuchVersion),
            ("node", "npm error code E404", K::NoSuchVersion),
            ("node", "npm ERR! code ERESOLVE", K::VersionConflict),
            ("node", "npm error code ECONNREFUSED", K::Network),
            ("node", "gyp ERR! stack Error: not found: make", K::MissingSystemPackage),
            ("node", "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", K::Memory),
            ("rust", "error: failed to select a version for the requirement `serde = \"^99\"`", K::NoSuchVersion),
            ("rust", "error: no matching package named `rg-no-such-crate` found", K::NoSuchVersion),
            ("rust", "  version 1.0.0 is yanked", K::Yanked),
            ("rust", "error: rustc 1.95.0 is not supported by the following package:", K::Toolchain),
            ("rust", "error: linker `cc` not found", K::MissingSystemPackage),
            ("rust", "error[E0308]: mismatched types", K::Compiler),
            ("rust", "error: could not compile `c` (bin \"c\") due to 1 previous error", K::Compiler),
            (
                "go",
                "go: errors parsing go.mod: /x/go.mod:3: invalid go version '1.21.0': must match format 1.23",
                K::Toolchain,
            ),
            ("go", "./a.go:3:7: undefined: x", K::Compiler),
            (
                "go",
                "cgo: C compiler \"gcc\" not found: exec: \"gcc\": executable file not found in $PATH",
                K::MissingSystemPackage,
            ),
            ("java", "[ERROR] COMPILATION ERROR : ", K::Compiler),
            ("java", "Fatal error compiling: error: release version 21 not supported", K::Toolchain),
            ("java", "Could not find artifact a:b:jar:1 in central", K::NoSuchVersion),
            ("c", "a.c:1:10: fatal error: rg/none.h: No such file or directory", K::MissingSystemPackage),
            ("c", "/usr/bin/ld: cannot find -lrgnone: No such file or directory", K::MissingSystemPackage),
            ("c", "b.c:(.text+0xa): undefined reference to `foo'", K::Compiler),
            ("c", "make: rgtool: No such file or directory", K::MissingSystemPackage),
            ("c", "sh: 1: rgtool: not found", K::MissingSystemPackage),
            ("c", "bash: line 1: rgtool: command not found", K::MissingSystemPackage),
            ("c", "make: *** [Makefile:2: all] Error 2", K::Compiler),
            ("c", "E: Unable to locate package rg-nope", K::MissingSystemPackage),
            ("c", "configure: error: C compiler cannot create executables", K::MissingSystemPackage),
        ] {
            let found =
                compiled[language].failures.iter().find(|(pattern, _)| pattern.is_match(line)).map(|(_, kind)| *kind);
            assert_eq!(found, Some(expected), "{language}: {line}");
        }
    }

    #[test]
    fn what_only_looks_like_a_failure_is_none() {
        let compiled = compiled();
        for line in [
            "Successfully installed six-1.16.0",
            "Collecting pytest>=7",
            "  Downloading networkx-3.0-py3-none-any.whl (2.0 MB)",
            "Building wheel for own (pyproject.toml): finished with status 'done'",
            "checking for strings.h... no",
            "==> install the packages",
            "gcc -c a.c -o a.o",
            "",
        ] {
            for (language, compiled) in &compiled {
                let found = compiled.failures.iter().find(|(pattern, _)| pattern.is_match(line));
                assert!(found.is_none(), "{language}: {line}: {found:?}");
                let found = compiled.repairs.iter().find(|(pattern, _)| pattern.is_match(line));
                assert!(found.is_none(), "{language}: {line}: {found:?}");
            }
        }
    }

    #[test]
    fn repairs_answer_to_what_tools_really_print() {
        let compiled = compiled();
        let first = |language: &str, line: &str| {
            let found = compiled[language].repairs.iter().find(|(pattern, _)| pattern.is_match(line));
            found.map(|(_, change)| change.clone()).unwrap_or_default()
        };
        for (language, line, package) in [
            ("python", "src/a.c:1:10: fatal error: ffi.h: No such file or directory", "libffi-dev"),
            ("c", "a.c:3:10: fatal error: openssl/ssl.h: No such file or directory", "libssl-dev"),
            ("c", "a.c:3:10: fatal error: 'zlib.h' file not found", "zlib1g-dev"),
            ("c", "/usr/bin/ld: cannot find -lgmp: No such file or directory", "libgmp-dev"),
            ("c", "sh: 1: cmake: not found", "cmake"),
            ("c", "/bin/sh: 1: autoreconf: not found", "autoconf"),
            ("c", "make: g++: No such file or directory", ""),
            ("python", "FileNotFoundError: [Errno 2] No such file or directory: 'cmake'", "cmake"),
            ("python", "unable to execute 'gcc': No such file or directory", "gcc"),
            ("python", "No package 'libxml-2.0' found", "libxml2-dev"),
            ("rust", "error: linker `cc` not found", "gcc"),
            ("go", "cgo: C compiler \"gcc\" not found: exec: \"gcc\": executable file not found in $PATH", "gcc"),
            ("node", "gyp ERR! stack Error: not found: make", "python3"),
        ] {
            let change = first(language, line);
            assert_eq!(change.system_packages.first().map_or("", String::as_str), package, "{language}: {line}");
        }
        for (line, package) in [
            ("ModuleNotFoundError: No module named 'pkg_resources'", "setuptools<81"),
            ("ModuleNotFoundError: No module named 'distutils.core'", "setuptools<81"),
            ("A module that was compiled using NumPy 1.x cannot be run in", "numpy<2"),
            ("ValueError: numpy.dtype size changed, may indicate binary incompatibility.", "numpy<2"),
            ("AttributeError: module 'numpy' has no attribute 'int'.", "numpy<1.24"),
            ("pytest: error: unrecognized arguments: --cov=own --cov-report=xml", "pytest-cov"),
            ("pytest: error: unrecognized arguments: -n auto", "pytest-xdist"),
            ("E       fixture 'mocker' not found", "pytest-mock"),
            ("ERROR: Missing required plugins: pytest-order", "$1"),
            ("async def functions are not natively supported.", "pytest-asyncio"),
            ("ModuleNotFoundError: No module named 'yaml'", "PyYAML"),
            ("ModuleNotFoundError: No module named 'sklearn.utils'", "scikit-learn"),
            ("ImportError: cannot import name 'soft_unicode' from 'markupsafe'", "markupsafe<2.1"),
            // A module that nobody knows is not guessed.
            ("ModuleNotFoundError: No module named 'rg_helpers'", ""),
            ("ModuleNotFoundError: No module named 'yamlish'", ""),
        ] {
            assert_eq!(first("python", line).packages.first().map_or("", String::as_str), package, "{line}");
        }
        let imp = first("python", "ModuleNotFoundError: No module named 'imp'");
        assert_eq!(imp.version.as_deref(), Some("3.11"));
        let scm = first("python", "LookupError: setuptools-scm was unable to detect version for /workspace.");
        assert_eq!(scm.variables["SETUPTOOLS_SCM_PRETEND_VERSION"], "0.0.0");
    }
}
