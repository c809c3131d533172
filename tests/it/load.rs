//! Many runs at once with too little memory: nothing is lost, and no verdict differs from the serial run.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, Ran, binary, cells, is_root, loudly, timeless};

/// The instances without Rust: their runs are short, and 24 of them fit on two processors.
const SCORE: [&str; 12] = [
    "score",
    "bench",
    "--json",
    "--denominator",
    "all",
    "--offline",
    "--instances",
    "*rotate*",
    "--instances",
    "*tally*",
    "--instances",
    "*shelf*",
];

fn arguments<'a>(out: &'a str, jobs: &'a str) -> Vec<&'a str> {
    [&SCORE[..], &["--out", out, "--jobs", jobs]].concat()
}

#[test]
fn twenty_four_at_once_under_memory_pressure_give_the_serial_verdicts() {
    let place = Place::with_bench();
    let serial = place.run(&arguments("serial", "1")).exits(0);

    let pressed = match Pressure::new() {
        Some(pressure) => {
            let ran = pressure.run(&place, &arguments("run", "24"));
            assert!(pressure.was_felt(), "the limit was never reached, so this shows nothing:\n{}", ran.stderr);
            ran
        }
        None => {
            loudly("LEFT OUT, as no memory cgroup of version 1 can be made: the pressure of the load test");
            place.run(&arguments("run", "24"))
        }
    };
    nothing_is_lost(&place, &pressed, &serial.json());

    // What memory did not reach for is made by the same command again.
    let finished = place.run(&arguments("run", "2")).exits(0);
    assert_eq!(timeless(&finished.json()), timeless(&serial.json()));
    let (made, served) = serial.made_and_served();
    let (made_now, served_now) = finished.made_and_served();
    assert_eq!(made + served, made_now + served_now);
}

/// Every verdict is there; each is the serial one or says that it could not be had. Every start has an end.
#[track_caller]
fn nothing_is_lost(place: &Place, ran: &Ran, serial: &Value) {
    assert!(matches!(ran.code, Some(0 | 3)), "exit code {:?}\n{}", ran.code, ran.stderr);
    let (serial, pressed) = (cells(serial), cells(&ran.json()));
    assert_eq!(serial.keys().collect::<Vec<_>>(), pressed.keys().collect::<Vec<_>>());
    for (cell, verdict) in &pressed {
        let is_infra = verdict.0 == "invalid" && verdict.1.starts_with("infra: ");
        assert!(is_infra || *verdict == serial[cell], "{cell:?}: {verdict:?} and not {:?}", serial[cell]);
    }
    assert_eq!(ran.code == Some(3), pressed.values().any(|verdict| verdict.1.starts_with("infra: ")));
    let text = fs_err::read_to_string(place.join("run/events.jsonl")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tasks = |kind: &str| {
        let made = |event: &&Value| event["event"] == kind && event["cached"] != true;
        let mut tasks: Vec<String> = events.iter().filter(made).map(|event| event["task"].to_string()).collect();
        tasks.sort_unstable();
        tasks
    };
    let started = tasks("task-started");
    assert!(!started.is_empty());
    assert_eq!(started, tasks("task-finished"));
    assert_eq!(ran.made_and_served().0, started.len() as u64);
}

/// A memory cgroup that is mostly full: what runs in it gets what is left, all sandboxes together.
struct Pressure {
    group: PathBuf,
    /// A file in memory, whose bytes count in the group until it is deleted.
    eaten: PathBuf,
}

impl Pressure {
    const LIMIT: u64 = 144 << 20;
    const EATEN: u64 = 96 << 20;

    fn new() -> Option<Self> {
        let name = format!("load-test-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup/memory");
        if !is_root("the pressure of the load test") || !root.join("memory.limit_in_bytes").exists() {
            return None;
        }
        let pressure = Self { group: root.join(&name), eaten: Path::new("/dev/shm").join(&name) };
        fs_err::create_dir(&pressure.group).ok()?;
        set(&pressure.group, "memory.limit_in_bytes", Self::LIMIT)?;
        // Without swap nothing of the file can leave memory.
        let count = Self::EATEN >> 20;
        let eater = format!("head -c {count}M /dev/zero >{}", pressure.eaten.display());
        let status = pressure.command("sh").args(["-c", &eater]).status().ok()?;
        assert!(status.success());
        Some(pressure)
    }

    /// A command in the group.
    fn command(&self, program: &str) -> Command {
        let enter = format!("echo $$ >'{}/cgroup.procs' && exec \"$0\" \"$@\"", self.group.display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &enter, program]);
        command
    }

    /// `redgreen` in the group.
    fn run(&self, place: &Place, arguments: &[&str]) -> Ran {
        let plain = place.command(arguments);
        let mut command = self.command(binary());
        command.args(arguments).current_dir(place.path()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ran::of(command.output().unwrap())
    }

    /// Whether somebody asked for more than there was.
    fn was_felt(&self) -> bool {
        let text = fs_err::read_to_string(self.group.join("memory.failcnt")).unwrap();
        text.trim() != "0"
    }
}

fn set(group: &Path, file: &str, value: u64) -> Option<()> {
    fs_err::OpenOptions::new()
        .write(true)
        .open(group.join(file))
        .and_then(|mut file| std::io::Write::write_all(&mut file, value.to_string().as_bytes()))
        .ok()
}

impl Drop for Pressure {
    fn drop(&mut self) {
        let _ = fs_err::remove_file(&self.eaten);
        // Helpers that are still being buried keep it for a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.group).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
