//! A disk that fills up while an environment is built: infra, said so, and nothing of it is kept.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::bench::Bench;
use crate::support::{Place, Ran, binary, is_root};

/// Runs shell lines in a mount namespace of their own with a small file system at `small`, which is the cache's. `build`
/// builds with more options.
fn in_small(bench: &Bench<'_>, size: &str, lines: &[&str]) -> Ran {
    let mut script = format!(
        "mkdir -p small && mount -t tmpfs -o size={size} none small || exit 99\n\
         build() {{ \"$REDGREEN\" env build bench --cache small/cache --json \"$@\" >out 2>notes; echo \"exit $?\" >>codes; cat out; }}\n\
         score() {{ \"$REDGREEN\" score bench --cache small/cache --min-free 0 --out run --json \"$@\" >out 2>notes; \
         echo \"exit $?\" >>codes; cat out; }}\n"
    );
    for line in lines {
        script.push_str(line);
        script.push('\n');
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(bench.place.path()).env_clear().stdin(Stdio::null());
    let like = bench.command(&[]);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("REDGREEN", binary());
    Ran::of(command.output().unwrap()).exits(0)
}

fn codes(bench: &Bench<'_>) -> Vec<String> {
    let text = fs_err::read_to_string(bench.place.join("codes")).unwrap();
    fs_err::remove_file(bench.place.join("codes")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The JSON values of an output, one after another.
fn values(ran: &Ran) -> Vec<Value> {
    serde_json::Deserializer::from_str(&ran.stdout).into_iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_layer_that_met_a_full_disk_is_never_marked_whole() {
    if !is_root("a cache on a full disk") {
        return;
    }
    for (package, what) in [("careless", "goes on and says that all is well"), ("greedy", "says so itself")] {
        let place = Place::new();
        let bench = Bench::new(&place, 1, &[], |_| json!({"language": "heavy", "packages": [package]}));
        let bench = bench.with_variable("REDGREEN_MIN_FREE", "0");
        let ran = in_small(
            &bench,
            "24m",
            &[
                "build",
                "find small/cache/layers-v1 -name layer.json >whole",
                "find small/cache/layers-v1 -mindepth 2 -maxdepth 2 -type d >drafts",
                "score",
                "mount -o remount,size=200m small",
                "build",
                "find small/cache/layers-v1 -name content -size 65536k >content",
                "score --retry infra",
            ],
        );
        assert_eq!(codes(&bench), ["exit 3", "exit 3", "exit 0", "exit 0"], "{what}: {}", ran.stdout);
        let [full, scored, roomy, again] = values(&ran).try_into().unwrap();
        assert_eq!(full["failed"][0]["infra"], "disk", "{what}: {full:#}");
        assert_eq!(full["failed"][0]["kind"].as_str().unwrap_or("disk"), "disk", "{what}: {full:#}");
        let read = |name: &str| fs_err::read_to_string(place.join(name)).unwrap();
        assert_eq!((read("whole"), read("drafts")), (String::new(), String::new()), "{what}");
        let head = |report: &Value| -> Vec<Value> {
            report["verdicts"].as_array().unwrap().iter().filter(|row| row["arm"] == "head").cloned().collect()
        };
        assert_eq!(head(&scored).len(), 1, "{what}: {scored:#}");
        for verdict in head(&scored) {
            assert_eq!(verdict["verdict"], "invalid", "{what}: {verdict:#}");
            assert!(verdict["reason"].as_str().unwrap().contains("disk"), "{what}: {verdict:#}");
        }
        // With room it is made anew, and is whole.
        assert_eq!(roomy["built"], 1, "{what}: {roomy:#}");
        assert_eq!(read("content").lines().count(), 1, "{what}");
        let ran = &head(&again)[0];
        assert_eq!(ran["outcomes"], json!(["passed"]), "{what}: {ran:#}");
    }
}

#[test]
fn a_build_does_not_begin_without_room_for_it_and_waits_until_there_is() {
    if !is_root("a cache on a full disk") {
        return;
    }
    let place = Place::new();
    let bench = Bench::new(
        &place,
        2,
        &[],
        |number| json!({"language": "heavy", "packages": ["big", (["one", "two"][number - 1])]}),
    );
    let (first, second) = (bench.ids[0].as_str(), bench.ids[1].as_str());
    let build = |id: &str| format!("build --instances {id}");
    let ran = in_small(
        &bench,
        "64m",
        &[
            "export REDGREEN_MIN_FREE=16M REDGREEN_DISK_WAIT=1s",
            &build(first),
            // 18 MiB free: more than the mark, less than the mark and a layer like the first one.
            "head -c $(( $(df --output=avail -B1 small | tail -1) - 18 * 1048576 )) /dev/zero >small/filler",
            &build(second),
            "cat notes >short",
            "export REDGREEN_DISK_WAIT=10m; : >notes",
            "(while ! grep -q 'waiting for more' notes; do sleep 0.1; done; rm small/filler) & ",
            &build(second),
            "wait; cat notes >long",
        ],
    );
    assert_eq!(codes(&bench), ["exit 0", "exit 3", "exit 0"], "{}", ran.stdout);
    let [_, refused, waited] = values(&ran).try_into().unwrap();
    let reason = refused["failed"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("of it for builds by what earlier ones took"), "{reason}");
    assert_eq!((refused["failed"][0]["infra"].as_str(), waited["built"].as_u64()), (Some("disk"), Some(1)));
    let read = |name: &str| fs_err::read_to_string(place.join(name)).unwrap();
    assert!(!read("short").contains("lay the packages down"), "{}", read("short"));
    let long = read("long");
    let waits = long.find("waiting for more, for 10 min at most").unwrap();
    assert!(waits < long.find("lay the packages down").unwrap(), "{long}");
}
