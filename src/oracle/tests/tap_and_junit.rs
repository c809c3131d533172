//! TAP and JUnit oracles, whole: text and exit code to outcome.

use proptest::prelude::*;

use super::*;
use crate::oracle::{junit, tap};

fn tap_run(code: i32, stdout: &str) -> Classified {
    classify(&strict("tap"), &ran(Exit { stdout: text(stdout), ..exited(code) }), None)
}

fn junit_run(code: i32, xml: &str) -> Classified {
    classify(&strict("junit"), &ran(Exit { result: text(xml), ..exited(code) }), None)
}

#[test]
fn tap_texts_get_their_outcome() {
    for (code, stdout, outcome) in [
        (0, "TAP version 13\n1..2\nok 1 - a\nok 2 - b\n", "passed"),
        (0, "ok\nok\n1..2\n", "passed"),
        (1, "1..2\nok 1 - a\nnot ok 2 - b\n# got 3\n", "failed"),
        (0, "1..1\nnot ok 1 - a\n", "failed"), // producers need not leave with a code
        (1, "not ok 1 - a\n", "failed"),       // a script may leave at its first failure
        (0, "1..0 # SKIP no shell\n", "no-tests"),
        (0, "1..1\nok 1 - a # SKIP later\n", "no-tests"),
        (0, "1..1\nnot ok 1 - a # TODO later\n", "no-tests"),
        (0, "", "errored(result-channel)"),
        (0, "ok 1 - a\n", "errored(result-channel)"), // no plan: it may have left early
        (0, "1..2\nok 1 - a\n", "errored(result-channel)"),
        (2, "1..2\nok 1 - a\n", "errored(runner)"),
        (1, "1..1\nok 1 - a\n", "errored(result-channel)"),
        (0, "1..1\nok 1\nok 2\n", "errored(result-channel)"),
        (0, "1..1\n1..1\nok 1\n", "errored(result-channel)"),
        (0, "1..2\nok 1\nok 1\n", "errored(result-channel)"),
        (0, "1..x\nok 1\n", "errored(result-channel)"),
        (255, "1..2\nok 1\nBail out! no database\n", "errored(runner)"),
        (0, "    not ok 1 - inner\n    1..1\nok 1 - a\n1..1\n", "passed"), // a subtest is summed up in its parent
        (127, "", "errored(runner)"),
    ] {
        assert_eq!(tap_run(code, stdout).outcome.to_string(), outcome, "{code}\n{stdout}");
    }
    let failed = tap_run(1, "1..2\nok 1 - a\nnot ok 2 - b\n# got 3\n");
    assert_eq!(failed.message.as_deref(), Some("got 3"));
    let ids: Vec<_> = failed.seen.iter().map(|t| t.id.as_str()).collect();
    assert_eq!(ids, ["1 a", "2 b"]);
}

#[test]
fn junit_texts_get_their_outcome() {
    let suite = |inner: &str| format!("<?xml version=\"1.0\"?><testsuites><testsuite>{inner}</testsuite></testsuites>");
    let case = |inner: &str| suite(&format!("<testcase classname=\"m.C\" name=\"t\">{inner}</testcase>"));
    for (code, xml, outcome) in [
        (0, suite("<testcase name=\"a\"/>"), "passed"),
        (0, case("<system-out>x</system-out>"), "passed"),
        (1, case("<failure message=\"AssertionError: no\"/>"), "failed"),
        (1, case("<failure>plain</failure>"), "failed"),
        (1, case("<failure type=\"java.lang.AssertionError\" message=\"x\"/>"), "failed"),
        (1, case("<failure type=\"org.junit.ComparisonFailure\" message=\"x\"/>"), "failed"),
        (1, case("<failure message=\"TypeError: bad\"/>"), "errored(exception)"),
        (1, case("<failure message=\"SyntaxError: bad\"/>"), "errored(syntax)"),
        (1, case("<error message=\"collection failure\"/>"), "errored(exception)"),
        (1, case("<error type=\"ModuleNotFoundError\" message=\"x\"/>"), "errored(import)"),
        (1, case("<failure message=\"no\"/><error message=\"failed on teardown\"/>"), "errored(exception)"),
        (0, case("<skipped/>"), "no-tests"),
        (0, suite(""), "no-tests"),
        (0, String::new(), "errored(result-channel)"),
        (1, String::new(), "errored(runner)"),
        (1, suite("<testcase name=\"a\"/>"), "errored(result-channel)"),
        (0, suite("<testcase name=\"a\"/><testcase name=\"a\"/>"), "errored(result-channel)"),
        (0, "<testsuite><testcase name=\"a\"/>".to_owned(), "errored(result-channel)"),
        (0, "<testsuite></wrong>".to_owned(), "errored(result-channel)"),
    ] {
        assert_eq!(junit_run(code, &xml).outcome.to_string(), outcome, "{code} {xml}");
    }
    let failed = junit_run(1, &case("<failure message=\"a &lt; b&#10;second\"/>"));
    assert_eq!(failed.message.as_deref(), Some("a < b"));
    assert_eq!(failed.seen[0].id.as_str(), "m.C::t");
    assert_eq!(failed.channel, Channel::Weak);
}

proptest! {
    #[test]
    fn no_text_breaks_the_parsers(text in "[a-z <>/\"=0-9.#\n!-]{0,200}") {
        let report = junit::parse(&text);
        prop_assert!(!report.complete || text.contains('<'));
        let report = tap::parse(&text);
        prop_assert!(!report.complete || text.contains("1..") || text.contains("not ok"));
    }
}
