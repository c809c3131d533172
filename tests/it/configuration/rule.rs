//! The two-run rule, with a framework whose test configuration the oracle itself reads: `check.conf` anywhere, and what
//! lies in `.check`.

use serde_json::{Value, json};

use super::{OF_THE_FIX, TOUCHED, agrees, files, records, row, score};
use crate::support::Place;
use crate::truth::fixture::{Fixture, commits, difference, instance};

const FRAMEWORKS: &str = r#"
schema = 1

[framework.exit]
command = ["{sh}", "{test}"]
own_command = true
place = "outside"
result = "exit"
codes = { 0 = "passed", 1 = "failed" }
configuration = ["**/check.conf", "**/.check/**"]
"#;

const HEAD: &str = "clamp() { if [ \"$1\" -lt \"$2\" ]; then echo \"$2\"; else echo \"$1\"; fi; }\n";
const MERGED: &str = "clamp() { printf '%s\\n' \"$1\" \"$2\" \"$3\" | sort -n | sed -n 2p; }\n";
const RIGHT: &str = "clamp() { printf '%s\\n' \"$3\" \"$2\" \"$1\" | sort -n | sed -n 2p; }\n";
const WRONG: &str = "clamp() { echo 4; }\n";
const CONF: &str = "STRICT=1\n";

/// Does what the configuration says, and nothing where it does not say `STRICT=1`.
const BEHAVES: &str = "\
for file in check.conf .check/rc sub/check.conf; do [ ! -f $file ] || . ./$file; done
[ \"$STRICT\" = 1 ] || exit 0
. ./clamp.sh
[ \"$(clamp 9 0 5)\" = 5 ]
";
/// Looks at the configuration itself, and does what another part of it says.
const READS: &str = "[ ! -f .check/rc ] || . ./.check/rc\ngrep -q LIMIT=5 check.conf\n";

fn comment(id: &str, test: &str) -> Value {
    json!({"id": id, "text": "Values above come through.", "test": test, "framework": "exit"})
}

/// A repository of its own whose fix writes `merged`; the instance's oracle is `test`.
struct Bench<'a> {
    fixture: Fixture<'a>,
    repository: std::path::PathBuf,
    head: String,
    id: String,
}

impl<'a> Bench<'a> {
    fn new(place: &'a Place, merged: Option<&[(&str, &str)]>, test: &str) -> Self {
        let mut fixture = Fixture::new(place);
        let repository = fixture.repository("rule");
        let at_head = [("clamp.sh", HEAD), ("check.conf", CONF), ("sub/check.conf", ":\n"), ("sub/more.sh", ":\n")];
        let (head, fix) = commits(&repository, &files(&at_head), &files(merged.unwrap_or(&[("clamp.sh", MERGED)])));
        let mut value = instance("rule", 1, &head, merged.map(|_| fix.as_str()));
        value["environment"] = json!({"language": "shell"});
        value["comments"] = json!([comment("c1", "c1.sh")]);
        let id = fixture.add(value, &[("c1.sh", test)]);
        fs_err::create_dir(place.join("definitions")).unwrap();
        fs_err::write(place.join("definitions/frameworks.toml"), FRAMEWORKS).unwrap();
        Self { fixture, repository, head, id }
    }

    /// A revision that removes, links and writes.
    fn revise(&mut self, arm: &str, remove: &[&str], link: &[(&str, &str)], write: &[(&str, &str)]) {
        for path in remove {
            let path = self.repository.join(path);
            if path.is_dir() { fs_err::remove_dir_all(path).unwrap() } else { fs_err::remove_file(path).unwrap() }
        }
        for (path, to) in link {
            std::os::unix::fs::symlink(to, self.repository.join(path)).unwrap();
        }
        let patch = difference(&self.repository, &self.head, &files(write));
        assert!(!patch.is_empty(), "{arm}");
        self.fixture.revise(&self.id, arm, &patch);
    }
}

#[test]
fn what_passes_by_its_own_configuration_only_fails() {
    let place = Place::new();
    let mut bench = Bench::new(&place, Some(&[("clamp.sh", MERGED)]), BEHAVES);
    let forge = "exit 0\n";
    bench.revise("right", &[], &[], &[("clamp.sh", RIGHT)]);
    bench.revise("right and loud", &[], &[], &[("clamp.sh", RIGHT), ("check.conf", "STRICT=1\nLOUD=1\n")]);
    bench.revise("right and renamed", &["check.conf"], &[], &[("clamp.sh", RIGHT), ("conf/check.conf", CONF)]);
    bench.revise("right and deleted", &["check.conf"], &[], &[("clamp.sh", RIGHT)]);
    bench.revise("wrong and loud", &[], &[], &[("clamp.sh", WRONG), ("check.conf", "STRICT=1\nLOUD=1\n")]);
    bench.revise("forges", &[], &[], &[("check.conf", forge)]);
    bench.revise("forges in a folder", &[], &[], &[(".check/rc", forge)]);
    bench.revise("forges by deleting", &["check.conf"], &[], &[]);
    bench.revise("forges by renaming", &["check.conf"], &[], &[("check.conf.old", CONF)]);
    bench.revise("a link for the file", &["check.conf"], &[("check.conf", "tool.sh")], &[("tool.sh", forge)]);
    bench.revise("a link for the folder", &[], &[(".check", "tools")], &[("tools/rc", forge)]);
    bench.revise("a folder for the file", &["check.conf"], &[], &[("check.conf/readme", "nothing")]);
    bench.revise("other letters", &[], &[], &[("Check.conf", forge)]);
    bench.revise(
        "needs its own",
        &[],
        &[],
        &[("clamp.sh", "clamp() { echo $N; }\n"), ("check.conf", "STRICT=1\nN=5\n")],
    );
    let breaks = [("clamp.sh", "[ \"$N\" = 5 ] || exit 3\nclamp() { echo 5; }\n"), ("check.conf", "STRICT=1\nN=5\n")];
    bench.revise("breaks without its own", &[], &[], &breaks);

    let bench_folder = bench.fixture.import();
    let definitions = place.join("definitions").display().to_string();
    let more = ["--definitions", definitions.as_str()];
    let ran = score(&place, &bench.fixture, &bench_folder, "run", &more).exits(0);
    let failed = "test configuration: failed";
    agrees(
        &ran.json(),
        &bench.id,
        &[
            ("head", "fail", "failed", &[], &[]),
            ("merged", "pass", "", &[], &[]),
            ("right", "pass", "", &[], &[]),
            ("right and loud", "pass", "", &["passed"], &[TOUCHED]),
            ("right and renamed", "pass", "", &["passed"], &[TOUCHED]),
            ("right and deleted", "pass", "", &["passed"], &[TOUCHED]),
            ("wrong and loud", "fail", "failed", &[], &[TOUCHED]),
            ("forges", "fail", failed, &["failed"], &[TOUCHED]),
            ("forges in a folder", "fail", failed, &["failed"], &[TOUCHED]),
            ("forges by deleting", "fail", failed, &["failed"], &[TOUCHED]),
            ("forges by renaming", "fail", failed, &["failed"], &[TOUCHED]),
            ("a link for the file", "fail", failed, &["failed"], &[TOUCHED]),
            ("a link for the folder", "fail", failed, &["failed"], &[TOUCHED]),
            ("a folder for the file", "fail", failed, &["failed"], &[TOUCHED]),
            ("other letters", "fail", "failed", &[], &[]),
            ("needs its own", "fail", failed, &["failed"], &[TOUCHED]),
            ("breaks without its own", "fail", "test configuration: errored(runner)", &["errored(runner)"], &[TOUCHED]),
        ],
    );
    // 15 revisions and two controls, and once more each of the 12 that passed first and touch configuration.
    let second =
        ran.json()["verdicts"].as_array().unwrap().iter().filter(|v| v["with_head_configuration"].is_array()).count();
    assert_eq!(second, 12);
    let (made, served) = ran.made_and_served();
    assert_eq!(made + served, 17 + 12);
    events_add_up(&place, 29);

    // The second runs are records of their own, which say what was laid over. Three of them are the head itself, two
    // are the right function alone: each of these groups shares one.
    let records = records(&place.join("run"));
    let laid: Vec<&Value> =
        records.iter().map(|r| &r["inputs"]["head_configuration"]).filter(|v| !v.is_null()).collect();
    assert_eq!(laid.len(), 9, "{laid:?}");
    assert!(laid.contains(&&json!(["check.conf", "conf/check.conf"])), "{laid:?}");

    // All of it is served from records; one second run that is gone is the only one that is made again.
    let again = score(&place, &bench.fixture, &bench_folder, "run", &more).exits(0);
    assert_eq!((again.made_and_served(), &again.json()["verdicts"]), ((0, 29), &ran.json()["verdicts"]));
    let forged = row(&again.json(), &bench.id, "c1", "forges in a folder")["key"].as_str().unwrap().to_owned();
    let record = place.join(format!("run/records/oracle/{}/{forged}.json", &forged[..2]));
    let inputs: Value = serde_json::from_slice(&fs_err::read(&record).unwrap()).unwrap();
    assert_eq!(inputs["inputs"]["head_configuration"], json!([".check/rc"]));
    fs_err::remove_file(&record).unwrap();
    let run = place.join("run").display().to_string();
    let lost = place.run(&["report", &run, "--json"]).exits(0).json();
    assert_eq!(row(&lost, &bench.id, "c1", "forges in a folder")["verdict"], "invalid");
    let repaired = score(&place, &bench.fixture, &bench_folder, "run", &more).exits(0);
    assert_eq!(repaired.made_and_served(), (1, 28));

    // The release's rule knows no second run.
    let replay = [&more[..], &["--policy", "c-crab"]].concat();
    let replayed = score(&place, &bench.fixture, &bench_folder, "replay", &replay).exits(0).json();
    agrees(&replayed, &bench.id, &[("forges", "pass", "", &[], &[TOUCHED]), ("right", "pass", "", &[], &[])]);
}

/// Runs that were announced or added are runs that ended, and nothing else did.
fn events_add_up(place: &Place, runs: u64) {
    let text = fs_err::read_to_string(place.join("run/events.jsonl")).unwrap();
    let (mut due, mut done) = (0, 0);
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str().unwrap() {
            "run-started" => due += event["tasks"].as_u64().unwrap(),
            "tasks-added" => due += event["count"].as_u64().unwrap(),
            "tasks-skipped" => done += event["count"].as_u64().unwrap(),
            "task-finished" => done += 1,
            _ => {}
        }
    }
    assert_eq!((due, done), (runs, runs));
}

#[test]
fn what_the_fix_changes_for_the_oracle_is_left_to_revisions() {
    let place = Place::new();
    let mut bench = Bench::new(&place, Some(&[("check.conf", "STRICT=1\nLIMIT=5\n")]), READS);
    let limit = ("check.conf", "LIMIT=5\nSTRICT=1\n");
    bench.revise("fixes", &[], &[], &[limit]);
    bench.revise("fixes and adds", &[], &[], &[limit, (".check/rc", ":\n")]);
    bench.revise("forges elsewhere", &[], &[], &[(".check/rc", "exit 0\n")]);
    bench.revise("touches and forges elsewhere", &[], &[], &[("check.conf", "LIMIT=6\n"), (".check/rc", "exit 0\n")]);
    bench.revise("wrong", &[], &[], &[("check.conf", "LIMIT=6\n")]);
    let folder = bench.fixture.import();
    let definitions = place.join("definitions").display().to_string();
    let more = ["--definitions", definitions.as_str(), "--repeat", "2"];
    let ran = score(&place, &bench.fixture, &folder, "run", &more).exits(0);
    let failed = "test configuration: failed";
    agrees(
        &ran.json(),
        &bench.id,
        &[
            ("head", "fail", "failed", &[], &[]),
            ("merged", "pass", "", &["failed", "failed"], &[TOUCHED]),
            ("fixes", "pass", "", &[], &[OF_THE_FIX]),
            ("fixes and adds", "pass", "", &["passed", "passed"], &[TOUCHED, OF_THE_FIX]),
            ("forges elsewhere", "fail", failed, &["failed", "failed"], &[TOUCHED]),
            ("touches and forges elsewhere", "fail", failed, &["failed", "failed"], &[TOUCHED, OF_THE_FIX]),
            ("wrong", "fail", "failed", &[], &[OF_THE_FIX]),
        ],
    );
    assert_eq!(ran.made_and_served(), (2 * (7 + 4), 0));
    events_add_up(&place, 22);
    let again = score(&place, &bench.fixture, &folder, "run", &more).exits(0);
    assert_eq!((again.made_and_served(), &again.json()["verdicts"]), ((0, 22), &ran.json()["verdicts"]));
}

#[test]
fn a_fix_that_only_happens_to_touch_configuration_does_not_open_it() {
    let place = Place::new();
    let mut bench = Bench::new(&place, Some(&[("clamp.sh", MERGED), ("check.conf", "# Strict.\nSTRICT=1\n")]), BEHAVES);
    bench.revise("forges", &[], &[], &[("check.conf", "exit 0\n")]);
    bench.revise("right", &[], &[], &[("clamp.sh", RIGHT), ("check.conf", "STRICT=1 # yes\n")]);
    let folder = bench.fixture.import();
    let definitions = place.join("definitions").display().to_string();
    let report = score(&place, &bench.fixture, &folder, "run", &["--definitions", &definitions]).exits(0).json();
    agrees(
        &report,
        &bench.id,
        &[
            ("merged", "pass", "", &["passed"], &[TOUCHED]),
            ("forges", "fail", "test configuration: failed", &["failed"], &[TOUCHED]),
            ("right", "pass", "", &["passed"], &[TOUCHED]),
        ],
    );
}

#[test]
fn without_a_merged_commit_the_rule_holds_as_it_stands() {
    let place = Place::new();
    let mut bench = Bench::new(&place, None, BEHAVES);
    bench.revise("forges", &[], &[], &[("check.conf", "exit 0\n")]);
    bench.revise("right", &[], &[], &[("clamp.sh", RIGHT), ("check.conf", "STRICT=1 # yes\n")]);
    let folder = bench.fixture.import();
    let definitions = place.join("definitions").display().to_string();
    let report = score(&place, &bench.fixture, &folder, "run", &["--definitions", &definitions]).exits(0).json();
    let marks = [TOUCHED, "uncontrolled"];
    agrees(
        &report,
        &bench.id,
        &[
            ("forges", "fail", "test configuration: failed", &["failed"], &marks),
            ("right", "pass", "", &["passed"], &marks),
        ],
    );
}
