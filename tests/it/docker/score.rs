//! Whole runs of the binary with `--sandbox docker`: the same verdicts as the embedded sandbox's, and deaths at every fault
//! point.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use redgreen::fault::POINTS;
use serde_json::Value;

use super::leftovers::eventually;
use super::tiny::{containers_of, is_owned};
use super::{base, is_here};
use crate::support::{Place, Ran, cells, host};

/// The quickstart's instances in Python.
const PYTHON: [&str; 2] = ["*shelf-4*", "*tally-3*"];

/// `redgreen` with the engine, and the cache in which the base is.
pub fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.env("REDGREEN_CACHE", base::cache()).env_remove("DOCKER_HOST");
    for name in ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR"] {
        if let Some(value) = host(name) {
            command.env(name, value);
        }
    }
    command
}

fn score(place: &Place, run: &str, instances: &[&str], sandbox: &str) -> Command {
    let mut arguments = vec!["score", "bench", "--out", run, "--sandbox", sandbox, "--denominator", "all", "--json"];
    for glob in instances {
        arguments.extend(["--instances", glob]);
    }
    command(place, &arguments)
}

#[test]
fn verdicts_are_those_of_the_embedded_sandbox() {
    if !is_here() {
        return;
    }
    let place = Place::with_bench();
    base::root();
    let contained = Ran::of(score(&place, "contained", &PYTHON, "docker").output().unwrap()).exits(0).json();
    let embedded = Ran::of(score(&place, "embedded", &PYTHON, "local").output().unwrap()).exits(0).json();
    assert!(cells(&contained).len() > 10);
    assert_eq!(cells(&contained), cells(&embedded));
    let outcomes = |report: &Value| -> BTreeSet<String> {
        report["verdicts"].as_array().unwrap().iter().map(|row| row["outcomes"].to_string()).collect()
    };
    assert_eq!(outcomes(&contained), outcomes(&embedded));
    let ran: Vec<&Value> =
        contained["verdicts"].as_array().unwrap().iter().filter(|row| !row["isolation"].is_null()).collect();
    assert!(!ran.is_empty() && ran.iter().all(|row| row["isolation"]["sandbox"] == "docker"), "{ran:?}");
}

/// A run that is counted at its fault points, or acts at one of them.
fn faulty(place: &Place, folder: &str, fault: Option<&str>) -> Command {
    let faults = place.join(folder);
    fs_err::create_dir_all(&faults).unwrap();
    let mut command = score(place, "run", &PYTHON[..1], "docker");
    command.args(["--jobs", "1"]).env("REDGREEN_FAULT_FOLDER", &faults);
    if let Some(fault) = fault {
        command.env("REDGREEN_FAULT", fault);
    }
    command
}

#[test]
fn a_death_at_any_point_ends_in_the_same_report_and_leaves_nothing() {
    if !is_here() {
        return;
    }
    base::root();
    let place = Place::with_bench();
    let expected = Ran::of(faulty(&place, "counts", None).output().unwrap()).exits(0).json();
    let count = |point: &str| fs_err::metadata(place.join("counts").join(point)).map_or(0, |data| data.len());
    for point in POINTS.iter().filter(|point| point.name.starts_with("docker.")) {
        let times = count(point.name);
        if times == 0 {
            // The image is there by now, paths are mounted, and nothing of these instances keeps an upper: see `deaths`.
            assert!(super::deaths::ELSEWHERE.contains(&point.name), "{} was not reached", point.name);
            continue;
        }
        let place = Place::with_bench();
        let fault = format!("{}:{}", point.name, times.div_ceil(2));
        let mut child =
            faulty(&place, "faults", Some(&fault)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "{fault}");
        let again = Ran::of(faulty(&place, "again", None).output().unwrap()).exits(0).json();
        assert_eq!(cells(&again), cells(&expected), "{fault}");
        assert_eq!(containers_of(pid), Vec::<String>::new(), "{fault}");
    }
    let here = base::cache().join("scratch-v1").display().to_string();
    // Other tests of this program may be running; a dead process's folder has no owner. One of them may end just now.
    eventually("no mount of a dead process is left", || {
        let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().filter(|line| line.contains(&here)).all(|line| {
            let point = line.split(' ').nth(4).map(Path::new);
            point.and_then(|point| point.ancestors().nth(2)).is_some_and(is_owned)
        })
    });
}
