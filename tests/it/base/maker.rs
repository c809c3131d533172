//! Making bases of Debian packages: a maker of ours stands in for `mmdebstrap`, writes what that would write, and fails
//! and hangs as that would.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;

use super::tiny::{Room, names};
use crate::support::{Ran, host};

/// The mirror, with credentials that must end up nowhere.
const MIRROR: &str = "http://me:hunter2@mirror.example/debian";

/// Puts a `mmdebstrap` that runs `body` in front of the path.
fn with_maker(room: &Room, body: &str) {
    let folder = room.place.join("bin");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("mmdebstrap");
    // The target is the one before the last argument.
    let script = format!(
        "#!/bin/sh\necho called >> {calls}\nfor word; do target=$before; before=$word; done\n{body}\n",
        calls = room.place.join("calls").display(),
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// A maker that gives the tiny root, with what it was told in the places where `mmdebstrap` leaves it.
fn good(room: &Room) -> String {
    format!(
        "echo 'I: running apt-get update...' >&2\n\
         made=$(mktemp -d)\n\
         cp -a {root}/. \"$made\"\n\
         echo \"deb $before bookworm main\" > \"$made\"/etc/apt/sources.list\n\
         env > \"$made\"/tmp/environment; echo \"$@\" > \"$made\"/tmp/arguments\n\
         for word; do case $word in --aptopt=*) cat \"${{word#--aptopt=}}\" > \"$made\"/etc/apt/apt.conf.d/99mmdebstrap; esac; done\n\
         cp \"$made\"/tmp/environment \"$made\"/tmp/arguments \"$made\"/etc/apt/apt.conf.d/99mmdebstrap {seen}\n\
         tar -C \"$made\" -cf \"$target\" .",
        root = room.place.join("root").display(),
        seen = room.place.join("seen").display(),
    )
}

fn command(room: &Room, arguments: &[&str]) -> Command {
    let mut command = room.command(arguments);
    command.env("PATH", format!("{}:{}", room.place.join("bin").display(), host("PATH").unwrap()));
    command.env("http_proxy", "http://me:hunter2@proxy-of-this-machine.example:3128");
    command
}

fn make(room: &Room) -> Ran {
    let arguments = ["env", "base", "tiny-9", "--debian-mirror", MIRROR, "--package", "libmore-dev", "--json"];
    Ran::of(command(room, &arguments).output().unwrap())
}

fn calls(room: &Room) -> usize {
    fs::read_to_string(room.place.join("calls")).map_or(0, |text| text.lines().count())
}

#[test]
fn a_base_holds_no_proxy_no_authority_and_no_credentials_of_the_mirror() {
    let room = Room::new();
    fs::create_dir(room.place.join("seen")).unwrap();
    with_maker(&room, &good(&room));
    let ran = make(&room).exits(0);
    assert!(ran.stderr.contains("base tiny-9: running apt-get update"), "{}", ran.stderr);
    // The maker was told what it needs, and no password in its arguments or variables.
    let seen = |name: &str| fs::read_to_string(room.place.join("seen").join(name)).unwrap();
    let arguments = seen("arguments");
    assert!(arguments.contains("--include=libmore-dev,tiny") && arguments.contains("bookworm"), "{arguments}");
    assert!(arguments.contains("http://mirror.example/debian"), "{arguments}");
    assert!(seen("99mmdebstrap").contains("ca.pem") && seen("environment").contains("proxy-of-this-machine.example"));
    assert!(!seen("environment").contains("hunter2") && !arguments.contains("hunter2"));
    // Nothing of it is left anywhere in the cache.
    let made = ran.json();
    let kept = names(&std::path::Path::new(made[0]["folder"].as_str().unwrap()).join("root.tar"));
    assert!(kept.contains("usr/bin/sh") && !kept.contains("etc/apt/sources.list"), "{kept:?}");
    for entry in walkdir::WalkDir::new(room.place.join("cache")) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            for word in ["hunter2", "proxy-of-this-machine", "index-of-this-machine", "an authority of this machine"] {
                let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
                assert!(!found, "{word} in {}", entry.path().display());
            }
        }
    }
    assert!(!ran.stderr.contains("hunter2") && !ran.stdout.contains("hunter2"));
    assert_eq!(made[0]["record"]["origin"], "Debian bookworm from http://mirror.example/debian");

    // From the cache it comes without the maker, and the same packages give the same archive.
    assert_eq!((make(&room).exits(0).json()[0]["made"].as_bool(), calls(&room)), (Some(false), 1));
    let content = made[0]["record"]["content"].clone();
    fs::remove_dir_all(room.place.join("cache")).unwrap();
    assert_eq!(make(&room).exits(0).json()[0]["record"]["content"], content);
}

#[test]
fn two_processes_make_a_base_once() {
    let room = Room::new();
    fs::create_dir(room.place.join("seen")).unwrap();
    with_maker(&room, &format!("sleep 1\n{}", good(&room)));
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| make(&room)));
        both.into_iter().for_each(|ran| drop(ran.join().unwrap().exits(0)));
    });
    assert_eq!(calls(&room), 1);
}

#[test]
fn failures_say_what_happened_and_leave_nothing() {
    let room = Room::new();
    for (said, code, expected) in [
        (
            "E: Unable to locate package libmore-dev",
            2,
            "no package `libmore-dev`: E: Unable to locate package libmore-dev; it is wanted by `system_packages`",
        ),
        ("E: Unable to locate package tiny", 2, "it is wanted by the definition"),
        (
            "W: Failed to fetch http://x: Temporary failure resolving 'mirror.example'",
            3,
            "http://mirror.example/debian did not give `bookworm`",
        ),
        ("W: GPG error: NO_PUBKEY 0E98404D386FA1D9", 3, "debian-archive-keyring"),
        ("dpkg: error: No space left on device", 3, "the disk is full"),
        ("something odd", 3, "something odd"),
    ] {
        with_maker(&room, &format!("echo \"{said}\" >&2; exit 1"));
        let ran = make(&room).exits(code);
        assert!(ran.stderr.contains(expected), "{said}: {}", ran.stderr);
    }
    assert!(room.bases().iter().all(|name| name.ends_with(".lock")), "{:?}", room.bases());
    // Without the maker: how to get it.
    let mut alone = room.command(&["env", "base", "tiny-9"]);
    let ran = Ran::of(alone.env("PATH", "/nonexistent").output().unwrap()).exits(3);
    assert!(ran.stderr.contains("apt install mmdebstrap") && ran.stderr.contains("--from"), "{}", ran.stderr);
    let ran = Ran::of(command(&room, &["env", "base", "tiny-9", "--offline"]).output().unwrap()).exits(3);
    assert!(ran.stderr.contains("--offline"), "{}", ran.stderr);
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process with this word among its arguments runs.
fn runs(word: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
}

#[test]
fn a_maker_that_hangs_ends_at_its_deadline_by_ctrl_c_and_with_us() {
    let room = Room::new();
    for (number, way) in ["deadline", "interrupt", "kill"].into_iter().enumerate() {
        let mark = format!("{}.{number}", 100_000 + std::process::id());
        with_maker(&room, &format!("echo half > \"$target\"\nsleep {mark} & sleep {mark}"));
        let timeout = if way == "deadline" { "1" } else { "600" };
        let mut command = command(&room, &["env", "base", "tiny-9", "--timeout", timeout]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        if way != "deadline" {
            eventually("the maker runs", || runs(&mark));
            assert!(room.bases().iter().any(|name| name.starts_with('.')), "{:?}", room.bases());
            let signal = if way == "kill" { rustix::process::Signal::KILL } else { rustix::process::Signal::INT };
            rustix::process::kill_process(pid, signal).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let (code, stderr) = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        match way {
            "deadline" => assert!(code == Some(3) && stderr.contains("deadline of 1 s"), "{code:?} {stderr}"),
            "interrupt" => assert!(code == Some(130) && stderr.contains("interrupted"), "{code:?} {stderr}"),
            _ => assert_eq!(code, None),
        }
        if rustix::process::getuid().is_root() || way != "kill" {
            eventually("the maker and its children are gone", || !runs(&mark));
        }
        if way == "kill" {
            assert!(room.bases().iter().any(|name| name.starts_with('.')), "{:?}", room.bases());
            // The next start that uses the cache takes away what is left.
            room.run(&["doctor"]);
        }
        assert!(!room.bases().iter().any(|name| name.starts_with('.')), "{way}: {:?}", room.bases());
    }
}
