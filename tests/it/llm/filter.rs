//! `redgreen filter` and `redgreen prompt`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server, error, openai_stream};
use crate::support::{Place, Ran, copy_folder, example};

/// Labels as a model gives them.
fn labels(oracle: &str) -> String {
    let yes = oracle != "none";
    json!({"reason": "r", "actionable": true, "specific": yes, "verifiable": yes, "category": "robustness",
           "oracle_reason": "o", "oracle": oracle})
    .to_string()
}

/// Answers by the words of the question.
fn answer(asked: &Asked) -> Reply {
    let text = asked.body["messages"][1]["content"].as_str().unwrap();
    openai_stream(&labels(if text.contains("example/rotate") { "none" } else { "behavioral" }))
}

fn live<'a>(server: &Server, out: &'a str, llm: &'a str) -> Vec<String> {
    let words =
        ["filter", "bench", "--out", out, "--llm", llm, "--model", "tiny", "--base-url", &server.base(), "--json"];
    words.map(str::to_owned).to_vec()
}

fn run(place: &Place, words: &[String]) -> Ran {
    place.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Everything that a benchmark folder holds, by path.
pub fn files(place: &Place, folder: &str) -> std::collections::BTreeMap<String, Vec<u8>> {
    let root = place.join(folder);
    let walked =
        walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    walked
        .map(|entry| {
            let name = entry.path().strip_prefix(&root).unwrap().display().to_string();
            (name, fs_err::read(entry.path()).unwrap())
        })
        .collect()
}

pub fn total(summary: &Value) -> u64 {
    let sum = |field: &str| summary[field].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    summary["kept"].as_u64().unwrap() + sum("dropped") + sum("failed") + sum("open")
}

#[test]
fn comments_are_filtered_recorded_and_replayed_to_the_same_bytes() {
    let place = Place::with_bench();
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["instance_id"] == "lantern-example__shelf-4@053db49" {
            row["reference_review_comments"][0]["author"] = json!("helper[bot]");
        }
    });
    // The digest is of the dataset as it was.
    place.edit("bench/bench.json", |text| {
        let mut bench: Value = serde_json::from_str(&text).unwrap();
        bench.as_object_mut().unwrap().remove("dataset_digest");
        format!("{bench} \n")
    });
    let server = Server::answering(answer);
    let summary = run(&place, &live(&server, "out", "record:tape.jsonl")).exits(0).json();
    assert_eq!(total(&summary), summary["comments"].as_u64().unwrap(), "{summary}");
    assert_eq!(summary["dropped"]["bot"], 1, "{summary}");
    let judged = summary["comments"].as_u64().unwrap() - 1;
    assert_eq!(server.asked().len() as u64, judged);
    assert_eq!(summary["calls"]["calls"], judged);
    assert_eq!(summary["calls"]["usage"]["output"], 20 * judged);
    assert!(summary["dropped"]["not-specific"].as_u64().unwrap() >= 2, "{summary}");

    // Again: nothing is asked.
    let again = run(&place, &live(&server, "out", "record:tape.jsonl")).exits(0).json();
    assert_eq!((server.asked().len() as u64, &again["served"]), (judged, &summary["comments"]));

    // From the tape alone, twice, to the same bytes; and what comes out is a sound benchmark.
    drop(server);
    let replay = ["filter", "bench", "--llm", "replay:tape.jsonl", "--json", "--out"];
    let first = place.run(&[&replay[..], &["one"]].concat()).exits(0).json();
    place.run(&[&replay[..], &["two"]].concat()).exits(0);
    assert_eq!(files(&place, "one"), files(&place, "two"));
    assert_eq!(first["kept"], summary["kept"]);
    assert_eq!(first["calls"]["replayed"], judged);
    place.run(&["check", "one"]).exits(0);

    let rows: Vec<Value> = fs_err::read_to_string(place.join("one/filter.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len() as u64, summary["comments"].as_u64().unwrap());
    assert_eq!(rows[0]["reason"], "bot");
    let kept = rows.iter().find(|row| row["decision"] == "kept").unwrap();
    assert_eq!((&kept["labels"]["category"], &kept["model"]), (&json!("robustness"), &json!("tiny")));
    let attrition = fs_err::read_to_string(place.join("one/attrition.jsonl")).unwrap();
    assert!(
        attrition
            .lines()
            .any(|line| line.contains("\"stage\":\"filter\"") && line.contains("bot: written by helper[bot]")),
        "{attrition}"
    );
    // What needs no model needs none: the tape says nothing of it.
    assert_eq!(fs_err::read_to_string(place.join("tape.jsonl")).unwrap().lines().count() as u64, judged);
}

#[test]
fn a_run_that_was_cut_short_goes_on_to_the_same_end() {
    let place = Place::with_bench();
    let server = Server::answering(answer);
    run(&place, &live(&server, "whole", "record:tape.jsonl")).exits(0);
    let replay = |out: &str| {
        place.run(&["filter", "bench", "--llm", "replay:tape.jsonl", "--llm-jobs", "1", "--out", out]).exits(0);
    };
    replay("straight");
    // A budget that ends in the middle.
    let words =
        [live(&server, "cut", "record:other.jsonl"), vec!["--budget".to_owned(), "calls=4".to_owned()]].concat();
    let stopped = run(&place, &words).exits(3);
    assert_eq!(
        stopped.json()["open"]["budget"].as_u64().unwrap()
            + stopped.json()["open"]["stopped"].as_u64().unwrap_or(0)
            + 4,
        13,
        "{}",
        stopped.stdout
    );
    assert!(stopped.stderr.contains("all 4 calls are used"), "{}", stopped.stderr);
    let asked = server.asked().len();
    // The rows that are there stay; the budget of before is used up by what the ledger holds.
    run(&place, &words).exits(3);
    assert_eq!(server.asked().len(), asked);
    // The tape of the whole run finishes it, and apart from where answers came from nothing tells.
    copy_folder(&place.join("cut"), &place.join("goes-on"));
    replay("goes-on");
    let (mut straight, mut resumed) = (files(&place, "straight"), files(&place, "goes-on"));
    assert_ne!(straight.remove("llm.jsonl"), resumed.remove("llm.jsonl"), "four calls were live");
    assert_eq!(straight, resumed);
}

#[test]
fn failures_are_typed_and_only_the_models_own_are_final() {
    let place = Place::with_bench();
    let server = Server::answering(|asked| {
        let text = asked.body["messages"][1]["content"].as_str().unwrap();
        if text.contains("example/shelf") {
            openai_stream("I think this is fine.")
        } else if text.contains("example/tally") {
            error(500, "api_error", "oops")
        } else {
            answer(asked)
        }
    });
    let words = [live(&server, "out", "live"), ["--llm-tries", "1"].map(str::to_owned).to_vec()].concat();
    let ended = run(&place, &words).exits(3);
    let summary = ended.json();
    assert_eq!(total(&summary), summary["comments"].as_u64().unwrap(), "{summary}");
    let (failed, open) = (summary["failed"]["not-json"].as_u64().unwrap(), summary["open"]["server"].as_u64().unwrap());
    assert!(failed >= 2 && open >= 2, "{summary}");
    // What the model got wrong is on record; the server's failures are tried again.
    let asked = server.asked().len();
    run(&place, &words).exits(3);
    assert_eq!((server.asked().len() - asked) as u64, open);
}

#[test]
fn an_interrupted_run_keeps_what_was_finished() {
    let place = Place::with_bench();
    let mut left = 4;
    let server = Server::answering(move |asked| {
        if left == 0 {
            return Reply::Hang;
        }
        left -= 1;
        answer(asked)
    });
    let words = [live(&server, "out", "live"), ["--llm-jobs", "2"].map(str::to_owned).to_vec()].concat();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = place.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while server.asked().len() < 6 {
        assert!(Instant::now() < until, "{} requests", server.asked().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    kill_process(pid, Signal::INT).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(130);
    let summary = ran.json();
    assert_eq!(summary["open"], json!({"interrupted": 9}), "{}", ran.stderr);
    assert_eq!(fs_err::read_to_string(place.join("out/filter.jsonl")).unwrap().lines().count(), 4);
    place.run(&["check", "out"]).exits(0);
    // Killed without a word, it loses what was under way and nothing else.
    let mut child = place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.asked().len() < 8 {
        assert!(Instant::now() < until, "{} requests", server.asked().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let server = Server::answering(answer);
    let words = live(&server, "out", "live");
    let summary = run(&place, &words).exits(0).json();
    assert_eq!((server.asked().len(), &summary["served"]), (9, &json!(4)), "{summary}");
}

#[test]
fn the_majority_of_several_answers_counts() {
    let place = Place::with_bench();
    let mut turn = 0;
    let server = Server::answering(move |_| {
        turn += 1;
        openai_stream(&labels(if turn % 3 == 0 { "none" } else { "behavioral" }))
    });
    let extra = ["--votes", "3", "--llm-jobs", "1", "-i", "*rotate-8*"].map(str::to_owned).to_vec();
    let summary = run(&place, &[live(&server, "out", "live"), extra].concat()).exits(0).json();
    assert_eq!(summary["kept"], summary["comments"], "{summary}");
    assert_eq!(server.asked().len() as u64, 3 * summary["comments"].as_u64().unwrap());
    assert_eq!(server.asked()[1].body["seed"], 1);
    let row: Value =
        serde_json::from_str(fs_err::read_to_string(place.join("out/filter.jsonl")).unwrap().lines().next().unwrap())
            .unwrap();
    assert_eq!(row["votes"].as_array().unwrap().len(), 3);
}

#[test]
fn the_filter_is_held_against_peoples_labels_on_one_half() {
    let place = Place::with_bench();
    let mut gold = String::new();
    for line in fs_err::read_to_string(place.join("bench/dataset.jsonl")).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        for comment in row["reference_review_comments"].as_array().unwrap() {
            let mut labels: Value = serde_json::from_str(&labels("behavioral")).unwrap();
            labels["instance_id"] = row["instance_id"].clone();
            labels["comment"] = comment["id"].clone();
            gold.push_str(&format!("{labels}\n"));
        }
    }
    gold.push_str(&gold.lines().next().unwrap().replace("shelf-4", "shelf-5"));
    fs_err::write(place.join("gold.jsonl"), gold).unwrap();
    let server = Server::answering(answer);
    let mut seen = 0;
    for half in ["held-out", "tune"] {
        let extra = ["--calibrate", "gold.jsonl", "--half", half].map(str::to_owned).to_vec();
        let before = server.asked().len();
        let summary = run(&place, &[live(&server, half, "live"), extra].concat()).exits(0).json();
        let found = &summary["calibration"];
        assert_eq!((&found["half"], &found["unknown"]), (&json!(half), &json!(1)));
        assert_eq!((&found["gold"], &found["compared"]), (&summary["comments"], &summary["comments"]));
        // Nothing of the other half is asked.
        assert_eq!((server.asked().len() - before) as u64, found["gold"].as_u64().unwrap());
        seen += found["gold"].as_u64().unwrap();
        let oracle = found["points"].as_array().unwrap().iter().find(|point| point["point"] == "oracle").unwrap();
        assert_eq!(oracle["classes"], json!(["behavioral", "structural", "none"]));
        let said_none = summary["dropped"]["not-specific"].as_u64().unwrap_or(0);
        assert_eq!(oracle["matrix"][0][2], said_none, "{oracle}");
        assert_eq!(oracle["per_class"][0]["precision"], 1.0);
    }
    assert_eq!(seen, 13);
    let words =
        ["filter", "bench", "--out", "held-out", "--llm", "live", "--model", "tiny", "--base-url", &server.base()];
    let shown = place.run(&[&words[..], &["--calibrate", "gold.jsonl"]].concat()).exits(0).stdout;
    assert!(
        shown.contains("half `held-out`") && shown.contains("people \\ filter") && shown.contains("kappa"),
        "{shown}"
    );
    fs_err::write(place.join("gold.jsonl"), "{}\n").unwrap();
    let wrong = place.run(&[&words[..], &["--calibrate", "gold.jsonl"]].concat()).exits(2).stderr;
    assert!(wrong.contains("gold.jsonl`, line 1"), "{wrong}");
}

#[test]
fn wrong_settings_are_said_before_anything_is_asked() {
    let place = Place::with_bench();
    for (words, said) in [
        (vec![], "no language model was named"),
        (vec!["--llm", "live"], "no model was named"),
        (vec!["--llm", "live", "--model", "m"], "`OPENAI_API_KEY`"),
        (vec!["--llm", "live", "--model", "m", "--api", "anthropic"], "`ANTHROPIC_API_KEY`"),
        (vec!["--llm", "live", "--model", "m", "--base-url", "nowhere"], "no URL"),
        (vec!["--llm", "live", "--model", "m", "--base-url", "http://127.0.0.1:1", "--key-file", "gone"], "gone"),
        (vec!["--llm", "replay:gone.jsonl"], "gone.jsonl"),
        (vec!["--llm", "tape"], "replay:FILE"),
        (
            vec!["--llm", "live", "--model", "odd", "--base-url", "http://127.0.0.1:1", "--budget", "usd=1"],
            "no price of `odd`",
        ),
    ] {
        let ran = place.run(&[&["filter", "bench", "--out", "out"][..], &words[..]].concat()).exits(2);
        assert!(ran.stderr.contains(said), "{words:?}: {}", ran.stderr);
        assert!(!place.join("out").exists(), "{words:?}");
    }
    assert!(place.run(&["filter", "--help"]).exits(0).stdout.contains("Example: redgreen filter"));
}

#[test]
fn prompts_are_listed_and_shown_as_they_are_sent() {
    let place = Place::new();
    let listed = place.run(&["prompt", "list", "--json"]).exits(0).json();
    assert_eq!(listed[0]["name"], "filter");
    let show =
        ["prompt", "show", "filter", "lantern-example__tally-3@2a8c4ad", "--bench", &example(), "--comment", "c2"];
    let shown = place.run(&show).exits(0).stdout;
    assert!(shown.contains("lantern-example/tally") && shown.contains("<<<<< comment"), "{shown}");
    fs_err::create_dir(place.join("mine")).unwrap();
    fs_err::write(place.join("mine/filter.hbs"), "S\n--- user ---\n{{comment}} {{nothing}}").unwrap();
    let mine = place.run(&[&show[..], &["--prompts", "mine"]].concat()).exits(2);
    assert!(mine.stderr.contains("mine/filter.hbs") && mine.stderr.contains("nothing"), "{}", mine.stderr);
    let unknown =
        place.run(&["prompt", "show", "sing", "lantern-example__tally-3@2a8c4ad", "--bench", &example()]).exits(2);
    assert!(unknown.stderr.contains("there are: filter"), "{}", unknown.stderr);
}
