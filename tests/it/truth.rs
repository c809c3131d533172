//! Verdicts whose truth is known beforehand, through the built binary: tables of revisions of small repositories of our
//! own, each with the verdict and the reason that it must get. A runner that takes every non-zero exit for a failed
//! test, or believes what the code under test prints, fails these tables.

mod controls;
pub mod fixture;
pub mod network;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{Fixture, Table};
use serde_json::{Value, json};

use crate::support::{Place, root};

#[test]
fn python() {
    agrees_with_its_table("python");
}

#[test]
fn shell() {
    agrees_with_its_table("shell");
}

#[test]
fn rust() {
    agrees_with_its_table("rust");
}

#[test]
fn node() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        // Past the capture: a table that was not looked at must not go by unseen.
        std::io::stderr().write_all(b"SKIPPED truth::node: there is no `node` on this machine\n").unwrap();
        return;
    }
    agrees_with_its_table("node");
}

/// What a row must be: verdict, beginning of the reason, outcome of its run, marks.
#[derive(Debug, PartialEq)]
pub struct Truth {
    verdict: String,
    reason: String,
    outcome: Option<String>,
    marks: Vec<String>,
}

impl Truth {
    pub fn new(text: &str, own_marks: &[String], marks: &[String]) -> Self {
        let (verdict, reason) = text.split_once(": ").unwrap_or((text, ""));
        let outcome = match reason {
            "" => Some("passed".to_owned()),
            "result channel" => Some("errored(result-channel)".to_owned()),
            _ if reason.starts_with("patch: ") => None,
            outcome => Some(outcome.to_owned()),
        };
        // Marks are of what ran.
        let of_channel = marks.iter().filter(|_| outcome.is_some());
        let marks = own_marks.iter().chain(of_channel).cloned().collect();
        Self { verdict: verdict.to_owned(), reason: reason.to_owned(), outcome, marks }
    }

    /// A row as it is; its reason is cut to the length of the wanted one, but only where details may follow.
    pub fn of(row: &Value, wanted: &Self) -> Self {
        let reason = row["reason"].as_str().unwrap_or_default();
        let cut = if wanted.outcome.is_none() { wanted.reason.len().min(reason.len()) } else { reason.len() };
        let marks = row["marks"].as_array().unwrap().iter().map(|mark| mark.as_str().unwrap().to_owned());
        Self {
            verdict: row["verdict"].as_str().unwrap().to_owned(),
            reason: reason.get(..cut).unwrap_or(reason).to_owned(),
            outcome: row["outcomes"][0].as_str().map(str::to_owned),
            marks: marks.collect(),
        }
    }
}

fn agrees_with_its_table(name: &str) {
    let table = Table::read(&root().join("tests/it/truth").join(format!("{name}.toml")));
    let place = Place::new();
    let door = Door::new();
    let secret = place.join("secret");
    fs_err::write(&secret, "open").unwrap();
    let outside = place.join("outside.py");
    // A number of seconds that tells this test's sleeping processes from all others of the machine.
    let mark = format!("{}", 1_000_000_000 + u64::from(std::process::id()) * 100 + name.len() as u64);
    let words = BTreeMap::from([
        ("@port@", door.port.to_string()),
        ("@secret@", secret.display().to_string()),
        ("@variable@", "REDGREEN_TRUTH".to_owned()),
        ("@mark@", mark.clone()),
        ("@outside@", outside.display().to_string()),
    ]);
    let fill = |text: &str| words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value));

    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository(name);
    let (head, merged) = table.commits(&repository);
    let mut instance = table.instance(name, 1, &head, Some(&merged));
    instance["comments"] = json!([table.oracle.comment("c1")]);
    let id = fixture.add(instance, &[(&table.oracle.file, &table.oracle.text)]);
    let mut wanted: BTreeMap<String, Truth> = BTreeMap::new();
    for revision in &table.revision {
        let patch = revision.patch(&repository, &head, &fill);
        fixture.revise(&id, &revision.name, &patch);
        let truth = Truth::new(&fill(&revision.truth), &revision.marks, &table.marks);
        assert!(wanted.insert(revision.name.clone(), truth).is_none(), "`{}` is there twice", revision.name);
    }
    let reasons: BTreeSet<_> = wanted.values().map(|truth| &truth.reason).collect();
    assert!(reasons.len() >= 5, "a table of so few reasons proves nothing: {reasons:?}");
    wanted.insert("head".to_owned(), Truth::new("fail: failed", &[], &table.marks));
    wanted.insert("merged".to_owned(), Truth::new("pass", &[], &table.marks));

    let bench = fixture.import();
    let run = place.join("run");
    let mut arguments = vec!["score", &bench, "--out", run.to_str().unwrap(), "--offline", "--jobs", "4", "--json"];
    let mirrors = fixture.mirrors();
    arguments.extend(["--mirrors", &mirrors]);
    arguments.extend(table.arguments.iter().map(String::as_str));
    let output = place.command(&arguments).env("REDGREEN_TRUTH", "open").output().unwrap();
    let ran = crate::support::Ran::of(output).exits(0);
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
    }
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));

    // Nothing is left: no process, no file outside the tree, no flood in the records; and nobody came through the door.
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    assert!(!outside.exists());
    let size: u64 = walkdir::WalkDir::new(&run).into_iter().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 64 << 20, "the run folder holds {size} bytes");
    assert_eq!(door.visits.load(Ordering::SeqCst), 0);
    assert_eq!(door.knock(), "open", "the door was not open at all");
}

/// A port of the host's loopback that says "open" to whoever comes, and counts them.
struct Door {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Door {
    fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(AtomicUsize::new(0));
        let count = visits.clone();
        std::thread::spawn(move || {
            for mut line in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = line.write_all(b"open");
            }
        });
        Self { port, visits }
    }

    fn knock(&self) -> String {
        let mut text = String::new();
        TcpStream::connect(("127.0.0.1", self.port)).unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

/// The command lines of all processes that have this argument.
fn processes_with(argument: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(Path::new("/proc")).unwrap().flatten() {
        let Ok(line) = fs_err::read(entry.path().join("cmdline")) else { continue };
        if line.split(|b| *b == 0).any(|part| part == argument.as_bytes()) {
            found.push(String::from_utf8_lossy(&line).into_owned());
        }
    }
    found
}
