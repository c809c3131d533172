//! Tables written from the design page, and captures of real runs.

mod canaries;
mod captures;
mod classified;
mod decided;
mod libtest_text;
mod planned;
mod tap_and_junit;

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::{Framework, Oracle};
use crate::sandbox::{Captured, End, Exit, Isolation};

use super::canary::Source;
use super::*;

/// An oracle of a framework, otherwise plain.
fn oracle(framework: &str) -> Oracle {
    let test = match framework {
        "cargo" => "c1.rs",
        "node" => "c1.test.js",
        "tap" | "exit" | "junit" => "c1.sh",
        _ => "c1_test.py",
    };
    let mut value = serde_json::json!({ "comment": "c1", "framework": framework, "test": test });
    if framework == "junit" {
        value["command"] = serde_json::json!(["run-tests", "{test}"]);
    }
    serde_json::from_value(value).unwrap()
}

fn tools() -> BTreeMap<String, String> {
    let all = ["python", "node", "npx", "cargo", "go"];
    all.iter().map(|name| ((*name).to_owned(), format!("/opt/bin/{name}"))).collect()
}

fn plan_for(oracle: &Oracle, policy: Policy) -> Result<Plan, OracleError> {
    let folder = tempfile::tempdir().unwrap();
    let reporters = Reporters::install(folder.path()).unwrap();
    let test = Path::new("/bench").join(&oracle.test);
    plan(oracle, &test, &Frameworks::built_in().unwrap(), &reporters, &tools(), policy)
}

fn strict(framework: &str) -> Plan {
    plan_for(&oracle(framework), Policy::Strict).unwrap()
}

fn framework_of(name: &str) -> Framework {
    serde_json::from_value(name.into()).unwrap()
}

const CANARIES: &str = concat!(
    "{\"event\":\"canary\",\"role\":\"pass\",\"status\":\"passed\"}\n",
    "{\"event\":\"canary\",\"role\":\"fail\",\"status\":\"failed\"}\n",
);

/// Events with good canaries before their end, where they come to one.
fn with_canaries(events: &str) -> String {
    let lines = events.split_inclusive('\n');
    lines.map(|line| if line.contains("\"end\"") { format!("{CANARIES}{line}") } else { line.to_owned() }).collect()
}

/// An exit with a code and nothing else.
fn exited(code: i32) -> Exit {
    Exit {
        end: End::Exited(code),
        timed_out: false,
        out_of_memory: false,
        cancelled: false,
        stdout: Captured::default(),
        stderr: Captured::default(),
        result: Captured::default(),
        token: None,
        seconds: 0.5,
        cpu_seconds: 0.1,
        peak_memory: None,
        isolation: Isolation {
            sandbox: "local".into(),
            level: "full".into(),
            network: "none".into(),
            memory: "cgroup".into(),
            pids: "cgroup".into(),
            workspace: "overlayfs".into(),
        },
    }
}

fn text(bytes: impl AsRef<[u8]>) -> Captured {
    Captured { bytes: bytes.as_ref().to_vec(), dropped: 0 }
}

fn ran(exit: Exit) -> RunEvidence {
    RunEvidence { exit: Some(exit), ..RunEvidence::default() }
}

/// A canary run that went as it must, changed by `change`.
fn canary_run(change: impl FnOnce(&mut CanaryRun)) -> CanaryRun {
    let source = Source::draw(Some("demo")).unwrap();
    let message = source.text.split('"').nth(1).unwrap();
    let stdout = format!(
        "{{\"reason\":\"build-finished\",\"success\":true}}\n\nrunning 2 tests\ntest {} ... ok\ntest {} ... FAILED\n\n\
         failures:\n\n---- {} stdout ----\nthread '{}' panicked at tests/mixed.rs:7:5:\n\
         assertion `left == right` failed: {message}\n\nfailures:\n    {}\n\n\
         test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        source.passes, source.fails, source.fails, source.fails, source.fails,
    );
    let mut run = CanaryRun { exit: Exit { stdout: text(stdout), ..exited(101) }, source };
    change(&mut run);
    run
}
