//! libtest's text in forms that the captures do not have.

use proptest::prelude::*;

use crate::oracle::libtest::parse;
use crate::oracle::report::TestStatus;

const BUILT: &str = "{\"reason\":\"build-finished\",\"success\":true}\n";

fn run(text: &str) -> crate::oracle::report::Report {
    parse(&format!("{BUILT}{text}"), "", "tests/crab_c1.rs")
}

#[test]
fn panics_of_compilers_before_1_73_are_read_too() {
    let text = "\nrunning 3 tests\ntest a ... FAILED\ntest b ... FAILED\ntest c ... FAILED\n\nfailures:\n\n\
        ---- a stdout ----\nthread 'a' panicked at 'assertion failed: `(left == right)`\n  left: `1`,\n right: `2`: \
        it's wrong', tests/crab_c1.rs:4:5\nnote: run with `RUST_BACKTRACE=1`\n\n\
        ---- b stdout ----\nthread 'b' panicked at 'index out of bounds', src/lib.rs:2:52\n\n\
        ---- c stdout ----\nthread 'c' panicked at 'plain', crates/x/tests/crab_c1.rs:9:1\n\n\n\
        failures:\n    a\n    b\n    c\n\ntest result: FAILED. 0 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let report = run(text);
    let statuses: Vec<_> = report.tests.iter().map(|t| t.status.as_str()).collect();
    assert_eq!(statuses, ["failed", "errored", "failed"]);
    assert_eq!(report.tests[0].message.as_deref(), Some("assertion failed: `(left == right)`"));
    assert_eq!(report.tests[2].message.as_deref(), Some("plain"));
    assert!(report.complete && report.odd.is_none(), "{report:?}");
}

#[test]
fn a_panic_is_the_oracles_own_only_in_its_very_file() {
    for (place, status) in [
        ("tests/crab_c1.rs", "failed"),
        ("./tests/crab_c1.rs", "failed"),
        ("crates/a/tests/crab_c1.rs", "failed"),
        ("/workspace/tests/crab_c1.rs", "failed"),
        ("tests/crab_c2.rs", "errored"),
        ("othertests/crab_c1.rs", "errored"),
        ("src/crab_c1.rs", "errored"),
        ("crab_c1.rs", "errored"),
    ] {
        let text = format!(
            "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\n\nthread 'a' (1) panicked at {place}:1:2:\nno\n\n\n\
             failures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
        );
        assert_eq!(run(&text).tests[0].status.as_str(), status, "{place}");
    }
}

#[test]
fn a_summary_that_does_not_fit_its_lines_is_odd() {
    let summary = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s\n";
    assert!(run(&format!("test a ... ok\n\n{summary}")).odd.is_some());
    assert!(run(&format!("test a ... ok\ntest b ... ok\n\n{summary}")).odd.is_none());
    assert!(run(&format!("test a ... ok\ntest a ... ok\n\n{summary}")).odd.unwrap().contains("twice"));
    assert!(run(&format!("test a ... ok\ntest b ... ok\n\n{summary}{summary}")).odd.unwrap().contains("summary"));
    assert!(!run("test a ... ok\n").complete);
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser_and_none_passes_without_a_summary(text in "[a-z .\n{}':\"-]{0,200}") {
        let report = run(&text);
        prop_assert!(!report.complete || text.contains("test result"));
        let bare = parse(&text, &text, "tests/crab_c1.rs");
        prop_assert!(bare.broken.is_some());
        prop_assert!(report.tests.iter().all(|t| t.status != TestStatus::Failed || t.message.is_some()));
    }
}
