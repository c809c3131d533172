//! The verb.

use std::process::Command;

use super::files;
use crate::support::Place;

fn commit(place: &Place, day: &str) {
    let date = format!("{day}T12:00:00Z");
    for arguments in [
        &["init", "-q", "project"][..],
        &["-C", "project", "add", "-A"],
        &["-C", "project", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "m"],
    ] {
        let git = Command::new("git")
            .args(arguments)
            .current_dir(place.path())
            .env("GIT_COMMITTER_DATE", &date)
            .env("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
            .output()
            .unwrap();
        assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    }
}

#[test]
fn the_day_is_that_of_the_commit_which_is_checked_out() {
    let place = Place::new();
    files(&place.join("project"), &[("setup.py", "setup(python_requires='>=3.6')"), ("sub/a.py", "")]);
    commit(&place, "2021-06-01");
    let ran = place.run(&["env", "detect", "project", "--json"]).exits(0);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["language"], "python");
    assert_eq!(value["version"], "3.9");
    assert_eq!(value["date"], "2021-06-01");
    assert_eq!(value["manifest"], "setup.py");
    assert!(value["version_source"].as_str().unwrap().starts_with("setup.py:1: python_requires `>=3.6`"), "{value}");
    assert_eq!(value["strategies"][0]["project"], "editable");
    assert_eq!(value["alternatives"][0]["version"], "3.8");
    // A folder in the work tree has the same day, and `--date` wins.
    let of = |arguments: &[&str]| {
        let ran = place.run(&[&["env", "detect", "--json"], arguments].concat()).exits(0);
        serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["version"].clone()
    };
    assert_eq!(of(&["project/sub"]), "3.9");
    assert_eq!(of(&["project", "--date", "2023-06-01"]), "3.11");
}

#[test]
fn people_get_lines_and_a_note_where_no_day_is_known() {
    let place = Place::new();
    files(&place.join("project"), &[("Makefile", "all:\n"), ("a.c", ""), ("run.sh", "")]);
    let ran = place.run(&["env", "detect", "project"]).exits(0);
    assert!(ran.stdout.contains("language    c (Makefile, 1 source file)"), "{}", ran.stdout);
    assert!(ran.stdout.contains("version     any") && ran.stdout.contains("1. make"), "{}", ran.stdout);
    assert!(ran.stdout.contains("also        shell"), "{}", ran.stdout);
    assert!(ran.stderr.contains("no commit is checked out") && ran.stderr.contains("--date"), "{}", ran.stderr);
    let named = place.run(&["env", "detect", "project", "--language", "sh"]).exits(0);
    assert!(named.stdout.starts_with("language    shell"), "{}", named.stdout);
}

#[test]
fn bad_input_is_told_clearly() {
    let place = Place::new();
    files(place.path(), &[("file.py", ""), ("empty/README.md", ""), ("own/x.toml", "schema = 1\nname = 'x'\n")]);
    for (arguments, said) in [
        (&["gone"][..], "`gone` can't be read"),
        (&["file.py"], "`file.py` is no folder"),
        (&["empty"], "no file of a known language"),
        (&["empty", "--language", "cobol"], "cobol"),
        (&["empty", "--date", "yesterday"], "`yesterday` is no day like `2024-05-31`"),
        (&["empty", "--definitions", "own"], "x.toml:"),
    ] {
        let ran = place.run(&[&["env", "detect"], arguments].concat()).exits(2);
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
}

#[test]
fn a_definition_of_the_users_own_is_enough_for_a_new_language() {
    let place = Place::new();
    files(
        place.path(),
        &[
            (
                "own/perl.toml",
                concat!(
                    "schema = 1\nname = 'perl'\n[toolchain]\nprograms = ['perl']\nprobe = ['{{program}}']\n",
                    "[detect]\nfiles = ['cpanfile']\nextensions = ['pm', 'pl']\n",
                    "[version]\n[[version.source]]\nname = 'minimum'\nfile = 'cpanfile'\nkind = 'range'\n",
                    "pattern = 'requires .perl., .v?([0-9.]+)'\n",
                    "[[version.release]]\nversion = '5.30'\ndate = '2019-05-22'\n",
                    "[[version.release]]\nversion = '5.36'\ndate = '2022-05-28'\n",
                    "[[strategy]]\nname = 'by path'\n",
                ),
            ),
            ("project/cpanfile", "requires 'perl', '5.10.1';\n"),
            ("project/lib/A.pm", ""),
        ],
    );
    let ran =
        place.run(&["env", "detect", "project", "--definitions", "own", "--date", "2022-01-01", "--json"]).exits(0);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((value["language"].as_str(), value["version"].as_str()), (Some("perl"), Some("5.30")), "{value}");
}
