//! The bundled example, from end to end, against its model: verdicts that were found without redgreen.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, Ran, binary, cells, changed, copy_folder, example, host, is_root, loudly, root};

fn model() -> Value {
    let text = fs_err::read_to_string(root().join("tests/model/quickstart.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_example_equals_its_model_under_every_denominator_and_resumes() {
    let place = Place::new();
    let run = place.join("run").display().to_string();
    let first = place.run(&["score", &example(), "--out", &run, "--denominator", "all", "--json"]).exits(0).json();
    let model = model();

    // The table, arm by arm.
    for denominator in ["all", "valid", "final"] {
        let report = place.run(&["report", &run, "--denominator", denominator, "--json"]).exits(0).json();
        assert_eq!(report["denominator"], denominator);
        for expected in model["tables"][denominator].as_array().unwrap() {
            let arm = &expected["arm"];
            let got = report["arms"].as_array().unwrap().iter().find(|a| a["arm"] == *arm).unwrap();
            for field in ["control", "passed", "failed", "invalid", "missing", "missing_instances", "total"] {
                assert_eq!(got[field], expected[field], "{denominator} {arm} {field}");
            }
            for field in ["rate", "rate_scored"] {
                let near = (got[field].as_f64().unwrap() - expected[field].as_f64().unwrap()).abs() < 1e-12;
                assert!(near, "{denominator} {arm} {field}: {} {}", got[field], expected[field]);
            }
            let sum: u64 = ["passed", "failed", "invalid", "missing"].iter().map(|f| got[f].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), got["total"].as_u64());
        }
        assert_eq!(report["overlap"]["union"], model["overlap"][denominator]["union"]);
        assert_eq!(report["overlap"]["exclusive"], model["overlap"][denominator]["exclusive"]);
        assert_eq!(report["overlap"]["pairs"], model["overlap"][denominator]["pairs"]);
    }

    assert_eq!(compare(first["verdicts"].as_array().unwrap(), |_| true), model["verdicts"].as_array().unwrap().len());

    // The same command again runs nothing and says so.
    let again = place.run(&["score", &example(), "--out", &run, "--denominator", "all", "--json"]).exits(0);
    assert!(again.stderr.contains("0 oracle runs made"), "{}", again.stderr);
    assert_eq!(cells(&again.json()), cells(&first));
}

/// Compares verdicts, reasons, outcomes and marks with the model's, of the instances that `keep` says; how many.
fn compare(rows: &[Value], keep: impl Fn(&str) -> bool) -> usize {
    let model = model();
    let kept = |row: &&Value| keep(row["instance_id"].as_str().unwrap());
    let expected: Vec<&Value> = model["verdicts"].as_array().unwrap().iter().filter(kept).collect();
    assert_eq!(rows.iter().filter(kept).count(), expected.len());
    for want in &expected {
        let got = rows
            .iter()
            .find(|r| ["instance_id", "comment", "arm"].iter().all(|f| r[f] == want[f]))
            .unwrap_or_else(|| panic!("no row for {want}"));
        assert_eq!(got["verdict"], want["verdict"], "{got}");
        match want["reason_prefix"].as_str() {
            Some(prefix) => assert!(got["reason"].as_str().unwrap_or_default().starts_with(prefix), "{want}\n{got}"),
            None => assert_eq!(got["reason"], Value::Null, "{got}"),
        }
        if let Some(outcome) = want["outcome"].as_str() {
            assert_eq!(got["outcomes"][0], outcome, "{got}");
        }
        for mark in want["marks"].as_array().unwrap() {
            assert!(got["marks"].as_array().unwrap().contains(mark), "{want}\n{got}");
        }
    }
    expected.len()
}

const ALL: [&str; 7] = ["score", "bench", "--out", "run", "--denominator", "all", "--json"];

#[test]
fn one_changed_hunk_changes_exactly_one_cell() {
    let place = Place::scored();
    let before = place.run(&ALL).exits(0);
    let (made, all) = before.made_and_served();
    assert_eq!(made, 0);
    // One of the two loops of one reviewer's revision gets its names right.
    place.edit_rows("bench/revisions.jsonl", |row| {
        if row["arm"] == "owl-review" && row["instance_id"].as_str().unwrap().contains("rotate-6") {
            let patch = row["patch"].as_str().unwrap();
            assert_eq!(patch.matches("for file in \"$*\"; do").count(), 1);
            row["patch"] = patch.replace("for file in \"$*\"; do", "for file in \"$@\"; do").into();
        }
    });
    let after = place.run(&ALL).exits(0);
    // The instance has two oracles.
    assert_eq!(after.made_and_served(), (2, all - 2));
    let (before, after) = (before.json(), after.json());
    let cell = ("lantern-example__rotate-6@e2215cf".to_owned(), "c2".to_owned(), "owl-review".to_owned());
    assert_eq!(changed(&before, &after), std::slice::from_ref(&cell));
    assert_eq!((cells(&before)[&cell].0.as_str(), cells(&after)[&cell].0.as_str()), ("fail", "pass"));
}

fn is_rust(instance: &str) -> bool {
    instance.contains("pulse") || instance.contains("wrapline")
}

#[test]
fn without_cargo_the_rust_rows_are_infra_until_it_is_back() {
    let place = Place::scored();
    let before = place.run(&ALL).exits(0).json();
    let path = host("PATH").unwrap();
    let without: Vec<PathBuf> = std::env::split_paths(&path).filter(|p| !p.join("cargo").exists()).collect();
    let mut command = place.command(&ALL);
    let hidden = command.env("PATH", std::env::join_paths(without).unwrap()).env_remove("CARGO_HOME");
    let hidden = Ran::of(hidden.env_remove("RUSTUP_HOME").output().unwrap()).exits(3);
    assert!(hidden.stderr.contains("infra, 21 rows: toolchain: no rust toolchain"), "{}", hidden.stderr);
    let report = hidden.json();
    let (before_cells, cells) = (cells(&before), cells(&report));
    assert_eq!(cells.len(), before_cells.len());
    for (cell, (verdict, reason)) in &cells {
        let before = &before_cells[cell];
        if is_rust(&cell.0) && before.0 != "missing" && before.1 != "no-oracle" {
            assert_eq!(verdict, "invalid", "{cell:?}");
            assert!(reason.starts_with("infra: toolchain"), "{cell:?} {reason}");
        } else {
            assert_eq!((verdict, reason), (&before.0, &before.1), "{cell:?}");
        }
    }
    // Served, not run again; and so is everything once cargo is back.
    let (made, served) = hidden.made_and_served();
    let back = place.run(&ALL).exits(0);
    assert_eq!((made, back.made_and_served().0), (0, 0));
    assert!(served < back.made_and_served().1);
    assert_eq!(changed(&before, &back.json()), []);
}

/// A user that nobody else is.
const NOBODY: u32 = 61_789;

#[test]
fn the_example_runs_as_an_unprivileged_user() {
    if !is_root("the example as an unprivileged user") {
        return;
    }
    let place = Place::new();
    fs_err::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    copy_folder(&root().join("examples/quickstart"), &place.join("bench"));
    let program = place.join("redgreen");
    fs_err::copy(binary(), &program).unwrap();
    let home = place.join("home");
    fs_err::create_dir(&home).unwrap();
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let command = |arguments: &[&str], path: &str| {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(&home)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", path)
            .env("COLUMNS", "100");
        command.uid(NOBODY).gid(NOBODY);
        Ran::of(command.output().unwrap())
    };
    // Toolchains that this user can reach, as they would stand in its PATH.
    let reachable = |program: &str| {
        let path = std::env::split_paths(&host("PATH").unwrap()).map(|p| p.join(program)).collect::<Vec<_>>();
        path.into_iter().find(|p| is_open_to_all(p))
    };
    let (python, cargo) = (reachable("python3"), reachable("cargo"));
    let Some(python) = python else {
        loudly("LEFT OUT: the only python3 lies under a closed home");
        return;
    };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", python.parent().unwrap().display());
    let doctor = command(&["doctor"], &path);
    if doctor.code != Some(0) {
        loudly(&format!("LEFT OUT: an unprivileged user has no sandbox here\n{}", doctor.stdout));
        return;
    }
    let bench = place.join("bench").display().to_string();
    let ran = command(&["score", &bench, "--denominator", "all", "--json"], &path);
    let ran = ran.exits(if cargo.is_some() { 0 } else { 3 });
    let report = ran.json();
    let rows = report["verdicts"].as_array().unwrap();
    assert!(compare(rows, |id| !is_rust(id)) > 40);
    if cargo.is_some() {
        compare(rows, is_rust);
    } else {
        loudly("cargo lies under a closed home: the Rust rows are infra");
        let infra = |r: &&Value| r["reason"].as_str().is_some_and(|reason| reason.starts_with("infra: toolchain"));
        assert_eq!(rows.iter().filter(infra).count(), 21);
    }
    // Its files are its own, and the second run is served from them.
    let again = command(&["score", &bench, "--denominator", "all", "--json"], &path);
    assert_eq!(again.made_and_served(), (0, ran.made_and_served().0 + ran.made_and_served().1));
}

/// Whether everybody can reach and run a program, and what it is a link to.
fn is_open_to_all(program: &Path) -> bool {
    let Ok(real) = fs_err::canonicalize(program) else { return false };
    let open = |path: &Path| fs_err::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o005 == 0o005);
    program.ancestors().chain(real.ancestors()).all(open)
}
