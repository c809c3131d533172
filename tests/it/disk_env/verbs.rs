//! `env plan`, `check`, `du` and `shell`, and what a long build says.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use super::bench::Bench;
use crate::support::{Place, Ran};

fn standings(check: &Value) -> Vec<&str> {
    check["instances"].as_array().unwrap().iter().map(|row| row["standing"].as_str().unwrap()).collect()
}

#[test]
fn a_check_tells_missing_from_stale_and_names_what_changed() {
    let place = Place::new();
    let bench = Bench::new(
        &place,
        2,
        &[("a", "a\n")],
        |number| json!({"language": "heavy", "packages": ["big"], "steps": [format!("echo {number} >made")]}),
    );
    let missing = bench.run(&["env", "check", "bench", "--json"]).exits(1).json();
    assert_eq!(standings(&missing), ["missing", "missing"]);
    assert!(!bench.cache().join("layers-v1/heavy-deps").exists(), "a check makes nothing");
    assert!(!bench.cache().join("snapshots-v1").exists(), "a check makes nothing");
    bench.run(&["env", "build", "bench"]).exits(0);
    let ready = bench.run(&["env", "check", "bench", "--json"]).exits(0).json();
    assert_eq!((standings(&ready), &ready["ready"]), (vec!["ready", "ready"], &json!(2)));

    // Another spec of one of them.
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["pull_number"] == 2 {
            row["environment"]["steps"] = json!(["echo other >made"]);
        }
    });
    let stale = bench.run(&["env", "check", "bench", "--json"]).exits(1).json();
    assert_eq!(standings(&stale), ["ready", "stale"]);
    assert_eq!(stale["instances"][1]["stale"], json!([{"kind": "heavy-build", "changed": ["definition"]}]));
    bench.run(&["env", "build", "bench"]).exits(0);
    assert_eq!(standings(&bench.run(&["env", "check", "bench", "--json"]).exits(0).json()), ["ready", "ready"]);

    // Another definition of both.
    place.edit("definitions/heavy.toml", |text| text.replace("head -c 4m", "head -c 5m"));
    let stale = bench.run(&["env", "check", "bench"]).exits(1);
    let said = "stale: changed since it was made: heavy-deps (definition); heavy-build (layers)";
    assert_eq!(stale.stdout.matches(said).count(), 2, "{}", stale.stdout);
    assert!(stale.stdout.ends_with("2 environments: 0 ready, 0 missing, 2 stale, 0 unavailable\n"), "{}", stale.stdout);
    // Only the tree is gone: missing again, and not stale.
    place.edit("definitions/heavy.toml", |text| text.replace("head -c 5m", "head -c 4m"));
    fs_err::remove_dir_all(bench.cache().join("snapshots-v1")).unwrap();
    assert_eq!(standings(&bench.run(&["env", "check", "bench", "--json"]).exits(1).json()), ["missing", "missing"]);
}

#[test]
fn something_else_in_a_layer_of_the_same_recipe_is_stale() {
    let place = Place::new();
    let bench = Bench::new(&place, 1, &[], |_| json!({"language": "heavy", "packages": ["big"]}));
    bench.run(&["env", "build", "bench"]).exits(0);
    let layer = bench.cache().join("layers-v1/heavy-deps").join(&bench.layers("heavy-deps")[0]).join("layer.json");
    let text = fs_err::read_to_string(&layer).unwrap();
    fs_err::write(&layer, text.replace("big content ", "big content-2 ")).unwrap();
    let stale = bench.run(&["env", "check", "bench"]).exits(1).stdout;
    assert!(stale.contains("stale: changed since it was made: lock (what is in the layers)"), "{stale}");
}

#[test]
fn a_plan_builds_nothing_and_guesses_from_what_earlier_ones_took() {
    let place = Place::new();
    let bench = Bench::new(
        &place,
        2,
        &[("a", "a\n")],
        |number| json!({"language": "heavy", "packages": ["big", (["one", "two"][number - 1])]}),
    );
    let plan = bench.run(&["env", "plan", "bench", "--json"]).exits(0).json();
    assert_eq!(plan["to_make"]["layers"], 2, "{plan:#}");
    assert_eq!((&plan["to_make"]["trees"], &plan["to_make"]["layers_of_unknown_cost"]), (&json!(2), &json!(2)));
    for bucket in ["layers-v1/heavy-deps", "snapshots-v1"] {
        let made = fs_err::read_dir(bench.cache().join(bucket)).into_iter().flatten().count();
        assert_eq!(made, 0, "{bucket}");
    }
    bench.run(&["env", "build", "bench", "--instances", &bench.ids[0]]).exits(0);
    let plan = bench.run(&["env", "plan", "bench", "--json"]).exits(0).json();
    let cost = &plan["instances"][1]["layers"][0]["cost"];
    assert_eq!(cost["guessed_from"], 1, "{plan:#}");
    assert!((4 << 20..5 << 20).contains(&cost["bytes"].as_u64().unwrap()), "{cost}");
    assert_eq!(plan["instances"][0]["standing"], "ready");
    let text = bench.run(&["env", "plan", "bench"]).exits(0).stdout;
    assert!(text.contains("  make  layer  heavy-deps (") && text.contains(", as an earlier one)\n"), "{text}");
    assert!(text.contains("to make: 1 tree, 1 layer; the layers about 4 MiB and "), "{text}");
    let same = bench.run(&["env", "build", "bench", "--dry-run"]).exits(0).stdout;
    assert_eq!(same, text);
}

#[test]
fn a_plan_says_what_would_be_tried_where_nobody_describes_an_environment() {
    let place = Place::new();
    let files = [("pyproject.toml", "[project]\nname = \"p\"\nversion = \"1\"\n"), ("p/__init__.py", "")];
    let bench = Bench::new(&place, 1, &files, |_| Value::Null);
    let plan = bench.run(&["env", "plan", "bench"]).stdout;
    assert!(plan.contains("missing: to be found: python"), "{plan}");
}

#[test]
fn a_shell_sits_where_the_oracle_would_run_and_leaves_nothing() {
    let place = Place::new();
    let bench = Bench::new(
        &place,
        2,
        &[("a", "a\n")],
        |_| json!({"language": "heavy", "packages": ["big"], "steps": ["echo from the build >made"], "variables": {"COLOUR": "red"}}),
    );
    let sit = |arguments: &[&str], input: &str| {
        let mut command = bench.command(&[&["env", "shell", "--bench", "bench"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    };
    let script = "pwd; cat number made a; echo $COLOUR; ls /env/deps; echo changed >a; cat a; ls /oracle 2>/dev/null; echo \"[$REDGREEN_ORACLE]\"\n";
    let first = sit(&[&bench.ids[1]], script).exits(0);
    assert_eq!(first.stdout, "/workspace\n2\nfrom the build\na\nred\nbig\ncontent\nchanged\n[]\n", "{}", first.stderr);
    assert!(first.stderr.contains("nothing that is written here is kept"), "{}", first.stderr);
    let oracle =
        sit(&["truth__many-2", "--oracle", "c1"], "cat a; eval \"$REDGREEN_ORACLE\"; echo $?; ls /oracle\n").exits(0);
    assert_eq!(oracle.stdout, "a\n0\nc1.sh\n", "{}", oracle.stderr);
    assert!(oracle.stderr.contains("the oracle: /bin/sh /oracle/c1.sh"), "{}", oracle.stderr);

    let several = sit(&["truth__many"], "").exits(2);
    assert!(several.stderr.contains("is the beginning of several: `truth__many-1@"), "{}", several.stderr);
    let none = sit(&[&bench.ids[0], "--oracle", "c9"], "").exits(2);
    assert!(none.stderr.contains("no test for a comment `c9`") && none.stderr.contains("`c1`"), "{}", none.stderr);
    assert!(sit(&["nobody"], "").exits(2).stderr.contains("no instance `nobody`"));
}

#[test]
fn what_several_benchmarks_share_is_counted_once() {
    let place = Place::new();
    let bench = Bench::new(&place, 2, &[("a", "a\n")], |_| json!({"language": "heavy", "packages": ["big"]}));
    bench.run(&["env", "build", "bench"]).exits(0);
    crate::support::copy_folder(&place.join("bench"), &place.join("half"));
    place.edit("half/dataset.jsonl", |text| text.lines().take(1).map(|line| format!("{line}\n")).collect());
    let du = bench.run(&["env", "du", "bench", "half", "--json"]).exits(0).json();
    let [all, half] = [0, 1].map(|place| &du["benchmarks"][place]);
    assert_eq!((&all["known"], &half["known"]), (&json!(2), &json!(1)), "{du:#}");
    let size = |value: &Value| value.as_u64().unwrap();
    // The layer and a tree are the half's, too: only the other tree is not shared.
    assert_eq!(size(&half["not_shared"]), 0);
    assert!(size(&all["not_shared"]) < size(&all["bytes"]) / 10, "{du:#}");
    assert_eq!(size(&all["bytes"]) - size(&half["bytes"]), size(&all["not_shared"]));
    let text = bench.run(&["env", "du", "bench"]).exits(0).stdout;
    assert!(
        text.contains("layer heavy-deps\n") && text.contains("bench: trees and layers of 2 instances (of 2): "),
        "{text}"
    );
}

#[test]
fn what_looks_ahead_knows_the_environments_by_hand_and_the_day_as_a_build_does() {
    let place = Place::new();
    let bench = Bench::new(&place, 1, &[("a", "a\n")], |_| json!({"language": "heavy", "packages": ["big"]}));
    let by_hand = json!({"repo": "truth/many", "environment": {"language": "heavy", "packages": ["other"]}});
    fs_err::write(place.join("environments.jsonl"), format!("{by_hand}\n")).unwrap();
    let given = ["--overrides", "environments.jsonl"];
    let run = |verb: &[&str], more: &[&str]| bench.run(&[&["env"], verb, more].concat());
    run(&["build", "bench"], &given).exits(0);
    let check = |more: &[&str]| run(&["check", "bench", "--json"], more).json();
    assert_eq!(standings(&check(&given)), ["ready"]);
    assert_eq!(standings(&check(&[])), ["stale"]);
    let to_make = |verb: &[&str], more: &[&str]| run(verb, more).exits(0).json()["to_make"]["layers"].clone();
    for verb in [&["plan", "bench", "--json"][..], &["build", "bench", "--dry-run", "--json"]] {
        assert_eq!((to_make(verb, &given), to_make(verb, &[])), (json!(0), json!(1)), "{verb:?}");
        // This language knows no days, which would be said of a build, too.
        let dated = run(verb, &["--as-of-commit"]).json();
        assert_eq!(dated["instances"][0]["standing"], "unavailable", "{dated:#}");
        assert!(dated["instances"][0]["reason"].as_str().unwrap().contains("[as_of]"), "{dated:#}");
    }
    assert_eq!(standings(&check(&["--as-of-commit"])), ["unavailable"]);
}

#[test]
fn a_toolchain_that_many_want_at_once_is_asked_once() {
    let place = Place::new();
    let bench = Bench::new(&place, 4, &[("a", "a\n")], |_| json!({"language": "heavy", "packages": ["big"]}));
    let asked = place.join("asked");
    place.edit("definitions/heavy.toml", |text| {
        text.replace(
            "'''printf '{\"version\"",
            &format!("'''echo >>{}; sleep 0.5; printf '{{\"version\"", asked.display()),
        )
    });
    bench.run(&["env", "build", "bench", "--jobs", "4"]).exits(0);
    assert_eq!(fs_err::read_to_string(&asked).unwrap().lines().count(), 1);
}
