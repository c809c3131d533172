//! What canaries must show, row by row.

use super::*;
use crate::model::Outcome;

const START: &str = "{\"event\":\"start\"}\n{\"event\":\"test\",\"id\":\"a\",\"status\":\"passed\"}\n";
const END: &str = "{\"event\":\"end\",\"tests\":1}\n";

fn canary(role: &str, status: &str) -> String {
    format!("{{\"event\":\"canary\",\"role\":\"{role}\",\"status\":\"{status}\",\"message\":\"why\"}}\n")
}

fn classified(code: i32, channel: &str) -> Classified {
    classify(&strict("pytest"), &ran(Exit { result: text(channel), ..exited(code) }), None)
}

#[test]
fn both_canaries_must_have_run_and_ended_as_they_must() {
    let (pass, fail) = (canary("pass", "passed"), canary("fail", "failed"));
    assert_eq!(classified(0, &format!("{START}{fail}{pass}{END}")).outcome, Outcome::Passed);
    for (canaries, part) in [
        (String::new(), "must pass did not run"),
        (pass.clone(), "must fail did not run"),
        (fail.clone(), "must pass did not run"),
        (format!("{pass}{fail}{fail}"), "must fail ran twice"),
        (format!("{pass}{pass}{fail}"), "must pass ran twice"),
        (format!("{pass}{}", canary("fail", "passed")), "must fail is passed (why)"),
        (format!("{pass}{}", canary("fail", "errored")), "must fail is errored (why)"),
        (format!("{pass}{}", canary("fail", "skipped")), "must fail is unseen"),
        (format!("{fail}{}", canary("pass", "failed")), "must pass is failed (why)"),
        (format!("{fail}{}", canary("pass", "skipped")), "must pass is unseen"),
    ] {
        let got = classified(0, &format!("{START}{canaries}{END}"));
        assert_eq!(got.outcome.to_string(), "errored(result-channel)", "{canaries}");
        assert!(got.message.as_deref().unwrap().contains(part), "{canaries}: {:?}", got.message);
    }
    // Where no test was seen there is nothing to doubt, and a code that is no verdict says more.
    let skipped = START.replace("passed", "skipped");
    assert_eq!(classified(0, &format!("{skipped}{END}")).outcome, Outcome::NoTests);
    assert_eq!(classified(2, &format!("{START}{END}")).outcome.to_string(), "errored(runner)");
}

#[test]
fn a_broken_seal_goes_before_all_that_the_report_says() {
    let good = with_canaries(&format!("{START}{END}"));
    let failed = good.replacen("passed", "failed", 1);
    for (code, channel) in [(0, &good), (1, &failed), (2, &good)] {
        let evidence = ran(Exit { result: text(channel), ..exited(code) });
        let forged = RunEvidence { forged: Some("line 2: it does not come from the reporter".into()), ..evidence };
        let got = classify(&strict("pytest"), &forged, None);
        assert_eq!(got.outcome.to_string(), "errored(result-channel)");
        assert_eq!(got.message.as_deref(), Some("line 2: it does not come from the reporter"));
    }
}

#[test]
fn a_cargo_pass_needs_a_canary_run_that_went_as_it_must() {
    let mut of_cargo = oracle("cargo");
    of_cargo.install_as = Some("tests/mixed.rs".to_owned());
    let plan = plan_for(&of_cargo, Policy::Strict).unwrap();
    let built = "{\"reason\":\"build-finished\",\"success\":true}\n";
    let pass = text(format!("{built}test a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; \n"));
    let of = |canary: Option<CanaryRun>| {
        let evidence = RunEvidence { canary, ..ran(Exit { stdout: pass.clone(), ..exited(0) }) };
        let got = classify(&plan, &evidence, None);
        (got.outcome.to_string(), got.message)
    };
    let edit = |from: &'static str, to: &'static str| {
        canary_run(|run| {
            let before = run.exit.stdout.text();
            let after = before.replace(from, to);
            assert_ne!(before, after);
            run.exit.stdout = text(after);
        })
    };
    assert_eq!(of(Some(canary_run(|_| {}))), ("passed".to_owned(), None));
    for (canary, part) in [
        (None, "no canary run"),
        (Some(canary_run(|run| run.exit.end = End::Exited(0))), "exit code 0"),
        (Some(canary_run(|run| run.exit.stdout = text(""))), "does not compile"),
        (Some(canary_run(|run| run.exit.stdout = pass.clone())), "shows 1 tests instead of 2"),
        (Some(canary_run(|run| std::mem::swap(&mut run.source.passes, &mut run.source.fails))), "must pass"),
        (Some(edit("assertion `left", "so `left")), ""),
        (Some(edit("tests/mixed.rs", "src/lib.rs")), "must fail"),
        (Some(edit("1 failed", "2 failed")), "counts"),
    ] {
        let (outcome, message) = of(canary);
        if part.is_empty() {
            assert_eq!(outcome, "passed", "how the compiler words a panic is its own matter");
            continue;
        }
        assert_eq!(outcome, "errored(result-channel)", "{message:?}");
        assert!(message.as_deref().unwrap().contains(part), "{message:?}");
    }
    assert_eq!(of(Some(canary_run(|run| run.exit.timed_out = true))).0, "timed-out");
    assert_eq!(of(Some(canary_run(|run| run.exit.cancelled = true))).0, "infra(interrupted)");
}

#[test]
fn the_canarys_source_is_new_each_time_and_names_the_library() {
    let sources: Vec<_> = (0..40).map(|_| Source::draw(Some("demo")).unwrap()).collect();
    let firsts: Vec<_> = sources.iter().map(|s| s.text.find(&s.passes) < s.text.find(&s.fails)).collect();
    assert!(firsts.contains(&true) && firsts.contains(&false), "which comes first is by chance");
    for source in &sources {
        assert!(source.text.contains("extern crate demo as _;"));
        assert!(!source.text.contains('{') || !source.text.contains("{message}"), "{}", source.text);
        let wrong = source.text.split("fn ").find(|part| part.starts_with(&source.fails)).unwrap();
        assert!(wrong.contains("1 + 1, 3") || wrong.contains("2 + 2, 5"), "{wrong}");
        let right = source.text.split("fn ").find(|part| part.starts_with(&source.passes)).unwrap();
        assert!(right.contains("1 + 1, 2") || right.contains("2 + 2, 4"), "{right}");
    }
    assert!(!Source::draw(None).unwrap().text.contains("extern crate"));
}

#[test]
fn the_library_of_the_test_is_found_in_the_build_messages() {
    let artifact = |package: &str, kind: &str, name: &str| {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"{package}\",\
             \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}}}}\n"
        )
    };
    let end = "{\"reason\":\"build-finished\",\"success\":true}\nrunning 1 test\n";
    let test = artifact("p", "test", "c1");
    let of = |parts: &[String]| libtest::library(&format!("{}{end}", parts.concat()));
    let (own, other) = (artifact("p", "lib", "my-crate"), artifact("q", "lib", "dependency"));
    assert_eq!(of(&[other.clone(), own, test.clone()]).as_deref(), Some("my_crate"));
    assert_eq!(of(&[other, test.clone()]), None);
    assert_eq!(of(&[artifact("p", "cdylib", "x"), test.clone()]), None);
    assert_eq!(of(&[artifact("p", "lib", "x; fn main"), test]), None);
    assert_eq!(libtest::library("text"), None);
}
