//! Oracles end to end, in the real sandbox: each row is a revision whose outcome and reason are known beforehand.
//!
//! A test whose toolchain is not on this machine says so on standard error, past the test runner's capture.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redgreen::model::{ErrorKind, Oracle, Outcome};
use redgreen::oracle::{
    Attempt, Classified, Controls, Frameworks, Plan, Policy, Reporters, RunEvidence, Subject, TestId, classify, decide,
    plan, run_once,
};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{Limits, Mount, Sandbox};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A sandbox, a place for files, and what an environment would give.
struct World {
    folder: TempDir,
    sandbox: LocalSandbox,
    reporters: Reporters,
    subject: Subject,
    limits: Limits,
}

impl World {
    fn new() -> Self {
        Self::copying(false)
    }

    fn copying(copy_workspace: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("redgreen-oracle-").tempdir().unwrap();
        open_to_all(folder.path());
        let config = LocalConfig::new(env!("CARGO_BIN_EXE_redgreen"), folder.path().join("probe"));
        let sandbox = LocalSandbox::new(LocalConfig { copy_workspace, ..config }).unwrap();
        let reporters = Reporters::install(folder.path()).unwrap();
        let limits = Limits { wall: Duration::from_secs(60), memory: 512 << 20, ..Limits::default() };
        let mut subject = Subject::default();
        subject.variables.insert("PATH".into(), "/usr/bin:/bin".into());
        Self { folder, sandbox, reporters, subject, limits }
    }

    /// Makes a program of the host usable inside: its prefix read-only at the same path, itself as a tool.
    fn give(&mut self, tool: &str, program: &Path, prefix: &Path) {
        if !prefix.starts_with("/usr") {
            self.subject.mounts.push(Mount::ReadOnly { source: prefix.to_owned(), target: prefix.to_owned() });
        }
        self.subject.tools.insert(tool.to_owned(), program.to_string_lossy().into_owned());
        let bin = program.parent().unwrap().to_string_lossy().into_owned();
        self.subject.variables.entry("PATH".to_owned()).and_modify(|path| *path = format!("{bin}:{path}"));
    }

    /// A layer of the tree with these files.
    fn layer(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = self.folder.path().join(name);
        fs_err::create_dir_all(&root).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(&path, text).unwrap();
        }
        let (user, group) = self.sandbox.owner();
        for entry in walkdir::WalkDir::new(&root) {
            std::os::unix::fs::lchown(entry.unwrap().path(), Some(user), Some(group)).unwrap();
        }
        root
    }

    fn plan(&self, oracle: serde_json::Value, text: &str) -> Plan {
        self.plan_under(oracle, text, Policy::Strict)
    }

    fn plan_under(&self, mut oracle: serde_json::Value, text: &str, policy: Policy) -> Plan {
        oracle["comment"] = "c1".into();
        let oracle: Oracle = serde_json::from_value(oracle).unwrap();
        let test = self.folder.path().join("bench").join(&oracle.test);
        fs_err::create_dir_all(test.parent().unwrap()).unwrap();
        fs_err::write(&test, text).unwrap();
        let definitions = Frameworks::built_in().unwrap();
        plan(&oracle, &test, &definitions, &self.reporters, &self.subject.tools, policy).unwrap()
    }

    fn subject(&self, layers: &[PathBuf]) -> Subject {
        Subject { workspace: layers.to_vec(), ..self.subject.clone() }
    }

    async fn evidence(&self, plan: &Plan, subject: &Subject) -> RunEvidence {
        let scratch = self.folder.path().join("scratch");
        let cancel = CancellationToken::new();
        let evidence = run_once(&self.sandbox, subject, plan, &self.limits, &scratch, &cancel).await.unwrap();
        assert_eq!(fs_err::read_dir(&scratch).unwrap().count(), 0, "something was left in the scratch folder");
        evidence
    }

    async fn run(&self, plan: &Plan, subject: &Subject, expected: Option<&[TestId]>) -> Classified {
        let evidence = self.evidence(plan, subject).await;
        let classified = classify(plan, &evidence, expected);
        if let Some(exit) = &evidence.exit {
            print!(
                "--- {} {:?}\n{}{}{}",
                classified.outcome,
                exit.end,
                exit.stdout.text(),
                exit.stderr.text(),
                exit.result.text()
            );
        }
        classified
    }
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a program prints, when it is there and says yes.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Says past the runner's capture that a test could not be made.
fn lacks(tool: &str, test: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test} needs {tool}, which is not on this machine");
}

fn with_python(test: &str) -> Option<World> {
    let Some(prefix) = ask("python3", &["-c", "import sys; print(sys.base_prefix)"]) else {
        lacks("python3", test);
        return None;
    };
    let mut world = World::new();
    let prefix = PathBuf::from(prefix);
    let program = prefix.join("bin/python3");
    world.give("python", &program, &prefix);
    Some(world)
}

const UNITTEST: &str = "\
import unittest
import calc

class Average(unittest.TestCase):
    def test_of_nothing_is_zero(self):
        self.assertEqual(calc.average([]), 0, 'the average of nothing is not zero')

    def test_guard(self):
        self.assertEqual(calc.average([1, 3]), 2)
";

const HEAD: &str = "def average(items):\n    return sum(items) / len(items) if items else None\n";
const MERGED: &str = "def average(items):\n    return sum(items) / len(items) if items else 0\n";

#[tokio::test]
async fn python_revisions_get_their_outcome() {
    let Some(mut world) = with_python("python_revisions_get_their_outcome") else { return };
    let secret = world.folder.path().join("secret.txt");
    fs_err::write(&secret, "0").unwrap();
    let base = world.layer("base", &[("calc.py", HEAD), ("other.py", "")]);
    let plan = world.plan(serde_json::json!({ "framework": "unittest", "test": "c1_test.py" }), UNITTEST);

    let merged = world.layer("merged", &[("calc.py", MERGED)]);
    let merged = world.run(&plan, &world.subject(&[merged, base.clone()]), None).await;
    assert_eq!(merged.outcome, Outcome::Passed);
    let expected = merged.passed_ids();
    assert_eq!(
        expected.iter().map(TestId::as_str).collect::<Vec<_>>(),
        ["Average.test_guard", "Average.test_of_nothing_is_zero"]
    );
    assert_eq!(merged.text_only, Some(false));
    let head = world.run(&plan, &world.subject(std::slice::from_ref(&base)), Some(&expected)).await;
    assert_eq!(head.outcome, Outcome::Failed);
    assert_eq!(head.message.as_deref(), Some("None != 0 : the average of nothing is not zero"));

    let probing = |body: &str| format!("def average(items):\n    if items: return sum(items) / len(items)\n{body}");
    let reads = format!("    return int(open({:?}).read())\n", secret.to_str().unwrap());
    let rows = [
        (
            "fix in other words",
            "def average(items):\n    n = len(items)\n    return n and sum(items) / n\n".into(),
            "passed",
        ),
        ("comment only", format!("# zero of nothing\n{HEAD}"), "failed"),
        ("wrong value", MERGED.replace("else 0", "else 1"), "failed"),
        ("syntax error", "def average(items:\n".into(), "errored(syntax)"),
        ("TypeError", probing("    return None + 1\n"), "errored(exception)"),
        ("import of nothing", "import nosuchmodule\n".into(), "errored(import)"),
        ("sys.exit(0) at import", "import sys\nsys.exit(0)\n".into(), "errored(import)"),
        ("os._exit(0) at import", "import os\nos._exit(0)\n".into(), "errored(result-channel)"),
        ("os._exit(0) in a test", probing("    import os; os._exit(0)\n"), "errored(result-channel)"),
        ("os._exit(3) in a test", probing("    import os; os._exit(3)\n"), "errored(runner)"),
        ("skip at import", "import unittest\nraise unittest.SkipTest('no')\n".into(), "no-tests"),
        ("skip in a test", probing("    import unittest; raise unittest.SkipTest('no')\n"), "no-tests"),
        ("SIGSEGV", probing("    import os; os.kill(os.getpid(), 11)\n"), "crashed"),
        ("memory hog", probing("    return len(bytearray(3 << 30)) * 0\n"), "out-of-memory"),
        (
            "network",
            probing("    import socket\n    socket.create_connection(('192.0.2.1', 80), 5)\n    return 0\n"),
            "errored(exception)",
        ),
        ("reading the host", probing(&reads), "errored(exception)"),
        (
            "forging the channel by its variable",
            probing("    import os\n    os.write(int(os.environ['REDGREEN_RESULT_FD']), b'x')\n    return 0\n"),
            "errored(exception)",
        ),
        (
            "reading the oracle's place for writing",
            probing("    open('/oracle/c1_test.py', 'a')\n    return 0\n"),
            "errored(exception)",
        ),
    ];
    let mut wrong = Vec::new();
    for (number, (name, text, wanted)) in rows.iter().enumerate() {
        let layer = world.layer(&format!("row{number}"), &[("calc.py", text)]);
        let classified = world.run(&plan, &world.subject(&[layer, base.clone()]), Some(&expected)).await;
        if classified.outcome.to_string() != *wanted {
            wrong.push(format!("{name}: {} instead of {wanted} ({:?})", classified.outcome, classified.message));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    let mut deleted = world.subject(std::slice::from_ref(&base));
    deleted.remove = vec!["calc.py".into()];
    let outcome = world.run(&plan, &deleted, Some(&expected)).await.outcome;
    assert_eq!(outcome.to_string(), "errored(import)");

    world.limits.wall = Duration::from_secs(4);
    for (name, body) in [("loop", "    while True: pass\n"), ("sleep", "    import time; time.sleep(1000)\n")] {
        let layer = world.layer(name, &[("calc.py", &probing(body))]);
        let outcome = world.run(&plan, &world.subject(&[layer, base.clone()]), Some(&expected)).await.outcome;
        assert_eq!(outcome, Outcome::TimedOut, "{name}");
    }
}

#[tokio::test]
async fn a_revision_that_passes_by_chance_is_flaky() {
    let Some(world) = with_python("a_revision_that_passes_by_chance_is_flaky") else { return };
    let chance = HEAD.replace("None", "__import__('os').urandom(1)[0] & 1");
    let layer = world.layer("chance", &[("calc.py", &chance)]);
    let plan = world.plan(serde_json::json!({ "framework": "unittest", "test": "c1_test.py" }), UNITTEST);
    let subject = world.subject(&[layer]);
    let mut runs = Vec::new();
    // All alike in forty tosses of a coin: once in 2^39.
    while runs.len() < 40 && !(runs.contains(&Outcome::Passed) && runs.contains(&Outcome::Failed)) {
        runs.push(world.run(&plan, &subject, None).await.outcome);
    }
    let (head, merged) = ([Outcome::Failed], [Outcome::Passed]);
    let controls = Controls { head: &head, merged: Some(&merged), before: &[] };
    let reason = decide(Policy::Strict, &controls, Attempt::Runs(&runs)).reason.unwrap().to_string();
    assert!(reason.starts_with("flaky"), "{reason}");
}

#[tokio::test]
async fn a_test_in_the_tree_lies_over_whatever_a_revision_put_there() {
    let Some(world) = with_python("a_test_in_the_tree_lies_over_whatever_a_revision_put_there") else { return };
    let base = world.layer("base", &[("pkg/__init__.py", ""), ("pkg/calc.py", MERGED), ("pkg/tests/__init__.py", "")]);
    let fake = world.layer("fake", &[("pkg/tests/test_c1.py", "raise SystemExit(0)\n")]);
    let links = world.layer("links", &[("elsewhere/__init__.py", ""), ("pkg/calc.py", MERGED)]);
    std::os::unix::fs::symlink("../elsewhere", links.join("pkg/tests")).unwrap();
    let text = UNITTEST.replace("import calc", "from .. import calc");
    let plan = world.plan(
        serde_json::json!({ "framework": "unittest", "test": "c1_test.py", "install_as": "pkg/tests/test_c1.py" }),
        &text,
    );
    for layers in [vec![base.clone()], vec![fake, base.clone()]] {
        assert_eq!(world.run(&plan, &world.subject(&layers), None).await.outcome, Outcome::Passed);
    }
    let mut removed = world.subject(std::slice::from_ref(&base));
    removed.remove = vec!["pkg/tests/test_c1.py".into()];
    assert_eq!(world.run(&plan, &removed, None).await.outcome, Outcome::Passed);
    // A symlink in the place of the folder takes the package along, not the test.
    let outcome = world.run(&plan, &world.subject(&[links, base]), None).await.outcome;
    assert!(matches!(outcome, Outcome::Errored(ErrorKind::Import)), "{outcome}");
}

#[tokio::test]
async fn without_its_framework_the_environment_is_at_fault_and_nobody_else() {
    let Some(mut world) = with_python("without_its_framework_the_environment_is_at_fault_and_nobody_else") else {
        return;
    };
    let python = world.subject.tools["python"].clone();
    let bin = world.layer("bin", &[("python", &format!("#!/bin/sh\nexec {python} -S \"$@\"\n"))]);
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(bin.join("python"), std::fs::Permissions::from_mode(0o755)).unwrap();
    world.subject.mounts.push(Mount::ReadOnly { source: bin, target: "/opt/bare".into() });
    world.subject.tools.insert("python".into(), "/opt/bare/python".into());
    let base = world.layer("base", &[("calc.py", MERGED)]);
    let text = "import calc\ndef test_it(): assert calc.average([]) == 0\n";
    for policy in Policy::ALL {
        let plan = world.plan_under(serde_json::json!({ "framework": "pytest", "test": "c1_test.py" }), text, policy);
        let classified = world.run(&plan, &world.subject(std::slice::from_ref(&base)), None).await;
        assert_eq!(classified.outcome.to_string(), "infra(environment)", "{policy}");
        assert!(classified.message.unwrap().contains("pytest"));
    }
    // A revision that only prints the same is not believed.
    let liar = world.layer(
        "liar",
        &[(
            "calc.py",
            "import os, sys\nsys.stderr.write('No module named unittest\\n')\nsys.stderr.flush()\nos._exit(1)\n",
        )],
    );
    let plan = world.plan(serde_json::json!({ "framework": "unittest", "test": "c1_test.py" }), UNITTEST);
    let outcome = world.run(&plan, &world.subject(&[liar]), None).await.outcome;
    assert_eq!(outcome.to_string(), "errored(runner)");
}

/// A Python world with the pytest that the host's python3 has, from a mount of its own.
fn with_pytest(test: &str) -> Option<World> {
    let find = "import os, pytest; print(os.path.dirname(os.path.dirname(os.path.abspath(pytest.__file__))))";
    let Some(packages) = ask("python3", &["-c", find]) else {
        lacks("python3 with pytest", test);
        return None;
    };
    let mut world = with_python(test)?;
    world.subject.mounts.push(Mount::ReadOnly { source: packages.into(), target: "/opt/packages".into() });
    world.subject.variables.insert("PYTHONPATH".into(), "/opt/packages".into());
    Some(world)
}

#[tokio::test]
async fn pytest_runs_outside_the_repositorys_configuration_unless_the_oracle_needs_it() {
    let name = "pytest_runs_outside_the_repositorys_configuration_unless_the_oracle_needs_it";
    let Some(world) = with_pytest(name) else { return };
    let text = "import calc\n\n\ndef test_of_nothing():\n    assert calc.average([]) == 0\n";
    let head = world.layer("head", &[("calc.py", HEAD)]);
    let merged = world.layer("merged", &[("calc.py", MERGED)]);
    let trap = world.layer(
        "trap",
        &[("conftest.py", "raise RuntimeError('read')\n"), ("pytest.ini", "[pytest]\naddopts = --nonsense\n")],
    );
    let cheat = world.layer("cheat", &[("conftest.py", "import calc\ncalc.average = lambda items: 0\n")]);
    let leave = world.layer("leave", &[("calc.py", "import os\nos._exit(0)\n")]);
    let oracle = serde_json::json!({ "framework": "pytest", "test": "c1_test.py" });
    let in_tree = serde_json::json!({ "framework": "pytest", "test": "c1_test.py", "install_as": "test_c1.py" });
    let needs = serde_json::json!({ "framework": "pytest", "test": "c1_test.py", "needs_conftest": true });
    for (oracle, policy, layers, outcome) in [
        (&oracle, Policy::Strict, [&head, &trap], "failed"),
        (&oracle, Policy::Strict, [&merged, &trap], "passed"),
        (&oracle, Policy::Strict, [&head, &cheat], "failed"),
        (&oracle, Policy::Strict, [&leave, &trap], "errored(result-channel)"),
        (&in_tree, Policy::Strict, [&merged, &trap], "passed"),
        (&in_tree, Policy::Strict, [&head, &cheat], "failed"),
        (&needs, Policy::Strict, [&merged, &trap], "errored(runner)"),
        (&needs, Policy::Strict, [&head, &cheat], "passed"),
        (&in_tree, Policy::CCrab, [&head, &head], "failed"),
        (&in_tree, Policy::CCrab, [&merged, &merged], "passed"),
        // The release's flaws stay: conftest files are read, and leaving with 0 passes.
        (&in_tree, Policy::CCrab, [&head, &cheat], "passed"),
        (&in_tree, Policy::CCrab, [&merged, &trap], "errored(runner)"),
        (&in_tree, Policy::CCrab, [&leave, &head], "passed"),
    ] {
        let plan = world.plan_under(oracle.clone(), text, policy);
        let subject = world.subject(&layers.map(PathBuf::clone));
        let classified = world.run(&plan, &subject, None).await;
        assert_eq!(classified.outcome.to_string(), outcome, "{oracle} {policy} {layers:?}");
        if outcome == "failed" {
            assert_eq!(classified.first_line.as_deref(), Some("assert None == 0"));
        }
    }
}

#[tokio::test]
async fn a_rebuild_runs_before_the_oracle_and_its_failure_is_the_revisions() {
    for copy_workspace in [false, true] {
        let world = World::copying(copy_workspace);
        let base = world.layer("base", &[("source.txt", "right\n"), ("stale.txt", "stale\n")]);
        let test = "echo 1..2\n\
        if grep -q right built.txt; then echo ok 1; else echo not ok 1; fi\n\
        if [ -e stale.txt ]; then echo not ok 2; else echo ok 2; fi\n";
        let plan = world.plan(serde_json::json!({ "framework": "tap", "test": "c1.sh" }), test);
        let mut subject = world.subject(&[base]);
        subject.remove = vec!["stale.txt".into()];
        subject.rebuild = vec!["cd / && exit 0".into(), "cp source.txt built.txt".into()];
        let classified = world.run(&plan, &subject, None).await;
        assert_eq!(classified.outcome, Outcome::Passed, "{classified:?}");
        subject.rebuild.push("echo no rule to make target >&2; exit 2".into());
        let classified = world.run(&plan, &subject, None).await;
        assert_eq!(classified.outcome.to_string(), "errored(compile)");
        assert_eq!(classified.message.as_deref(), Some("no rule to make target"));
    }
}

#[tokio::test]
async fn shell_oracles_get_their_outcome() {
    let world = World::new();
    let base = world.layer("base", &[("greet.sh", "echo hello\n")]);
    let tap = "echo 1..1\nif [ \"$(sh greet.sh)\" = 'hello world' ]; then echo ok 1 - greets; else echo not ok 1 - greets; fi\n";
    let plan = world.plan(serde_json::json!({ "framework": "tap", "test": "c1.sh" }), tap);
    for (text, outcome) in [
        ("echo hello world\n", "passed"),
        ("echo hello\n", "failed"),
        ("kill -9 $PPID\n", "crashed"),
        ("exit 3\n", "failed"),
    ] {
        let layer = world.layer(outcome, &[("greet.sh", text)]);
        let classified = world.run(&plan, &world.subject(&[layer, base.clone()]), None).await;
        assert_eq!(classified.outcome.to_string(), outcome, "{text}");
    }
    let plan = world.plan(serde_json::json!({ "framework": "exit", "test": "c2.sh" }), "grep -q hello greet.sh\n");
    assert_eq!(world.run(&plan, &world.subject(std::slice::from_ref(&base)), None).await.outcome, Outcome::Passed);
    let mut gone = world.subject(std::slice::from_ref(&base));
    gone.remove = vec!["greet.sh".into()];
    assert_eq!(world.run(&plan, &gone, None).await.outcome.to_string(), "errored(runner)");

    // The project's own script is the program: without it the result is an error, and not a missing toolchain.
    let command = serde_json::json!({ "framework": "exit", "test": "c2.sh", "command": ["./greet.sh", "{test}"] });
    let plan = world.plan(command, "");
    assert_eq!(world.run(&plan, &gone, None).await.outcome.to_string(), "errored(runner)");

    let junit = "echo '<testsuite><testcase name=\"a\"><failure message=\"AssertionError: no\"/></testcase></testsuite>' \
        > \"$REDGREEN_JUNIT\"; exit 1\n";
    let oracle = serde_json::json!({ "framework": "junit", "test": "c3.sh", "command": ["sh", "{test}"] });
    let plan = world.plan(oracle, junit);
    let classified = world.run(&plan, &world.subject(&[base]), None).await;
    assert_eq!((classified.outcome, classified.message.as_deref()), (Outcome::Failed, Some("AssertionError: no")));
}

#[tokio::test]
async fn node_revisions_get_their_outcome() {
    let Some(program) = ask("node", &["-p", "process.execPath"]) else {
        lacks("node", "node_revisions_get_their_outcome");
        return;
    };
    let mut world = World::new();
    let program = PathBuf::from(program);
    let prefix = program.parent().and_then(Path::parent).unwrap().to_owned();
    world.give("node", &program, &prefix);
    world.limits.memory = 2048 << 20; // its address space is large
    let test = "const test = require('node:test')\nconst assert = require('node:assert')\n\
        const { average } = require('./calc.js')\ntest('of nothing', () => assert.strictEqual(average([]), 0))\n\
        test('guard', () => assert.strictEqual(average([1, 3]), 2))\n";
    let head = "exports.average = (a) => a.length ? a.reduce((x, y) => x + y) / a.length : null\n";
    let base = world.layer("base", &[("calc.js", head)]);
    let oracle = serde_json::json!({ "framework": "node", "test": "c1.js", "install_as": "crab_c1.js" });
    let plan = world.plan(oracle, test);
    for (number, (text, wanted)) in [
        (head.to_owned(), "failed"),
        (head.replace("null", "0"), "passed"),
        (head.replace("null", "undefined.x"), "errored(exception)"),
        ("exports.average = (\n".to_owned(), "errored(syntax)"),
        ("require('./nosuch')\n".to_owned(), "errored(import)"),
        ("process.exit(0)\n".to_owned(), "no-tests"),
        // It leaves before the runner is done with our canaries.
        (format!("{}setTimeout(() => process.exit(0))\n", head.replace("null", "0")), "errored(result-channel)"),
        (head.replace("null", "process.exit(0)"), "no-tests"),
        (head.replace("null", "process.kill(process.pid, 'SIGSEGV')"), "crashed"),
    ]
    .iter()
    .enumerate()
    {
        let layer = world.layer(&format!("row{number}"), &[("calc.js", text)]);
        let classified = world.run(&plan, &world.subject(&[layer, base.clone()]), None).await;
        assert_eq!(classified.outcome.to_string(), *wanted, "{text}");
    }
}

#[tokio::test]
async fn cargo_revisions_get_their_outcome() {
    let (Some(sysroot), true) = (ask("rustc", &["--print", "sysroot"]), ask("cc", &["--version"]).is_some()) else {
        lacks("cargo with a C linker", "cargo_revisions_get_their_outcome");
        return;
    };
    let mut world = World::new();
    let prefix = PathBuf::from(sysroot);
    world.give("cargo", &prefix.join("bin/cargo"), &prefix);
    world.subject.variables.insert("CARGO_HOME".into(), "/tmp/cargo".into());
    world.limits.memory = 2048 << 20;
    let head = "pub fn half(n: i32) -> i32 { n / 2 }\npub fn at(v: &[i32], i: usize) -> i32 { v[i] }\n";
    let manifest = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let base = world.layer("base", &[("Cargo.toml", manifest), ("src/lib.rs", head)]);
    let test = "#[test] fn rounds_up() { assert_eq!(calc::half(3), 2, \"half of three\"); }\n\
        #[test] fn indexes() { assert_eq!(calc::at(&[7], 0), 7); }\n";
    let oracle = serde_json::json!({ "framework": "cargo", "test": "c1.rs", "install_as": "tests/crab_c1.rs" });
    let plan = world.plan(oracle, test);
    for (number, (text, wanted)) in [
        (head.to_owned(), "failed"),
        (head.replace("n / 2", "(n + 1) / 2"), "passed"),
        (head.replace("v[i]", "v[i + 1]"), "errored(exception)"),
        (head.replace("n / 2", "m / 2"), "errored(compile)"),
        (head.replace("{ n / 2 }", "{ std::process::exit(n * 0) }"), "errored(result-channel)"),
        (head.replace("{ n / 2 }", "{ std::process::exit(n) }"), "errored(runner)"),
        (head.replace("{ n / 2 }", "{ let _ = n; std::process::abort() }"), "crashed"),
    ]
    .iter()
    .enumerate()
    {
        let layer = world.layer(&format!("row{number}"), &[("src/lib.rs", text)]);
        let classified = world.run(&plan, &world.subject(&[layer, base.clone()]), None).await;
        assert_eq!(classified.outcome.to_string(), *wanted, "{text}");
        if *wanted == "failed" {
            assert_eq!(classified.message.as_deref(), Some("assertion `left == right` failed: half of three"));
        }
    }
}

#[tokio::test]
async fn a_cancelled_run_says_nothing_of_the_code() {
    let world = World::new();
    let base = world.layer("base", &[("x", "")]);
    let plan = world.plan(serde_json::json!({ "framework": "exit", "test": "c1.sh" }), "sleep 1000\n");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let scratch = world.folder.path().join("scratch");
    let subject = world.subject(&[base]);
    let evidence = run_once(&world.sandbox, &subject, &plan, &world.limits, &scratch, &cancel).await.unwrap();
    assert_eq!(classify(&plan, &evidence, None).outcome.to_string(), "infra(interrupted)");
}
