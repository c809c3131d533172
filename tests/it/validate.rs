//! `redgreen validate`: agents that are recorded and agents that are programs.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Place, Ran, cells};

fn rows(place: &Place, file: &str) -> Vec<Value> {
    let text = fs_err::read_to_string(place.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn counted(summary: &Value) -> u64 {
    ["solvable", "unsolved", "unanswered", "open", "left"].iter().map(|name| summary[name].as_u64().unwrap()).sum()
}

#[test]
fn what_is_recorded_is_solved_where_scoring_says_so() {
    let place = Place::scored();
    let report = place.run(&["report", "run", "--denominator", "all", "--json"]).exits(0).json();
    let scored: BTreeMap<(String, String), String> = cells(&report)
        .into_iter()
        .filter(|((_, _, arm), _)| arm == "human")
        .map(|((instance, comment, _), (verdict, _))| ((instance, comment), verdict))
        .collect();
    let words = ["validate", "bench", "--agent", "recorded:human", "--attempts", "2", "--out", "out", "--json"];
    let summary = place.run(&words).exits(0).json();
    assert_eq!(counted(&summary), summary["comments"].as_u64().unwrap(), "{summary}");
    let made = rows(&place, "out/validate.jsonl");
    let oracles = summary["comments"].as_u64().unwrap() - summary["left"].as_u64().unwrap();
    assert_eq!(made.len() as u64, 2 * oracles, "each attempt has a row");
    for row in &made {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let verdict = &scored[&(text("instance_id"), text("comment"))];
        let wanted = match (row["attempt"].as_u64().unwrap(), verdict.as_str()) {
            // There is one recorded attempt.
            (2, _) | (1, "missing") => "no-attempt",
            (_, "pass") => "solved",
            (_, "fail") => "not-solved",
            (_, _) => "bad-oracle",
        };
        assert_eq!(text("status"), wanted, "{row} was scored {verdict}");
    }
    assert!(summary["solvable"].as_u64().unwrap() > 0, "{summary}");
    // Again: the same bytes, from the records.
    let first = fs_err::read(place.join("out/validate.jsonl")).unwrap();
    let again = place.run(&words).exits(0).json();
    assert_eq!(again["served"], 2 * oracles);
    assert_eq!(fs_err::read(place.join("out/validate.jsonl")).unwrap(), first);
    place.run(&["check", "out"]).exits(0);
}

/// Four attempts: nothing, a breakdown, a fix, and a change that fixes nothing.
const AGENT: &str = r#"#!/bin/sh
grep -q 'refuse such a name' "$1" && [ "$2" = /workspace ] && [ "$REDGREEN_PROMPT" = "$1" ] && [ -d .git ] && [ ! -e /oracle ] || exit 9
case $REDGREEN_ATTEMPT in
1) ;;
2) echo 'half' > half.py; echo 'I am lost' >&2; exit 7 ;;
3) sed -i 's|        return os.path.join(self.root, name)|        path = os.path.abspath(os.path.join(self.root, name))\n        if os.path.commonpath([self.root, path]) != self.root or path == self.root:\n            raise ValueError(name)\n        return path|' shelf/store.py
   mkdir -p notes && echo done > notes/done.txt ;;
4) echo '# todo: names' >> shelf/store.py; git add -A 2>/dev/null; git -c user.name=a -c user.email=a@b commit -qm x 2>/dev/null; true ;;
5) sleep 600 ;;
esac
"#;

#[test]
fn a_program_sees_the_comment_and_its_patches_are_scored() {
    let place = Place::with_bench();
    let script = place.join("agent.sh");
    fs_err::write(&script, AGENT).unwrap();
    fs_err::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let words = [
        "validate",
        "bench",
        "--agent",
        "mine=command:./agent.sh {prompt_file} {repo}",
        "--attempts",
        "5",
        "-i",
        "*shelf-4*",
        "--agent-timeout",
        "5",
        "--out",
        "out",
        "--json",
    ];
    let summary = place.run(&words).exits(0).json();
    let made = rows(&place, "out/validate.jsonl");
    let told: Vec<(&str, &str)> =
        made.iter().map(|row| (row["status"].as_str().unwrap(), row["detail"].as_str().unwrap_or_default())).collect();
    assert_eq!(
        told,
        [
            ("not-solved", "no changes"),
            ("agent-failed", "exit code 7: I am lost"),
            ("solved", ""),
            ("not-solved", "failed"),
            ("agent-failed", "its time was over"),
        ]
    );
    let patch = made[2]["patch"].as_str().unwrap();
    assert!(patch.contains("+++ b/notes/done.txt") && patch.contains("commonpath"), "{patch}");
    // What it committed is its work all the same.
    assert!(made[3]["patch"].as_str().unwrap().contains("# todo: names"));
    let one = &summary["solved"][0];
    assert_eq!((&one["solved"], &one["answers"], &one["attempts"]), (&json!(1), &json!(3), &json!(5)), "{summary}");
    assert_eq!((&summary["solvable"], &summary["attempts"]["agent-failed"]), (&json!(1), &json!(2)));
    let again = place.run(&words).exits(0).json();
    assert_eq!(again["served"], 5);
    // Another program is asked anew.
    place.edit("agent.sh", |text| text.replace("1) ;;", "1) exit 3 ;;"));
    let changed = place.run(&words).exits(0).json();
    assert_eq!((&changed["served"], &changed["attempts"]["agent-failed"]), (&json!(0), &json!(3)), "{changed}");
}

#[test]
fn agents_that_are_none_are_named() {
    let place = Place::with_bench();
    for (agent, said) in
        [("robot", "is no agent"), ("recorded:gone", "no revisions in `gone`"), ("command:", "is no agent")]
    {
        let ran = place.run(&["validate", "bench", "--agent", agent, "--out", "out"]).exits(2);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    let twice = ["validate", "bench", "--agent", "recorded:human", "--agent", "recorded:human", "--out", "out"];
    assert!(place.run(&twice).exits(2).stderr.contains("two agents have the name"));
    assert!(place.run(&["validate", "--help"]).exits(0).stdout.contains("Example: redgreen validate"));
}

/// Each stage writes the benchmark anew: what those before it said of comments that left must not go with that.
#[test]
fn what_earlier_stages_wrote_is_carried_on() {
    let place = Place::with_bench();
    let id = "lantern-example__shelf-4@053db49";
    let digest = "24beabe1881ab4253dbe7b09259da87cd9f71f7dabfe11548fcc7c82cf4942e9";
    let dropped = json!({
        "instance_id": id, "comment": "c1", "decision": "dropped", "reason": "not-verifiable", "failure": null, "detail": "",
        "labels": {"actionable": true, "specific": true, "verifiable": false, "category": "robustness", "oracle": "none",
                   "oracle_reason": "No test could tell.", "reason": "Wants names refused."},
        "votes": [], "model": "some-model", "prompt": digest, "key": digest,
    });
    let left = json!({"scope": "comment", "instance_id": id, "comment": "c1", "stage": "filter", "reason": "filtered",
                      "detail": "not-verifiable"});
    let call = json!({"stage": "filter", "purpose": "classify", "subject": format!("{id} c1"), "sample": 0, "turn": 0,
                      "prompt": {"name": "filter", "digest": digest}, "request": digest, "model": "some-model",
                      "served": "some-model", "outcome": "answered", "usage": null, "cost": 0.5, "estimated": false,
                      "seconds": 3600.0, "attempts": 1, "lost": 0, "replayed": false, "request_id": null, "adjusted": []});
    fs_err::write(place.join("bench/filter.jsonl"), format!("{dropped}\n")).unwrap();
    fs_err::write(place.join("bench/llm.jsonl"), format!("{call}\n")).unwrap();
    let attrition = fs_err::read_to_string(place.join("bench/attrition.jsonl")).unwrap();
    fs_err::write(place.join("bench/attrition.jsonl"), format!("{attrition}{left}\n")).unwrap();

    let words = ["validate", "bench", "--agent", "recorded:human", "--attempts", "1", "-i", "*shelf*", "--out", "out"];
    place.run(&words).exits(0);
    assert_eq!(rows(&place, "out/filter.jsonl").len(), 1);
    assert!(rows(&place, "out/attrition.jsonl").contains(&left));
    assert_eq!(
        fs_err::read(place.join("out/llm.jsonl")).unwrap(),
        fs_err::read(place.join("bench/llm.jsonl")).unwrap()
    );
    let funnel = place.run(&["funnel", "out", "--json"]).exits(0).json();
    let stage = |name: &str| funnel["stages"].as_array().unwrap().iter().find(|s| s["stage"] == name).unwrap().clone();
    assert_eq!((&stage("filtered")["money"], &stage("filtered")["hours"]), (&json!(0.5), &json!(1.0)));
    let comments = |name: &str| stage(name)["comments"].as_u64().unwrap();
    assert_eq!(comments("imported"), comments("filtered") + 1);
    assert!(comments("solvable") <= comments("testable") && comments("solvable") > 0, "{funnel:#}");
}

/// A limit that is set for all verbs in the environment is a limit here, too.
#[test]
fn settings_count_as_in_scoring() {
    let place = Place::with_bench();
    let words = ["validate", "bench", "--agent", "recorded:human", "--attempts", "1", "--out", "out"];
    for variable in ["REDGREEN_TIMEOUT", "REDGREEN_MEMORY", "REDGREEN_MIN_FREE"] {
        let ran = Ran::of(place.command(&words).env(variable, "soon").output().unwrap()).exits(2);
        assert!(ran.stderr.contains(variable), "{}", ran.stderr);
    }
    let ran = place.run(&["freeze", "bench", "--out", "frozen", "--sandbox", "none"]).exits(2);
    assert!(ran.stderr.contains("without a sandbox") && !place.join("frozen").exists(), "{}", ran.stderr);
}
