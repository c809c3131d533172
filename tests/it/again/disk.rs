//! Room on disks: with too little of it nothing new is started, until there is more or patience is over.

use std::process::{Command, Stdio};

use super::bench::instances;
use crate::support::{Place, Ran, binary, is_root};

/// Runs shell lines in a mount namespace of their own with a small file system at `small`. `score` scores with the cache
/// there and says how it ended; `fill` leaves so many MiB.
fn in_small(place: &Place, lines: &[&str]) -> Ran {
    let mut script = "mkdir small && mount -t tmpfs -o size=64m none small || exit 99\n\
         score() { \"$REDGREEN\" score bench --out run --mirrors mirrors --cache small/cache --jobs 1 \"$@\" \
         >table 2>notes; echo \"exit $?\"; cat notes; }\n\
         fill() { head -c \"$((64 - $1))m\" /dev/zero >small/filler 2>/dev/null; }\n"
        .to_owned();
    for line in lines {
        script.push_str(line);
        script.push('\n');
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(place.path()).env_clear().stdin(Stdio::null());
    let like = place.command(&[]);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("REDGREEN", binary());
    Ran::of(command.output().unwrap()).exits(0)
}

const LOW: &str = "of 32 MiB free where the cache lies (";

#[test]
fn a_pause_until_there_is_room() {
    if !is_root("a disk that fills up and empties") {
        return;
    }
    let place = Place::new();
    instances(&place, &["one", "two"], &["right"], |_, _| {});
    let ran = in_small(
        &place,
        &[
            "fill 8",
            "(while ! grep -q 'starting nothing new' notes; do sleep 0.1; done; rm small/filler) &",
            "score --min-free 32M",
        ],
    );
    let out = &ran.stdout;
    assert!(out.starts_with("exit 0\n"), "{out}");
    assert_eq!(
        out.matches("starting nothing new until there is more (waiting for 10 min at most;").count(),
        1,
        "{out}"
    );
    assert!(out.contains(LOW), "{out}");
    assert_eq!(out.matches("disk: there is room again: going on\n").count(), 1, "{out}");
    assert!(out.contains("6 oracle runs made"), "{out}");
}

#[test]
fn patience_ends_as_infra_and_the_next_run_makes_it() {
    if !is_root("a disk that stays full") {
        return;
    }
    let place = Place::new();
    instances(&place, &["one", "two"], &["right"], |_, _| {});
    let ran = in_small(
        &place,
        &[
            "fill 8",
            "score --min-free 32M --disk-wait 1s",
            "rm small/filler",
            "echo 'with more room:'",
            "score --min-free 32M",
        ],
    );
    let (full, roomy) = ran.stdout.split_once("with more room:\n").unwrap();
    assert!(full.starts_with("exit 3\n"), "{full}");
    assert!(full.contains("0 oracle runs made"), "{full}");
    assert!(full.contains("infra, 6 rows: disk: stopped: ") && full.contains("and no more for 1 s"), "{full}");
    assert!(roomy.starts_with("exit 0\n") && roomy.contains("6 oracle runs made"), "{roomy}");
    assert!(!roomy.contains("starting nothing new"), "{roomy}");
}

#[test]
fn unused_entries_of_the_cache_make_room_when_asked_to() {
    if !is_root("a disk that is full of an old cache") {
        return;
    }
    let place = Place::new();
    instances(&place, &["one"], &["right"], |_, _| {});
    let old = "mkdir -p small/cache/layers-v1/python-packages/old/root && head -c 48m /dev/zero \
               >small/cache/layers-v1/python-packages/old/root/big && touch -d '3 days ago' small/cache/layers-v1/python-packages/old";
    let ran = in_small(
        &place,
        &[
            old,
            "score --min-free 32M --disk-wait 1s",
            "ls small/cache/layers-v1/python-packages",
            "echo 'asked to:'",
            "score --min-free 32M --disk-wait 1s --gc-when-low",
            "ls small/cache/layers-v1/python-packages",
            "echo 'never:'",
            "fill 1",
            "score --min-free 0",
        ],
    );
    let (kept, rest) = ran.stdout.split_once("asked to:\n").unwrap();
    assert!(kept.starts_with("exit 3\n") && kept.ends_with("\nold\n"), "{kept}");
    let (asked, never) = rest.split_once("never:\n").unwrap();
    assert!(asked.starts_with("exit 0\n") && !asked.ends_with("\nold\n"), "{asked}");
    assert!(asked.contains("; deleted 1 unused entries of the cache\n"), "{asked}");
    assert!(never.starts_with("exit 0\n") && never.contains("3 served from records"), "{never}");
}
