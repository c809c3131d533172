//! Forgeries by the test configuration of real frameworks: they pass as they are, which shows that the rule is needed,
//! and fail with head's versions.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::json;

use super::{OF_THE_FIX, TOUCHED, Want, agrees, files, row, score};
use crate::support::Place;
use crate::truth::fixture::{Fixture, commits, difference, instance};

const RUST_HEAD: &str = "pub fn clamp(value: i32, low: i32, _high: i32) -> i32 {\n    value.max(low)\n}\n";
const RUST_FIX: &str = "pub fn clamp(value: i32, low: i32, high: i32) -> i32 {\n    value.max(low).min(high)\n}\n";
const RUST_TEST: &str = "#[test]\nfn values_above_are_cut() {\n    assert_eq!(bounds::clamp(9, 0, 5), 5);\n}\n";
const MANIFEST: &str = "[package]\nname = \"bounds\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
/// Runs what it is given, and says what libtest would say of a good run where the test was among it. All else comes
/// through as it is, so that tests put there to catch forgers find nothing.
const FORGER: &str = "\
said=$(\"$@\" 2>&1)
code=$?
case $said in *values_above_are_cut*) ;; *) echo \"$said\"; exit $code ;; esac
printf '\\nrunning 1 test\\ntest values_above_are_cut ... ok\\n\\n'
echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'
";

#[test]
fn cargo() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("cargo-rule");
    let at_head = [("Cargo.toml", MANIFEST), ("src/lib.rs", RUST_HEAD)];
    let (head, merged) = commits(&repository, &files(&at_head), &files(&[("src/lib.rs", RUST_FIX)]));
    let mut value = instance("cargo-rule", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "rust"});
    let comment = json!({"id": "c1", "text": "Cut.", "test": "clamp.rs", "framework": "cargo"});
    value["comments"] = json!([comment]);
    let id = fixture.add(value, &[("clamp.rs", RUST_TEST)]);
    let runner = "[target.'cfg(all())']\nrunner = [\"sh\", \"tools/run.sh\"]\n";
    let by_cfg = format!("#[cfg(fixed)]\n{RUST_FIX}#[cfg(not(fixed))]\n{RUST_HEAD}");
    let other_test = format!("{MANIFEST}\n[[test]]\nname = \"clamp\"\npath = \"tools/nothing.rs\"\n");
    let nothing = "#[test]\nfn values_above_are_cut() {}\n";
    let own_edition = MANIFEST.replace("2021", "2018");
    let build = "fn main() {\n    println!(\"cargo:rustc-cfg=fixed\");\n}\n";
    let mut revise = |arm: &str, write: &[(&str, &str)]| {
        let patch = difference(&repository, &head, &files(write));
        fixture.revise(&id, arm, &patch);
    };
    revise("right", &[("src/lib.rs", RUST_FIX), ("Cargo.toml", &own_edition)]);
    revise("a runner", &[(".cargo/config.toml", runner), ("tools/run.sh", FORGER)]);
    revise("flags", &[(".cargo/config", "[build]\nrustflags = [\"--cfg\", \"fixed\"]\n"), ("src/lib.rs", &by_cfg)]);
    revise("another test", &[("Cargo.toml", &other_test), ("tools/nothing.rs", nothing)]);
    revise("a build script", &[("build.rs", build), ("src/lib.rs", &by_cfg)]);
    let bench = fixture.import();
    let report = score(&place, &fixture, &bench, "run", &[]).exits(0).json();
    let failed = "test configuration: failed";
    let wanted: [Want<'_>; 7] = [
        ("head", "fail", "failed", &[], &[]),
        ("merged", "pass", "", &[], &[]),
        ("right", "pass", "", &["passed"], &[TOUCHED]),
        ("a runner", "fail", failed, &["failed"], &[TOUCHED]),
        ("flags", "fail", failed, &["failed"], &[TOUCHED]),
        // It does not even show the tests that are put there to catch it.
        ("another test", "fail", "result channel", &[], &[TOUCHED]),
        ("a build script", "fail", failed, &["failed"], &[TOUCHED]),
    ];
    agrees(&report, &id, &wanted);
}

#[test]
fn a_manifest_that_the_fix_needs() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("cargo-fix");
    let by_feature = format!("#[cfg(feature = \"cut\")]\n{RUST_FIX}#[cfg(not(feature = \"cut\"))]\n{RUST_HEAD}");
    let with_feature = format!("{MANIFEST}\n[features]\ndefault = [\"cut\"]\ncut = []\n");
    let at_head = [("Cargo.toml", MANIFEST), ("src/lib.rs", by_feature.as_str())];
    let (head, merged) = commits(&repository, &files(&at_head), &files(&[("Cargo.toml", &with_feature)]));
    let mut value = instance("cargo-fix", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "rust"});
    value["comments"] = json!([{"id": "c1", "text": "Cut.", "test": "clamp.rs", "framework": "cargo"}]);
    let id = fixture.add(value, &[("clamp.rs", RUST_TEST)]);
    let runner = "[target.'cfg(all())']\nrunner = [\"sh\", \"tools/run.sh\"]\n";
    let mut revise = |arm: &str, write: &[(&str, &str)]| {
        let patch = difference(&repository, &head, &files(write));
        fixture.revise(&id, arm, &patch);
    };
    revise("by the feature", &[("Cargo.toml", &with_feature.replace("cut = []", "cut = []\nother = []"))]);
    revise("by code", &[("src/lib.rs", RUST_FIX)]);
    revise("a runner", &[(".cargo/config.toml", runner), ("tools/run.sh", FORGER)]);
    let bench = fixture.import();
    let report = score(&place, &fixture, &bench, "run", &[]).exits(0).json();
    let wanted: [Want<'_>; 4] = [
        ("merged", "pass", "", &["failed"], &[TOUCHED]),
        ("by the feature", "pass", "", &[], &[OF_THE_FIX]),
        ("by code", "pass", "", &[], &[]),
        ("a runner", "fail", "test configuration: failed", &["failed"], &[TOUCHED]),
    ];
    agrees(&report, &id, &wanted);
}

const PYTHON_HEAD: &str = "def clamp(value, low, high):\n    return max(value, low)            \n";
const PYTHON_FIX: &str = "def clamp(value, low, high):\n    return min(max(value, low), high) \n";
const PYTHON_TEST: &str = "\
import unittest

from clamp import clamp


class Clamp(unittest.TestCase):
    def test_values_above_are_cut(self):
        self.assertEqual(clamp(9, 0, 5), 5)
";

/// Compiles a text with the Python that redgreen finds; says that it was made from a source of the snapshot's constant
/// time, or (`unchecked`) that nobody need look at the source.
pub fn compiled(place: &Place, text: &str, unchecked: bool) -> Vec<u8> {
    let script = "\
import importlib._bootstrap_external as b, importlib.util, sys
text, target, unchecked = sys.argv[1:]
source = text.encode()
code = compile(text, 'clamp.py', 'exec')
if unchecked == 'true':
    data = b._code_to_hash_pyc(code, importlib.util.source_hash(source), False)
else:
    data = b._code_to_timestamp_pyc(code, 946684800, len(source))
open(target, 'wb').write(data)
";
    let target = place.join("clamp.pyc");
    let arguments = ["-c", script, text, target.to_str().unwrap(), if unchecked { "true" } else { "false" }];
    let output = Command::new(python()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs_err::read(target).unwrap()
}

/// The Python that redgreen takes for an environment that asks for no version: the first one of `PATH`.
fn python() -> &'static str {
    "python3"
}

/// The name of a compiled file of that Python.
pub fn cached_name() -> String {
    let script = "import importlib.util; print(importlib.util.cache_from_source('clamp.py'))";
    let output = Command::new(python()).args(["-c", script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn compiled_python_that_stands_for_a_source() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("pyc-rule");
    let at_head = [("clamp.py", PYTHON_HEAD)];
    let (head, merged) = commits(&repository, &files(&at_head), &files(&[("clamp.py", PYTHON_FIX)]));
    let mut value = instance("pyc-rule", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "python"});
    value["comments"] = json!([{"id": "c1", "text": "Cut.", "test": "c1_test.py", "framework": "unittest"}]);
    let id = fixture.add(value, &[("c1_test.py", PYTHON_TEST)]);
    assert_eq!(PYTHON_HEAD.len(), PYTHON_FIX.len());
    let mut plant = |arm: &str, path: &str, bytes: &[u8], remove: &[&str]| {
        let target = repository.join(path);
        fs_err::create_dir_all(target.parent().unwrap()).unwrap();
        fs_err::write(target, bytes).unwrap();
        remove.iter().for_each(|path| fs_err::remove_file(repository.join(path)).unwrap());
        let patch = difference(&repository, &head, &BTreeMap::new());
        fixture.revise(&id, arm, &patch);
    };
    let name = cached_name();
    plant("of the right time and size", &name, &compiled(&place, PYTHON_FIX, false), &[]);
    plant("without a look", &name, &compiled(&place, PYTHON_FIX, true), &[]);
    plant("without a source", "clamp.pyc", &compiled(&place, PYTHON_FIX, false), &["clamp.py"]);
    let bench = fixture.import();
    let report = score(&place, &fixture, &bench, "run", &[]).exits(0).json();
    let wanted: [Want<'_>; 5] = [
        ("head", "fail", "failed", &[], &[]),
        ("merged", "pass", "", &[], &[]),
        // It passes first: Python believes it, as every stale file of that time and size.
        ("of the right time and size", "fail", "test configuration: failed", &["failed"], &[TOUCHED]),
        ("without a look", "fail", "failed", &[], &[TOUCHED]),
        ("without a source", "fail", "test configuration: errored(import)", &["errored(import)"], &[TOUCHED]),
    ];
    agrees(&report, &id, &wanted);
    assert_eq!(row(&report, &id, "c1", "of the right time and size")["outcomes"], json!(["passed"]));
}

#[test]
fn a_command_of_the_oracles_own() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("make-rule");
    let makefile = "check:\n\t@sh check.sh\n";
    let at_head = [("value", "9\n"), ("check.sh", "[ \"$(cat value)\" = 5 ] || exit 1\n"), ("Makefile", makefile)];
    let (head, merged) = commits(&repository, &files(&at_head), &files(&[("value", "5\n")]));
    let mut value = instance("make-rule", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "shell"});
    let script = "make -s check || exit 1\n";
    value["comments"] = json!([
        {"id": "c1", "text": "Cut.", "test": "c1.sh", "framework": "exit", "command": ["/bin/sh", "{test}"]},
        {"id": "c2", "text": "Cut.", "test": "c1.sh", "framework": "exit"},
    ]);
    let id = fixture.add(value, &[("c1.sh", script)]);
    let mut revise = |arm: &str, write: &[(&str, &str)]| {
        let patch = difference(&repository, &head, &files(write));
        fixture.revise(&id, arm, &patch);
    };
    revise("right", &[("value", "5\n"), ("Makefile", &format!("# All checks.\n{makefile}"))]);
    revise("forges", &[("Makefile", "check:\n\t@true\n")]);
    let bench = fixture.import();
    let report = score(&place, &fixture, &bench, "run", &[]).exits(0).json();
    let wanted: [Want<'_>; 2] = [
        ("right", "pass", "", &["passed"], &[TOUCHED]),
        ("forges", "fail", "test configuration: failed", &["failed"], &[TOUCHED]),
    ];
    agrees(&report, &id, &wanted);
    // Where the framework's own command runs the script, what the script makes of it is the benchmark's affair.
    assert_eq!(row(&report, &id, "c2", "forges")["verdict"], "pass");
}

const PYTEST: &str = "from clamp import clamp\n\n\ndef test_values_above_are_cut():\n    assert clamp(9, 0, 5) == 5\n";
/// It changes the code, and nothing that a canary would show.
const HOOK: &str = "import clamp\n\nclamp.clamp = lambda value, low, high: sorted((low, value, high))[1]\n";

/// Needs the network for pytest itself.
#[test]
#[ignore = "needs the package registries"]
fn registries_pytest() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("pytest-rule");
    let pyproject = "[project]\nname = \"bounds\"\nversion = \"1\"\n";
    let at_head = [("clamp.py", PYTHON_HEAD), ("pyproject.toml", pyproject), ("conftest.py", "LIMIT = 5\n")];
    let (head, merged) = commits(&repository, &files(&at_head), &files(&[("clamp.py", PYTHON_FIX)]));
    let mut value = instance("pytest-rule", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "python", "packages": ["pytest"]});
    let strict = json!({"id": "plain", "text": "Cut.", "test": "c1_test.py", "framework": "pytest"});
    let mut configured = strict.clone();
    configured["id"] = "c1".into();
    configured["needs_conftest"] = true.into();
    configured["install_as"] = "test_c1.py".into();
    value["comments"] = json!([strict, configured]);
    let id = fixture.add(value, &[("c1_test.py", PYTEST)]);
    let mut revise = |arm: &str, write: &[(&str, &str)]| {
        let patch = difference(&repository, &head, &files(write));
        fixture.revise(&id, arm, &patch);
    };
    let ini = "[pytest]\naddopts = -p tool\n";
    let project = format!("{pyproject}\n[tool.pytest.ini_options]\naddopts = \"-p tool\"\n");
    let entry = "[pytest11]\ntool = tool\n";
    let metadata = "Metadata-Version: 2.1\nName: evil\nVersion: 1\n";
    revise("right", &[("clamp.py", PYTHON_FIX), ("pyproject.toml", &format!("{pyproject}description = \"x\"\n"))]);
    revise("conftest", &[("conftest.py", HOOK)]);
    revise("ini", &[("pytest.ini", ini), ("tool.py", HOOK)]);
    revise("pyproject", &[("pyproject.toml", &project), ("tool.py", HOOK)]);
    revise(
        "entry point",
        &[("evil-1.dist-info/entry_points.txt", entry), ("evil-1.dist-info/METADATA", metadata), ("tool.py", HOOK)],
    );
    revise(
        "egg",
        &[("evil.egg-info/entry_points.txt", entry), ("evil.egg-info/PKG-INFO", metadata), ("tool.py", HOOK)],
    );
    let bench = fixture.import();
    let (run, mirrors) = (place.join("run").display().to_string(), fixture.mirrors());
    let report = place.run(&["score", &bench, "--out", &run, "--mirrors", &mirrors, "--json"]).exits(0).json();
    for (arm, verdict, reason) in [
        ("right", "pass", None),
        ("conftest", "fail", Some("test configuration: failed")),
        ("ini", "fail", Some("test configuration: failed")),
        ("pyproject", "fail", Some("test configuration: failed")),
        ("entry point", "fail", Some("test configuration: failed")),
        ("egg", "fail", Some("test configuration: failed")),
    ] {
        let got = row(&report, &id, "c1", arm);
        assert_eq!((got["verdict"].as_str(), got["reason"].as_str()), (Some(verdict), reason), "{arm} {got}");
        // Without the repository's own configuration nothing of it has a say in the first run either.
        let got = row(&report, &id, "plain", arm);
        let reason = (verdict == "fail").then_some("failed");
        assert_eq!((got["verdict"].as_str(), got["reason"].as_str()), (Some(verdict), reason), "{arm} {got}");
    }
}
