//! `rerun`: one oracle run once more, and a shell in its workspace.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use super::bench::{instances, score};
use crate::support::{Place, Ran};

/// A place with one instance, scored into `run`; the instance's id.
fn scored(arms: &[&str]) -> (Place, String) {
    let place = Place::new();
    let id = instances(&place, &["one"], arms, |_, _| {}).remove(0);
    score(&place, "run", &[]).exits(0);
    (place, id)
}

fn rerun(place: &Place, more: &[&str]) -> Ran {
    let mirrors = place.join("mirrors").display().to_string();
    place.run(&[&["rerun", "--run", "run", "--mirrors", &mirrors], more].concat())
}

fn verdict(place: &Place, arm: &str) -> Value {
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    report["verdicts"].as_array().unwrap().iter().find(|v| v["arm"] == arm).unwrap().clone()
}

#[test]
fn a_run_is_made_again_and_nothing_is_written() {
    let (place, id) = scored(&["right", "wrong"]);
    let listing = || -> Vec<(String, Vec<u8>)> {
        walkdir::WalkDir::new(place.join("run"))
            .sort_by_file_name()
            .into_iter()
            .map(Result::unwrap)
            .filter(|e| e.file_type().is_file())
            .map(|e| (e.path().display().to_string(), fs_err::read(e.path()).unwrap()))
            .collect()
    };
    let before = listing();
    for (arm, outcome) in [("right", "passed"), ("wrong", "failed"), ("head", "failed"), ("merged", "passed")] {
        let ran = rerun(&place, &[&id, "c1", arm, "--json"]).exits(0).json();
        assert_eq!(ran["before"]["outcome"], outcome, "{arm}");
        assert_eq!(ran["now"]["outcome"], outcome, "{arm}");
        assert_eq!((&ran["agree"], &ran["key"]), (&Value::Bool(true), &ran["recorded_key"]), "{arm}");
        assert_eq!(ran["inputs_changed"].as_array().unwrap().len(), 0, "{arm}");
        assert_eq!(ran["oracle"]["stdout"], "looking\n");
    }
    // By key, of which the beginning is enough.
    let key = verdict(&place, "wrong")["key"].as_str().unwrap().to_owned();
    let by_key = rerun(&place, &[&key[..10], "--json"]).exits(0).json();
    assert_eq!((&by_key["arm"], &by_key["key"]), (&"wrong".into(), &key.as_str().into()));
    assert_eq!(listing(), before);
}

#[test]
fn what_a_person_reads() {
    let (place, id) = scored(&["wrong"]);
    let ran = rerun(&place, &[&id, "c1", "wrong"]).exits(0);
    let text = &ran.stdout;
    for line in [
        "inputs  as recorded\n",
        "before  failed",
        "now     failed",
        "agree   yes\n",
        "  cd /workspace && env -i ",
        "/bin/sh /oracle/c1.sh\n",
        "    /workspace: copy-on-write over ",
        "    /oracle/c1.sh: read-only ",
        "  limits: 120 s, memory 2048 MiB, ",
        "; no network\n",
        "\noracle, stdout\nlooking\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let wrong = rerun(&place, &[&id, "c2", "wrong"]).exits(2);
    assert!(
        wrong.stderr.contains(&format!("nothing in the run fits `{id} c2 wrong`; there are {id} c1 head; ")),
        "{}",
        wrong.stderr
    );
    let wrong = rerun(&place, &["so", "what"]).exits(2);
    assert!(wrong.stderr.contains("neither the key of a record nor"), "{}", wrong.stderr);
}

#[test]
fn an_input_that_is_another_one_is_named_and_not_recorded() {
    let (place, id) = scored(&["wrong"]);
    let old = verdict(&place, "wrong")["key"].clone();
    let ran = rerun(&place, &[&id, "c1", "wrong", "--timeout", "50", "--json"]).exits(0).json();
    assert_eq!(ran["inputs_changed"].as_array().unwrap().len(), 1);
    assert_eq!(ran["inputs_changed"][0]["input"], "limit wall");
    place.edit(&format!("bench/oracles/{id}/c1/c1.sh"), |text| text.replace("right", "wrong"));
    let ran = rerun(&place, &[&id, "c1", "wrong"]).exits(0);
    assert!(
        ran.stdout.contains(&format!("inputs  not as recorded under {}: test\n", old.as_str().unwrap())),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("agree   no: the inputs are not the same\n"), "{}", ran.stdout);
    let refused = rerun(&place, &[&id, "c1", "wrong", "--record"]).exits(2);
    assert!(refused.stderr.contains("the inputs are not those of the record any more: test"), "{}", refused.stderr);
    assert_eq!(verdict(&place, "wrong")["key"], old);
    // The benchmark is gone: that is said, and not something else.
    fs_err::rename(place.join("bench"), place.join("moved")).unwrap();
    let gone = rerun(&place, &[&id, "c1", "wrong"]).exits(2);
    assert!(gone.stderr.contains("bench"), "{}", gone.stderr);
    rerun(&place, &[&id, "c1", "wrong", "--bench", "moved"]).exits(0);
}

#[test]
fn a_flaky_run_is_called_so_and_can_be_recorded() {
    let (place, id) = scored(&["coin"]);
    let before = verdict(&place, "coin")["outcomes"][0].clone();
    // Heads forty times in a row would be another matter.
    let other =
        (0..40).map(|_| rerun(&place, &[&id, "c1", "coin"]).exits(0)).find(|ran| ran.stdout.contains("agree   no"));
    let other = other.expect("the coin falls on one side only");
    assert!(other.stdout.contains("agree   no: same inputs, another outcome: flaky\n"), "{}", other.stdout);
    assert_eq!(verdict(&place, "coin")["outcomes"][0], before, "nothing was asked to be recorded");
    let recorded = (0..40).any(|_| {
        rerun(&place, &[&id, "c1", "coin", "--record"]).exits(0);
        verdict(&place, "coin")["outcomes"][0] != before
    });
    assert!(recorded);
}

#[test]
fn what_cannot_be_run_says_why() {
    let (place, id) = scored(&["wrong"]);
    // A patch that does not apply.
    let patch = "--- a/nowhere\n+++ b/nowhere\n@@ -1 +1 @@\n-x\n+y\n";
    let revision = serde_json::json!({"instance_id": id, "arm": "torn", "patch": patch});
    let revisions = fs_err::read_to_string(place.join("bench/revisions.jsonl")).unwrap();
    fs_err::write(place.join("bench/revisions.jsonl"), format!("{revisions}{revision}\n")).unwrap();
    score(&place, "run", &[]).exits(0);
    let torn = rerun(&place, &[&id, "c1", "torn"]).exits(2);
    assert!(torn.stderr.contains("the patch is rejected: "), "{}", torn.stderr);
    // Without its repository and without a cache there is no run, and that is infra.
    let none = place.run(&["rerun", "--run", "run", &id, "c1", "wrong", "--cache", "empty"]).exits(3);
    assert!(none.stderr.contains("it could not be run: repository: "), "{}", none.stderr);
}

#[test]
fn a_shell_in_the_workspace_reads_what_it_is_told() {
    let (place, id) = scored(&["right"]);
    let mirrors = place.join("mirrors").display().to_string();
    let mut command = place.command(&["rerun", "--run", "run", "--mirrors", &mirrors, &id, "c1", "right", "--shell"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = "\
pwd
cat answer
id -un
eval \"$REDGREEN_ORACLE\"; echo \"ended with $?\"
echo wrong >answer
eval \"$REDGREEN_ORACLE\"; echo \"ended with $?\"
(echo >/dev/tcp/127.0.0.1/22) 2>/dev/null && echo reached
ls /sys/class/net 2>/dev/null | grep -v lo
cat /etc/shadow 2>/dev/null
exit 7
";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(
        ran.stdout, "/workspace\nright\nredgreen\nlooking\nended with 0\nlooking\nended with 1\n",
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains(&format!("you are in the workspace of {id} c1 right:1: /workspace\n")),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("the oracle: /bin/sh /oracle/c1.sh\n"), "{}", ran.stderr);
    // What was written there is gone.
    let again = rerun(&place, &[&id, "c1", "right", "--json"]).exits(0).json();
    assert_eq!(again["now"]["outcome"], "passed");
}
