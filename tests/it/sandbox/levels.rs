//! Levels of isolation, and the truth about them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use fs_err as fs;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::none::NoSandbox;
use redgreen::sandbox::{Mount, Sandbox, SandboxError};
use tempfile::TempDir;

use super::{
    COPIED_HELPER, OTHER_USER, config, helper, is_root, levels, output, overlay, owned_dir, sandbox, shell, task,
    try_run,
};

#[test]
fn the_isolation_says_what_was_in_force() {
    for sandbox in levels() {
        let lower = owned_dir(&sandbox, &[]);
        let mut task = shell("true");
        task.mounts = vec![overlay(lower.path())];
        assert_eq!(try_run(&sandbox, &task).unwrap().isolation, sandbox.isolation());
        assert_eq!(try_run(&sandbox, &shell("true")).unwrap().isolation.workspace, "none");
    }
    let results = LocalSandbox::probe(&config());
    assert_eq!(results.iter().map(|result| result.level.as_str()).collect::<Vec<_>>(), ["full", "userns"]);
    assert!(results[1].ok);
    let error = LocalSandbox::new(LocalConfig { helper: "/no/such/helper".into(), ..config() }).unwrap_err();
    assert!(error.to_string().contains("/no/such/helper"), "{error}");
}

#[test]
fn without_a_sandbox_only_the_mounts_are_there() {
    match NoSandbox::new(config()) {
        Err(error) => {
            assert!(!is_root());
            assert!(error.to_string().contains("need root"), "{error}");
        }
        Ok(none) => {
            let lower = owned_dir(&sandbox(), &[("f", "low")]);
            let mut task = shell("cat f; id -u; [ -e /root ] || echo no home; grep CapEff /proc/self/status");
            task.cwd = "/workspace".into();
            task.mounts = vec![overlay(lower.path())];
            let exit = try_run(&none, &task).unwrap();
            let uid = none.owner().0;
            assert_eq!(
                exit.stdout.text(),
                format!("low{uid}\nno home\nCapEff:\t0000000000000000\n"),
                "{}",
                exit.stderr.text()
            );
            assert_eq!(exit.isolation, none.isolation());
        }
    }
}

#[test]
fn everything_again_as_an_unprivileged_user() {
    if !is_root() {
        return;
    }
    // The build directory may lie where others cannot look.
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tests = dir.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_redgreen"), dir.path().join(COPIED_HELPER)).unwrap();
    let mut again = Command::new(&tests);
    again.args(["sandbox::", "--skip", "everything_again"]).current_dir("/").uid(OTHER_USER).gid(OTHER_USER);
    let output = loop {
        match again.output() {
            // Another test was just forking while the copy was open for writing.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            other => break other.unwrap(),
        }
    };
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Prints what a run costs from start to exit.
#[test]
#[ignore = "a measurement"]
fn measure() {
    for sandbox in levels() {
        let lower = owned_dir(&sandbox, &[]);
        let mut task = task(&["/bin/true"]);
        task.mounts = vec![overlay(lower.path())];
        let mut times: Vec<_> = (0..100)
            .map(|_| {
                let start = Instant::now();
                try_run(&sandbox, &task).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort();
        println!("{}: median {:?}, min {:?}, p90 {:?}", sandbox.isolation().level, times[50], times[0], times[90]);
    }
}

/// Not a test of its own: what `inside_a_sandbox_there_is_no_other` runs.
#[test]
#[ignore = "runs where no namespaces can be had"]
fn nowhere() {
    let error = LocalSandbox::new(config()).unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable { .. }));
    println!("said: {error}");
}

#[test]
fn inside_a_sandbox_there_is_no_other_and_that_is_said() {
    let exact = ["/nested/tests", "--exact", "sandbox::levels::nowhere", "--ignored", "--nocapture"];
    let mut task = task(&exact);
    let nested = |name: &str| Path::new("/nested").join(name);
    task.mounts = vec![
        Mount::ReadOnly { source: std::env::current_exe().unwrap(), target: nested("tests") },
        Mount::ReadOnly { source: helper(), target: nested(COPIED_HELPER) },
    ];
    let text = output(&task);
    assert!(
        text.contains("said: no sandbox can be set up here: level `userns`: could not make the namespaces: "),
        "{text}"
    );
    assert!(text.contains("Operation not permitted") && text.contains("user namespaces"), "{text}");
}
