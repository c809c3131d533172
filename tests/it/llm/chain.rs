//! A benchmark from comments to a frozen set, through all stages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server, openai_stream};
use super::synth::{answer, files, messages, place, right, rows};
use crate::support::Place;

/// The instances of one repository: two pull requests, one of them with two comments.
fn shelf() -> Place {
    let place = place();
    for file in ["dataset.jsonl", "revisions.jsonl", "reviews.jsonl", "attrition.jsonl"] {
        place.edit(&format!("bench/{file}"), |text| {
            text.lines().filter(|line| line.contains("__shelf-")).map(|line| format!("{line}\n")).collect()
        });
    }
    // What is known of the comments is what the stages say.
    fs_err::remove_file(place.join("bench/attrition.jsonl")).unwrap();
    place
}

/// Labels for questions of the filter; for those of `synth` the example's tests, one of them at the second attempt only.
fn reply(asked: &Asked) -> Reply {
    let texts = messages(asked);
    let schema = asked.body["response_format"]["json_schema"]["schema"].to_string();
    if schema.contains("actionable") {
        let labels = json!({"reason": "r", "actionable": true, "specific": true, "verifiable": true, "category": "robustness",
                            "oracle_reason": "o", "oracle": "behavioral"});
        return openai_stream(&labels.to_string());
    }
    let test = if texts[0].contains("Names come from users") {
        if texts.len() == 1 { "import unittest\n".to_owned() } else { right("lantern-example__shelf-4@053db49", "c1") }
    } else if texts[0].contains("An empty file reads as") {
        right("lantern-example__shelf-7@7ebd13e", "c1")
    } else {
        right("lantern-example__shelf-7@7ebd13e", "c2")
    };
    let kind = if test.contains("docstring") { "structural" } else { "behavioral" };
    openai_stream(&answer(kind, "unittest", &test))
}

/// All stages, each into a folder of its own; `filter` and `synth` get these words on where answers come from.
fn build(place: &Place, name: &str, filter: &[&str], synth: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let out = |stage: &str| format!("{name}-{stage}");
    let (filtered, tested, tried, frozen) = (out("filtered"), out("tested"), out("tried"), out("frozen"));
    place.run(&[&["filter", "bench", "--out", &filtered], filter].concat()).exits(0);
    place.run(&["env", "build", &filtered]).exits(0);
    place.run(&[&["synth", &filtered, "--out", &tested], synth].concat()).exits(0);
    let agent = ["--agent", "recorded:human", "--attempts", "1"];
    place.run(&[&["validate", &tested, "--out", &tried], &agent[..]].concat()).exits(0);
    let cards = place.run(&["audit", &tried, "--budget-per-oracle", "1", "--repeat", "1", "--json"]).exits(0).json();
    assert_eq!(cards["oracles"].as_array().unwrap().len(), 3, "{cards:#}");
    place.run(&["freeze", &tried, "--out", &frozen]).exits(0);
    place.run(&["check", &frozen]).exits(0);
    files(place, &frozen)
}

/// Kills a run by the time it has kept its first row.
fn killed(place: &Place, words: &[&str], journal: &str) {
    let mut child =
        place.command(words).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while fs_err::read_to_string(place.join(journal)).unwrap_or_default().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(120), "nothing was kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was over before");
}

#[test]
fn from_comments_to_a_frozen_set_twice_to_the_same_bytes() {
    let place = shelf();
    let server = Server::answering(reply);
    let base = server.base();
    let live = |tape| ["--llm", tape, "--model", "tiny", "--base-url", base.as_str()];
    build(&place, "first", &live("record:filter.tape"), &live("record:synth.tape"));
    let asked = server.asked().len();
    assert_eq!(asked, 3 + 4, "three comments are labelled, three tests written, one of them twice");

    // From the tapes alone; the second time `synth` is killed on its way.
    let (filter, synth) = (["--llm", "replay:filter.tape"], ["--llm", "replay:synth.tape"]);
    let one = build(&place, "one", &filter, &synth);
    place.run(&[&["filter", "bench", "--out", "two-filtered"], &filter[..]].concat()).exits(0);
    killed(&place, &[&["synth", "two-filtered", "--out", "two-tested"], &synth[..]].concat(), "two-tested/synth.jsonl");
    let two = build(&place, "two", &filter, &synth);
    assert_eq!(one, two);
    assert_eq!(server.asked().len(), asked);

    // What the frozen set says of itself.
    let bench: Value = serde_json::from_slice(&one["bench.json"]).unwrap();
    assert_eq!(bench["frozen"].as_array().unwrap().len(), 3, "{bench:#}");
    assert_eq!(rows(&place, "one-frozen/filter.jsonl").len(), 3);
    let funnel = place.run(&["funnel", "one-frozen", "--json"]).exits(0).json();
    let left: Vec<(&str, Option<u64>)> = funnel["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| (stage["stage"].as_str().unwrap(), stage["comments"].as_u64()))
        .collect();
    let solved =
        rows(&place, "one-frozen/validate.jsonl").iter().filter(|row| row["status"] == "solved").count() as u64;
    let some = |comments| Some(comments);
    assert_eq!(left[..2], [("imported", some(3)), ("filtered", some(3))]);
    assert_eq!(left[3..], [("testable", some(3)), ("solvable", some(solved)), ("frozen", some(3))]);
}
