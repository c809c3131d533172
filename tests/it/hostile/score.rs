//! One table at one level: all of its rows in one run of the binary, then a look at the host.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use super::host::{Host, OPEN, VARIABLE};
use super::level::Level;
use super::table::{Row, Table};
use crate::docker::base;
use crate::support::{Place, Ran};
use crate::truth::Truth;
use crate::truth::fixture::{Fixture, commits, difference, instance};

/// The most that the records of one table may take: output is capped and counted, not kept.
const RUN_FOLDER: u64 = 160 << 20;

/// Replaces every `@word@`, those of the table first, as they may hold the host's.
pub fn filler(table: &Table, host: &Host) -> impl Fn(&str) -> String + use<> {
    let words: Vec<_> = table.words.clone().into_iter().chain(host.words.clone()).collect();
    move |text| words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(&format!("@{word}@"), value))
}

pub fn agrees_with_its_table(name: &str, level: Level) {
    let table = Table::read(name);
    let level = if table.home { level.with_home() } else { level };
    if table.rows(level).next().is_none() || !level.is_here() {
        return;
    }
    let place = Place::new();
    let mut host = Host::new(&place, level.owner());
    let fill = filler(&table, &host);

    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository(name);
    let (head, merged) = commits(&repository, &table.head, &table.merged);
    let mut described = instance(name, 1, &head, Some(&merged));
    for (field, value) in &table.instance {
        described[field] = value.clone();
    }
    described["comments"] = json!([table.oracle.comment("c1")]);
    let id = fixture.add(described, &[(&table.oracle.file, &table.oracle.text)]);
    let mut wanted = BTreeMap::new();
    for row in table.rows(level) {
        fixture.revise(&id, &row.name, &patch(row, &repository, &head, &fill));
        let expected = fill(row.expected(level).unwrap());
        wanted.insert(row.name.clone(), Truth::new(&expected, &row.marks, &table.marks));
    }
    for (arm, truth) in [("head", "fail: failed"), ("merged", "pass")] {
        wanted.insert(arm.to_owned(), Truth::new(truth, &[], &table.marks));
    }

    let bench = fixture.import();
    let (run, mirrors) = (place.join("run").display().to_string(), fixture.mirrors());
    level.give(&place);
    if level == Level::Container {
        // In a cache of its own, which is looked at afterwards.
        base::of(table.language()).lend(&place.join("cache"));
    }
    let mut arguments = vec!["score", &bench, "--out", &run, "--mirrors", &mirrors, "--offline", "--json"];
    arguments.extend(table.arguments.iter().map(String::as_str));
    let mut score = level.command(&place, &arguments);
    score.env(VARIABLE, OPEN).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let score = spawn(&mut score);
    let pid = score.id();
    let output = score.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), None, "redgreen itself was killed");
    let ran = Ran::of(output).exits(0);
    let report = ran.json();

    let rows = report["verdicts"].as_array().unwrap();
    assert_eq!(rows.len(), wanted.len());
    let mut wrong = Vec::new();
    for row in rows {
        let arm = row["arm"].as_str().unwrap();
        let want = &wanted[arm];
        let got = Truth::of(row, want);
        if got != *want {
            wrong.push(format!("{arm}\n  wanted {want:?}\n  got    {got:?}\n  said   {}", row["message"]));
        }
        // A patch that was refused ran nowhere.
        let isolation = &row["isolation"]["level"];
        if !isolation.is_null() && isolation != level.name() {
            wrong.push(format!("{arm}: ran at level {isolation}"));
        }
    }
    wrong.extend(host.look(&place, pid, level == Level::None, level == Level::Container));
    let size: u64 = walkdir::WalkDir::new(&run).into_iter().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    if size > RUN_FOLDER {
        wrong.push(format!("the run folder holds {size} bytes"));
    }
    let shown = Ran::of(level.command_of_report(&place, &run).output().unwrap()).exits(0);
    for (what, text) in [("progress", &ran.stderr), ("report", &shown.stdout), ("notes", &shown.stderr)] {
        if let Some(control) = text.chars().find(|c| c.is_control() && *c != '\n') {
            wrong.push(format!("{control:?} reaches the person's terminal in the {what}"));
        }
    }
    assert!(wrong.is_empty(), "{name} at {}, {} rows:\n{}", level.name(), rows.len(), wrong.join("\n"));
    host.prove_the_doors_open();
}

/// Starts a program that another test's fork may hold open for writing for a moment.
fn spawn(command: &mut std::process::Command) -> std::process::Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            other => return other.unwrap(),
        }
    }
}

/// The patch that a coding agent would have handed in.
fn patch(row: &Row, repository: &Path, head: &str, fill: &dyn Fn(&str) -> String) -> String {
    if let Some(generator) = row.generate {
        return generator.patch();
    }
    if let Some(patch) = &row.patch {
        return fill(patch);
    }
    row.lay_out(repository, fill);
    let patch = difference(repository, head, &BTreeMap::new());
    assert!(!patch.is_empty(), "`{}` changes nothing", row.name);
    patch
}
