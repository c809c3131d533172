//! A full disk: a small file system of our own, in a mount namespace of its own.

use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::support::{Place, Ran, binary, is_root};

/// Runs shell lines in a mount namespace of their own, with a file system of `size` at `small`. `score` scores the shell
/// instances with more options, and says how it ended; each line's outputs stand under the line.
fn in_small(place: &Place, size: &str, lines: &[&str]) -> Ran {
    let mut script = format!(
        "mkdir small && mount -t tmpfs -o size={size} none small || exit 99\n\
         score() {{ \"$REDGREEN\" score bench --min-free 0 --instances '*rotate-6*' --jobs 1 \"$@\" >table 2>notes; \
         echo \"exit $?\"; cat notes; }}\n"
    );
    for line in lines {
        script.push_str(line);
        script.push('\n');
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(place.path()).env_clear().stdin(Stdio::null());
    let like = place.command(&[]);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("REDGREEN", binary());
    let ran = Ran::of(command.output().unwrap()).exits(0);
    assert_eq!(ran.stderr, "");
    ran
}

#[test]
fn a_full_run_folder_stops_the_run_and_keeps_what_was_finished() {
    if !is_root("a run folder on a full disk") {
        return;
    }
    let place = Place::with_bench();
    let ran = in_small(
        &place,
        "200k",
        &[
            "score --out small/run",
            "find small/run/records -name '*.json' | wc -l >before",
            "mount -o remount,size=16m small",
            "echo 'with more room:'",
            "score --out small/run",
            "cp -r small/run kept",
        ],
    );
    let (full, roomy) = ran.stdout.split_once("with more room:\n").unwrap();
    assert!(full.starts_with("exit 3\n"), "{full}");
    assert!(full.contains("error: ") && full.contains("No space left on device"), "{full}");
    let hint = "hint: the disk is full: free some room; nothing finished is lost, the same command goes on";
    assert!(full.contains(hint), "{full}");
    // What was recorded before serves now.
    let kept: u64 = fs_err::read_to_string(place.join("before")).unwrap().trim().parse().unwrap();
    let roomy = Ran { code: None, stdout: String::new(), stderr: roomy.to_owned() };
    assert!(roomy.stderr.starts_with("exit 0\n"), "{}", roomy.stderr);
    assert_eq!(roomy.made_and_served(), (10 - kept, kept));
    assert!((1..10).contains(&kept), "{kept} records: the file system's size does not fit the test");
    let report = place.run(&["report", "kept", "--json"]).exits(0).json();
    let fresh = place.run(&["score", "bench", "--instances", "*rotate-6*", "--out", "fresh", "--json"]).exits(0).json();
    assert_eq!(crate::support::cells(&report), crate::support::cells(&fresh));
}

#[test]
fn a_full_cache_is_infra_and_heals() {
    if !is_root("a cache on a full disk") {
        return;
    }
    let place = Place::with_bench();
    let ran = in_small(
        &place,
        "100k",
        &[
            "score --out run --cache small/cache",
            "mount -o remount,size=64m small",
            "echo 'with more room:'",
            "score --out run --cache small/cache",
        ],
    );
    let (full, roomy) = ran.stdout.split_once("with more room:\n").unwrap();
    assert!(full.starts_with("exit 3\n"), "{full}");
    assert!(full.contains("infra, 12 rows: disk: the disk of the cache"), "{full}");
    assert!(full.contains("hint: free some room"), "{full}");
    assert!(roomy.starts_with("exit 0\n"), "{roomy}");
    assert!(roomy.contains("10 oracle runs made"), "{roomy}");
}

#[test]
fn a_disk_without_room_for_anything() {
    if !is_root("a disk without room") {
        return;
    }
    let place = Place::with_bench();
    let fill = "head -c 1m /dev/zero >small/filler 2>/dev/null";
    let ran = in_small(&place, "64k", &[fill, "score --out small/run", "score --out run --cache small/cache"]);
    assert_snapshot!(place.shown(&ran), @r"
    exit code 0
    ----- stdout
    exit 3
    error: could not write `[place]/small/run/manifest.json`: No space left on device (os error 28)
    hint: the disk is full: free some room; nothing finished is lost, the same command goes on
    exit 3
    error: the cache folder cannot be written
      caused by: failed to write to file `[place]/small/cache/scratch-v1/[temporary]/[temporary]/redgreen_canary.rs`: No space left on device (os error 28)
    hint: free some room there, or name another one with `--cache DIR`
    ");
}
