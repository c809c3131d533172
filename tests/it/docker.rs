//! The Docker sandbox, driven for real through the engine of this machine.
//!
//! Where no engine answers the tests say so and are left out; with `REDGREEN_REQUIRE_DOCKER=1` that is a failure. Their
//! base is made of Debian packages once for all of them, into the target folder.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod attended;
pub mod base;
pub mod certificates;
mod command;
mod deaths;
mod images;
mod inspected;
mod killed;
pub mod leftovers;
mod limits;
mod mounts;
mod rights;
pub mod score;
mod tiny;
mod tls;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use redgreen::sandbox::docker::{DockerConfig, DockerSandbox, Surroundings};
use redgreen::sandbox::{End, Sandbox, Task};

use crate::sandbox::{self as contract, give, overlay, owned_dir, try_run};
use crate::support::{host, loudly};

const MIB: u64 = 1 << 20;

/// The sandbox of all these tests; `None` where no engine answers.
static SANDBOX: LazyLock<Option<DockerSandbox>> = LazyLock::new(|| match DockerSandbox::new(config()) {
    Ok(sandbox) => Some(sandbox),
    Err(error) => {
        assert!(host("REDGREEN_REQUIRE_DOCKER").is_none(), "REDGREEN_REQUIRE_DOCKER is set, and {error}");
        loudly(&format!("LEFT OUT, as no container engine can be used: the tests of the Docker sandbox: {error}"));
        None
    }
});

/// The same with workspaces that are copied.
static COPYING: LazyLock<Option<DockerSandbox>> = LazyLock::new(|| {
    SANDBOX.as_ref()?;
    Some(DockerSandbox::new(DockerConfig { copy_workspace: true, ..config() }).unwrap())
});

/// What the tests' own environment says of engines.
pub fn around() -> Surroundings {
    let names = ["HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR"];
    let set: BTreeMap<_, _> = names.into_iter().filter_map(|name| Some((name.to_owned(), host(name)?))).collect();
    Surroundings::of(&set)
}

fn config() -> DockerConfig {
    DockerConfig::new(around(), Path::new(env!("CARGO_TARGET_TMPDIR")).join("docker/scratch"))
}

/// Whether an engine answers; says so where none does.
pub fn is_here() -> bool {
    SANDBOX.is_some()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn sandbox() -> Option<&'static DockerSandbox> {
    SANDBOX.as_ref()
}

/// Both ways to get a task's file systems into a container.
fn ways() -> Vec<&'static DockerSandbox> {
    sandbox().into_iter().chain(COPYING.as_ref()).collect()
}

fn task(argv: &[&str]) -> Task {
    Task { root: base::root(), ..contract::task(argv) }
}

fn shell(script: &str) -> Task {
    task(&["sh", "-c", script])
}

/// Runs a script that must succeed, and gives its output.
#[track_caller]
fn output(sandbox: &dyn Sandbox, task: &Task) -> String {
    let exit = try_run(sandbox, task).unwrap();
    assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
    exit.stdout.text()
}
