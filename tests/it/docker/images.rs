//! What `env du` tells of our images at the engine, and which of them `env gc` takes away.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use redgreen::model::{Digest, digest_bytes};
use redgreen::store::{Scratch, Uses};
use serde_json::{Value, json};

use super::is_here;
use crate::support::{Place, Ran, host};

/// Nothing else at the engine, or in a cache, is that old.
const OLD: &str = "5000d";

/// An image of nearly nothing with a label, which is gone with it.
struct Image(String);

impl Image {
    fn new(name: &str, label: &str) -> Self {
        let mut docker = Command::new("docker");
        docker.args(["import", "--change", &format!("LABEL {label}"), "-", name]);
        let mut child = docker.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, "name", name.as_bytes()).unwrap();
        child.stdin.take().unwrap().write_all(&archive.into_inner().unwrap()).unwrap();
        assert!(child.wait().unwrap().success(), "{name}");
        Self(name.to_owned())
    }

    fn is_there(&self) -> bool {
        docker(&["image", "inspect", &self.0])
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        docker(&["image", "rm", &self.0]);
    }
}

fn docker(arguments: &[&str]) -> bool {
    Command::new("docker").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// A base in the cache with this content, that was used long ago.
fn base(cache: &Path, content: &Digest) -> PathBuf {
    let folder = cache.join("bases-v1").join(digest_bytes(content.as_str().as_bytes()).as_str());
    fs_err::create_dir_all(folder.join("root/usr")).unwrap();
    fs_err::write(folder.join("root.tar"), "none").unwrap();
    let record = json!({
        "schema": 1, "name": "old", "origin": "a test", "content": content, "system": "", "packages": [],
        "recipe": {"from": {"debian": {"release": "bookworm", "packages": []}}, "architecture": "amd64", "format": 1},
        "archive_bytes": 4, "folder_bytes": 0, "seconds": 0.0,
    });
    fs_err::write(folder.join("base.json"), record.to_string()).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    std::fs::File::open(&folder).unwrap().set_modified(long_ago).unwrap();
    folder
}

/// `redgreen` with this machine's engine.
fn run(place: &Place, arguments: &[&str]) -> Ran {
    let mut command = place.command(&[arguments, &["--cache", "cache"]].concat());
    match host("DOCKER_HOST") {
        Some(at) => command.env("DOCKER_HOST", at),
        None => command.env_remove("DOCKER_HOST"),
    };
    Ran::of(command.output().unwrap())
}

fn of<'a>(rows: &'a Value, content: &Digest) -> Vec<&'a Value> {
    rows.as_array().unwrap().iter().filter(|row| row["of"] == content.as_str()).collect()
}

#[test]
fn images_are_told_of_and_go_as_their_bases_were_used() {
    if !is_here() {
        return;
    }
    let place = Place::new();
    let cache = place.join("cache");
    let name = |what: &str| format!("{what} {} {:?}", std::process::id(), SystemTime::now());
    let [old, standing, held, young] =
        ["old", "standing", "held", "young"].map(|what| digest_bytes(name(what).as_bytes()));
    let made = |content: &Digest| Image::new(&format!("redgreen/base:{content}"), &format!("redgreen.base={content}"));
    let images = [&old, &standing, &held, &young].map(made);
    let [old_base, standing_base, held_base] = [&old, &standing, &held].map(|content| base(&cache, content));
    // Somebody's own with the label of the one that they built it on, and one that has got a name of theirs.
    let theirs = Image::new(&format!("somebody/theirs:{old}"), &format!("redgreen.base={old}"));
    let container = format!("redgreen-test-{standing}");
    assert!(docker(&["create", "--name", &container, &images[1].0, "/none"]));
    let scratch = Scratch::new(&cache).unwrap();
    let uses = Uses::new(&scratch).unwrap();
    let hold = uses.hold(&held_base).unwrap().unwrap();
    // To hold is to use; that it is old all the same must not matter.
    base(&cache, &held);

    let du = run(&place, &["env", "du", "--sandbox", "docker", "--json"]).exits(0).json();
    let listed = &du["engine"]["images"];
    for (content, in_use) in [(&old, false), (&standing, true), (&held, true), (&young, false)] {
        let rows = of(listed, content);
        assert_eq!(rows.len(), 1, "{listed:#}");
        assert_eq!((&rows[0]["kind"], &rows[0]["in_use"]), (&json!("base"), &json!(in_use)), "{rows:?}");
        assert!(rows[0]["bytes"].as_u64().unwrap() > 0);
    }
    let text = run(&place, &["env", "du"]).exits(0).stdout;
    assert!(text.contains("\nengine: ") && text.contains("images of bases\n"), "{text}");
    assert!(!run(&place, &["env", "du", "--sandbox", "local"]).exits(0).stdout.contains("engine"));

    // A dry run says which, and takes nothing.
    let gc = |more: &[&str]| run(&place, &[&["env", "gc", "--older-than", OLD], more].concat()).exits(0);
    let planned = gc(&["--dry-run", "--json"]).json();
    let all_there = || images.iter().chain([&theirs]).all(Image::is_there);
    assert!(all_there() && old_base.exists());
    let text = gc(&["--dry-run"]).stdout;
    assert!(text.contains(&format!("image       redgreen/base:{old}\n")), "{text}");
    assert!(
        text.contains("3 entries would go") && text.contains("3 entries stay, as live processes use them"),
        "{text}"
    );
    let done = gc(&["--json"]).json();
    assert_eq!(done["engine"], planned["engine"]);
    assert_eq!((of(&done["engine"]["gone"], &old).len(), done["engine"]["gone"].as_array().unwrap().len()), (1, 1));
    let in_use = &done["engine"]["in_use"];
    assert_eq!(
        (of(in_use, &standing).len(), of(in_use, &held).len(), of(in_use, &young).len()),
        (1, 1, 0),
        "{in_use:#}"
    );
    assert!(!images[0].is_there() && images[1..].iter().chain([&theirs]).all(Image::is_there));
    assert!(!old_base.exists() && held_base.exists());
    let before = done["bytes_before"].as_u64().unwrap() - done["bytes_after"].as_u64().unwrap();
    assert!(before >= planned["engine"]["gone"][0]["bytes"].as_u64().unwrap(), "{done:#}");

    // What nobody stands on or holds any more goes. Its base was not in the way: that is gone already.
    assert!(docker(&["rm", &container]));
    drop(hold);
    assert!(!standing_base.exists());
    base(&cache, &standing);
    base(&cache, &held);
    gc(&[]);
    assert_eq!(images.each_ref().map(Image::is_there), [false, false, false, true]);

    // An engine that was asked for must answer; nobody else waits for one.
    let nowhere = |arguments: &[&str]| place.run(&[arguments, &["--cache", "cache"]].concat());
    let refused = nowhere(&["env", "du", "--sandbox", "docker"]);
    assert!(refused.code == Some(3) && refused.stderr.contains("redgreen doctor"), "{}", refused.stderr);
    assert_eq!(nowhere(&["env", "du", "--json"]).exits(0).json()["engine"], Value::Null);
}
