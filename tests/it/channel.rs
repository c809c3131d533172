//! Forged results, through the built binary: tables of revisions that fix nothing and try to look as if they did, each by
//! a way of its own. None may pass but those that the table itself calls so: what code in the tests' own process can
//! still do is written down there, too.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Place, Ran, loudly, root};
use crate::truth::fixture::{Fixture, Table};

#[test]
fn unittest() {
    agrees_with_its_table("unittest", &["--offline"]);
}

#[test]
#[ignore = "needs the package registries"]
fn pytest_of_the_registries() {
    agrees_with_its_table("pytest", &[]);
}

#[test]
fn node() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        loudly("LEFT OUT: channel::node: there is no `node` on this machine");
        return;
    }
    agrees_with_its_table("node", &["--offline"]);
}

#[test]
fn cargo() {
    agrees_with_its_table("cargo", &["--offline"]);
}

/// Verdict and reason of each row.
fn agrees_with_its_table(name: &str, more: &[&str]) {
    let table = Table::read(&root().join("tests/it/channel").join(format!("{name}.toml")));
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository(name);
    let (head, merged) = table.commits(&repository);
    let mut instance = table.instance(name, 1, &head, Some(&merged));
    instance["comments"] = json!([table.oracle.comment("c1")]);
    let id = fixture.add(instance, &[(&table.oracle.file, &table.oracle.text)]);
    let mut wanted =
        BTreeMap::from([("head".to_owned(), "fail: failed".to_owned()), ("merged".to_owned(), "pass".to_owned())]);
    for revision in &table.revision {
        fixture.revise(&id, &revision.name, &revision.patch(&repository, &head, &str::to_owned));
        assert!(wanted.insert(revision.name.clone(), revision.truth.clone()).is_none(), "`{}` twice", revision.name);
    }
    // The table proves nothing without an honest fix, and without forgeries that are told from plain failures.
    for truth in ["pass", "fail: result channel"] {
        assert!(table.revision.iter().any(|revision| revision.truth == truth), "no revision is `{truth}`");
    }

    let bench = fixture.import();
    let run = place.join("run");
    let mirrors = fixture.mirrors();
    let mut arguments = vec!["score", &bench, "--out", run.to_str().unwrap(), "--jobs", "2", "--json"];
    arguments.extend(["--mirrors", &mirrors]);
    arguments.extend(more);
    arguments.extend(table.arguments.iter().map(String::as_str));
    let report = Ran::of(place.command(&arguments).output().unwrap()).exits(0).json();
    let rows = report["verdicts"].as_array().unwrap();
    assert_eq!(rows.len(), wanted.len());
    let mut wrong = Vec::new();
    for row in rows {
        let arm = row["arm"].as_str().unwrap();
        let got = match row["reason"].as_str() {
            Some(reason) => format!("{}: {reason}", row["verdict"].as_str().unwrap()),
            None => row["verdict"].as_str().unwrap().to_owned(),
        };
        if got != wanted[arm] {
            wrong.push(format!("{arm}\n  wanted {}\n  got    {got}\n  said   {}", wanted[arm], row["message"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    no_token_is_kept(&run, rows);
}

/// Events are kept without what sealed them.
fn no_token_is_kept(run: &Path, rows: &[Value]) {
    let sealed = regex::Regex::new(r"(?m)^[0-9a-f]{32} \d+ \{").unwrap();
    for entry in walkdir::WalkDir::new(run) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let text = String::from_utf8_lossy(&fs_err::read(entry.path()).unwrap()).into_owned();
            assert!(!sealed.is_match(&text), "{}", entry.path().display());
        }
    }
    let merged = rows.iter().find(|row| row["arm"] == "merged").unwrap();
    let Some(digest) = merged["evidence"]["result"].as_str() else { return };
    let result = fs_err::read_to_string(run.join("blobs").join(&digest[..2]).join(digest)).unwrap();
    assert!(result.starts_with("{") && result.contains("\"canary\""), "{result}");
}
