//! `redgreen synth` against a scripted server and real sandboxes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server, anthropic_stream, error, openai_stream};
use crate::support::{Place, Ran, copy_folder};

/// A copy of the example at `bench` whose comments have no tests.
pub fn place() -> Place {
    let place = Place::with_bench();
    place.edit_rows("bench/dataset.jsonl", |row| drop(row.as_object_mut().unwrap().remove("oracles")));
    place.edit("bench/bench.json", |text| {
        let mut bench: Value = serde_json::from_str(&text).unwrap();
        let bench = bench.as_object_mut().unwrap();
        bench.remove("dataset_digest");
        bench.remove("frozen");
        serde_json::to_string(bench).unwrap()
    });
    place
}

pub fn answer(kind: &str, framework: &str, test: &str) -> String {
    let why = "it checks the concern";
    json!({"testable": true, "why": why, "kind": kind, "framework": framework, "missing": "", "test": test}).to_string()
}

/// The example's own test of a comment: the right answer.
pub fn right(instance: &str, comment: &str) -> String {
    let folder = crate::support::root().join("examples/quickstart/oracles").join(instance).join(comment);
    let file = fs_err::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    fs_err::read_to_string(file).unwrap()
}

const SHELF: &str = "lantern-example__shelf-4@053db49";

/// Passes on both commits: what it checks was never broken.
const PASSES_BEFORE: &str = "\
import os
import tempfile
import unittest

from shelf import Store


class Kept(unittest.TestCase):
    def test_what_is_put_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            store = Store(os.path.join(folder, 'store'))
            store.put('work/today', b'x')
            self.assertEqual(store.get('work/today'), b'x')
";

/// Does not collect.
const NO_IMPORT: &str = "\
import unittest

from shelf.locks import Lock


class Locked(unittest.TestCase):
    def test_a_lock(self):
        self.assertTrue(Lock())
";

fn words<'a>(server: &Server, api: &'a str, llm: &'a str, out: &'a str) -> Vec<String> {
    [
        "synth",
        "bench",
        "--out",
        out,
        "--llm",
        llm,
        "--model",
        "tiny",
        "--api",
        api,
        "--base-url",
        &server.base(),
        "--json",
        "-i",
        SHELF,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn run(place: &Place, words: &[String]) -> Ran {
    place.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn rows(place: &Place, file: &str) -> Vec<Value> {
    let text = fs_err::read_to_string(place.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a benchmark folder holds, without the records of runs, which hold times.
pub fn files(place: &Place, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let root = place.join(folder);
    let walked = walkdir::WalkDir::new(&root).into_iter().filter_entry(|entry| entry.file_name() != "runs");
    walked
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry.path().strip_prefix(&root).unwrap().display().to_string();
            (name, fs_err::read(entry.path()).unwrap())
        })
        .collect()
}

fn total(summary: &Value) -> u64 {
    let sum = |field: &str| summary[field].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    summary["accepted"].as_u64().unwrap() + sum("rejected") + sum("open") + sum("left")
}

/// The texts of a request's messages, whoever's wire it is.
pub fn messages(asked: &Asked) -> Vec<String> {
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    asked.body["messages"].as_array().unwrap().iter().filter(|m| m["role"] != "system").map(text).collect()
}

#[test]
fn what_really_happened_goes_back_to_the_model_until_a_test_is_right() {
    for (api, reply) in [("openai", openai_stream as fn(&str) -> Reply), ("anthropic", anthropic_stream)] {
        let place = place();
        let server = Server::scripted([
            reply(&answer("behavioral", "unittest", PASSES_BEFORE)),
            reply(&answer("behavioral", "unittest", NO_IMPORT)),
            reply(&answer("behavioral", "unittest", &right(SHELF, "c1"))),
        ]);
        let words = words(&server, api, "record:tape.jsonl", "out");
        let summary = run(&place, &words).exits(0).json();
        assert_eq!((&summary["comments"], &summary["accepted"]), (&json!(1), &json!(1)), "{summary}");
        assert_eq!(summary["attempts"], 3);
        assert_eq!(summary["accepted_at"], json!({"3": 1}));
        assert_eq!(summary["attempt_reasons"], json!({"passes-before": 1, "fails-after": 1}));

        // The model saw the merged change from the second question on, and what happened on both sides.
        let asked = server.asked();
        let shown = "how the project's authors changed it";
        let (first, second, third) = (messages(&asked[0]), messages(&asked[1]), messages(&asked[2]));
        assert_eq!((first.len(), second.len(), third.len()), (1, 3, 3));
        assert!(
            first[0].contains("refuse such a name") && first[0].contains("class Store") && !first[0].contains(shown)
        );
        assert_eq!(first[0], second[0]);
        let fix = "+            raise ValueError";
        for said in ["passes-before", "must fail by an assertion: passed", "it must pass: passed", shown, fix] {
            assert!(second[2].contains(said), "{said}: {}", second[2]);
        }
        for said in ["fails-after", "errored(import)", "shelf.locks"] {
            assert!(third[2].contains(said), "{said}: {}", third[2]);
        }

        // The rows carry the evidence.
        let rows_made = rows(&place, "out/synth.jsonl");
        let told: Vec<(Value, Value, Value)> = rows_made
            .iter()
            .map(|row| (row["attempt"].clone(), row["accepted"].clone(), row["saw_merged"].clone()))
            .collect();
        let wanted = [(1, false, false), (2, false, true), (3, true, true)];
        assert_eq!(told, wanted.map(|(a, b, c)| (json!(a), json!(b), json!(c))));
        assert_eq!(rows_made[2]["before"]["outcomes"], json!(["failed", "failed", "failed"]));
        assert_eq!(rows_made[2]["after"]["outcomes"], json!(["passed", "passed", "passed"]));
        assert_eq!(rows_made[1]["answer"]["test"], NO_IMPORT);

        // The benchmark is sound, its controls are good, and nothing is asked again.
        place.run(&["check", "out"]).exits(0);
        let score = ["score", "out", "--arms", "head,merged", "--out", "scored", "--json"];
        let report = place.run(&score).exits(0).json();
        let verdicts = crate::support::cells(&report);
        let verdict = |arm: &str| verdicts[&(SHELF.to_owned(), "c1".to_owned(), arm.to_owned())].0.clone();
        assert_eq!((verdict("head").as_str(), verdict("merged").as_str()), ("fail", "pass"));
        let again = run(&place, &words).exits(0).json();
        assert_eq!((server.asked().len(), &again["served"]), (3, &json!(3)));

        // From the tape alone, twice, to the same bytes.
        let replay = ["synth", "bench", "--llm", "replay:tape.jsonl", "--json", "-i", SHELF, "--out"];
        place.run(&[&replay[..], &["one"]].concat()).exits(0);
        place.run(&[&replay[..], &["two"]].concat()).exits(0);
        assert_eq!(files(&place, "one"), files(&place, "two"));
        assert_eq!(
            fs_err::read(place.join("one/synth.jsonl")).unwrap(),
            fs_err::read(place.join("out/synth.jsonl")).unwrap()
        );
    }
}

/// What the server says of each comment of the example, told apart by its words.
fn by_comment(asked: &Asked) -> Reply {
    let texts = messages(asked);
    let is = |words: &str| texts[0].contains(words);
    if is("Names come from users") {
        // JSON with a field too many, whatever is said.
        let mut odd: Value = serde_json::from_str(&answer("behavioral", "unittest", "x")).unwrap();
        odd["extra"] = json!(1);
        openai_stream(&odd.to_string())
    } else if is("A word longer than the width") {
        openai_stream("Sure, here is a test.")
    } else if is("I wonder whether this should") {
        let piece = json!({"choices": [{"delta": {"refusal": "I can't"}, "finish_reason": "stop"}]});
        Reply::Stream { pieces: vec![format!("data: {piece}\n\ndata: [DONE]\n\n")], torn: false }
    } else if is("An empty file reads as") {
        error(429, "rate_limit_exceeded", "slow down")
    } else if is("When an amount is not") {
        error(529, "overloaded_error", "busy")
    } else if is("Files from the bank") {
        let Reply::Stream { mut pieces, .. } = openai_stream("{}") else { panic!() };
        pieces.truncate(2);
        Reply::Stream { pieces, torn: true }
    } else if is("Say in the docstring") {
        Reply::Hang
    } else if is("This panics on an empty text") && texts.len() == 1 {
        openai_stream(&answer("behavioral", "cargo", "#[test]\nfn slow() { std::thread::sleep(D); }\n"))
    } else if is("This panics on an empty text") {
        let no = json!({"testable": false, "why": "taste", "kind": "behavioral", "framework": "cargo", "missing": "", "test": ""});
        openai_stream(&no.to_string())
    } else if is("The comment promises") {
        openai_stream(&answer("behavioral", "cargo", "#[test]\nfn odd() { let _x: u32 = \"\"; }\n"))
    } else if is("Other programs import") {
        let test = right("lantern-example__tally-9@8f8e90a", "c1");
        let mut named: Value = serde_json::from_str(&answer("behavioral", "unittest", &test)).unwrap();
        named["missing"] = json!("read");
        openai_stream(&named.to_string())
    } else {
        openai_stream(&answer("behavioral", "tap", &right("lantern-example__rotate-6@e2215cf", "c1")))
    }
}

#[test]
fn rejects_are_typed_and_failures_of_the_machine_are_not_final() {
    let place = place();
    let server = Server::answering(by_comment);
    let base = server.base();
    let words = [
        "synth",
        "bench",
        "--out",
        "out",
        "--llm",
        "live",
        "--model",
        "tiny",
        "--base-url",
        &base,
        "--json",
        "--llm-tries",
        "1",
        "--llm-timeout",
        "first-byte=3s",
        "--attempts",
        "2",
        "--repeat",
        "1",
    ];
    let summary = place.run(&words).exits(3).json();
    assert_eq!(total(&summary), summary["comments"].as_u64().unwrap(), "{summary}");
    assert_eq!(summary["comments"], 13);
    assert_eq!(summary["rejected"]["model"], 3, "{summary}");
    let open = json!({"infra(cut)": 1, "infra(overloaded)": 1, "infra(rate-limited)": 1, "infra(timeout)": 1});
    assert_eq!(summary["open"], open, "{summary}");
    let attrition = fs_err::read_to_string(place.join("out/attrition.jsonl")).unwrap();
    for said in [
        "model: misfit",
        "model: not-json",
        "model: refused",
        "not-testable: taste",
        "not-testable: no merged commit",
        "fails-after: errored(compile)",
    ] {
        assert!(attrition.contains(said), "{said}: {attrition}");
    }
    let made = rows(&place, "out/synth.jsonl");
    let sleeping = made.iter().find(|row| !row["checks"].is_null()).unwrap();
    assert_eq!((&sleeping["checks"][0]["rule"], &sleeping["checks"][0]["line"]), (&json!("sleep"), &json!(2)));
    assert!(sleeping["before"].is_null(), "what may not be is not run");

    // The very name that is asked for is missing at the head: that counts as failing, and the oracle says so.
    let data = rows(&place, "out/dataset.jsonl");
    let oracle = |id: &str| data.iter().find(|row| row["instance_id"] == id).unwrap()["oracles"][0].clone();
    let named = oracle("lantern-example__tally-9@8f8e90a");
    assert_eq!(
        (&named["before"], &named["synth"]["before"]),
        (&json!(["errored"]), &json!("errored(import)")),
        "{named}"
    );
    assert_eq!(oracle("lantern-example__rotate-6@e2215cf")["framework"], "tap");
    place.run(&["check", "out"]).exits(0);
    // Again: only what the server failed at is asked.
    let before = server.asked().len();
    place.run(&words).exits(3);
    assert_eq!(server.asked().len() - before, 4);
}

#[test]
fn a_budget_stops_before_the_call_and_a_larger_one_goes_on() {
    let place = place();
    let server = Server::scripted([
        openai_stream(&answer("behavioral", "unittest", PASSES_BEFORE)),
        openai_stream(&answer("behavioral", "unittest", &right(SHELF, "c1"))),
    ]);
    let with = |more: &[&str]| {
        [words(&server, "openai", "live", "out"), more.iter().map(|w| (*w).to_owned()).collect()].concat()
    };
    let stopped = run(&place, &with(&["--budget", "calls=1"])).exits(3);
    assert_eq!(stopped.json()["open"], json!({"budget": 1}), "{}", stopped.stdout);
    assert_eq!(server.asked().len(), 1);
    let row = &rows(&place, "out/synth.jsonl")[0];
    assert_eq!((&row["reason"], &row["again"]), (&json!("passes-before"), &json!(true)));
    copy_folder(&place.join("out"), &place.join("kept"));
    let summary = run(&place, &with(&["--budget", "calls=9"])).exits(0).json();
    assert_eq!((&summary["accepted"], &summary["served"], server.asked().len()), (&json!(1), &json!(1), 2));
    // `--see before` asks anew, and never shows the merged change.
    drop(server);
    let server = Server::scripted([openai_stream(&answer("behavioral", "unittest", &right(SHELF, "c1")))]);
    let blind = [words(&server, "openai", "live", "kept"), vec!["--see".to_owned(), "before".to_owned()]].concat();
    let summary = run(&place, &blind).exits(0).json();
    assert_eq!((&summary["accepted_at"], &summary["saw_merged"]), (&json!({"1": 1}), &json!(0)), "{summary}");
    // The first question can be looked at, without what came later.
    for (prompt, said) in
        [("synth", "Frameworks that are offered:\n- unittest"), ("solve", "which is part of the repository")]
    {
        let shown = place.run(&["prompt", "show", prompt, SHELF, "--bench", "bench"]).exits(0).stdout;
        assert!(shown.contains(said) && shown.contains("refuse such a name"), "{shown}");
        assert!(!shown.contains("leaves the store"), "{shown}");
    }
    place.run(&["prompt", "show", "synth_again", SHELF, "--bench", "bench"]).exits(2);
    assert!(place.run(&["synth", "--help"]).exits(0).stdout.contains("Example: redgreen synth"));
}
