//! `env build`, `score` and `rerun` for instances that describe no environment.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use super::index::{INDEX, Index};
use super::yard::Project;
use crate::support::{Place, Ran, loudly};
use crate::truth::fixture::{Fixture, commits, difference, instance};

/// What a project says after the fix.
const FIX: &str = "VALUE = 43\n";

/// A benchmark of projects, one instance each; their ids.
fn bench(place: &Place, projects: &[&Project], edit: impl Fn(&str, &mut Value)) -> Vec<String> {
    let mut fixture = Fixture::new(place);
    let mut ids = Vec::new();
    for (number, project) in projects.iter().enumerate() {
        let name = project.name;
        let repository = fixture.repository(name);
        let head: BTreeMap<String, String> = project.tree().into_iter().collect();
        let mut merged = head.clone();
        merged.insert(format!("{name}/__init__.py"), FIX.to_owned());
        let (head_id, merged_id) = commits(&repository, &head, &merged);
        let mut one = instance(name, number as u64 + 1, &head_id, Some(&merged_id));
        one["language"] = json!("Python");
        one["comments"] =
            json!([{"id": "c1", "text": "This is wrong.", "test": "c1_test.py", "framework": "unittest"}]);
        edit(name, &mut one);
        let oracle = format!(
            "import unittest\nimport {name}\n\nclass T(unittest.TestCase):\n    def test_fixed(self):\n        \
             self.assertEqual({name}.VALUE, 43)\n"
        );
        let id = fixture.add(one, &[("c1_test.py", &oracle)]);
        let right = BTreeMap::from([(format!("{name}/__init__.py"), FIX.to_owned())]);
        fixture.revise(&id, "right", &difference(&repository, &head_id, &right));
        ids.push(id);
    }
    fixture.import();
    ids
}

fn run(place: &Place, index: &Index, arguments: &[&str]) -> Ran {
    let mirrors = place.join("mirrors").display().to_string();
    let mut command: Command = place.command(&[arguments, &["--mirrors", &mirrors, "--cache", "cache"]].concat());
    command.env("PIP_INDEX_URL", index.url()).env("no_proxy", "127.0.0.1");
    Ran::of(command.output().unwrap())
}

fn index(test: &str) -> Option<&'static Index> {
    if INDEX.is_none() {
        loudly(&format!("LEFT OUT, as there is no python3: {test}"));
    }
    INDEX.as_ref()
}

const LACKING: Project = Project {
    dependencies: &["steady>=99"],
    files: &[("lacking/__init__.py", "from steady import VALUE\n")],
    ..Project::named("lacking")
};

#[test]
fn environments_are_found_built_and_proven_and_the_same_command_goes_on() {
    let Some(index) = index("environments_are_found_built_and_proven_and_the_same_command_goes_on") else { return };
    let place = Place::new();
    let ids = bench(&place, &[&Project::named("plain"), &LACKING], |_, _| {});
    let built = run(&place, index, &["env", "build", "bench", "--json"]).exits(3);
    let json = built.json();
    assert_eq!((&json["built"], &json["cached"]), (&json!(1), &json!(0)), "{json:#}\n{}", built.stderr);
    let failed = &json["failed"][0];
    assert_eq!((failed["instance_id"].as_str(), failed["kind"].as_str()), (Some(&*ids[1]), Some("no-such-version")));
    assert!(failed["reason"].as_str().unwrap().starts_with("no such version: "), "{failed:#}");
    assert!(failed["log_lines"][0].as_str().unwrap().contains("steady>=99"), "{failed:#}");
    assert!(json["bytes_added"].as_u64().unwrap() > 0);
    let of = |json: &Value, id: &str| -> Value {
        json["instances"].as_array().unwrap().iter().find(|row| row["instance_id"] == id).unwrap().clone()
    };
    let row = of(&json, &ids[0]);
    assert_eq!(
        (&row["source"], &row["proven"], &row["language"]),
        (&json!("detected"), &json!(true), &json!("python"))
    );
    assert!(row["strategy"].is_string() && row["version_source"].is_string(), "{row:#}");

    let again = run(&place, index, &["env", "build", "bench", "--json"]).exits(3).json();
    assert_eq!(
        (&again["built"], &again["cached"], &again["bytes_added"]),
        (&json!(0), &json!(1), &json!(0)),
        "{again:#}"
    );
    assert_eq!((&of(&again, &ids[1])["cached"], &again["failed"][0]["reason"]), (&json!(true), &failed["reason"]));

    // Scoring takes what is on record: no network, and the failed environment is infra and never a fail.
    let score = ["score", "bench", "--offline", "--out", "run", "--json"];
    let report = run(&place, index, &score).exits(3);
    let rows: Vec<(String, String, String)> = report.json()["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["arm"] == "right")
        .map(|row| ["instance_id", "verdict", "reason"].map(|field| row[field].as_str().unwrap_or_default().to_owned()))
        .map(|[id, verdict, reason]| (id, verdict, reason))
        .collect();
    let verdict = |id: &str| rows.iter().find(|row| row.0 == id).map(|row| row.1.as_str());
    assert_eq!(verdict(&ids[0]), Some("pass"), "{rows:?}\n{}", report.stderr);
    assert_eq!(verdict(&ids[1]), Some("invalid"), "{rows:?}");
    assert!(report.stderr.contains("environment: no such version: "), "{}", report.stderr);

    let again = run(&place, index, &["rerun", &ids[0], "c1", "right", "--run", "run", "--json"]).exits(0).json();
    assert_eq!((&again["agree"], &again["inputs_changed"]), (&json!(true), &json!([])), "{again:#}");
}

#[test]
fn an_environment_by_hand_goes_before_everything() {
    let Some(index) = index("an_environment_by_hand_goes_before_everything") else { return };
    let place = Place::new();
    let ids = bench(&place, &[&LACKING], |_, _| {});
    let commit = ids[0].rsplit_once('@').unwrap().1.to_owned();
    let line = |commits: &str, project: &str| {
        let environment = json!({"language": "python", "packages": ["steady"], "project": project});
        format!("{{\"repo\": \"TRUTH/lacking\"{commits}, \"environment\": {environment}}}\n")
    };
    let lines = line("", "none") + &line(&format!(", \"commits\": [\"{commit}\"]"), "path");
    fs_err::write(place.join("environments.jsonl"), lines).unwrap();
    let command = ["env", "build", "bench", "--json", "--overrides", "environments.jsonl"];
    let built = run(&place, index, &command).exits(0);
    let row = built.json()["instances"][0].clone();
    assert_eq!((&row["source"], &row["environment"]["project"]), (&json!("override"), &json!("path")), "{row:#}");
    // It is taken at its word: that there is no test framework in it is reported, and gates nothing.
    assert_eq!((&row["ready"], &row["proven"]), (&json!(true), &json!(false)), "{row:#}");
    assert!(row["not_proven"].is_string(), "{row:#}");
    let report = run(&place, index, &["score", "bench", "--overrides", "environments.jsonl", "--out", "run", "--json"]);
    let report = report.exits(0).json();
    assert!(report["verdicts"].as_array().unwrap().iter().any(|row| row["arm"] == "right" && row["verdict"] == "pass"));

    fs_err::write(place.join("environments.jsonl"), "{\"repo\": \"truth/lacking\"}\n").unwrap();
    let refused = run(&place, index, &command).exits(2);
    assert!(refused.stderr.contains("environments.jsonl:1: "), "{}", refused.stderr);
}

#[test]
fn a_command_repairs_in_the_sandbox() {
    let Some(index) = index("a_command_repairs_in_the_sandbox") else { return };
    let place = Place::new();
    bench(&place, &[&LACKING], |_, _| {});
    // It sees what it needs, and neither the network nor the user's files.
    let home = place.join("secret.txt").display().to_string();
    fs_err::write(place.join("secret.txt"), "hunter2").unwrap();
    let script = format!(
        "#!/bin/sh\nrequest=$(cat)\n[ -e '{home}' ] && exit 1\nenv | grep -q PIP_ && exit 1\n\
         case \"$request\" in *'steady>=99'*) ;; *) exit 1 ;; esac\n\
         echo '{{\"change\": {{\"packages\": [\"steady==1.0\"]}}}}'\n"
    );
    let command = place.join("repair.sh");
    fs_err::write(&command, script).unwrap();
    fs_err::set_permissions(&command, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let command = command.display().to_string();
    let built = run(&place, index, &["env", "build", "bench", "--json", "--repairer", &command]);
    let json = built.json();
    // The recipe is repaired so far that it installs; the project's own word for what it wants still stands.
    let attempts = json["instances"][0]["attempts"].as_array().unwrap().clone();
    let repaired: Vec<&Value> = attempts.iter().filter(|attempt| attempt["repair"]["by"] == "repairer").collect();
    assert!(!repaired.is_empty(), "{json:#}\n{}", built.stderr);
    assert_eq!(repaired[0]["repair"]["change"]["packages"], json!(["steady==1.0"]));
    assert_ne!(repaired[0]["stage"], "fetch", "{repaired:#?}");
}
