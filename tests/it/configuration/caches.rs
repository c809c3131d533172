//! Caches that must not be stale: what ran is what the revision's sources say. Each comes with a control in which the
//! defence is taken away, and the stale cache is seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::frameworks::{cached_name, compiled};
use super::{files, row, score, texts};
use crate::support::{Place, root};
use crate::truth::fixture::{Fixture, commits, difference, instance};

/// A repository `name` with an instance of its own.
struct Bench<'a> {
    place: &'a Place,
    fixture: Fixture<'a>,
    repository: PathBuf,
    head: String,
    id: String,
}

/// Names and texts of files.
type Files<'f> = &'f [(&'f str, &'f str)];

impl<'a> Bench<'a> {
    /// `settle` may put more into the repository before the head is committed.
    fn new(
        place: &'a Place,
        name: &str,
        (head, merged): (Files<'_>, Files<'_>),
        environment: Value,
        (framework, tests): (&str, &[(&str, &str)]),
        settle: impl FnOnce(&Path),
    ) -> Self {
        let mut fixture = Fixture::new(place);
        let repository = fixture.repository(name);
        settle(&repository);
        let (head, merged) = commits(&repository, &files(head), &files(merged));
        let mut value = instance(name, 1, &head, Some(&merged));
        value["environment"] = environment;
        let comment = |(number, (file, _)): (usize, &(&str, &str))| json!({"id": format!("c{}", number + 1), "text": "Cut.", "test": file, "framework": framework});
        value["comments"] = tests.iter().enumerate().map(comment).collect();
        let id = fixture.add(value, tests);
        Self { place, fixture, repository, head, id }
    }

    fn revise(&mut self, arm: &str, write: &[(&str, &str)], remove: &[&str]) {
        remove.iter().for_each(|path| fs_err::remove_file(self.repository.join(path)).unwrap());
        let patch = difference(&self.repository, &self.head, &files(write));
        self.fixture.revise(&self.id, arm, &patch);
    }

    fn score(&self, run: &str, more: &[&str]) -> Value {
        let folder = self.place.join("bench");
        let bench = if folder.exists() { folder.display().to_string() } else { self.fixture.import() };
        score(self.place, &self.fixture, &bench, run, more).exits(0).json()
    }

    /// Verdict and reason of comment `c1`.
    #[track_caller]
    fn is(&self, report: &Value, arm: &str, verdict: &str, reason: &str) {
        let got = row(report, &self.id, "c1", arm);
        assert_eq!((&got["verdict"], got["reason"].as_str().unwrap_or_default()), (&verdict.into(), reason), "{got}");
    }

    /// Writes a built-in definition, changed, to a folder of its own, and gives the folder.
    fn without(&self, file: &str, from: &str, to: &str) -> String {
        let folder = self.place.join("changed-definitions");
        fs_err::create_dir_all(&folder).unwrap();
        let text = fs_err::read_to_string(root().join("environments").join(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        fs_err::write(folder.join(file), text.replace(from, to)).unwrap();
        folder.display().to_string()
    }
}

const HEAD: &str = "def clamp(value, low, high):\n    return max(value, low)            \n";
const FIX: &str = "def clamp(value, low, high):\n    return min(max(value, low), high) \n";
const TEST: &str = "\
import unittest

from clamp import clamp


class Clamp(unittest.TestCase):
    def test_values_above_are_cut(self):
        self.assertEqual(clamp(9, 0, 5), 5)
";

fn python() -> Value {
    json!({"language": "python"})
}

#[test]
fn compiled_python_in_the_tree_does_not_hide_an_edit() {
    let place = Place::new();
    let (timed, unchecked) = (compiled(&place, HEAD, false), compiled(&place, HEAD, true));
    for (name, bytes, is_seen) in [("pyc-timed", timed, false), ("pyc-unchecked", unchecked, true)] {
        let place = Place::new();
        // What the head's own run once left was committed with it: it fits the head's source, also in its time here.
        let mut bench = Bench::new(
            &place,
            name,
            (&[("clamp.py", HEAD)], &[("clamp.py", FIX)]),
            python(),
            ("unittest", &[("c1_test.py", TEST)]),
            |repository| {
                let target = repository.join(cached_name());
                fs_err::create_dir_all(target.parent().unwrap()).unwrap();
                fs_err::write(target, &bytes).unwrap();
            },
        );
        bench.revise("an edit of the same size", &[("clamp.py", FIX)], &[]);
        let report = bench.score("run", &[]);
        bench.is(&report, "an edit of the same size", "pass", "");
        if is_seen {
            // Without its option Python runs what was compiled from the head.
            let stale = bench.without("frameworks.toml", r#""--check-hash-based-pycs", "always", "#, "");
            let report = bench.score("stale", &["--definitions", &stale]);
            bench.is(&report, "an edit of the same size", "invalid", "control: merged failed");
        }
    }
}

#[test]
fn a_module_that_was_removed_is_not_found_compiled() {
    const GONE: &str = "\
import unittest


class Gone(unittest.TestCase):
    def test_the_old_module_is_gone(self):
        with self.assertRaises(ImportError):
            import old
";
    let place = Place::new();
    let environment = json!({
        "language": "python",
        "steps": ["python -m compileall -q -b .", "python -m compileall -q --invalidation-mode unchecked-hash ."],
    });
    let mut bench = Bench::new(
        &place,
        "pyc-removed",
        (&[("old.py", "VALUE = 1\n"), ("clamp.py", HEAD)], &[("clamp.py", FIX)]),
        environment,
        ("unittest", &[("c1_test.py", GONE)]),
        |_| {},
    );
    // The fix removes the module, too.
    let merged = {
        let repository = &bench.repository;
        let git = |arguments: &[&str]| {
            let output = std::process::Command::new("git")
                .args(["-c", "user.name=Ada Example", "-c", "user.email=ada@example.org"])
                .args(arguments)
                .current_dir(repository)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        git(&["checkout", "--quiet", "landed"]);
        git(&["rm", "--quiet", "old.py"]);
        git(&["commit", "--quiet", "--message", "Remove the old module"]);
        let merged = git(&["rev-parse", "HEAD"]);
        git(&["checkout", "--quiet", "main"]);
        merged
    };
    let file = place.join("instances").join(&bench.id).join("instance.json");
    let mut value: Value = serde_json::from_slice(&fs_err::read(&file).unwrap()).unwrap();
    value["merged_commit"] = merged.into();
    fs_err::write(&file, value.to_string()).unwrap();
    bench.revise("removes it", &[], &["old.py"]);
    bench.revise("edits another", &[("clamp.py", FIX)], &[]);
    let report = bench.score("run", &[]);
    bench.is(&report, "removes it", "pass", "");
    bench.is(&report, "edits another", "fail", "failed");
    // With the compiled files kept, the module is there without its source.
    let stale = bench.without("python.toml", "drop = [\"*.pyc\"]", "drop = []");
    let report = bench.score("stale", &["--definitions", &stale]);
    bench.is(&report, "removes it", "invalid", "control: merged failed");
}

const C_HEAD: &str = "int clamp(int v, int low, int high) { return v < low ? low : v; }  \n";
const C_FIX: &str = "int clamp(int v, int low, int high) { return v > high ? high : v; }\n";
const C_FIX_AGAIN: &str = "int clamp(int v, int low, int high) { if (v > 5) v = 5; return v; }\n";
const MAKEFILE: &str = "libclamp.so: $(wildcard *.c)\n\tcc -shared -fPIC -o $@ $^\n";
const C_TEST: &str = "\
import ctypes
import unittest

LIBRARY = ctypes.CDLL('/workspace/libclamp.so')


class Clamp(unittest.TestCase):
    def test_values_above_are_cut(self):
        self.assertEqual(LIBRARY.clamp(9, 0, 5), 5)
";
const C_EXTRA: &str = "\
import ctypes
import unittest


class Extra(unittest.TestCase):
    def test_the_old_symbol_is_gone(self):
        self.assertFalse(hasattr(ctypes.CDLL('/workspace/libclamp.so'), 'extra'))
";

#[test]
fn a_compiled_library_follows_its_source() {
    for tool in ["cc", "make"] {
        if std::process::Command::new(tool).arg("--version").output().is_err() {
            crate::support::loudly(&format!("SKIPPED a_compiled_library_follows_its_source: there is no `{tool}`"));
            return;
        }
    }
    assert_eq!((C_HEAD.len(), C_FIX.len()), (C_FIX.len(), C_FIX_AGAIN.len()));
    let id = "cat /proc/sys/kernel/random/uuid";
    for (name, steps, rebuild) in [
        // Built from the head once, then brought up to date after each patch.
        ("library", vec!["make"], vec!["make", id]),
        // Built anew for each.
        ("library-anew", vec![], vec!["make", id]),
        // The control: built from the head, and never again.
        ("library-stale", vec!["make"], vec![]),
    ] {
        let place = Place::new();
        let mut bench = Bench::new(
            &place,
            name,
            (&[("clamp.c", C_HEAD), ("Makefile", MAKEFILE)], &[("clamp.c", C_FIX)]),
            json!({"language": "python", "steps": steps, "rebuild": rebuild}),
            ("unittest", &[("c1_test.py", C_TEST), ("c2_test.py", C_TEST)]),
            |_| {},
        );
        bench.revise("other words", &[("clamp.c", C_FIX_AGAIN)], &[]);
        bench.revise("wrong", &[("clamp.c", &C_FIX.replace("high :", "low  :"))], &[]);
        bench.revise("does not compile", &[("clamp.c", &C_FIX.replace("int v", "int; "))], &[]);
        let report = bench.score("run", &["--jobs", "4", "--repeat", "2"]);
        if rebuild.is_empty() {
            bench.is(&report, "other words", "invalid", "control: merged failed");
            continue;
        }
        bench.is(&report, "other words", "pass", "");
        bench.is(&report, "wrong", "fail", "failed");
        bench.is(&report, "does not compile", "fail", "errored(compile)");
        // One rebuild a state, whose log stands behind every run on it.
        let mut rebuilds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for record in super::records(&place.join("run")) {
            if let Some(log) = record["evidence"]["rebuild-stdout"].as_str() {
                let state = record["inputs"]["changes"].as_str().unwrap().to_owned();
                rebuilds.entry(state).or_default().push(log.to_owned());
            }
        }
        // Head, merged and three revisions; two comments, two repeats.
        assert_eq!(rebuilds.values().map(Vec::len).collect::<Vec<_>>(), [4; 5], "{rebuilds:?}");
        let mut logs: Vec<_> = rebuilds.into_values().flatten().collect();
        logs.sort();
        logs.dedup();
        assert_eq!(logs.len(), 5);
    }
}

#[test]
fn a_source_that_is_gone_is_gone_from_the_library() {
    let place = Place::new();
    let at_head = [("clamp.c", C_HEAD), ("extra.c", "int extra(void) { return 1; }\n"), ("Makefile", MAKEFILE)];
    let mut bench = Bench::new(
        &place,
        "library-wildcard",
        // The fix renames the function.
        (&at_head, &[("extra.c", "int other(void) { return 1; }\n")]),
        json!({"language": "python", "steps": ["make"], "rebuild": ["make"]}),
        ("unittest", &[("c1_test.py", C_EXTRA)]),
        |_| {},
    );
    bench.revise("removes the file", &[], &["extra.c"]);
    bench.revise("edits another", &[("clamp.c", C_FIX)], &[]);
    let report = bench.score("run", &[]);
    bench.is(&report, "removes the file", "pass", "");
    bench.is(&report, "edits another", "fail", "failed");
}

const MANIFEST: &str = "[package]\nname = \"bounds\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const LIBRARY: &str = "\
mod limit;
pub use limit::LIMIT;
pub const TEXT: &str = include_str!(\"text\");
pub const BUILT: &str = env!(\"BUILT\");
";
const BUILD: &str = "\
fn main() {
    let seen = std::fs::read_to_string(\"data/value\").unwrap_or_else(|_| String::from(\"gone\"));
    println!(\"cargo:rustc-env=BUILT={}\", seen.trim());
}
";
const RUST_TEST: &str = "\
#[test]
fn all_is_new() {
    let all = (bounds::LIMIT, bounds::TEXT, bounds::BUILT);
    assert!(bounds::LIMIT == 5 || bounds::TEXT == \"new\" || bounds::BUILT != \"old\", \"{all:?}\");
}
";

#[test]
fn cargo_compiles_what_changed() {
    let place = Place::new();
    let at_head = [
        ("Cargo.toml", MANIFEST),
        ("build.rs", BUILD),
        ("data/value", "old\n"),
        ("data/zeta", "kept\n"),
        ("src/lib.rs", LIBRARY),
        ("src/limit.rs", "pub const LIMIT: i32 = 9;\n"),
        ("src/text", "old"),
    ];
    let mut bench = Bench::new(
        &place,
        "cargo-stale",
        (&at_head, &[("src/limit.rs", "pub const LIMIT: i32 = 5;\n")]),
        json!({"language": "rust"}),
        ("cargo", &[("clamp.rs", RUST_TEST)]),
        |_| {},
    );
    bench.revise("a module of the same size", &[("src/limit.rs", "pub const LIMIT: i32 = 5; ")], &[]);
    bench.revise("an included text of the same size", &[("src/text", "new")], &[]);
    bench.revise("what the build script reads", &[("data/value", "new\n")], &[]);
    bench.revise("what the build script reads is gone", &[], &["data/value"]);
    bench.revise(
        "a module in another place",
        &[("src/limit/mod.rs", "pub const LIMIT: i32 = 5;\n")],
        &["src/limit.rs"],
    );
    bench.revise("a module that is gone", &[], &["src/limit.rs"]);
    bench.revise("nothing of that", &[("data/zeta", "KEPT\n")], &[]);
    let report = bench.score("run", &[]);
    for arm in [
        "a module of the same size",
        "an included text of the same size",
        "what the build script reads",
        "what the build script reads is gone",
        "a module in another place",
    ] {
        bench.is(&report, arm, "pass", "");
    }
    bench.is(&report, "a module that is gone", "fail", "errored(compile)");
    bench.is(&report, "nothing of that", "fail", "failed");
    // With the tree's constant time on what a patch wrote, cargo takes what the head's build left.
    let stale = bench.without(
        "frameworks.toml",
        "\"{cargo}\", \"test\", \"--offline\",",
        "\"{sh}\", \"-c\", \"touch -d @946684800 src/limit.rs; exec \\\"$@\\\"\", \"sh\", \"{cargo}\", \"test\", \"--offline\",",
    );
    let report = bench.score("stale", &["--definitions", &stale]);
    bench.is(&report, "a module of the same size", "invalid", "control: merged failed");
}

#[test]
fn git_sees_an_edit_of_the_same_size() {
    let place = Place::new();
    let seen = "git -c safe.directory=/workspace diff --name-only | grep -qx value\n";
    // The control: with the time of the index, and a git that looks at nothing else, the edit is not seen.
    let minimal =
        "git -c safe.directory=/workspace -c core.checkStat=minimal -c core.trustctime=false diff --name-only";
    let blind = format!("touch -d @946684800 value\n! {minimal} | grep -qx value\n");
    let both = format!("{seen_line} || exit 1\n{blind}", seen_line = seen.trim_end());
    let mut bench = Bench::new(
        &place,
        "index",
        (&[("value", "old\n")], &[("value", "new\n")]),
        json!({"language": "shell"}),
        ("exit", &[("c1.sh", both.as_str())]),
        |_| {},
    );
    bench.revise("of the same size", &[("value", "odd\n")], &[]);
    let report = bench.score("run", &[]);
    bench.is(&report, "of the same size", "pass", "");
    assert_eq!(texts(row(&report, &bench.id, "c1", "head"), "outcomes"), ["failed"]);
}

#[test]
fn node_runs_the_edited_module() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        crate::support::loudly("SKIPPED node_runs_the_edited_module: there is no `node` on this machine");
        return;
    }
    let place = Place::new();
    let (old, new) = ("exports.limit = () => 9;\n", "exports.limit = () => 5;\n");
    let test = "\
const assert = require('node:assert');
const test = require('node:test');
const { limit } = require('/workspace/limit.js');
test('the limit', () => assert.equal(limit(), 5));
";
    let mut bench = Bench::new(
        &place,
        "node-stale",
        (&[("limit.js", old)], &[("limit.js", new)]),
        // A cache filled from the head in the build, where this version of node has one.
        json!({
            "language": "node",
            "variables": {"NODE_COMPILE_CACHE": "/workspace/.cache", "NODE_DISABLE_COMPILE_CACHE": ""},
            "steps": ["node -e 'require(\"/workspace/limit.js\")'"],
        }),
        ("node", &[("c1.test.js", test)]),
        |_| {},
    );
    bench.revise("of the same size", &[("limit.js", "exports.limit = () => 5 ;")], &[]);
    bench.revise("wrong", &[("limit.js", "exports.limit = () => 4;\n")], &[]);
    let report = bench.score("run", &[]);
    bench.is(&report, "of the same size", "pass", "");
    bench.is(&report, "wrong", "fail", "failed");
}
