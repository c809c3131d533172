//! What is run, and where the test lies.

use super::*;
use crate::model::InfraReason;

#[test]
fn strict_pytest_runs_outside_the_tree_and_its_configuration() {
    let plan = strict("pytest");
    assert_eq!(plan.placement.inside(), Path::new("/oracle/c1_test.py"));
    let start = ["/opt/bin/python", "--check-hash-based-pycs", "always", "/run/redgreen/reporters/redgreen_pytest.py"];
    assert_eq!(plan.argv[..4], start);
    let line = plan.argv.join(" ");
    assert!(line.ends_with("-c /dev/null --noconftest --rootdir=/oracle /oracle/c1_test.py"), "{line}");
    assert!(!plan.argv.iter().any(|part| part == "-x"));
    assert_eq!(plan.variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"], "1");
    assert_eq!(plan.cwd, Path::new("/workspace"));
}

#[test]
fn an_oracle_can_want_the_repositorys_own_configuration() {
    let mut oracle = oracle("pytest");
    oracle.needs_conftest = true;
    let plan = plan_for(&oracle, Policy::Strict).unwrap();
    assert_eq!(plan.placement, Placement::InTree { path: "c1_test.py".into() });
    assert!(!plan.argv.iter().any(|part| part == "--noconftest" || part == "-c"));
    assert!(plan.variables.is_empty());
}

#[test]
fn the_release_runs_with_its_own_command_line() {
    let mut oracle = oracle("pytest");
    oracle.install_as = Some("test_review_comment_3.py".into());
    let plan = plan_for(&oracle, Policy::CCrab).unwrap();
    assert_eq!(
        plan.argv.join(" "),
        "/opt/bin/python -m pytest test_review_comment_3.py -x -v --tb=short --no-header -c /dev/null -p no:cacheprovider"
    );
    assert_eq!(plan.placement, Placement::InTree { path: "test_review_comment_3.py".into() });
    assert_eq!(plan.result, ResultKind::Exit);
}

#[test]
fn cargo_tests_belong_to_the_package_that_their_path_names() {
    for (install_as, package, name) in [
        (None, "/workspace/Cargo.toml", "c1"),
        (Some("tests/crab_c1.rs"), "/workspace/Cargo.toml", "crab_c1"),
        (Some("crates/a/tests/crab_c1.rs"), "/workspace/crates/a/Cargo.toml", "crab_c1"),
        (Some("tests/crab_c1/main.rs"), "/workspace/Cargo.toml", "crab_c1"),
    ] {
        let mut oracle = oracle("cargo");
        oracle.install_as = install_as.map(str::to_owned);
        let plan = plan_for(&oracle, Policy::Strict).unwrap();
        let after = |flag: &str| plan.argv.iter().skip_while(|part| *part != flag).nth(1).cloned().unwrap();
        assert_eq!(after("--manifest-path"), package);
        assert_eq!(after("--test"), name);
    }
}

#[test]
fn places_outside_the_tree_are_refused() {
    for path in ["../x.py", "/etc/x.py", "a/../../x.py", "", "a//b.py", "./a.py", ".git/hooks/x", "a/.GIT/x", "a\\b.py"]
    {
        let mut oracle = oracle("pytest");
        oracle.install_as = Some(path.into());
        let error = plan_for(&oracle, Policy::Strict).unwrap_err();
        assert!(matches!(error, OracleError::Place { .. }), "{path}: {error}");
        assert_eq!(error.infra(), None);
    }
}

#[test]
fn a_missing_tool_is_infra_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let reporters = Reporters::install(folder.path()).unwrap();
    let definitions = Frameworks::built_in().unwrap();
    for (framework, tool) in [("pytest", "python"), ("cargo", "cargo"), ("node", "node"), ("go", "go")] {
        let oracle = oracle(framework);
        let none = BTreeMap::new();
        let error =
            plan(&oracle, Path::new(&oracle.test), &definitions, &reporters, &none, Policy::Strict).unwrap_err();
        assert_eq!(error.infra(), Some(InfraReason::Toolchain));
        assert!(error.to_string().contains(&format!("`{tool}`")), "{error}");
    }
    let oracle = oracle("tap");
    let plan = plan(&oracle, Path::new("c1.sh"), &definitions, &reporters, &BTreeMap::new(), Policy::Strict).unwrap();
    assert_eq!(plan.argv, ["/bin/sh", "/oracle/c1.sh"]);
}

#[test]
fn own_commands_keep_their_braces_and_never_blame_the_toolchain() {
    let mut oracle = oracle("tap");
    oracle.command = ["awk", "{print} {test} {}", "{test}"].map(str::to_owned).into();
    assert_eq!(plan_for(&oracle, Policy::Strict).unwrap().argv, ["awk", "{print} /oracle/c1.sh {}", "/oracle/c1.sh"]);
    oracle.command = vec!["./run.sh".into()];
    let argv = plan_for(&oracle, Policy::Strict).unwrap().argv;
    assert_eq!(argv, ["/bin/sh", "-c", "exec \"$@\"", "sh", "./run.sh"]);
    let mut oracle = super::oracle("pytest");
    oracle.command = vec!["x".into()];
    assert!(plan_for(&oracle, Policy::Strict).unwrap_err().to_string().contains("command"));
    let mut oracle = super::oracle("junit");
    oracle.command.clear();
    assert!(plan_for(&oracle, Policy::Strict).unwrap_err().to_string().contains("must say its `command`"));
}

#[test]
fn a_plans_identity_has_no_path_of_the_host() {
    let text = serde_json::to_string(&strict("pytest")).unwrap();
    assert!(!text.contains("/bench") && !text.contains("reporters-"), "{text}");
}

#[test]
fn every_framework_can_be_planned_under_both_policies() {
    for name in ["pytest", "unittest", "cargo", "node", "jest", "go", "tap", "junit", "exit"] {
        for policy in Policy::ALL {
            let plan = plan_for(&oracle(name), policy).unwrap();
            assert_eq!(plan.framework, framework_of(name));
            assert!(!plan.argv.iter().any(|part| part.contains("{test")), "{:?}", plan.argv);
            assert_eq!(
                plan.result == ResultKind::Exit,
                policy == Policy::CCrab || plan.framework.as_str() == "exit" || matches!(name, "jest" | "go")
            );
        }
    }
}
