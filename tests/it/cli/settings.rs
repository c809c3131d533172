//! `redgreen.toml` and environment variables.

use insta::assert_snapshot;

use crate::support::{Place, Ran};

fn with_file(text: &str) -> Place {
    let place = Place::with_bench();
    fs_err::write(place.join("redgreen.toml"), text).unwrap();
    place
}

#[test]
fn a_wrong_key_is_named_with_its_line() {
    assert_snapshot!(with_file("jobs = 1\nmirors = []\n").see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/redgreen.toml` cannot be used: TOML parse error at line 2, column 1
      |
    2 | mirors = []
      | ^^^^^^
    unknown field `mirors`, expected one of `mirrors`, `clone-from`, `cache`, `cache-limit`, `definitions`, `overrides`, `jobs`, `timeout`, `memory`, `offline`, `repeat`, `policy`, `denominator`, `sandbox`, `phase-timeout`, `task-budget`, `run-budget`, `min-free`, `disk-wait`, `gc-when-low`, `max-same-infra`, `llm`, `model`, `api`, `base-url`, `key-variable`, `key-file`, `ca-bundle`, `prices`, `budget`, `prompts`
    ");
}

#[test]
fn a_wrong_value_is_named_with_the_file() {
    assert_snapshot!(with_file("jobs = 0\n").see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `jobs` in `[place]/redgreen.toml`: `0` is no number from 1 to 4096
    ");
    assert_snapshot!(with_file("jobs = \"two\"\n").see(&["score", "bench"]), @r#"
    exit code 2
    ----- stderr
    error: `[place]/redgreen.toml` cannot be used: TOML parse error at line 1, column 8
      |
    1 | jobs = "two"
      |        ^^^^^
    invalid type: string "two", expected usize
    "#);
    assert_snapshot!(with_file("memory = \"lots\"\n").see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `memory` in `[place]/redgreen.toml`: `lots` is not a size (use `512M`, `2G`)
    ");
    assert_snapshot!(with_file("denominator = \"most\"\n").see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `denominator` in `[place]/redgreen.toml`: `most` is no denominator (use `all`, `valid` or `final`)
    ");
    assert_snapshot!(with_file("sandbox = \"castle\"\n").see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: there is no sandbox `castle`; it was named by: [place]/redgreen.toml
    hint: use `local` or `docker`, or `none` on the command line
    ");
    assert_snapshot!(with_file("mirrors = [\"nowhere\"]\n").see(&["score", "bench"]), @r"
    exit code 2
    ----- stderr
    error: the mirrors folder `nowhere` is not there
    hint: it was named by: [place]/redgreen.toml
    ");
}

#[test]
fn a_wrong_variable_is_named() {
    let place = Place::with_bench();
    let see = |name: &str, value: &str| {
        let output = place.command(&["score", "bench"]).env(name, value).output().unwrap();
        place.shown(&Ran::of(output))
    };
    assert_snapshot!(see("REDGREEN_JOBS", "x"), @r"
    exit code 2
    ----- stderr
    error: the variable `REDGREEN_JOBS`: `x` is no number from 1 to 4096
    ");
    assert_snapshot!(see("REDGREEN_REPEAT", "0"), @r"
    exit code 2
    ----- stderr
    error: the variable `REDGREEN_REPEAT`: `0` is no number from 1 to 100
    ");
    assert_snapshot!(see("REDGREEN_TIMEOUT", "never"), @r"
    exit code 2
    ----- stderr
    error: the variable `REDGREEN_TIMEOUT`: `never` is no number of seconds
    ");
    assert_snapshot!(see("REDGREEN_OFFLINE", "perhaps"), @r"
    exit code 2
    ----- stderr
    error: the variable `REDGREEN_OFFLINE`: `perhaps` is neither yes nor no
    ");
    assert_snapshot!(see("REDGREEN_POLICY", "lax"), @r"
    exit code 2
    ----- stderr
    error: the variable `REDGREEN_POLICY`: `lax` is no policy (use `strict` or `c-crab`)
    ");
}

#[test]
fn the_command_line_goes_before_the_environment_and_that_before_the_file() {
    let place = with_file("denominator = \"all\"\npolicy = \"c-crab\"\n");
    let only = ["score", "bench", "--instances", "*rotate-8*", "--arms", "head", "--json"];
    let from_file = place.run(&[&only[..], &["--out", "a"]].concat()).exits(0).json();
    assert_eq!((&from_file["denominator"], &from_file["policy"]), (&"all".into(), &"c-crab".into()));
    let output =
        place.command(&[&only[..], &["--out", "b"]].concat()).env("REDGREEN_POLICY", "strict").output().unwrap();
    let from_environment = Ran::of(output).exits(0).json();
    assert_eq!((&from_environment["denominator"], &from_environment["policy"]), (&"all".into(), &"strict".into()));
    let output = place
        .command(&[&only[..], &["--out", "c", "--policy", "c-crab", "--denominator", "valid"]].concat())
        .env("REDGREEN_POLICY", "strict")
        .output()
        .unwrap();
    let typed = Ran::of(output).exits(0).json();
    assert_eq!((&typed["denominator"], &typed["policy"]), (&"valid".into(), &"c-crab".into()));
    let doctor = place.run(&["doctor", "--offline"]);
    assert!(doctor.stdout.contains("offline = true (command line)"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("(environment, REDGREEN_CACHE)"), "{}", doctor.stdout);
}
