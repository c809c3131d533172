//! Environments as archives: exported, loaded by a container engine, imported into another cache.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use fs_err as fs;
use serde_json::{Value, json};

use super::tiny::Room;
use crate::support::{Place, Ran, cells, copy_folder, host, loudly, root};

/// What must be in no archive.
const FOREIGN: [&str; 4] =
    ["an authority of this machine", "proxy-of-this-machine", "index-of-this-machine", "hunter2"];

/// A room with the example's shell repository as a benchmark whose environments stand on the tiny base.
fn room() -> Room {
    let room = Room::new();
    room.tiny();
    copy_folder(&root().join("examples/quickstart"), &room.place.join("bench"));
    room.place.edit_rows("bench/dataset.jsonl", |row| {
        if row["environment"]["language"] == "shell" {
            row["environment"] = json!({"language": "tiny", "base": "tiny"});
        }
    });
    room
}

fn export(room: &Room, out: &str) -> Value {
    room.run(&["env", "export", "bench", "-i", "*rotate*", "--out", out, "--json"]).exits(0).json()
}

/// The files of an archive.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        out.insert(entry.path().unwrap().display().to_string(), bytes);
    }
    out
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

/// The names in each layer of the first image, the lowest first.
fn layers(files: &BTreeMap<String, Vec<u8>>) -> Vec<Vec<String>> {
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    let names = manifest[0]["Layers"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    names
        .map(|name| {
            let mut archive = tar::Archive::new(&files[name][..]);
            let entries = archive.entries().unwrap();
            entries.map(|e| e.unwrap().path().unwrap().display().to_string().trim_end_matches('/').to_owned()).collect()
        })
        .collect()
}

#[test]
fn an_export_is_the_same_each_time_and_holds_nothing_of_this_machine() {
    let room = room();
    let told = export(&room, "one.tar");
    assert_eq!(told["environments"].as_array().unwrap().len(), 2);
    export(&room, "two.tar");
    let bytes = fs::read(room.place.join("one.tar")).unwrap();
    assert!(bytes == fs::read(room.place.join("two.tar")).unwrap(), "two exports differ");
    let files = files(&bytes);
    for (name, bytes) in &files {
        for word in FOREIGN {
            assert!(!holds(bytes, word), "{word} in {name}");
        }
    }
    // The positive control: the fetch had all of it, as its log says.
    let log = walkdir::WalkDir::new(room.place.join("cache/layers-v1/tiny-deps")).into_iter().flatten();
    let log = log.filter(|e| e.file_name() == "log.txt").map(|e| fs::read(e.path()).unwrap()).next().unwrap();
    for word in &FOREIGN[..3] {
        assert!(holds(&log, word), "{word}: {}", String::from_utf8_lossy(&log));
    }
    // Base, layer, what the build changed in it, tree, outputs.
    let layers = layers(&files);
    assert_eq!(layers.len(), 5, "{layers:?}");
    assert!(layers[0].contains(&"usr/bin/sh".to_owned()));
    assert!(layers[1].contains(&"env/deps/sub/two".to_owned()), "{:?}", layers[1]);
    assert!(layers[2].contains(&"env/deps/sub/.wh.two".to_owned()), "{:?}", layers[2]);
    assert!(layers[3].contains(&"workspace/bin/rotate".to_owned()), "{:?}", layers[3]);
    assert_eq!(layers[4], ["workspace", "workspace/built.txt", "workspace/on.txt"]);
    // Two environments share all that was made without their trees.
    let manifests: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    let of = |n: usize| manifests[n]["Layers"].as_array().unwrap().clone();
    assert_eq!(of(0)[..2], of(1)[..2]);
    assert_ne!(of(0)[3], of(1)[3]);
}

#[test]
fn another_cache_takes_an_archive_in_and_needs_nothing_else() {
    let room = room();
    export(&room, "one.tar");
    let score = |place: &Place, cache: &str, out: &str| {
        let arguments = ["score", "bench", "-i", "*rotate*", "--out", out, "--offline", "--denominator", "all"];
        let mut command = room.command(&arguments);
        command.current_dir(place.path()).env("REDGREEN_CACHE", room.place.join(cache));
        Ran::of(command.output().unwrap()).exits(0)
    };
    score(&room.place, "cache", "first");
    let imported = room.run(&["env", "import", "one.tar", "--cache", "other", "--json"]).exits(0).json();
    assert_eq!((imported["bases"].clone(), imported["layers"].clone()), (json!(["tiny"]), json!(3)), "{imported}");
    // The same recipes give the same names, and nothing is made again.
    let kinds = ["tiny-deps", "tiny-build"];
    let of = |cache: &str| -> Vec<String> {
        let folder = room.place.join(cache).join("layers-v1");
        let mut all: Vec<String> = kinds
            .iter()
            .flat_map(|kind| fs::read_dir(folder.join(kind)).unwrap().map(|e| e.unwrap().file_name()))
            .map(|name| name.into_string().unwrap())
            .collect();
        all.sort();
        all
    };
    assert_eq!(of("cache"), of("other"));
    let ran = score(&room.place, "other", "second");
    assert!(!ran.stderr.contains("tiny: "), "{}", ran.stderr);
    let report = |run: &str| room.run(&["report", run, "--json"]).exits(0).json();
    let (first, second) = (report("first"), report("second"));
    assert_eq!(cells(&first), cells(&second));
    assert!(cells(&first).values().any(|(verdict, _)| verdict == "pass"), "{first}");
    // Again: all is there. An export of the import is the same archive.
    let again = room.run(&["env", "import", "one.tar", "--cache", "other", "--json"]).exits(0).json();
    assert_eq!((again["layers"].clone(), again["there"].clone()), (json!(0), json!(4)));
    let arguments = ["env", "export", "bench", "-i", "*rotate*", "--out", "three.tar", "--cache", "other", "--offline"];
    room.run(&arguments).exits(0);
    let (one, three) = (fs::read(room.place.join("one.tar")).unwrap(), fs::read(room.place.join("three.tar")).unwrap());
    assert!(one == three, "{:?}", files(&one).keys().zip(files(&three).keys()).find(|(a, b)| a != b));
}

#[test]
fn a_damaged_archive_is_refused_the_blob_is_named_and_nothing_is_taken_in() {
    let room = room();
    export(&room, "one.tar");
    let bytes = fs::read(room.place.join("one.tar")).unwrap();
    let whole = files(&bytes);
    for name in whole.keys().filter(|name| name.starts_with("blobs/sha256/") && name.len() > 20) {
        let content = &whole[name];
        let mut damaged = bytes.clone();
        let at =
            damaged.windows(content.len().min(4096)).position(|w| *w == content[..content.len().min(4096)]).unwrap();
        damaged[at + content.len() / 2] ^= 1;
        fs::write(room.place.join("damaged.tar"), damaged).unwrap();
        let ran = room.run(&["env", "import", "damaged.tar", "--cache", "other"]).exits(2);
        let digest = name.trim_start_matches("blobs/sha256/");
        assert!(ran.stderr.contains(digest) && ran.stderr.contains("damaged"), "{name}: {}", ran.stderr);
    }
    fs::write(room.place.join("damaged.tar"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    room.run(&["env", "import", "damaged.tar", "--cache", "other"]).exits(2);
    let ran = room.run(&["env", "import", "tiny.tar", "--cache", "other"]).exits(2);
    assert!(ran.stderr.contains("holds no environments of redgreen"), "{}", ran.stderr);
    room.run(&["env", "import", "nowhere.tar", "--cache", "other"]).exits(2);
    for bucket in ["bases-v1", "layers-v1"] {
        let left = walkdir::WalkDir::new(room.place.join("other").join(bucket)).into_iter().flatten();
        let left: Vec<_> =
            left.filter(|e| e.file_type().is_file() && e.path().extension().is_none_or(|x| x != "lock")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The engine's own client, where there is an engine.
fn docker(arguments: &[&str]) -> Option<std::process::Output> {
    let mut command = Command::new("docker");
    command.args(arguments).env_clear();
    for name in ["PATH", "HOME", "DOCKER_HOST"] {
        command.envs(host(name).map(|value| (name, value)));
    }
    command.output().ok()
}

#[test]
fn a_container_engine_loads_an_archive_and_its_container_has_it_all() {
    if !docker(&["version"]).is_some_and(|output| output.status.success()) {
        loudly("LEFT OUT, as there is no container engine: `docker load` of an exported environment");
        return;
    }
    let room = room();
    // A digest of its own, so that nobody else has an image of this name.
    room.place.edit_rows("bench/dataset.jsonl", |row| {
        row["environment"]["variables"] = json!({"TEST": std::process::id().to_string()});
    });
    let told = export(&room, "one.tar");
    let tags: Vec<&str> = told["environments"].as_array().unwrap().iter().map(|e| e["tag"].as_str().unwrap()).collect();
    let archive = room.place.join("one.tar").display().to_string();
    let loaded = docker(&["load", "-i", &archive]).unwrap();
    let script =
        "pwd; cat /etc/os-release built.txt /env/deps/one; ls /env/deps/sub; test -x bin/rotate || ls bin; echo $DEPS";
    let ran = docker(&["run", "--rm", "--network", "none", tags[0], "sh", "-c", script]).unwrap();
    // It is told of, and never taken away: nobody can make it again but who has the archive.
    let engine = |verb: &[&str]| {
        let mut command = room.command(&[&["env"], verb, &["--sandbox", "docker", "--json"]].concat());
        match host("DOCKER_HOST") {
            Some(at) => command.env("DOCKER_HOST", at),
            None => command.env_remove("DOCKER_HOST"),
        };
        Ran::of(command.output().unwrap()).json()["engine"].clone()
    };
    let (du, gc) = (engine(&["du"]), engine(&["gc", "--to", "0", "--dry-run"]));
    for tag in &tags {
        docker(&["rmi", tag]);
    }
    let kind = |rows: &Value| {
        let rows = rows.as_array().unwrap().iter();
        rows.filter(|row| row["names"][0] == tags[0]).map(|row| row["kind"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(kind(&du["images"]), ["environment"], "{du:#}");
    assert_eq!((kind(&gc["gone"]), kind(&gc["in_use"])), (Vec::new(), Vec::new()), "{gc:#}");
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let stdout = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        stdout.starts_with("/workspace\nPRETTY_NAME=\"Tiny one\"\nbuilt\none\n") && stdout.ends_with("/env/deps\n"),
        "{stdout}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(!stdout.contains("two"), "{stdout}");
}

#[test]
fn an_environment_of_the_host_is_exported_on_a_base() {
    let room = Room::new();
    copy_folder(&root().join("examples/quickstart"), &room.place.join("bench"));
    let arguments = ["env", "export", "bench", "-i", "*rotate*", "--out", "x.tar", "--offline"];
    let ran = room.run(&arguments).exits(3);
    assert!(ran.stderr.contains("redgreen env base debian-12"), "{}", ran.stderr);
    assert!(!Path::new(&room.place.join("x.tar")).exists());
    // What is wrong with the place is said before anything is made.
    let nowhere = room.run(&["env", "export", "bench", "--out", "nowhere/x.tar"]).exits(2);
    assert!(nowhere.stderr.contains("nowhere` to write the archive into"), "{}", nowhere.stderr);
    room.tiny();
    room.run(&[&arguments[..], &["--base", "tiny"]].concat()).exits(0);
}
