//! Captures of real runs, the canaries apart: pytest 3.10, 6.2, 7.4, 8.3 and 9.2, unittest of Python 3.11, Node 20, cargo 1.95.

use super::*;

macro_rules! capture {
    ($name:literal) => {
        include_str!(concat!("../captures/", $name))
    };
}

fn by_channel(framework: &str, code: i32, channel: &str) -> Classified {
    classify(&strict(framework), &ran(Exit { result: text(with_canaries(channel)), ..exited(code) }), None)
}

fn by_text(code: i32, stdout: &str, stderr: &str) -> Classified {
    let mut of_mixed = oracle("cargo");
    of_mixed.install_as = Some("tests/mixed.rs".to_owned());
    let plan = plan_for(&of_mixed, Policy::Strict).unwrap();
    let evidence = ran(Exit { stdout: text(stdout), stderr: text(stderr), ..exited(code) });
    classify(&plan, &RunEvidence { canary: Some(canary_run(|_| {})), ..evidence }, None)
}

fn statuses(classified: &Classified) -> Vec<(&str, &str)> {
    classified.seen.iter().map(|test| (test.id.as_str(), test.status.as_str())).collect()
}

#[test]
fn every_pytest_tells_the_same_tests_apart() {
    for channel in [
        capture!("pytest-3.mixed.jsonl"),
        capture!("pytest-6.mixed.jsonl"),
        capture!("pytest-7.mixed.jsonl"),
        capture!("pytest-8.mixed.jsonl"),
        capture!("pytest-9.mixed.jsonl"),
    ] {
        let classified = by_channel("pytest", 1, channel);
        assert_eq!(classified.outcome.to_string(), "errored(exception)");
        assert_eq!(classified.message.as_deref(), Some("bad type"));
        assert_eq!(classified.text_only, Some(false));
        let wanted = [
            ("test_ok", "passed"),
            ("test_bad", "failed"),
            ("test_type", "errored"),
            ("test_fail", "failed"),
            ("test_raises", "failed"),
            ("test_xpass_strict", "failed"),
            ("test_setup", "errored"),
            ("test_teardown", "errored"),
            ("test_param[1]", "passed"),
            ("test_param[2]", "failed"),
            ("TestC::test_m", "errored"),
            ("U::test_exit", "errored"),
            ("U::test_import", "errored"),
            ("U::test_sub", "failed"),
            ("U::test_u", "failed"),
        ];
        assert_eq!(statuses(&classified), wanted);
    }
}

#[test]
fn pytest_runs_get_their_outcome() {
    for (code, channel, outcome) in [
        (0, capture!("pytest-9.pass.jsonl"), "passed"),
        (3, capture!("pytest-9.sysexit.jsonl"), "errored(import)"),
        (0, capture!("pytest-9.osexit.jsonl"), "errored(result-channel)"),
        (3, capture!("pytest-9.osexit3.jsonl"), "errored(runner)"),
        (2, capture!("pytest-9.noimport.jsonl"), "errored(import)"),
        (2, capture!("pytest-9.syntaxproj.jsonl"), "errored(syntax)"),
        (5, capture!("pytest-9.modskip.jsonl"), "no-tests"),
        (2, capture!("pytest-9.pexit.jsonl"), "errored(runner)"),
    ] {
        assert_eq!(by_channel("pytest", code, channel).outcome.to_string(), outcome, "{channel}");
    }
}

#[test]
fn unittest_runs_get_their_outcome() {
    for (code, channel, outcome) in [
        (0, capture!("unittest.pass.jsonl"), "passed"),
        (1, capture!("unittest.mixed.jsonl"), "errored(exception)"),
        (2, capture!("unittest.sysexit.jsonl"), "errored(import)"),
        (0, capture!("unittest.osexit.jsonl"), "errored(result-channel)"),
        (5, capture!("unittest.modskip.jsonl"), "no-tests"),
    ] {
        assert_eq!(by_channel("unittest", code, channel).outcome.to_string(), outcome, "{channel}");
    }
    let mixed = by_channel("unittest", 1, capture!("unittest.mixed.jsonl"));
    let failed: Vec<_> = statuses(&mixed).into_iter().filter(|(_, status)| *status == "failed").collect();
    let wanted = ["A.test_bad", "A.test_fail", "A.test_plain_assert", "A.test_sub_bad", "A.test_xp"];
    assert_eq!(failed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), wanted);
    assert!(statuses(&mixed).contains(&("setUpClass (mixed.B)", "errored")));
}

#[test]
fn node_runs_get_their_outcome() {
    for (code, channel, outcome) in [
        (1, capture!("node.mixed.jsonl"), "errored(exception)"),
        (0, capture!("node.exit0.jsonl"), "no-tests"),
        (1, capture!("node.exit3.jsonl"), "errored(runner)"),
        (1, capture!("node.noreq.jsonl"), "errored(import)"),
        (1, capture!("node.syntax.jsonl"), "errored(syntax)"),
        (1, capture!("node.sig.jsonl"), "crashed"),
    ] {
        assert_eq!(by_channel("node", code, channel).outcome.to_string(), outcome, "{channel}");
    }
    let mixed = by_channel("node", 1, capture!("node.mixed.jsonl"));
    assert!(statuses(&mixed).contains(&("parent > child bad", "failed")));
    assert!(statuses(&mixed).contains(&("suite > in suite bad", "errored")));
    assert!(!statuses(&mixed).iter().any(|(id, _)| *id == "suite"), "a suite is no test");
}

#[test]
fn cargo_runs_get_their_outcome() {
    macro_rules! runs {
        ($(($name:literal, $code:literal, $outcome:literal)),* $(,)?) => {$(
            let classified = by_text(
                $code,
                capture!(concat!("cargo.", $name, ".out")),
                capture!(concat!("cargo.", $name, ".err")),
            );
            assert_eq!(classified.outcome.to_string(), $outcome, $name);
        )*};
    }
    macro_rules! capture {
        ($name:expr) => {
            include_str!(concat!("../captures/", $name))
        };
    }
    runs![
        ("pass", 0, "passed"),
        ("mixed", 101, "errored(exception)"),
        ("exit0", 0, "errored(result-channel)"),
        ("exit3", 3, "errored(runner)"),
        ("segv", 101, "crashed"),
        ("compile", 101, "errored(compile)"),
        ("empty", 0, "no-tests"),
        ("allignored", 0, "no-tests"),
        ("nosuchtarget", 101, "errored(runner)"),
    ];
    let mixed = by_text(101, capture!("cargo.mixed.out"), capture!("cargo.mixed.err"));
    let wanted = [
        ("assert_then_multi_line", "failed"),
        ("bad", "failed"),
        ("catches_then_asserts", "failed"),
        ("does_not_panic", "failed"),
        ("inner::nested", "passed"),
        ("ok", "passed"),
        ("panics_as_wanted", "passed"),
        ("panics_otherwise", "failed"),
        ("prints", "passed"),
        ("project_panics", "errored"),
        ("returns_error", "errored"),
        ("thread_panics", "failed"),
        ("unwraps", "failed"),
        ("writes_raw", "passed"),
        ("writes_raw_lines", "passed"),
    ];
    assert_eq!(statuses(&mixed), wanted);
    let compile = by_text(101, capture!("cargo.compile.out"), capture!("cargo.compile.err"));
    assert_eq!(compile.message.as_deref(), Some("error[E0425]: cannot find function `nosuch` in crate `demo`"));
}
