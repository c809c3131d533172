//! What goes from the cache, and what stays while somebody uses it.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::bench::{Bench, bytes};
use crate::support::{Place, Ran};

/// Three instances with layers of some MiB that share nothing, the first one used longest ago.
fn three(place: &Place) -> Bench<'_> {
    let bench = Bench::new(
        place,
        3,
        &[("a", "a\n")],
        |number| json!({"language": "heavy", "packages": ["big", (["one", "two", "three"][number - 1])]}),
    );
    bench.run(&["env", "build", "bench", "--json"]).exits(0);
    let days = 86_400;
    for (number, id) in bench.ids.iter().enumerate() {
        let ago = Duration::from_secs((10 - number as u64) * days);
        let folder = layer_of(&bench, id);
        std::fs::File::open(folder).unwrap().set_modified(SystemTime::now() - ago).unwrap();
    }
    bench
}

/// The folder of the instance's layer, as the plan names it.
fn layer_of(bench: &Bench<'_>, id: &str) -> String {
    let plan = bench.run(&["env", "plan", "bench", "--instances", id, "--json"]).exits(0).json();
    plan["instances"][0]["layers"][0]["folder"].as_str().unwrap().to_owned()
}

fn ready(bench: &Bench<'_>) -> Vec<bool> {
    let check = bench.run(&["env", "check", "bench", "--json"]).json();
    check["instances"].as_array().unwrap().iter().map(|row| row["standing"] == "ready").collect()
}

#[test]
fn the_one_that_was_not_used_for_longest_goes_first() {
    let place = Place::new();
    let bench = three(&place);
    assert_eq!(ready(&bench), [true; 3]);
    let planned = bench.run(&["env", "gc", "--older-than", "5d", "--to", "9M", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(planned["gone"].as_array().unwrap().len(), 1, "{planned:#}");
    assert_eq!(ready(&bench), [true; 3], "a dry run deletes nothing");
    let done = bench.run(&["env", "gc", "--older-than", "5d", "--to", "9M", "--json"]).exits(0).json();
    assert_eq!(done["gone"], planned["gone"]);
    assert!(done["bytes_after"].as_u64().unwrap() <= 9 << 20, "{done:#}");
    assert_eq!(ready(&bench), [false, true, true]);
    // What is needed again is made again, and what others need stays.
    bench.run(&["env", "build", "bench"]).exits(0);
    assert_eq!(ready(&bench), [true; 3]);
    bench.run(&["env", "gc"]).exits(2);
}

#[test]
fn a_limit_holds_before_each_build_and_says_when_it_cannot() {
    let place = Place::new();
    let bench = three(&place);
    bench.run(&["env", "gc", "--older-than", "230h"]).exits(0);
    assert_eq!(ready(&bench), [false, true, true]);
    // Room for two layers of 4 MiB: the first one's build takes the second one's away, which was used longer ago.
    let id = bench.ids[0].as_str();
    let built = bench.run(&["env", "build", "bench", "--instances", id, "--cache-limit", "10M"]).exits(0);
    assert!(built.stderr.contains("disk: took 1 of the cache's entries away"), "{}", built.stderr);
    assert_eq!(ready(&bench), [true, false, true]);
    let du = bench.run(&["env", "du", "--json", "--cache-limit", "10M"]).exits(0).json();
    assert!(bytes(&du, "layer") <= 10 << 20 && du["limit"] == 10 << 20, "{du:#}");
    // `env gc` without a size goes by the limit, and a limit from the file counts.
    fs_err::write(place.join("redgreen.toml"), "cache-limit = \"5M\"\n").unwrap();
    let gc = bench.run(&["env", "gc", "--json"]).exits(0).json();
    assert!(gc["bytes_after"].as_u64().unwrap() <= 5 << 20, "{gc:#}");
    // One build does not fit at all: said, and no verdict of anything.
    let full = bench.run(&["env", "build", "bench", "--instances", &bench.ids[1], "--cache-limit", "2M", "--json"]);
    let full = full.exits(3);
    let failed = &full.json()["failed"][0];
    assert_eq!(failed["infra"], "disk", "{failed:#}");
    assert!(failed["reason"].as_str().unwrap().contains("the cache's limit is 2 MiB"), "{failed:#}");
}

#[test]
fn what_a_live_process_holds_stays_until_it_ends() {
    let place = Place::new();
    let bench = three(&place);
    // Somebody sits in the first environment, in a process of their own.
    let mut shell = bench
        .command(&["env", "shell", &bench.ids[0], "--bench", "bench"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    let mut ask = |command: &str| {
        writeln!(input, "{command}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(ask("cat /env/deps/one"), "one\n");
    let done = bench.run(&["env", "gc", "--to", "0", "--json"]).exits(0).json();
    let held = layer_of(&bench, &bench.ids[0]);
    let in_use = done["in_use"].as_array().unwrap();
    assert!(in_use.iter().any(|path| path == held.as_str()), "{done:#}");
    assert_eq!(done["gone"].as_array().unwrap().iter().filter(|gone| gone["kind"] == "layer").count(), 2, "{done:#}");
    // Its files are still there, those that nobody has read yet, too.
    assert_eq!(ask("wc -c </env/deps/content"), "4194304\n");
    assert_eq!(ask("cat number"), "1\n");
    let text = bench.run(&["gc", "--unused-days", "0", "--delete"]).exits(0).stdout;
    assert!(text.contains("stay, as live processes use them"), "{text}");
    drop(input);
    assert!(shell.wait().unwrap().success());
    // When the process is gone nothing holds it any more.
    let after = bench.run(&["env", "gc", "--to", "0", "--json"]).exits(0).json();
    assert_eq!((&after["in_use"], &after["bytes_after"]), (&json!([]), &json!(0)), "{after:#}");
    assert!(!std::path::Path::new(&held).exists());
}

#[test]
fn what_a_live_process_is_making_stays() {
    let place = Place::new();
    let bench = Bench::new(&place, 1, &[], |_| json!({"language": "heavy", "packages": ["big", "slow"]}));
    let mut build = bench.command(&["env", "build", "bench"]);
    let mut build = build.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(build.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("lay the packages down")));
    let half = |bench: &Bench<'_>| {
        bench.leftovers().into_iter().filter(|path| path.starts_with(bench.cache().join("layers-v1"))).count()
    };
    let Ran { stdout, .. } = bench.run(&["env", "gc", "--to", "0", "--json"]).exits(0);
    assert!(stdout.contains("\"bytes_after\""), "{stdout}");
    bench.run(&["doctor", "--json"]).exits(0);
    assert_eq!(half(&bench), 1);
    let pid = rustix::process::Pid::from_child(&build);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(build.wait().unwrap().code(), Some(130));
    assert_eq!(half(&bench), 0);
}
