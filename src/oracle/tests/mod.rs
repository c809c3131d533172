//! Tables written from the design page, and captures of real runs.

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
