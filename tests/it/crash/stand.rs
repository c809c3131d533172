//! A benchmark in which a run meets every fault point, folders to score it in, and what must not be left there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Place, Ran, binary, copy_folder};
use crate::truth::fixture::{Fixture, commits, difference, instance};

const ARGUMENTS: [&str; 8] =
    ["bench", "--cache", "cache", "--definitions", "definitions", "--denominator", "all", "--json"];

/// How long anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a run showed: its report without times, and the report's files without times.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub report: Value,
    files: BTreeMap<&'static str, String>,
}

impl Seen {
    /// Asserts that it is the same; shows the lines that differ.
    #[track_caller]
    pub fn assert_is(&self, expected: &Self) {
        let lines = |seen: &Self| -> Vec<String> {
            let report = serde_json::to_string_pretty(&seen.report).unwrap();
            let files =
                seen.files.iter().flat_map(|(name, text)| text.lines().map(move |line| format!("{name}: {line}")));
            report.lines().map(str::to_owned).chain(files).collect()
        };
        let (ours, theirs) = (lines(self), lines(expected));
        let only = |some: &[String], others: &[String], sign: &str| -> Vec<String> {
            some.iter().filter(|line| !others.contains(line)).map(|line| format!("{sign} {line}")).collect()
        };
        let differ = [only(&theirs, &ours, "-"), only(&ours, &theirs, "+")].concat();
        assert!(self == expected, "the reports differ:\n{}", differ.join("\n"));
    }
}

/// What every stand is a copy of.
pub struct Template {
    place: Place,
    /// What the command shows when nothing interrupts it.
    pub expected: Seen,
    /// How often that run reached each fault point.
    pub counts: BTreeMap<String, u64>,
}

impl Template {
    /// A benchmark that was scored once and has changed since: a patch, an agent's name, a test. The cache is cold.
    pub fn new() -> Self {
        let place = Place::new();
        let mut fixture = Fixture::new(&place);
        let repository = fixture.repository("crash");
        let tree = |value: &str, more: &[(&str, &str)]| -> BTreeMap<String, String> {
            let files = [("clamp.sh", value), ("build.sh", "cat clamp.sh generated >built\n"), ("docs/a.txt", "a\n")];
            files.iter().chain(more).map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let (head, merged) = commits(&repository, &tree("value=9\n", &[]), &tree("value=5\n", &[]));
        let mut value = instance("crash", 1, &head, Some(&merged));
        value["environment"] = json!({"language": "tiny", "packages": ["one", "two"], "rebuild": ["sh build.sh"]});
        let comment = |id: &str, test: &str| json!({"id": id, "text": "Too much.", "test": test, "framework": "exit"});
        value["comments"] = json!([comment("c1", "c1.sh"), comment("c2", "c2.sh")]);
        let test = "grep -q one built || exit 4\ngrep -q built /env/deps/two || exit 5\n. ./clamp.sh\necho $value\n[ \"$value\" = 5 ]\n";
        let id = fixture.add(value, &[("c1.sh", test), ("c2.sh", test)]);
        let patch = |text: &str| difference(&repository, &head, &tree(text, &[("new/file.txt", "new\n")]));
        fixture.revise(&id, "fox", &patch("value=6\n"));
        fixture.revise(&id, "owl", &patch("value=5 # owl\n"));
        fixture.revise(&id, "crow", "--- a/clamp.sh\n+++ b/clamp.sh\n@@ -1,1 +1,1 @@\n-value=1\n+value=5\n");
        fixture.import();
        fs_err::create_dir_all(place.join("bench/repos")).unwrap();
        let bundle = place.join("bench/repos/truth__crash.bundle").display().to_string();
        let mut git = Command::new("git");
        git.args(["bundle", "create", "--quiet", &bundle, "--all"]).current_dir(&repository);
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.status().unwrap().success());
        fs_err::create_dir(place.join("definitions")).unwrap();
        fs_err::write(place.join("definitions/tiny.toml"), include_str!("tiny.toml")).unwrap();

        let first = place.run(&command("run")).exits(0);
        assert_eq!(first.json()["verdicts"].as_array().unwrap().len(), 10, "{}", first.stdout);
        let owl = patch("value=5 # owl\n");
        place.edit_rows("bench/revisions.jsonl", |row| match row["arm"].as_str() {
            Some("fox") => row["patch"] = patch("value=$((2 + 3))\n").into(),
            Some("owl") => {
                row["agent"] = "another".into();
                row["patch"] = owl.clone().into();
            }
            _ => {}
        });
        let c2 = walkdir::WalkDir::new(place.join("bench/oracles")).into_iter().flatten();
        let c2 =
            c2.map(walkdir::DirEntry::into_path).find(|path| path.ends_with("c2/c2.sh") || path.ends_with("c2.sh"));
        let c2 = c2.unwrap();
        let changed = fs_err::read_to_string(&c2).unwrap() + "# as it was meant\n";
        fs_err::write(&c2, changed).unwrap();
        fs_err::remove_dir_all(place.join("cache")).unwrap();

        let mut template =
            Self { place, expected: Seen { report: Value::Null, files: BTreeMap::new() }, counts: BTreeMap::new() };
        let stand = template.stand();
        stand.run("run", None).exits(0);
        template.expected = stand.seen("run");
        template.counts = stand.counts("run");
        stand.assert_clean();
        let verdicts = template.expected.report["verdicts"].as_array().unwrap();
        let count = |kind: &str| verdicts.iter().filter(|v| v["verdict"] == kind).count();
        assert_eq!((count("pass"), count("fail")), (6, 4), "{:#}", template.expected.report);
        template
    }

    /// A fresh copy.
    pub fn stand(&self) -> Stand {
        let stand = Stand::empty();
        for name in ["bench", "definitions", "run"] {
            copy_folder(&self.place.join(name), &stand.join(name));
        }
        stand
    }
}

impl Stand {
    fn empty() -> Self {
        // In memory where that is possible: what is tested is the order of steps, and a disk's flushes take most time.
        let memory = Path::new("/dev/shm");
        let folder = tempfile::Builder::new().prefix("redgreen-crash-").tempdir_in(memory);
        let folder = folder.or_else(|_| tempfile::tempdir()).unwrap();
        let stand = Self { folder, started: Mutex::default(), faults: Mutex::default() };
        fs_err::create_dir(stand.join("tmp")).unwrap();
        stand
    }

    /// A copy of everything, with owners and times.
    pub fn copy(&self) -> Self {
        let copy = Self::empty();
        for name in ["bench", "definitions", "run", "cache"].map(|name| self.join(name)).iter().filter(|n| n.exists()) {
            let copied = Command::new("cp").arg("-a").arg(name).arg(copy.folder.path()).status().unwrap();
            assert!(copied.success());
        }
        copy
    }
}

fn command(run: &str) -> Vec<&str> {
    [&["score"], &ARGUMENTS[..], &["--out", run]].concat()
}

/// A folder to score in.
pub struct Stand {
    folder: tempfile::TempDir,
    /// The processes of all runs so far.
    started: Mutex<Vec<u32>>,
    /// Where the last run into each run folder counts its fault points.
    faults: Mutex<BTreeMap<String, PathBuf>>,
}

/// A run that goes on.
pub struct Running {
    pub child: Child,
    out: PathBuf,
}

impl Stand {
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts scoring into a run folder.
    pub fn start(&self, run: &str, fault: Option<&str>) -> Running {
        self.start_under(&[], run, fault)
    }

    /// The same, with a command before it.
    pub fn start_under(&self, wrapper: &[&str], run: &str, fault: Option<&str>) -> Running {
        // A new one each time: helpers of a dead run may still count in theirs.
        let faults = self.join(format!("faults-{}", self.started.lock().unwrap().len()));
        fs_err::create_dir(&faults).unwrap();
        self.faults.lock().unwrap().insert(run.to_owned(), faults.clone());
        let words: Vec<&str> = wrapper.iter().copied().chain([binary()]).chain(command(run)).collect();
        let mut command = Command::new(words[0]);
        // One that is to stand still does nothing else beside.
        let jobs = if fault.is_some_and(|fault| fault.ends_with(":wait")) { "1" } else { "2" };
        command.args(&words[1..]).args(["--jobs", jobs]).current_dir(self.folder.path()).env_clear();
        command.env("PATH", crate::support::host("PATH").unwrap()).env("HOME", "/nonexistent").env("COLUMNS", "100");
        command.env("TMPDIR", self.join("tmp")).env("REDGREEN_FAULT_FOLDER", &faults);
        if let Some(fault) = fault {
            command.env("REDGREEN_FAULT", fault);
        }
        // Files and not pipes: whatever outlives the run must not hold us up.
        let out = self.join(format!("output-{run}"));
        let file = |name: &str| fs_err::File::create(out.with_extension(name)).unwrap().into_parts().0;
        let child = command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn().unwrap();
        self.started.lock().unwrap().push(child.id());
        Running { child, out }
    }

    /// Scores into a run folder to the end.
    pub fn run(&self, run: &str, fault: Option<&str>) -> Ran {
        self.start(run, fault).end().0
    }

    /// Any other command in the folder.
    pub fn redgreen(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.folder.path()).env_clear().env("TMPDIR", self.join("tmp"));
        Ran::of(command.env("HOME", "/nonexistent").output().unwrap())
    }

    /// What the last run into a folder showed.
    pub fn seen(&self, run: &str) -> Seen {
        let text = fs_err::read_to_string(self.join(format!("output-{run}.out"))).unwrap();
        let mut report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        for row in report["verdicts"].as_array_mut().unwrap() {
            row["seconds"] = Value::Null;
        }
        let file = |name| (name, fs_err::read_to_string(self.join(run).join("report").join(name)).unwrap());
        Seen { report, files: ["report.md", "arms.csv", "swebench.json"].map(file).into() }
    }

    /// How often the last run into a folder reached each fault point.
    pub fn counts(&self, run: &str) -> BTreeMap<String, u64> {
        let entries = fs_err::read_dir(self.faults(run)).unwrap().map(Result::unwrap);
        entries.map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().len())).collect()
    }

    /// How often it reached one.
    pub fn count(&self, run: &str, point: &str) -> u64 {
        fs_err::metadata(self.faults(run).join(point)).map_or(0, |file| file.len())
    }

    /// Lets a run that waits at a fault point go on.
    pub fn go(&self, run: &str) {
        fs_err::write(self.faults(run).join("go"), "").unwrap();
    }

    /// Lets the run that was started last into a folder go on, also when another has been started by then.
    pub fn later(&self, run: &str) -> impl FnOnce() + use<> {
        let go = self.faults(run).join("go");
        move || fs_err::write(go, "").unwrap()
    }

    /// How many processes of the runs there are.
    pub fn count_processes(&self) -> usize {
        self.processes().len()
    }

    fn faults(&self, run: &str) -> PathBuf {
        self.faults.lock().unwrap()[run].clone()
    }

    /// The folders of temporary files of processes that live or were not cleaned up after.
    pub fn scratch(&self) -> Vec<PathBuf> {
        let entries = fs_err::read_dir(self.join("cache/scratch-v1")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }

    /// Nothing is left of any run: no process, mount, cgroup, temporary file, half-made entry or held lock.
    #[track_caller]
    pub fn assert_clean(&self) {
        let start = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "left behind: {left:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn left(&self) -> Vec<String> {
        let mut left = self.processes();
        left.extend(self.cgroups());
        let here = self.folder.path().display().to_string();
        let mounts = fs_err::read_to_string("/proc/mounts").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(&here)).map(str::to_owned));
        let files = walkdir::WalkDir::new(self.folder.path()).min_depth(1).into_iter().flatten();
        for entry in files {
            let path = entry.path().strip_prefix(self.folder.path()).unwrap();
            if !is_expected(path, entry.path()) {
                left.push(path.display().to_string());
            }
            if path.extension().is_some_and(|e| e == "lock") && entry.file_type().is_file() {
                let file = fs_err::File::open(entry.path()).unwrap().into_parts().0;
                if file.try_lock().is_err() {
                    left.push(format!("{} is locked", path.display()));
                }
            }
        }
        left
    }

    /// Processes that stand in the folder or name it, and those of the runs themselves.
    fn processes(&self) -> Vec<String> {
        let here = self.folder.path();
        let started = self.started.lock().unwrap();
        let belongs = |entry: &std::fs::DirEntry| -> Option<String> {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = fs_err::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let stands = fs_err::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(here));
            let groups = fs_err::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            let grouped =
                started.iter().any(|pid| groups.contains("/redgreen-") && groups.contains(&format!("-{pid}-")));
            let named = line.contains(&here.display().to_string());
            (stands || grouped || named).then(|| format!("process {pid}: {line}"))
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| belongs(&entry)).collect()
    }

    /// Cgroups of the runs.
    pub fn cgroups(&self) -> Vec<String> {
        let started = self.started.lock().unwrap();
        let ours = |name: &str| {
            let owner = name.strip_prefix("redgreen-").and_then(|rest| rest.split('-').nth(2));
            owner.and_then(|pid| pid.parse().ok()).is_some_and(|pid: u32| started.contains(&pid))
        };
        let groups = walkdir::WalkDir::new("/sys/fs/cgroup").into_iter().flatten();
        let groups = groups.filter(|entry| entry.file_type().is_dir() && entry.file_name().to_str().is_some_and(ours));
        groups.map(|entry| entry.path().display().to_string()).collect()
    }
}

impl Running {
    /// Waits for the end.
    pub fn end(mut self) -> (Ran, ExitStatus) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end: {}", fs_err::read_to_string(self.out.with_extension("err")).unwrap());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text = |name: &str| fs_err::read_to_string(self.out.with_extension(name)).unwrap();
        (Ran { code: status.code(), stdout: text("out"), stderr: text("err") }, status)
    }

    /// `kill -9`, for redgreen itself alone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Whether a path may be there when nothing runs.
fn is_expected(path: &Path, full: &Path) -> bool {
    let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
    match parts[..] {
        ["tmp", ..] => parts.len() == 1,
        [run, "scoring.lock"] if run.starts_with("run") => fs_err::metadata(full).unwrap().len() == 0,
        ["cache", "scratch-v1", ..] => parts.len() == 2 || path.ends_with("door.lock") || path.ends_with("gate.lock"),
        // A tree is there with its marker, and the other way round; a lock may stand alone.
        ["cache", "snapshots-v1", name] => match name.strip_suffix(".complete") {
            Some(entry) => full.with_file_name(entry).is_dir(),
            None => name.ends_with(".lock") || full.with_file_name(format!("{name}.complete")).is_file(),
        },
        ["cache", "repositories-v1", _, name] => name.ends_with(".git") || name.ends_with(".git.lock"),
        ["cache", "layers-v1", _, name] => !name.starts_with('.'),
        _ => !parts.iter().any(|part| part.starts_with(".tmp-") || part.ends_with(".overlay-work")),
    }
}

/// Waits until something holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Does all cases, several at a time, and tells of every one that failed.
pub fn in_parallel<T: Sync>(cases: &[T], name: impl Fn(&T) -> String + Sync, one: impl Fn(&T) + Sync) {
    const AT_ONCE: usize = 4;
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(case)));
                    if let Err(why) = ended {
                        let text = why.downcast_ref::<String>().cloned();
                        let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                        failed.lock().unwrap().push(format!("{}: {}", name(case), text.unwrap_or_default()));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), cases.len(), failed.join("\n\n"));
}

/// Asserts that a report says nothing that is wrong: a cell that passes or fails does so in `expected`, too.
#[track_caller]
pub fn assert_not_wrong(report: &Value, expected: &Value) {
    let right = crate::support::cells(expected);
    for (cell, (verdict, reason)) in crate::support::cells(report) {
        if verdict == "pass" || verdict == "fail" {
            assert_eq!(right[&cell], (verdict, reason), "{cell:?}");
        }
    }
}
