//! The table of signs, row by row.

use super::*;
use crate::model::Outcome;

const START: &str = "{\"event\":\"start\"}\n";

fn test(id: &str, status: &str) -> String {
    format!("{{\"event\":\"test\",\"id\":\"{id}\",\"status\":\"{status}\"}}\n")
}

fn end(tests: usize) -> String {
    format!("{{\"event\":\"end\",\"tests\":{tests}}}\n")
}

fn report(tests: &[(&str, &str)]) -> String {
    let lines: String = tests.iter().map(|(id, status)| test(id, status)).collect();
    with_canaries(&format!("{START}{lines}{}", end(tests.len())))
}

fn of(code: i32, channel: &str, expected: Option<&[&str]>) -> String {
    let expected = expected.map(|ids| ids.iter().map(|id| TestId::new(*id)).collect::<Vec<_>>());
    let evidence = ran(Exit { result: text(channel), ..exited(code) });
    classify(&strict("pytest"), &evidence, expected.as_deref()).outcome.to_string()
}

#[test]
fn reports_exit_codes_and_expected_ids_together() {
    let pass = report(&[("a", "passed")]);
    let both = report(&[("a", "passed"), ("b", "passed")]);
    let fail = report(&[("a", "passed"), ("b", "failed")]);
    let error = report(&[("a", "failed"), ("b", "errored")]);
    let skip = report(&[("a", "skipped"), ("b", "xfail"), ("c", "xpass")]);
    let part = report(&[("a", "passed"), ("b", "skipped")]);
    let none = report(&[]);
    let open = format!("{START}{}", test("a", "passed"));
    let load =
        format!("{START}{{\"event\":\"collect-error\",\"kind\":\"import\",\"exception\":\"SystemExit\"}}\n{}", end(0));
    let twice = format!("{pass}{}", end(1));
    for (code, channel, expected, outcome) in [
        (0, &pass, None, "passed"),
        (0, &pass, Some(&["a"][..]), "passed"),
        (0, &both, Some(&["a"][..]), "passed"), // more than expected is fine
        (0, &pass, Some(&["a", "b"][..]), "no-tests"),
        (0, &part, Some(&["a", "b"][..]), "no-tests"), // skipped is not seen
        (0, &part, Some(&["a"][..]), "passed"),
        (0, &skip, None, "no-tests"),
        (0, &none, None, "no-tests"),
        (5, &none, None, "no-tests"),
        (5, &skip, None, "no-tests"),
        (1, &fail, None, "failed"),
        (1, &fail, Some(&["a", "b", "c"][..]), "failed"), // what failed goes before what is missing
        (1, &error, None, "errored(exception)"),          // any errored makes it errored
        (2, &load, None, "errored(import)"),
        (3, &load, None, "errored(import)"),
        (0, &load, None, "errored(result-channel)"),
        // codes that do not fit the report
        (0, &fail, None, "errored(result-channel)"),
        (0, &error, None, "errored(result-channel)"),
        (1, &pass, None, "errored(result-channel)"),
        (1, &none, None, "errored(result-channel)"),
        (5, &pass, None, "errored(result-channel)"),
        (5, &fail, None, "errored(result-channel)"),
        (2, &pass, None, "errored(runner)"),
        (3, &fail, None, "errored(runner)"),
        (4, &none, None, "errored(runner)"),
        (77, &pass, None, "errored(runner)"),
        // reports that break off or do not fit together
        (0, &String::new(), None, "errored(result-channel)"),
        (1, &String::new(), None, "errored(runner)"),
        (0, &open, Some(&["a"][..]), "errored(result-channel)"),
        (7, &open, None, "errored(runner)"),
        (0, &twice, None, "errored(result-channel)"),
        (1, &twice, None, "errored(result-channel)"),
    ] {
        assert_eq!(of(code, channel, expected), outcome, "code {code}, expected {expected:?}\n{channel}");
    }
}

#[test]
fn deadline_and_memory_go_before_a_signal_and_that_before_the_channel() {
    let good = text(report(&[("a", "passed")]));
    let plan = strict("pytest");
    let signal = End::Signaled(9);
    let base = Exit { result: good, ..exited(0) };
    for (exit, outcome) in [
        (Exit { cancelled: true, timed_out: true, ..base.clone() }, "infra(interrupted)"),
        (Exit { timed_out: true, out_of_memory: true, end: signal, ..base.clone() }, "timed-out"),
        (Exit { timed_out: true, ..base.clone() }, "timed-out"),
        (Exit { out_of_memory: true, end: signal, ..base.clone() }, "out-of-memory"),
        (Exit { out_of_memory: true, ..base.clone() }, "out-of-memory"),
        (Exit { end: signal, ..base.clone() }, "crashed"),
        (Exit { end: signal, result: text("garbage\n"), ..base.clone() }, "crashed"),
        (base, "passed"),
    ] {
        assert_eq!(classify(&plan, &ran(exit), None).outcome.to_string(), outcome);
    }
    let crashed = format!("{START}{{\"event\":\"crashed\"}}\ngarbage\n");
    assert_eq!(of(1, &crashed, None), "crashed");
}

#[test]
fn a_broken_rebuild_is_the_revisions_compile_error() {
    let plan = strict("pytest");
    let stderr = text("first\nerror: no rule to make target\n\n");
    for (exit, outcome) in [
        (Exit { stderr, ..exited(2) }, "errored(compile)"),
        (Exit { timed_out: true, ..exited(2) }, "timed-out"),
        (Exit { out_of_memory: true, ..exited(2) }, "out-of-memory"),
        (Exit { cancelled: true, ..exited(0) }, "infra(interrupted)"),
        (Exit { end: End::Signaled(11), ..exited(0) }, "crashed"),
    ] {
        let evidence = RunEvidence { rebuild: Some(exit), ..RunEvidence::default() };
        let classified = classify(&plan, &evidence, None);
        assert_eq!(classified.outcome.to_string(), outcome);
        if outcome == "errored(compile)" {
            assert_eq!(classified.message.as_deref(), Some("error: no rule to make target"));
        }
    }
    let good =
        RunEvidence { rebuild: Some(exited(0)), ..ran(Exit { result: text(report(&[("a", "passed")])), ..exited(0) }) };
    assert_eq!(classify(&plan, &good, None).outcome, Outcome::Passed);
}

#[test]
fn only_the_probe_can_blame_the_environment() {
    let plan = strict("pytest");
    let stderr = text("/usr/bin/python: No module named pytest\n");
    let run = Exit { stderr: stderr.clone(), ..exited(1) };
    let bad = RunEvidence { probe: Some(Exit { stderr, ..exited(1) }), ..ran(run.clone()) };
    let classified = classify(&plan, &bad, None);
    assert_eq!(classified.outcome.to_string(), "infra(environment)");
    assert!(classified.message.unwrap().contains("No module named pytest"));
    let good = RunEvidence { probe: Some(exited(0)), ..ran(run) };
    assert_eq!(classify(&plan, &good, None).outcome.to_string(), "errored(runner)");
}

#[test]
fn a_plain_exit_code_means_what_the_definition_says() {
    let plan = strict("exit");
    for (code, outcome) in
        [(0, "passed"), (1, "failed"), (2, "errored(runner)"), (127, "errored(runner)"), (139, "errored(runner)")]
    {
        let classified = classify(&plan, &ran(exited(code)), Some(&[]));
        assert_eq!(classified.outcome.to_string(), outcome);
        assert_eq!(classified.channel, Channel::Weak);
    }
    let exit = Exit { end: End::Signaled(11), ..exited(0) };
    assert_eq!(classify(&plan, &ran(exit), None).outcome, Outcome::Crashed);
}

#[test]
fn a_runner_that_says_nothing_is_not_believed() {
    let plan = strict("jest");
    let tests = text("Tests:       1 failed, 2 total\n");
    for (code, stderr, outcome) in [
        (1, tests.clone(), "failed"),
        (1, text("npm ERR! canceled due to missing packages\n"), "errored(runner)"),
        (0, Captured::default(), "errored(runner)"),
        (0, text("Tests:       0 total\n"), "errored(runner)"),
        (0, text("Tests:       2 skipped, 1 passed, 3 total\n"), "passed"),
    ] {
        assert_eq!(classify(&plan, &ran(Exit { stderr, ..exited(code) }), None).outcome.to_string(), outcome);
    }
}

#[test]
fn the_release_looks_at_the_exit_code_and_keeps_the_first_line() {
    let plan = plan_for(&oracle("pytest"), Policy::CCrab).unwrap();
    let session = "==== test session starts ====\nc1.py::t FAILED\nE   AssertionError: no  \nE   assert 1 == 2\n";
    for (code, outcome) in [
        (0, "passed"),
        (1, "failed"),
        (2, "errored(import)"),
        (3, "errored(runner)"),
        (4, "errored(runner)"),
        (5, "no-tests"),
    ] {
        let classified = classify(&plan, &ran(Exit { stdout: text(session), ..exited(code) }), None);
        assert_eq!(classified.outcome.to_string(), outcome);
        assert_eq!(classified.first_line.as_deref(), Some("AssertionError: no"));
    }
    // Without a session the code says nothing, except that 0 passes by the release's rule.
    assert_eq!(classify(&plan, &ran(exited(1)), None).outcome.to_string(), "errored(runner)");
    assert_eq!(classify(&plan, &ran(exited(0)), None).outcome, Outcome::Passed);
}
