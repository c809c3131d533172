//! The circuit breaker: a cause that many share stops what would meet it, and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use super::bench::{define, instances, score};
use crate::support::{Place, Ran, binary, cells};

const NAMES: [&str; 8] = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "other"];

/// Seven instances of one language, and one of the shell.
fn seven_and_one(place: &Place) -> Vec<String> {
    instances(place, &NAMES, &["right"], |name, one| {
        if name != "other" {
            one["environment"] = json!({"language": "made-up"});
        }
    })
}

/// How many rows of the seven are infra, how many of these were stopped, and whether the other one was scored.
fn counted(ran: &Ran) -> (usize, usize, bool) {
    let rows = cells(&ran.json());
    let of_other = |id: &str| id.contains("other");
    let infra = rows.iter().filter(|((id, ..), (_, reason))| !of_other(id) && reason.starts_with("infra: "));
    let stopped = infra.clone().filter(|(_, (_, reason))| reason.contains(": stopped: ")).count();
    let fine = rows.iter().filter(|((id, ..), _)| of_other(id)).all(|(_, (verdict, _))| verdict != "invalid");
    (infra.count(), stopped, fine)
}

#[test]
fn a_missing_toolchain_is_looked_for_so_many_times() {
    let place = Place::new();
    seven_and_one(&place);
    define(&place, "made-up", "echo '{\"error\": \"it is out of order\"}'; exit 0", &[]);
    let more = ["--definitions", "definitions", "--jobs", "1", "--json"];
    let ran = score(&place, "run", &more).exits(3);
    let said = "stopped: 5 times in a row the same cause, infra, toolchain: no made-up toolchain";
    assert_eq!(ran.stderr.matches(said).count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing that needs `made-up` is started any more"), "{}", ran.stderr);
    // Seven instances of three rows; the first five met the cause themselves.
    assert_eq!(counted(&ran), (21, 6, true));
    // Another number, and none at all.
    let three = score(&place, "three", &[&more[..], &["--max-same-infra", "3"]].concat()).exits(3);
    assert_eq!(counted(&three), (21, 12, true));
    let off = score(&place, "off", &[&more[..], &["--max-same-infra", "0"]].concat()).exits(3);
    assert_eq!(counted(&off), (21, 0, true));
    assert!(!off.stderr.contains("stopped"), "{}", off.stderr);
    // The next run tries again.
    define(&place, "made-up", "true", &[]);
    let healed = score(&place, "run", &more).exits(0);
    assert_eq!(counted(&healed), (0, 0, true));
}

#[test]
fn a_broken_sandbox_stops_everything() {
    let place = Place::new();
    seven_and_one(&place);
    let copy = place.join("redgreen");
    fs_err::copy(binary(), &copy).unwrap();
    fs_err::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The sandbox's helpers come from a process of the program's own file. When it was tried and found to work, both go.
    let end = format!(
        "rm -f {}; for p in $(cat /proc/$PPID/task/*/children); do \
         if tr '\\0' ' ' < /proc/$p/cmdline | grep -q '^redgreen-sandbox'; then kill -9 $p; fi; done; true",
        copy.display()
    );
    define(&place, "made-up", &end, &[]);
    let like = place.command(&[]);
    let mirrors = place.join("mirrors").display().to_string();
    let mut command = Command::new(&copy);
    command.args(["score", "bench", "--out", "run", "--mirrors", &mirrors, "--definitions", "definitions"]);
    command.args(["--jobs", "1", "--json", "--max-same-infra", "3"]).current_dir(place.path()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::of(command.output().unwrap()).exits(3);
    let said = "times in a row the same cause, infra, sandbox: the sandbox's helper failed: could not start";
    assert_eq!(ran.stderr.matches(said).count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing is started any more (`redgreen doctor`"), "{}", ran.stderr);
    let rows = cells(&ran.json());
    assert!(rows.values().all(|(_, reason)| reason.starts_with("infra: ")), "{rows:?}");
    let stopped =
        rows.values().filter(|(_, reason)| reason.contains("stopped: the same cause was met too often")).count();
    assert!(stopped >= 12, "{stopped} of {}", rows.len());
    // With a program that is there the same command makes all of it.
    define(&place, "made-up", "true", &[]);
    let healed = score(&place, "run", &["--definitions", "definitions", "--json"]).exits(0);
    assert_eq!(counted(&healed), (0, 0, true));
}

#[test]
fn what_belongs_to_one_instance_stops_no_other() {
    let place = Place::new();
    // Six repositories are gone; each is its instance's own misfortune.
    instances(&place, &NAMES, &["right"], |_, _| {});
    for name in &NAMES[..6] {
        fs_err::rename(place.join(format!("mirrors/truth/{name}")), place.join(format!("away-{name}"))).unwrap();
    }
    let ran = score(&place, "run", &["--cache", "cache", "--jobs", "1", "--json", "--max-same-infra", "2"]).exits(3);
    let rows = cells(&ran.json());
    assert_eq!(rows.values().filter(|(_, reason)| reason.starts_with("infra: repository")).count(), 18);
    assert!(!ran.stderr.contains("stopped"), "{}", ran.stderr);
    assert_eq!(rows.values().filter(|(verdict, _)| verdict != "invalid").count(), 6);
}

#[test]
fn packages_that_cannot_be_had_stop_those_who_want_the_same() {
    let place = Place::new();
    instances(&place, &NAMES, &["right"], |name, one| {
        let variables = if name == "other" { json!({"SECOND": "1"}) } else { json!({}) };
        one["environment"] = json!({"language": "made-up", "variables": variables});
    });
    // It depends on the variables whether the packages are to be had.
    let script = "[ \"$SECOND\" = 1 ] || { echo 'no such version' >&2; exit 1; }";
    define(&place, "made-up", "true", &[("install the packages", "sh", script, false)]);
    let more = ["--definitions", "definitions", "--cache", "cache", "--jobs", "1", "--json", "--max-same-infra", "3"];
    let ran = score(&place, "run", &more).exits(3);
    let said = "stopped: 3 times in a row the same cause, infra, environment: fetch step `install the packages` ended";
    assert_eq!(ran.stderr.matches(said).count(), 1, "{}", ran.stderr);
    // One that was being made ready already met the cause by itself, too.
    let (infra, stopped, fine) = counted(&ran);
    assert!(infra == 21 && (9..=12).contains(&stopped) && fine, "{infra} {stopped} {fine}");
}
