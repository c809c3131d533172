//! Deadlines of phases and budgets: whatever stalls, the run goes on and says which phase it was.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::bench::{define, instances, score};
use crate::support::{Place, cells};

/// Verdict and reason of each arm of the only instance.
fn reasons(report: &Value) -> Vec<(String, String, String)> {
    cells(report).into_iter().map(|((_, _, arm), (verdict, reason))| (arm, verdict, reason)).collect()
}

#[test]
fn a_fetch_that_stalls() {
    let place = Place::new();
    instances(&place, &["one"], &["right"], |_, one| one["environment"] = json!({"language": "slow"}));
    // Nobody answers; the step would wait for ever.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let waits = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && read line <&3");
    define(&place, "slow", "true", &[("ask the index", "bash", &waits, true)]);
    let limits = ["--definitions", "definitions", "--cache", "cache", "--phase-timeout", "fetch=2"];
    let ran = score(&place, "run", &[&limits[..], &["--json"]].concat()).exits(3);
    let report = ran.json();
    let rows = reasons(&report);
    assert_eq!(rows.len(), 3);
    for (arm, verdict, reason) in rows {
        assert_eq!(verdict, "invalid", "{arm}");
        let wanted = "infra: deadline: fetch step `ask the index` was stopped at its deadline of 2 s";
        assert!(reason.starts_with(wanted), "{arm}: {reason}");
    }
    assert!(ran.stderr.contains("hint: `--phase-timeout`, "), "{}", ran.stderr);
    // Never a final record: when the index answers, so does the run.
    define(&place, "slow", "true", &[("ask the index", "bash", "true", true)]);
    let again = score(&place, "run", &[&limits[..], &["--json"]].concat()).exits(0);
    assert!(again.stderr.contains("  run again, 3: infra before: deadline\n"), "{}", again.stderr);
    assert!(cells(&again.json()).values().all(|(verdict, _)| verdict != "invalid"));
}

#[test]
fn a_build_and_a_rebuild_that_stall() {
    let place = Place::new();
    instances(&place, &["one", "two"], &["right"], |name, one| {
        let part = if name == "one" { "steps" } else { "rebuild" };
        one["environment"] = json!({"language": "shell", part: ["sleep 1000"]});
    });
    let limits = ["--cache", "cache", "--phase-timeout", "build=2,rebuild=1", "--json"];
    let ran = score(&place, "run", &limits).exits(3);
    let report = ran.json();
    for ((id, _, arm), (verdict, reason)) in cells(&report) {
        if id.contains("one") {
            assert_eq!(verdict, "invalid", "{arm}");
            let wanted =
                "infra: deadline: build step `the environment's own step 1` was stopped at its deadline of 2 s";
            assert!(reason.starts_with(wanted), "{arm}: {reason}");
        } else if arm == "merged" {
            // A rebuild may hang by a revision's doing: its time is up, and the controls say whose fault it is.
            assert_eq!((verdict.as_str(), reason.as_str()), ("invalid", "control: merged timed-out"));
        }
    }
    let merged =
        report["verdicts"].as_array().unwrap().iter().find(|v| v["arm"] == "merged" && v["outcomes"][0] == "timed-out");
    assert_eq!(merged.unwrap()["message"], "rebuild phase: not done at its deadline of 1 s");
}

#[test]
fn a_clone_that_stalls_ends_and_the_others_go_on() {
    let place = Place::new();
    let ids = instances(&place, &["one", "two"], &["right"], |_, _| {});
    fs_err::rename(place.join("mirrors/truth/two"), place.join("away")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = format!("http://127.0.0.1:{}/{{owner}}/{{name}}", listener.local_addr().unwrap().port());
    let more = ["--cache", "cache", "--clone-from", &from, "--phase-timeout", "repository=2", "--json"];
    let report = score(&place, "run", &more).exits(3).json();
    for ((id, _, arm), (verdict, reason)) in cells(&report) {
        if id == ids[0] {
            assert_ne!(verdict, "invalid", "{arm}: {reason}");
        } else {
            assert!(reason.starts_with("infra: deadline: repository phase: `git clone "), "{arm}: {reason}");
            assert!(reason.ends_with("did not end within 2 s and was killed"), "{arm}: {reason}");
        }
    }
}

#[test]
fn an_oracle_has_its_own_deadline_and_all_tries_share_a_budget() {
    let place = Place::new();
    instances(&place, &["one"], &["right", "slow"], |_, _| {});
    let of_slow = |report: &Value| cells(report).into_iter().find(|((_, _, arm), _)| arm == "slow").unwrap().1;
    let alone = score(&place, "alone", &["--timeout", "2", "--json"]).exits(0).json();
    assert_eq!(of_slow(&alone), ("fail".to_owned(), "timed-out".to_owned()));
    let ran = score(&place, "budget", &["--timeout", "200", "--task-budget", "2s", "--json"]).exits(3);
    let (verdict, reason) = of_slow(&ran.json());
    assert_eq!(verdict, "invalid");
    assert_eq!(reason, "infra: deadline: oracle run: its budget of 2 s is used up after 1 try (`--task-budget`)");
    // The others are not touched by it.
    let others = cells(&ran.json());
    assert_eq!(others.values().filter(|(verdict, _)| verdict == "invalid").count(), 1);
}

#[test]
fn the_runs_budget_ends_admission_and_the_same_command_goes_on() {
    let place = Place::new();
    instances(&place, &["one", "two", "three"], &["right", "slow"], |_, _| {});
    let more = ["--timeout", "3", "--jobs", "1", "--json"];
    let ran = score(&place, "run", &[&more[..], &["--run-budget", "2"]].concat()).exits(3);
    let note = "stopped: the run's budget of 2 s is used up: letting what runs finish, starting nothing new";
    assert_eq!(ran.stderr.matches(note).count(), 1, "{}", ran.stderr);
    let rows = cells(&ran.json());
    assert_eq!(rows.len(), 12);
    let stopped =
        rows.values().filter(|(_, reason)| reason.contains("stopped: the run's budget of 2 s is used up")).count();
    assert!((1..12).contains(&stopped), "{stopped}");
    let again = score(&place, "run", &more).exits(0);
    let (made, served) = again.made_and_served();
    assert_eq!(made + served, 12);
    assert!(served > 0, "what was made before the end is kept");
    assert!(cells(&again.json()).values().all(|(verdict, _)| verdict != "invalid"));
}

#[test]
fn bounds_come_from_the_command_line_the_environment_and_the_file() {
    let place = Place::new();
    instances(&place, &["one"], &["slow"], |_, _| {});
    let more = ["--timeout", "200", "--json"];
    fs_err::write(place.join("redgreen.toml"), "task-budget = \"2s\"\n").unwrap();
    let by_file = score(&place, "file", &more).exits(3);
    assert!(by_file.stderr.contains("budget of 2 s"), "{}", by_file.stderr);
    let mirrors = place.join("mirrors").display().to_string();
    let mut command =
        place.command(&[&["score", "bench", "--out", "variable", "--mirrors", &mirrors], &more[..]].concat());
    let by_variable = crate::support::Ran::of(command.env("REDGREEN_TASK_BUDGET", "1.5").output().unwrap()).exits(3);
    assert!(by_variable.stderr.contains("budget of 1.5 s"), "{}", by_variable.stderr);
    for (file, said) in [
        (
            "phase-timeout = { oracle = 5 }\n",
            "there is no phase `oracle` (use repository, fetch, build, proof, environment, rebuild); the oracle's own is `--timeout`",
        ),
        ("phase-timeout = \"fetch=soon\"\n", "`soon` is no time (use `90s`, `20m`, `2h`)"),
        ("min-free = \"little\"\n", "`little` is not a size"),
    ] {
        fs_err::write(place.join("redgreen.toml"), file).unwrap();
        let wrong = score(&place, "wrong", &[]).exits(2);
        assert!(wrong.stderr.contains(said) && wrong.stderr.contains("redgreen.toml"), "{}", wrong.stderr);
    }
}
