//! Where output goes: pipes that close, devices that are full, JSON apart from progress.

use std::process::{Command, Stdio};

use crate::support::{Place, Ran, binary, example};

const ONE: [&str; 6] = ["--instances", "*rotate-8*", "--denominator", "all", "--out", "run"];

fn scored() -> Place {
    let place = Place::new();
    place.run(&[&["score", &example()], &ONE[..]].concat()).exits(0);
    place
}

/// The same through a shell, for redirections.
fn shell(place: &Place, line: &str) -> Ran {
    let like = place.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(place.path()).env_clear().stdin(Stdio::null());
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("REDGREEN", binary()).env("BENCH", example());
    Ran::of(command.output().unwrap())
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let place = scored();
    // The pipe is closed before the report comes.
    let ran = shell(&place, r#"{ sleep 0.2; "$REDGREEN" report run --json; echo "exit $?" >&2; } | true"#).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "exit 0\n"));
    let ran = shell(&place, r#"{ "$REDGREEN" report run; echo "exit $?" >&2; } | head -c 10"#).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("quickstart", "exit 0\n"));
    for line in [r#""$REDGREEN" --help | head -c 1"#, r#""$REDGREEN" completions bash | head -c 1"#] {
        assert_eq!(shell(&place, line).exits(0).stderr, "");
    }
}

#[test]
fn closed_streams_are_no_reason_to_fall_over() {
    let place = scored();
    for (line, code) in [
        (r#""$REDGREEN" report run >&-"#, 0),
        (r#""$REDGREEN" report run >&- 2>&-"#, 0),
        (r#""$REDGREEN" score "$BENCH" --instances '*rotate-8*' --denominator all --out fresh 2>&- >&- <&-"#, 0),
        (r#""$REDGREEN" score nowhere 2>&-"#, 2),
        (r#""$REDGREEN" --help >&-"#, 0),
        (r#""$REDGREEN" --nonsense 2>&-"#, 2),
    ] {
        let ran = shell(&place, line);
        assert_eq!(ran.code, Some(code), "{line}\n{}", ran.stderr);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "{line}");
    }
    // What was scored with nobody to tell is there all the same.
    let fresh = place.run(&["report", "fresh", "--json"]).exits(0).json();
    assert_eq!(fresh["arms"], place.run(&["report", "run", "--json"]).exits(0).json()["arms"]);
}

#[test]
fn a_full_device_is_an_error() {
    let place = scored();
    let ran = shell(&place, r#""$REDGREEN" report run >/dev/full"#);
    insta::assert_snapshot!(place.shown(&ran), @r"
    exit code 3
    ----- stderr
    error: could not write to standard output
      caused by: No space left on device (os error 28)
    ");
    // Standard error that cannot be written keeps nothing from going on.
    shell(&place, r#""$REDGREEN" score "$BENCH" --instances '*rotate-8*' --denominator all --out run 2>/dev/full"#)
        .exits(0);
}

#[test]
fn json_is_alone_on_standard_output() {
    let place = Place::new();
    let scored = place.run(&[&["score", &example(), "--json"], &ONE[..]].concat()).exits(0);
    assert_eq!(scored.json()["schema"], 1);
    assert!(scored.stderr.contains("scoring 1 instance, 6 oracle runs at most"), "{}", scored.stderr);
    assert!(scored.stderr.contains("oracle runs made in"), "{}", scored.stderr);
    // `report` equals what `score` printed, and says nothing else.
    let report = place.run(&["report", "run", "--json"]).exits(0);
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), (scored.stdout.as_str(), ""));
    let table = place.run(&[&["score", &example()], &ONE[..]].concat()).exits(0);
    assert_eq!(table.stdout, place.run(&["report", "run"]).exits(0).stdout);
    for verb in
        [&["doctor", "--json"][..], &["gc", "--json"], &["env", "list", "--json"], &["check", &example(), "--json"]]
    {
        let ran = place.run(verb);
        assert!(ran.json().is_object() || ran.json().is_array(), "{verb:?}");
    }
}
