//! What becomes of verdicts whose controls, environment or repository are not good, and of results that vary.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fixture::{Fixture, commits, difference, instance};
use crate::support::Place;

const HEAD: &str = "clamp() { if [ \"$1\" -lt \"$2\" ]; then echo \"$2\"; else echo \"$1\"; fi; }\n";
const MERGED: &str = "clamp() { printf '%s\\n' \"$1\" \"$2\" \"$3\" | sort -n | sed -n 2p; }\n";
const RIGHT: &str = "clamp() { printf '%s\\n' \"$3\" \"$2\" \"$1\" | sort -n | sed -n 2p; }\n";
const WRONG: &str = "clamp() { echo 4; }\n";

/// Fails at head with 1.
const GOOD: &str = ". ./clamp.sh\n[ \"$(clamp 9 0 5)\" = 5 ]\n";
/// Leaves with 3 where the value is wrong: an error, and no failed assertion.
const ERRS: &str = ". ./clamp.sh\n[ \"$(clamp 9 0 5)\" = 5 ] || exit 3\n";
/// Asks for what both states do.
const GREEN: &str = ". ./clamp.sh\n[ \"$(clamp 3 0 5)\" = 3 ]\n";
/// Asks for what neither does.
const RED: &str = ". ./clamp.sh\n[ \"$(clamp 9 0 5)\" = 7 ]\n";

/// Instance, comment, arm; verdict, beginning of the reason, marks beside `channel: weak`.
type Want = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

fn one(text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("clamp.sh".to_owned(), text.to_owned())])
}

fn comment(id: &str, test: &str) -> Value {
    json!({"id": id, "text": "Values above come through.", "test": test, "framework": "exit"})
}

fn row<'a>(report: &'a Value, id: &str, comment: &str, arm: &str) -> &'a Value {
    let rows = report["verdicts"].as_array().unwrap();
    let is = |row: &&Value| row["instance_id"] == id && row["comment"] == comment && row["arm"] == arm;
    rows.iter().find(is).unwrap_or_else(|| panic!("no row for {id} {comment} {arm}"))
}

#[test]
fn bad_controls_and_infra_take_their_own_rows_only() {
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("controls");
    let (head, merged) = commits(&repository, &one(HEAD), &one(MERGED));
    let right = difference(&repository, &head, &one(RIGHT));
    let wrong = difference(&repository, &head, &one(WRONG));
    let nowhere = "0123456789abcdef0123456789abcdef01234567";

    let tests = [("good.sh", GOOD), ("errs.sh", ERRS), ("green.sh", GREEN), ("red.sh", RED)];
    let mut ids = BTreeMap::new();
    let mut pull = 0;
    let mut add = |fixture: &mut Fixture<'_>, name: &'static str, change: &dyn Fn(&mut Value)| {
        pull += 1;
        let mut value = instance("controls", pull, &head, Some(&merged));
        value["environment"] = json!({"language": "shell"});
        value["comments"] = json!([comment("c1", "good.sh")]);
        change(&mut value);
        let id = fixture.add(value, &tests);
        fixture.revise(&id, "right", &right);
        fixture.revise(&id, "wrong", &wrong);
        ids.insert(name, id);
    };
    add(&mut fixture, "sound", &|v| {
        let mut declared = comment("declared", "errs.sh");
        declared["before"] = json!(["errored"]);
        v["comments"] = json!([
            comment("good", "good.sh"), comment("green", "green.sh"), comment("red", "red.sh"),
            comment("errs", "errs.sh"), declared, {"id": "bare", "text": "Nothing tests this."},
        ]);
    });
    add(&mut fixture, "alone", &|v| v["merged_commit"] = Value::Null);
    add(&mut fixture, "lost", &|v| {
        v["head_commit"] = nowhere.into();
        v["instance_id"] = "truth__controls-3@0123456".into();
    });
    add(&mut fixture, "lost merge", &|v| v["merged_commit"] = nowhere.into());
    add(&mut fixture, "old", &|v| v["environment"] = json!({"language": "python", "version": "2.1"}));
    add(&mut fixture, "pinned", &|v| {
        v["environment"] = json!({"language": "python", "packages": ["redgreen-has-no-such-package==9.9"]});
    });
    add(&mut fixture, "foreign", &|v| v["environment"] = json!({"language": "cobol"}));

    let bench = fixture.import();
    let (run, mirrors) = (place.join("run").display().to_string(), fixture.mirrors());
    let arguments =
        ["score", &bench, "--out", &run, "--mirrors", &mirrors, "--offline", "--denominator", "all", "--json"];
    let report = place.run(&arguments).exits(3).json();

    let both = ["right", "wrong"];
    let mut table: Vec<Want> = vec![
        ("sound", "good", "right", "pass", "", &[]),
        ("sound", "good", "wrong", "fail", "failed", &[]),
        ("sound", "declared", "right", "pass", "", &[]),
        ("sound", "declared", "wrong", "fail", "errored(runner)", &[]),
        ("alone", "c1", "right", "pass", "", &["uncontrolled"]),
        ("alone", "c1", "wrong", "fail", "failed", &["uncontrolled"]),
        ("alone", "c1", "merged", "missing", "no revision", &[]),
    ];
    for arm in both {
        table.extend([
            ("sound", "green", arm, "invalid", "control: head passed", &[] as &[_]),
            ("sound", "red", arm, "invalid", "control: merged failed", &[]),
            ("sound", "errs", arm, "invalid", "control: head errored(runner)", &[]),
            ("sound", "bare", arm, "invalid", "no-oracle", &[]),
            ("lost", "c1", arm, "invalid", "infra: repository: ", &[]),
            ("lost merge", "c1", arm, "invalid", "infra: repository: ", &[]),
            ("old", "c1", arm, "invalid", "infra: toolchain: ", &[]),
            ("pinned", "c1", arm, "invalid", "infra: network: ", &[]),
            ("foreign", "c1", arm, "invalid", "infra: environment: ", &[]),
        ]);
    }
    let mut bad = Vec::new();
    for (name, comment, arm, verdict, reason, marks) in table {
        let got = row(&report, &ids[name], comment, arm);
        let said = got["reason"].as_str().unwrap_or_default();
        let seen: Vec<&str> = got["marks"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .filter(|m| *m != "channel: weak")
            .collect();
        if got["verdict"] != verdict
            || !said.starts_with(reason)
            || said.is_empty() != reason.is_empty()
            || seen != marks
        {
            bad.push(format!("{name} {comment} {arm}: wanted {verdict} {reason} {marks:?}\n  got {got}"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));

    // Infra is no record: the same command tries it again, and serves the rest.
    let again = place.run(&arguments).exits(3);
    assert!(again.stderr.contains("0 oracle runs made"), "{}", again.stderr);
    assert_eq!(again.json()["verdicts"], report["verdicts"]);
}

#[test]
fn repeats_that_differ_are_flaky() {
    const REPEAT: usize = 12;
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("flaky");
    let (head, merged) = commits(&repository, &one(HEAD), &one(MERGED));
    let mut value = instance("flaky", 1, &head, Some(&merged));
    value["environment"] = json!({"language": "shell"});
    value["comments"] = json!([comment("c1", "good.sh")]);
    let id = fixture.add(value, &[("good.sh", GOOD)]);
    let coin = "coin=$(od -An -N1 -tu1 /dev/urandom)\n";
    let by_chance = format!("{coin}clamp() {{ echo $((5 + coin % 2)); }}\n");
    let never_right = format!("{coin}[ $((coin % 2)) = 0 ] || exit 3\nclamp() {{ echo 4; }}\n");
    for (arm, text) in [("by chance", by_chance.as_str()), ("never right", &never_right), ("steady", RIGHT)] {
        fixture.revise(&id, arm, &difference(&repository, &head, &one(text)));
    }
    let bench = fixture.import();
    let (run, mirrors) = (place.join("run").display().to_string(), fixture.mirrors());
    let repeat = REPEAT.to_string();
    let report = place
        .run(&["score", &bench, "--out", &run, "--mirrors", &mirrors, "--repeat", &repeat, "--json"])
        .exits(0)
        .json();
    for (arm, good, other) in [("by chance", "passed", "failed"), ("never right", "failed", "errored(runner)")] {
        let got = row(&report, &id, "c1", arm);
        let outcomes: Vec<&str> = got["outcomes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(outcomes.len(), REPEAT);
        assert!(outcomes.iter().all(|o| [good, other].contains(o)), "{got}");
        // Each run throws its own coin: that all fall alike happens once in two thousand times, and is right then too.
        let passed = outcomes.iter().filter(|o| **o == "passed").count();
        let (verdict, reason) = match outcomes.iter().all(|o| *o == outcomes[0]) {
            true if passed > 0 => ("pass", Value::Null),
            true => ("fail", outcomes[0].into()),
            false => ("fail", format!("flaky {passed}/{REPEAT}").into()),
        };
        assert_eq!((got["verdict"].as_str(), &got["reason"]), (Some(verdict), &reason), "{got}");
    }
    assert_eq!(row(&report, &id, "c1", "steady")["verdict"], "pass");
}
