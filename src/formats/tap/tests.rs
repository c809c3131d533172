use super::*;
use proptest::prelude::*;

fn short(tests: &[Test]) -> Vec<(u64, bool, &str)> {
    tests.iter().map(|t| (t.number, t.ok, t.description.as_str())).collect()
}

#[test]
fn version_12_with_directives_and_unnumbered_points() {
    let tap = parse(
        "1..6\nok\nnot ok - second # of many\r\nsome output\nok 3 third # SKIP no disk\nnot ok 4 # TODO: later\n\
         ok 5 a \\# b # skipped because\nok 6 - last # time=3ms\n",
    );
    assert_eq!(
        short(&tap.tests),
        [
            (1, true, ""),
            (2, false, "second # of many"),
            (3, true, "third"),
            (4, false, ""),
            (5, true, "a # b"),
            (6, true, "last # time=3ms")
        ]
    );
    assert_eq!(tap.tests[2].directive, Some(Directive::Skip("no disk".into())));
    assert_eq!(tap.tests[3].directive, Some(Directive::Todo("later".into())));
    assert_eq!(tap.tests[4].directive, Some(Directive::Skip("because".into())));
    assert!(tap.tests[3].passes() && !tap.tests[1].passes());
    assert_eq!((tap.version, tap.plan, tap.problems.len()), (None, Some(6), 0));
}

#[test]
fn version_14_with_subtests_and_yaml() {
    let text = r#"TAP version 14
# Subtest: outer
    # Subtest: inner
        ok 1 - deep
        1..1
    ok 1 - inner
      ---
      duration_ms: 1.5
      ...
    not ok 2 - bad
      ---
      error: |-
        Expected values to be strictly equal:

        1 !== 2
      code: 'ERR_ASSERTION'
      name: "Assertion\tError"
      message: 'it''s off'
      stack: |-
        at: x
      ...
    1..2
not ok 1 - outer
  ---
  folded: >-
    a
    b
  list:
    - one
  ...
1..1
"#;
    let tap = parse(text);
    assert_eq!((tap.version, &tap.problems[..]), (Some(14), &[][..]));
    assert_eq!(short(&tap.tests), [(1, false, "outer")]);
    let inner = &tap.tests[0].subtests;
    assert_eq!(short(inner), [(1, true, "inner"), (2, false, "bad")]);
    assert_eq!(short(&inner[0].subtests), [(1, true, "deep")]);
    assert_eq!(inner[1].diagnostics["error"], "Expected values to be strictly equal:\n\n1 !== 2");
    assert_eq!((inner[1].message(), inner[1].code()), (Some("it's off"), Some("ERR_ASSERTION")));
    assert_eq!(inner[1].diagnostics["name"], "Assertion\tError");
    assert_eq!(tap.tests[0].diagnostics["folded"], "a b");
    assert_eq!(tap.tests[0].diagnostics["list"], "- one");
}

#[test]
fn what_does_not_fit_together_is_told() {
    let problems = |text: &str| parse(text).problems;
    assert_eq!(problems("ok 1\n"), [TapProblem::NoPlan]);
    assert_eq!(problems(""), [TapProblem::NoPlan]);
    assert_eq!(problems("1..3\nok 1\nok 3\n"), [TapProblem::Missing { first: 2, count: 1 }]);
    assert_eq!(problems("1..18446744073709551615\n"), [TapProblem::Missing { first: 1, count: u64::MAX }]);
    assert_eq!(problems("ok 2\nok 1\n1..2\n"), [], "out of order is no problem");
    assert_eq!(
        problems("1..1\n1..2\nok 1\nok 1\nok 7\n"),
        [TapProblem::PlanTwice, TapProblem::Repeated(1), TapProblem::NotPlanned(7)]
    );
    assert_eq!(problems("1..1\nok 1\n  ---\n  a: b\n"), [TapProblem::OpenYaml(1)]);
    let cut = parse("1..2\nok 1\n  ---\n  a: b\nnot ok 2\n");
    assert_eq!((cut.tests.len(), &cut.problems[..]), (2, &[TapProblem::OpenYaml(1)][..]));
    assert_eq!(problems("    ok 1\n    1..2\nok 1\n1..1\n"), [TapProblem::Missing { first: 2, count: 1 }]);
}

#[test]
fn bail_out_skip_all_and_lost_parents() {
    let tap = parse("1..5\nok 1\nBail out! the disk is gone\n");
    assert_eq!((tap.bail_out.as_deref(), tap.problems.len()), (Some("the disk is gone"), 0));
    let tap = parse("1..0 # SKIP wrong system\n");
    assert_eq!((tap.plan, tap.skip_all.as_deref(), tap.problems.len()), (Some(0), Some("wrong system"), 0));
    let tap = parse("1..1\n    not ok 1 - inside\n    1..1\n");
    assert!(!tap.tests[0].ok, "a subtest whose parent never came is not passed over");
    assert_eq!(short(&tap.tests[0].subtests), [(1, false, "inside")]);
}

#[test]
fn words_that_only_look_like_test_points_are_output() {
    let tap = parse("okay 1\nnot okay\nok2\n1..x\n1..2 tests\n  ok 9\n1..1\nok 2nd try\n");
    assert_eq!(short(&tap.tests), [(1, true, "2nd try")]);
    assert_eq!(tap.plan, Some(1));
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*", lines in prop::collection::vec("( {0,10})(ok|not ok|1\\.\\.|---|\\.\\.\\.|Bail out!|a: \\||#)( ?[0-9]{0,21})( # (SKIP|TODO|é))?", 0..30)) {
        let _ = parse(&text);
        let _ = parse(&lines.join("\n"));
    }

    #[test]
    fn no_point_of_the_top_level_is_lost(oks in prop::collection::vec(any::<bool>(), 0..40)) {
        let mut text = format!("1..{}\n", oks.len());
        for (index, ok) in oks.iter().enumerate() {
            text.push_str(&format!("{} {} - t\n    ok 9\n", if *ok { "ok" } else { "not ok" }, index + 1));
        }
        let tap = parse(&text);
        let seen: Vec<bool> = tap.tests.iter().filter(|t| t.description == "t").map(|t| t.ok).collect();
        prop_assert_eq!(seen, oks);
    }
}
