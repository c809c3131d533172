//! What is run again, what is not, and what is said of it.

use serde_json::json;

use super::bench::{instances, score};
use crate::support::{Place, cells};

#[test]
fn only_what_is_missing() {
    let place = Place::new();
    let ids = instances(&place, &["one", "two"], &["right"], |_, _| {});
    fs_err::rename(place.join("mirrors/truth/two"), place.join("away")).unwrap();
    let more = ["--cache", "cache", "--json"];
    score(&place, "run", &more).exits(3);
    fs_err::rename(place.join("away"), place.join("mirrors/truth/two")).unwrap();
    // It could be run now, and is not: it was tried.
    let only = [&more[..], &["--only-missing"]].concat();
    let left = score(&place, "run", &only).exits(3);
    assert_eq!(left.made_and_served(), (0, 3));
    let said = "  3 rows left as infra by `--only-missing`; without it they are tried again\n";
    assert!(left.stderr.contains(said), "{}", left.stderr);
    let rows = cells(&left.json());
    let of_two = rows.iter().filter(|((id, ..), _)| *id == ids[1]);
    assert!(of_two.clone().all(|(_, (_, reason))| reason.starts_with("infra: repository")), "{rows:?}");
    // Another arm is missing, and needs its controls.
    place.edit("bench/revisions.jsonl", |text| {
        let mut out = text.clone();
        for line in text.lines() {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["arm"] = "more".into();
            out.push_str(&format!("{row}\n"));
        }
        out
    });
    let some = score(&place, "run", &only).exits(3);
    let rows = cells(&some.json());
    let verdict = |arm: &str| rows.iter().find(|((id, _, a), _)| *id == ids[1] && a == arm).unwrap().1.0.clone();
    assert_eq!(
        [verdict("more"), verdict("head"), verdict("merged"), verdict("right")],
        ["pass", "fail", "pass", "invalid"]
    );
    // What is nobody's last word is tried without the option; an equal patch was run already.
    let all = score(&place, "run", &more).exits(0);
    assert_eq!(all.made_and_served(), (0, 8));
    assert_eq!(cells(&all.json()).len(), 8);
    place.run(&["score", "bench", "--only-missing", "--redo"]).exits(2);
}

#[test]
fn why_something_is_run_again() {
    let place = Place::new();
    let ids = instances(&place, &["one", "two"], &["right", "wrong"], |_, _| {});
    let first = score(&place, "run", &[]).exits(0);
    assert!(!first.stderr.contains("run again"), "{}", first.stderr);
    let none = score(&place, "run", &[]).exits(0);
    assert!(!none.stderr.contains("run again"), "{}", none.stderr);
    let limit = score(&place, "run", &["--timeout", "60"]).exits(0);
    assert!(limit.stderr.contains("  run again, 8: another input: limit wall 120.0 → 60.0\n"), "{}", limit.stderr);
    let redo = score(&place, "run", &["--timeout", "60", "--redo", "--instances", "*one*", "--arms", "right"]).exits(0);
    assert!(redo.stderr.contains("  run again, 3: --redo\n"), "{}", redo.stderr);
    let retry = score(&place, "run", &["--timeout", "60", "--retry", "failed"]).exits(0);
    assert!(retry.stderr.contains("  run again, 4: --retry failed\n"), "{}", retry.stderr);
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["instance_id"] == ids[0].as_str() {
            row["environment"]["variables"] = json!({"MORE": "1"});
        }
    });
    place.edit(&format!("bench/oracles/{}/c1/c1.sh", ids[1]), |text| text + "# more\n");
    let both = score(&place, "run", &["--timeout", "60"]).exits(0);
    assert!(both.stderr.contains("  run again, 4: another input: environment\n"), "{}", both.stderr);
    assert!(both.stderr.contains("  run again, 4: another input: test\n"), "{}", both.stderr);
}

#[test]
fn timeout_is_a_word_for_timed_out() {
    let place = Place::new();
    instances(&place, &["one"], &["right", "slow"], |_, _| {});
    let more = ["--timeout", "2"];
    score(&place, "run", &more).exits(0);
    assert_eq!(score(&place, "run", &more).exits(0).made_and_served(), (0, 4));
    let again = score(&place, "run", &[&more[..], &["--retry", "timeout"]].concat()).exits(0);
    assert_eq!(again.made_and_served(), (1, 3));
    assert!(again.stderr.contains("  run again, 1: --retry timed-out\n"), "{}", again.stderr);
    let wrong = score(&place, "run", &["--retry", "slow"]).exits(2);
    assert!(wrong.stderr.contains("`slow` is no outcome to run again (use infra, timed-out, "), "{}", wrong.stderr);
}
