//! `kill -9` in the middle of a build: the next start cleans up and ends in the same, and a live one is not disturbed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;

use super::bench::Bench;
use crate::support::Place;

/// Starts a build of one instance and returns when its step runs.
fn building(bench: &Bench<'_>, id: &str) -> Child {
    let mut build = bench.command(&["env", "build", "bench", "--instances", id, "--json"]);
    let mut build = build.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(build.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("lay the packages down") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before its step");
    }
    // What it says from now on is nobody's, and must not end it.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    build
}

#[test]
fn the_next_start_cleans_up_after_a_killed_build_and_leaves_a_live_one_alone() {
    let place = Place::new();
    // A step that ends when a file is there: each instance has its own.
    let definition = super::bench::HEAVY.replace(
        "slow) echo \"halfway through\"; sleep 600 ;;",
        "gate*) while ! test -e /env/gates/$name; do sleep 0.1; done ;;",
    );
    let definition = definition.replace("[layer.lock]", "[layer.lock]\n# gates");
    let gates = place.join("gates");
    fs_err::create_dir_all(&gates).unwrap();
    let bench = Bench::new(
        &place,
        2,
        &[],
        |number| json!({"language": "heavy", "packages": ["big", (["gatea", "gateb"][number - 1])]}),
    );
    // Seen inside as a part of the toolchain: a folder of the host's that is mounted at its own path.
    let definition = definition
        .replace("\"roots\": []", &format!("\"roots\": [\"{}\"]", gates.display()))
        .replace("/env/gates", &gates.display().to_string());
    fs_err::write(place.join("definitions/heavy.toml"), definition).unwrap();

    let live = building(&bench, &bench.ids[0]);
    let mut dead = building(&bench, &bench.ids[1]);
    let drafts = |bench: &Bench<'_>| -> Vec<_> {
        let all = bench.leftovers().into_iter();
        let mut drafts: Vec<_> = all.filter(|path| path.starts_with(bench.cache().join("layers-v1"))).collect();
        drafts.sort();
        drafts
    };
    assert_eq!(drafts(&bench).len(), 2);
    dead.kill().unwrap();
    dead.wait().unwrap();

    // Any other start takes away what the dead one left, and only that.
    bench.run(&["env", "gc", "--to", "0", "--json"]).exits(0);
    bench.run(&["doctor", "--json"]).exits(0);
    assert_eq!(drafts(&bench).len(), 1, "{:?}", drafts(&bench));
    let processes = bench.leftovers().into_iter().filter(|path| path.to_string_lossy().contains("process-")).count();
    assert_eq!(processes, 1, "{:?}", bench.leftovers());
    assert_eq!(bench.layers("heavy-deps"), Vec::<String>::new());

    for gate in ["gatea", "gateb"] {
        fs_err::write(gates.join(gate), "").unwrap();
    }
    let ended = live.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let again = bench.run(&["env", "build", "bench", "--json"]).exits(0).json();
    assert_eq!((&again["built"], &again["cached"]), (&json!(1), &json!(1)), "{again:#}");
    let digests = |place: &Place, cache: &str| -> Vec<String> {
        let cache = place.join(cache).display().to_string();
        let built = bench.run(&["env", "build", "bench", "--cache", &cache, "--json"]).exits(0).json();
        let rows = built["instances"].as_array().unwrap().iter();
        rows.map(|row| row["digest"].as_str().unwrap().to_owned()).collect()
    };
    // The same as where nobody was killed.
    assert_eq!(digests(&place, "cache"), digests(&place, "fresh"));
    assert_eq!(bench.leftovers(), Vec::<std::path::PathBuf>::new());
}
