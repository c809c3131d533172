//! Environments whose packages come from the registries: pytest, a Rust dependency, a Node package. They need the network,
//! so they are left out unless asked for (`cargo test -- --ignored registries`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::fixture::{Fixture, commits, difference, instance};
use crate::support::{Place, Ran};

fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

const SETUP: (&str, &str) = (
    "setup.py",
    "from setuptools import setup\nsetup(name='bounds', version='1', py_modules=['bounds'], package_dir={'': 'src'})\n",
);
const HEAD: &str = "def clamp(value, low, high):\n    return max(value, low)\n";
const MERGED: &str = "def clamp(value, low, high):\n    return min(max(value, low), high)\n";
const PYTEST: &str = "\
import pytest
from bounds import clamp

@pytest.mark.parametrize('value, wanted', [(9, 5), (3, 3)])
def test_values_above_are_cut(value, wanted):
    assert clamp(value, 0, 5) == wanted
";

/// A revision of the Python module: name, module, what it writes beside it; verdict, beginning of the reason.
type Revision = (&'static str, &'static str, Option<(&'static str, &'static str)>, &'static str, &'static str);

const PYTHON: [Revision; 9] = [
    ("other words", "def clamp(v, low, high):\n    return sorted((low, v, high))[1]\n", None, "pass", ""),
    ("wrong value", "def clamp(v, low, high):\n    return 4\n", None, "fail", "failed"),
    ("type error", "def clamp(v, low, high):\n    return v + 'x'\n", None, "fail", "errored(exception)"),
    ("syntax", "def clamp(v, low, high:\n    return 5\n", None, "fail", "errored(syntax)"),
    ("exit", "import sys\nsys.exit(0)\n", None, "fail", "errored("),
    ("hard exit", "import os\nos._exit(0)\n", None, "fail", "result channel"),
    ("skip", "import pytest\npytest.skip('no', allow_module_level=True)\n", None, "fail", "no-tests"),
    ("crash", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", None, "fail", "crashed"),
    (
        "conftest",
        HEAD,
        Some((
            "conftest.py",
            "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n    out = yield\n    out.get_result().outcome = 'passed'\n",
        )),
        "fail",
        "failed",
    ),
];

fn row<'a>(report: &'a Value, id: &str, arm: &str) -> &'a Value {
    let rows = report["verdicts"].as_array().unwrap();
    rows.iter().find(|row| row["instance_id"] == id && row["arm"] == arm).unwrap_or_else(|| panic!("{id} {arm}"))
}

/// Three instances whose packages come from the registries of pip, cargo and npm.
pub struct Registries {
    pub python: String,
    pub rust: String,
    pub node: String,
    /// The Python project and its commit to review.
    repository: PathBuf,
    head: String,
}

impl Registries {
    /// Adds them. With `bases` their environments name what they stand on.
    pub fn new(fixture: &mut Fixture<'_>, bases: bool) -> Self {
        let on = |mut environment: Value, base: &str| {
            if bases {
                environment["base"] = base.into();
            }
            environment
        };
        let bounds = fixture.repository("bounds");
        let (first, merged) =
            commits(&bounds, &files(&[SETUP, ("src/bounds.py", HEAD)]), &files(&[("src/bounds.py", MERGED)]));
        let mut python = instance("bounds", 1, &first, Some(&merged));
        let environment = json!({
            "language": "python", "packages": ["setuptools", "wheel", "pytest"], "project": "editable",
            "build_isolation": false,
        });
        python["environment"] = on(environment, "python-3.11");
        python["comments"] =
            json!([{"id": "c1", "text": "Values above come through.", "test": "c1_test.py", "framework": "pytest"}]);
        let python = fixture.add(python, &[("c1_test.py", PYTEST)]);
        let repository = fixture.repository("digits");
        let manifest =
            "[package]\nname = \"digits\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nitoa = \"1\"\n";
        let library = |body: &str| format!("pub fn text(n: i32) -> String {{\n    {body}\n}}\n");
        let (head, merged) = commits(
            &repository,
            &files(&[
                ("Cargo.toml", manifest),
                (".gitignore", "target\nCargo.lock\n"),
                ("src/lib.rs", &library("itoa::Buffer::new().format(n.abs()).to_owned()")),
            ]),
            &files(&[("src/lib.rs", &library("itoa::Buffer::new().format(n).to_owned()"))]),
        );
        let mut rust = instance("digits", 2, &head, Some(&merged));
        rust["environment"] = on(json!({"language": "rust"}), "rust-1.85");
        rust["comments"] = json!([{
            "id": "c1", "text": "The sign is lost.", "test": "c1.rs", "framework": "cargo", "install_as": "tests/c1.rs",
        }]);
        let test = "#[test]\nfn the_sign_stays() {\n    assert_eq!(digits::text(-7), \"-7\");\n}\n";
        let rust = fixture.add(rust, &[("c1.rs", test)]);

        let repository = fixture.repository("numbers");
        let module = |body: &str| format!("const isNumber = require('is-number')\nmodule.exports = (v) => {body}\n");
        let (head, merged) = commits(
            &repository,
            &files(&[("index.js", &module("isNumber(v)"))]),
            &files(&[("index.js", &module("typeof v === 'number' && isNumber(v)"))]),
        );
        let mut node = instance("numbers", 3, &head, Some(&merged));
        node["environment"] = on(json!({"language": "javascript", "packages": ["is-number@7.0.0"]}), "node-20");
        node["comments"] = json!([{
            "id": "c1", "text": "Text is no number.", "test": "c1.js", "framework": "node", "install_as": "c1.js",
        }]);
        let test = "const test = require('node:test')\nconst assert = require('node:assert')\n\
            test('text is no number', () => assert.strictEqual(require('./index.js')('5'), false))\n";
        let node = fixture.add(node, &[("c1.js", test)]);
        Self { python, rust, node, repository: bounds, head: first }
    }

    /// At head each test fails, at the merged commit it passes.
    #[track_caller]
    pub fn assert_controls_are_good(&self, report: &Value) {
        for id in [&self.python, &self.rust, &self.node] {
            let (head, merged) = (row(report, id, "head"), row(report, id, "merged"));
            assert_eq!((&head["verdict"], &head["reason"]), (&"fail".into(), &"failed".into()), "{head}");
            assert_eq!(merged["verdict"], "pass", "{merged}");
        }
    }
}

/// How this machine reaches the registries, as a person's shell would have it.
fn reach_registries(command: &mut Command) {
    for (name, value) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_lowercase();
        let wanted = ["proxy", "cert", "ca_bundle", "cainfo", "npm_config_", "pip_", "cargo_", "ca_certs"];
        if wanted.iter().any(|part| text.contains(part)) {
            command.env(name, value);
        }
    }
}

#[test]
#[ignore = "needs the package registries"]
fn environments_from_the_registries_are_fetched_once_and_serve_offline() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let all = Registries::new(&mut fixture, false);
    let (repository, head) = (&all.repository, &all.head);
    for (name, module, beside, _, _) in &PYTHON {
        let mut changed = files(&[("src/bounds.py", *module)]);
        changed.extend(beside.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        if *name == "conftest" {
            changed.remove("src/bounds.py");
        }
        fixture.revise(&all.python, name, &difference(repository, head, &changed));
    }

    let bench = fixture.import();
    let mirrors = fixture.mirrors();
    let score = |run: &str, cache: &str, more: &[&str]| {
        let (run, cache) = (place.join(run).display().to_string(), place.join(cache).display().to_string());
        let fixed = ["score", &bench, "--out", &run, "--mirrors", &mirrors, "--cache", &cache, "--json"];
        let mut command = place.command(&[&fixed[..], more].concat());
        reach_registries(&mut command);
        Ran::of(command.output().unwrap())
    };
    let report = score("online", "cache", &[]).exits(0).json();
    all.assert_controls_are_good(&report);
    for (name, _, _, verdict, reason) in &PYTHON {
        let row = row(&report, &all.python, name);
        assert_eq!(row["verdict"], *verdict, "{row}");
        assert!(row["reason"].as_str().unwrap_or_default().starts_with(reason), "{row}");
        let marked = row["marks"].as_array().unwrap().iter().any(|mark| mark == "test-configuration");
        assert_eq!(marked, *name == "conftest", "{row}");
    }

    // The layers serve a run without network; an empty cache does not, and says what it would fetch.
    let offline = score("offline", "cache", &["--offline"]).exits(0).json();
    assert_eq!(offline["arms"], report["arms"]);
    let refused = score("refused", "empty", &["--offline"]).exits(3);
    for package in ["pytest", "is-number@7.0.0"] {
        assert!(refused.stderr.contains(&format!("`{package}`")), "{package}\n{}", refused.stderr);
    }
    let refused = refused.json();
    for id in [&all.python, &all.rust, &all.node] {
        let row = row(&refused, id, "merged");
        assert_eq!(row["outcomes"][0], "infra(network)", "{row}");
    }
}
