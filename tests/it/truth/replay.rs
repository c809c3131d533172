//! Policy `c-crab`: the exit code alone, controls that do not gate, and agreement with verdicts that came with the data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fixture::{Fixture, commits, difference, instance};
use crate::support::Place;

fn one(text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("clamp.sh".to_owned(), text.to_owned())])
}

#[test]
fn any_other_exit_code_fails_and_only_0_and_1_are_compared() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("replay");
    let (head, merged) = commits(&repository, &one("value=9\n"), &one("value=5\n"));
    let mut value = instance("replay", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "shell"});
    let comment = |id: &str, test: &str| json!({"id": id, "text": "Too much.", "test": test, "framework": "exit"});
    value["comments"] = json!([comment("asks", "asks.sh"), comment("green", "green.sh")]);
    let asks = ". ./clamp.sh\n[ \"$value\" = 5 ]\n";
    let id = fixture.add(value, &[("asks.sh", asks), ("green.sh", "exit 0\n")]);

    // arm, what it writes, recorded of `asks`; verdict and reason of `asks` here; what `agreement` makes of it
    let table = [
        ("right", "value=$((4 + 1))\n", true, "pass", "", "agree"),
        ("wrong", "value=6\n", false, "fail", "failed", "agree"),
        ("lies", "value=7\n", true, "fail", "failed", "disagree"),
        ("luck", "value=5 # by luck\n", false, "pass", "", "disagree"),
        ("three", "exit 3\n", false, "fail", "errored(runner)", "exit code 3"),
        ("dies", "kill -9 $$\n", false, "fail", "crashed", "crashed"),
    ];
    for (arm, text, recorded, ..) in table {
        fixture.revise(&id, arm, &difference(&repository, &head, &one(text)));
        fixture.record(&id, "asks", arm, recorded);
    }
    fixture.revise(&id, "broken", "--- a/clamp.sh\n+++ b/clamp.sh\n@@ -1,1 +1,1 @@\n-value=1\n+value=5\n");
    fixture.record(&id, "asks", "broken", false);
    fixture.revise(&id, "empty", "");
    fixture.record(&id, "asks", "empty", false);
    fixture.revise_nothing(&id, "idle");
    fixture.record_nothing(&id, "asks", "idle");

    let (bench, mirrors) = (fixture.import(), fixture.mirrors());
    let score = |policy: &str| {
        let run = place.join(policy).display().to_string();
        let arguments = ["score", &bench, "--out", &run, "--mirrors", &mirrors, "--policy", policy, "--json"];
        place.run(&arguments).exits(0).json()
    };
    let row = |report: &Value, comment: &str, arm: &str| -> (String, String) {
        let rows = report["verdicts"].as_array().unwrap();
        let found = rows.iter().find(|r| r["comment"] == comment && r["arm"] == arm).unwrap();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("reason"))
    };

    let replayed = score("c-crab");
    for (arm, _, _, verdict, reason, _) in table {
        assert_eq!(row(&replayed, "asks", arm), (verdict.to_owned(), reason.to_owned()), "{arm}");
    }
    assert_eq!(row(&replayed, "asks", "idle"), ("fail".to_owned(), "no changes".to_owned()));
    assert_eq!(row(&replayed, "asks", "empty"), ("invalid".to_owned(), "not run: empty diff".to_owned()));
    let (verdict, reason) = row(&replayed, "asks", "broken");
    assert!(verdict == "fail" && reason.starts_with("patch: "), "{verdict} {reason}");
    // The oracle that passes at head gates nothing.
    assert_eq!(row(&replayed, "green", "wrong"), ("pass".to_owned(), String::new()));

    let agreement = &replayed["agreement"];
    let named = |what: &str| table.iter().filter(|row| row.5 == what).map(|row| row.0).collect::<Vec<_>>();
    let disagree: Vec<&str> =
        agreement["disagree"].as_array().unwrap().iter().filter_map(|row| row["arm"].as_str()).collect();
    let mut wanted = named("disagree");
    wanted.sort_unstable();
    assert_eq!(disagree, wanted);
    // The idle agent's recorded fail compares without a run.
    assert_eq!(agreement["agree"], named("agree").len() + 1, "{agreement}");
    assert_eq!(agreement["compared"], named("agree").len() + 1 + wanted.len());
    let not_run = json!({"crashed": 1, "empty diff": 1, "exit code 3": 1, "patch": 1});
    assert_eq!(agreement["not_run"], not_run);

    // Strict, on the same: the same verdicts where the controls are good, none where they are not.
    let strict = score("strict");
    for (arm, _, _, verdict, reason, _) in table {
        assert_eq!(row(&strict, "asks", arm), (verdict.to_owned(), reason.to_owned()), "{arm}");
        assert_eq!(row(&strict, "green", arm), ("invalid".to_owned(), "control: head passed".to_owned()), "{arm}");
    }
    assert_eq!(row(&strict, "asks", "empty"), ("fail".to_owned(), "failed".to_owned()));
}
