//! Import: a small release in c-CRAB's shape, written here, through folder, zips and git into a benchmark folder.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use redgreen::metrics::{Denominator, Scores, recorded_report};
use redgreen::model::{AttritionReason, AttritionScope, BenchManifest, Instance, MergedKind, RevisionStatus};
use redgreen::stage::import::{self, Environments, ImportError, Imported, Options, Source};
use redgreen::store::bench::{self, Benchmark, WriteMode};
use serde_json::{Value, json};

const LAMP: &str = "Glade-Example__lamp-11@a1b2c3d";
const KETTLE: &str = "glade-example__kettle-7@0123abc";

/// The files of a release, by path.
type Files = BTreeMap<String, Vec<u8>>;

fn test_row(index: usize, text: &str, verdict: (Option<bool>, Option<bool>), language: &str, ending: &str) -> Value {
    let ran = verdict.0.is_some();
    json!({
        "comment_index": index, "comment_text": text, "comment_type": if index == 0 { "functional" } else { "style" },
        "language": language,
        "test_file": ran.then(|| format!("any/test_review_comment_{index}{ending}")),
        "test_code": ran.then(|| format!("def test_{index}():\n    assert 'é' in open('/workspace/lamp.py').read()\n")),
        "before_passed": verdict.0, "after_passed": verdict.1, "success": verdict == (Some(false), Some(true)),
        "before_output": "F\nE   AssertionError: dark\n", "after_output": "", "attempts_used": 1, "usage": {},
        "error": (!ran).then_some("Language 'c' not supported")
    })
}

fn outcome(index: usize, text: &str, passed: bool) -> Value {
    let output = if passed { "1 passed" } else { ">  assert on\nE   assert off\nE   more" };
    json!({"comment_index": index, "comment_text": text, "test_passed": passed, "test_output": output, "error": null})
}

fn solved(index: usize, text: &str, passed: bool, diff: &str) -> Value {
    let mut row = outcome(index, text, passed);
    row["resolved"] = json!(passed);
    row["file_path"] = json!("lamp.py");
    row["agent_diff"] = json!(diff);
    row
}

/// Every kind of loss once. The resolver's indexes are in another order than test generation's on purpose.
fn release() -> Files {
    let (valid, bad) = ((Some(false), Some(true)), (Some(false), Some(false)));
    let lamp_tests = json!([
        test_row(0, "Turn it off on exit.", valid, "python", ".py"),
        test_row(1, "Name the colour.", valid, "python", ".py"),
        test_row(2, "Nobody filtered me in.", valid, "python", ".py"),
        test_row(3, "Never green.", bad, "python", ".py"),
        test_row(4, "Always green.", (Some(true), Some(true)), "python", ".py"),
        test_row(5, "A comment on C.", (None, None), "c", ""),
        test_row(6, "Turn it off on exit.", valid, "python", ".py"),
        test_row(7, "A test for no runner.", valid, "cobol", ".cob"),
        {"comment_index": "eight", "comment_text": "A broken row."}
    ]);
    let kettle_tests = json!([test_row(0, "Whistle when done.", valid, "typescript", ".test.ts")]);
    let testgen = |id: &str, tests: &Value| json!({"instance_id": id, "repo": null, "model": "m", "results": tests});
    let eval = |id: &str, tool: &str, diff: &str, rows: Value| {
        json!({"instance_id": id, "repo": "r", "tool": tool, "model": "fixer", "num_findings": 2, "agent_diff": diff,
               "num_tests": 1, "results": rows})
    };
    let resolution =
        |id: &str, rows: Value| json!({"instance_id": id, "agent": "claude-code", "model": "fixer", "results": rows});
    let mut no_changes = outcome(0, "Whistle when done.", false);
    no_changes["error"] = json!("Agent made no changes");
    no_changes["test_output"] = Value::Null;

    let mut files = Files::new();
    let mut put = |path: String, value: Value| files.insert(path, value.to_string().into_bytes());
    put(format!("testgen_combined/{LAMP}/result.json"), testgen(LAMP, &lamp_tests));
    put(format!("testgen_combined/{KETTLE}/result.json"), testgen(KETTLE, &kettle_tests));
    let twin = "glade-example__KETTLE-7@0123abc";
    put(format!("testgen_combined/{twin}x/result.json"), testgen(twin, &kettle_tests));
    put(
        format!("agent_resolution_combined/{LAMP}/result.json"),
        resolution(
            LAMP,
            json!([
                solved(0, "Name the colour.", false, "human diff"),
                solved(1, "Turn it off on exit.", true, "human diff"),
                solved(2, "Turn it off on exit.", true, "human diff"),
                solved(3, "From another run.", true, "human diff")
            ]),
        ),
    );
    put(
        format!("agent_resolution_combined/{KETTLE}/result.json"),
        resolution(KETTLE, json!([solved(0, "Whistle when done.", true, "kettle diff")])),
    );
    put(
        format!("results_eval_alpha/{LAMP}/result.json"),
        eval(
            LAMP,
            "alpha",
            "alpha diff",
            json!([
                outcome(0, "Turn it off on exit.", true),
                outcome(1, "Another text than test generation's.", true),
                outcome(6, "Turn it off on exit.", false),
                {"comment_index": -1}
            ]),
        ),
    );
    put(
        format!("results_eval_alpha/{KETTLE}/result.json"),
        eval(KETTLE, "alpha", "", json!([outcome(0, "Whistle when done.", true)])),
    );
    let stray = "glade-example__stray-1@0000001";
    put(format!("results_eval_alpha/{stray}/result.json"), eval(stray, "alpha", "x", json!([])));
    put(format!("results_eval_beta/{KETTLE}/result.json"), eval(KETTLE, "beta", "", json!([no_changes])));
    let broken = "testgen_combined/glade-example__broom-3@beef123/result.json";
    files.insert(broken.to_owned(), b"{\"instance_id\": 3}".to_vec());
    let list = format!(
        "reviewbench/{}\nreviewbench/{KETTLE}\nreviewbench/glade-example__gone-9@abcdef0\n",
        LAMP.to_lowercase()
    );
    files.insert("results_preprocessed/instance-ids.txt".to_owned(), list.into_bytes());
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
    files.insert("assets/big.bin".to_owned(), pointer.as_bytes().to_vec());
    files.insert("README.md".to_owned(), b"A small release.\n".to_vec());
    files
}

fn as_folder(dir: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = dir.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
}

/// One zip for each folder of results; the resolver's has its members at the top.
fn as_zips(dir: &Path, files: &Files) {
    let mut zips: BTreeMap<&str, Files> = BTreeMap::new();
    let mut rest = Files::new();
    for (path, bytes) in files {
        let (top, inner) = path.split_once('/').unwrap_or(("", path));
        if top.ends_with("_combined") || top.starts_with("results_eval_") {
            let name = if top == "agent_resolution_combined" { inner } else { path };
            zips.entry(top).or_default().insert(name.to_owned(), bytes.clone());
        } else {
            rest.insert(path.clone(), bytes.clone());
        }
    }
    for (name, files) in zips {
        let mut zip = zip::ZipWriter::new(fs_err::File::create(dir.join(format!("{name}.zip"))).unwrap());
        for (path, bytes) in files {
            zip.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&bytes).unwrap();
        }
        zip.finish().unwrap();
    }
    as_folder(dir, &rest);
}

/// A bare git directory with the files in one commit, which is not at its HEAD; returns the commit's id.
fn as_git(dir: &Path, files: &Files) -> git2::Oid {
    let repository = git2::Repository::init_bare(dir).unwrap();
    let mut index = git2::Index::new().unwrap();
    for (path, bytes) in files {
        let id = repository.blob(bytes).unwrap();
        let entry = git2::IndexEntry {
            ctime: git2::IndexTime::new(0, 0),
            mtime: git2::IndexTime::new(0, 0),
            dev: 0,
            ino: 0,
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            file_size: 0,
            id,
            flags: 0,
            flags_extended: 0,
            path: path.clone().into_bytes(),
        };
        index.add(&entry).unwrap();
    }
    let tree = repository.find_tree(index.write_tree_to(&repository).unwrap()).unwrap();
    let who = git2::Signature::new("t", "t@example.org", &git2::Time::new(0, 0)).unwrap();
    repository.commit(None, &who, &who, "release", &tree, &[]).unwrap()
}

fn ccrab(source: &Path) -> Imported {
    import::ccrab(&Source::parse(source).unwrap(), &Options::default()).unwrap()
}

fn from_folder(files: &Files) -> Imported {
    let dir = tempfile::tempdir().unwrap();
    as_folder(dir.path(), files);
    ccrab(dir.path())
}

/// Passed, failed, invalid, missing, and instances with missing ones, of each arm.
fn table(manifest: &BenchManifest, imported: &Imported, denominator: Denominator) -> BTreeMap<String, [usize; 5]> {
    let content = &imported.content;
    let report: Scores = recorded_report(manifest, &content.instances, &content.recorded, denominator).unwrap();
    let row = |a: &redgreen::metrics::ArmRow| [a.passed, a.failed, a.invalid, a.missing, a.missing_instances];
    report.arms.iter().map(|a| (a.arm.clone(), row(a))).collect()
}

type Loss<'a> = (AttritionScope, AttritionReason, &'a str, &'a str, &'a str);

fn losses(imported: &Imported) -> BTreeSet<Loss<'_>> {
    let attrition = &imported.content.attrition;
    let set: BTreeSet<_> = attrition
        .iter()
        .map(|a| {
            let id = a.instance_id.as_deref().unwrap_or_default();
            let comment = a.comment.as_ref().map_or("", |c| c.as_str());
            (a.scope, a.reason, id, comment, a.arm.as_ref().map_or("", |arm| arm.as_str()))
        })
        .collect();
    assert_eq!(set.len(), attrition.len(), "each loss is told once: {attrition:#?}");
    set
}

#[test]
fn every_loss_of_a_release_is_typed_and_every_comment_accounted_for() {
    use AttritionReason::*;
    use AttritionScope::*;
    let imported = from_folder(&release());
    let want: BTreeSet<Loss<'_>> = [
        (File, LfsPointer, "", "", ""),
        (Instance, Malformed, "glade-example__broom-3@beef123", "", ""),
        (Instance, NotInSource, "glade-example__gone-9@abcdef0", "", ""),
        // Folders come in the order of their names, so that the upper-case twin is the first.
        (Instance, Duplicate, KETTLE, "", ""),
        (Row, Malformed, LAMP, "", ""),
        (Row, Malformed, LAMP, "", "alpha"),
        (Comment, NotSolved, LAMP, "1", ""),
        (Comment, Filtered, LAMP, "2", ""),
        (Comment, FailsAfter, LAMP, "3", ""),
        (Comment, PassesBefore, LAMP, "4", ""),
        (Comment, NoTest, LAMP, "5", ""),
        (Comment, Duplicate, LAMP, "6", ""),
        (Comment, Unsupported, LAMP, "7", ""),
        (Recorded, NoPartner, LAMP, "", "human"),
        (Recorded, Duplicate, LAMP, "0", "human"),
        (Recorded, NoPartner, LAMP, "1", "alpha"),
        (Recorded, NoOutput, LAMP, "1", "alpha"),
        (Recorded, NoOutput, LAMP, "2", "alpha"),
        (Revision, EmptyDiff, "glade-example__KETTLE-7@0123abc", "", "alpha"),
        (Revision, NoPartner, "glade-example__stray-1@0000001", "", "alpha"),
        (Revision, NoChanges, "glade-example__KETTLE-7@0123abc", "", "beta"),
        (Revision, NoOutput, LAMP, "", "beta"),
    ]
    .into();
    let found = losses(&imported);
    assert_eq!(found, want, "too many: {:#?}, too few: {:#?}", found.difference(&want), want.difference(&found));

    let content = &imported.content;
    let comments: usize = content.instances.iter().map(|i| i.reference_review_comments.len()).sum();
    let frozen = content.manifest.frozen.as_ref().unwrap();
    let lost = content.attrition.iter().filter(|a| a.scope == Comment).count();
    assert_eq!((comments, frozen.len(), lost), (9, 2, 7));
    assert_eq!(imported.summary.attrition["comment: not-solved"], 1);
}

#[test]
fn a_release_becomes_oracles_revisions_and_recorded_verdicts() {
    let imported = from_folder(&release());
    let content = &imported.content;
    let lamp: &Instance = content.instances.iter().find(|i| i.instance_id.as_str() == LAMP).unwrap();
    assert_eq!((lamp.repo.as_str(), lamp.pull_number, lamp.head_commit()), ("Glade-Example/lamp", 11, "a1b2c3d"));
    let zero = &lamp.reference_review_comments[0];
    assert_eq!((zero.path.as_str(), zero.category.as_deref()), ("lamp.py", Some("functional")));
    let accepted: Vec<_> = lamp.oracles.iter().filter(|o| o.accepted).map(|o| o.comment.as_str()).collect();
    assert_eq!(accepted, ["0", "1", "2", "6"]);
    let oracle = &lamp.oracles[0];
    assert_eq!(oracle.test, format!("oracles/{LAMP}/0/test_review_comment_0.py"));
    assert_eq!(oracle.install_as.as_deref(), Some("test_review_comment_0.py"));
    assert_eq!(oracle.before, ["failed", "errored"]);
    assert_eq!(oracle.extra["text_only"], true);
    assert!(content.tests[&oracle.test].starts_with(b"def test_0"));

    let key = |r: &redgreen::model::Revision| (r.instance_id.folded().to_owned(), r.arm.to_string());
    let revisions: BTreeMap<_, _> = content.revisions.iter().map(|r| (key(r), (r.patch.as_str(), r.status))).collect();
    let lamp_key = |arm: &str| (LAMP.to_lowercase(), arm.to_owned());
    let kettle_key = |arm: &str| (KETTLE.to_owned(), arm.to_owned());
    assert_eq!(revisions[&lamp_key("human")], ("human diff", RevisionStatus::Done));
    assert_eq!(revisions[&lamp_key("alpha")], ("alpha diff", RevisionStatus::Done));
    assert_eq!(revisions[&kettle_key("alpha")], ("", RevisionStatus::Done));
    assert_eq!(revisions[&kettle_key("beta")], ("", RevisionStatus::NoChanges));
    assert_eq!(revisions.len(), 5);

    let recorded: BTreeMap<_, _> = content
        .recorded
        .iter()
        .map(|r| ((r.instance_id.folded(), r.comment.as_str(), r.arm.as_str()), (r.passed, r.first_line.as_deref())))
        .collect();
    let lamp_id = LAMP.to_lowercase();
    assert_eq!(recorded[&(lamp_id.as_str(), "0", "human")], (true, None), "joined by text, not by index");
    assert_eq!(recorded[&(lamp_id.as_str(), "1", "human")], (false, Some("assert off")));
    assert_eq!(recorded[&(lamp_id.as_str(), "6", "alpha")], (false, Some("assert off")));
    assert_eq!(recorded[&(KETTLE, "0", "beta")], (false, None));
    assert_eq!(recorded.len(), 7);

    let frozen = table(&content.manifest, &imported, Denominator::Final);
    assert_eq!(frozen["alpha"], [2, 0, 0, 0, 0]);
    assert_eq!(frozen["beta"], [0, 1, 0, 1, 1]);
    assert_eq!(frozen["human"], [2, 0, 0, 0, 0]);
    assert_eq!(table(&content.manifest, &imported, Denominator::All)["beta"], [0, 1, 4, 4, 1]);
}

#[test]
fn folder_zips_and_git_give_the_same_benchmark() {
    let files = release();
    let folder = from_folder(&files);
    let zips = tempfile::tempdir().unwrap();
    as_zips(zips.path(), &files);
    assert_eq!(ccrab(zips.path()).content, folder.content);

    let git = tempfile::tempdir().unwrap();
    let commit = as_git(git.path(), &files);
    let short = format!("{}@{}", git.path().display(), &commit.to_string()[..7]);
    let mut from_git = ccrab(Path::new(&short)).content;
    assert!(from_git.manifest.source.as_deref().unwrap().contains(&commit.to_string()));
    from_git.manifest.source.clone_from(&folder.content.manifest.source);
    assert_eq!(from_git, folder.content);
}

#[test]
fn objects_that_a_git_directory_lacks_are_named_and_the_rest_imports() {
    let files = release();
    let git = tempfile::tempdir().unwrap();
    let commit = as_git(git.path(), &files);
    let gone = ["README.md".to_owned(), format!("results_eval_beta/{KETTLE}/result.json")];
    for path in &gone {
        let id = git2::Oid::hash_object(git2::ObjectType::Blob, &files[path]).unwrap().to_string();
        fs_err::remove_file(git.path().join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    }
    let imported = ccrab(Path::new(&format!("{}@{commit}", git.path().display())));
    let named: Vec<_> = imported
        .content
        .attrition
        .iter()
        .filter(|a| (a.scope, a.reason) == (AttritionScope::File, AttritionReason::NotInSource))
        .map(|a| a.detail.as_str())
        .collect();
    assert_eq!(named.len(), 2);
    assert!(named.iter().zip(&gone).all(|(detail, path)| detail.starts_with(&format!("`{path}`"))), "{named:?}");
    assert_eq!(imported.content.instances.len(), 2);
    assert!(!imported.content.revisions.iter().any(|r| r.arm.as_str() == "beta"));
}

#[test]
fn one_flipped_verdict_and_one_dropped_folder_move_the_totals_by_exactly_that() {
    let files = release();
    let before = from_folder(&files);
    let before = table(&before.content.manifest, &before, Denominator::Final);

    let mut flipped = files.clone();
    let path = format!("results_eval_alpha/{LAMP}/result.json");
    let mut result: Value = serde_json::from_slice(&flipped[&path]).unwrap();
    result["results"][0]["test_passed"] = json!(false);
    flipped.insert(path, result.to_string().into_bytes());
    let mut want = before.clone();
    want.insert("alpha".to_owned(), [1, 1, 0, 0, 0]);
    let imported = from_folder(&flipped);
    assert_eq!(table(&imported.content.manifest, &imported, Denominator::Final), want);

    let mut dropped = files;
    dropped.remove(&format!("results_eval_alpha/{KETTLE}/result.json"));
    want.insert("alpha".to_owned(), [1, 0, 0, 1, 1]);
    let imported = from_folder(&dropped);
    assert_eq!(table(&imported.content.manifest, &imported, Denominator::Final), want);
    assert!(
        losses(&imported).iter().any(|(_, reason, _, _, arm)| (*reason, *arm) == (AttritionReason::NoOutput, "alpha"))
    );
}

fn bytes_of(dir: &Path) -> Files {
    walkdir::WalkDir::new(dir)
        .into_iter()
        .map(Result::unwrap)
        .filter(|e| e.file_type().is_file())
        .map(|e| (e.path().strip_prefix(dir).unwrap().display().to_string(), fs_err::read(e.path()).unwrap()))
        .collect()
}

#[test]
fn a_written_benchmark_is_sound_reads_back_and_is_the_same_every_time() {
    let imported = from_folder(&release());
    let out = tempfile::tempdir().unwrap();
    let (one, two) = (out.path().join("one"), out.path().join("two"));
    let written = bench::write(&one, &imported.content, WriteMode::Careful).unwrap();
    assert_eq!(bench::check(&one), []);
    let loaded = Benchmark::load(&one).unwrap();
    assert_eq!(loaded.problems, []);
    let (read, content) = (loaded.benchmark, &imported.content);
    assert_eq!(read.digest, written.dataset_digest);
    assert_eq!((read.instances, read.revisions), (content.instances.clone(), content.revisions.clone()));
    assert_eq!((read.recorded, read.attrition), (content.recorded.clone(), content.attrition.clone()));

    // Over an older benchmark with another test and other files.
    bench::write(&two, &imported.content, WriteMode::Careful).unwrap();
    fs_err::write(two.join(format!("oracles/{LAMP}/0/stale.py")), "old").unwrap();
    fs_err::write(two.join("reviews.jsonl"), "").unwrap();
    let again = bench::write(&two, &imported.content, WriteMode::Careful).unwrap();
    assert_eq!(bytes_of(&one), bytes_of(&two));
    assert_eq!((again.files, bytes_of(&two).len()), (written.files, written.files));
}

#[test]
fn environments_and_merged_commits_come_from_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    as_folder(dir.path(), &release());
    let environments = Environments::parse(
        "e.jsonl",
        "{\"repo\":\"glade-example/LAMP\",\"environment\":{\"language\":\"python\",\"packages\":[\"pytest\"]}}\n\
         {\"repo\":\"nobody/nothing\",\"environment\":{\"language\":\"rust\"}}\n",
    );
    let find =
        |instance: &Instance| (instance.instance_id.as_str() == LAMP).then(|| ("f".repeat(40), MergedKind::Squash));
    let options = Options { name: Some("small"), environments: Some(&environments), merged: Some(&find) };
    let imported = import::ccrab(&Source::parse(dir.path()).unwrap(), &options).unwrap();
    assert_eq!(imported.content.manifest.name, "small");
    let lamp = imported.content.instances.iter().find(|i| i.instance_id.as_str() == LAMP).unwrap();
    assert_eq!(lamp.environment.as_ref().unwrap().packages, ["pytest"]);
    assert_eq!((lamp.merged_commit.as_deref(), lamp.merged_kind), (Some(&*"f".repeat(40)), MergedKind::Squash));
    let summary = &imported.summary;
    assert_eq!(summary.unknown_environment_repos, ["nobody/nothing"]);
    assert_eq!((summary.environments, summary.merged_found, summary.merged_not_found), (1, 1, 1));
}

#[test]
fn sources_that_hold_nothing_are_refused_with_words() {
    let dir = tempfile::tempdir().unwrap();
    let parse = |text: PathBuf| Source::parse(&text);
    assert!(matches!(parse(dir.path().join("no")), Err(ImportError::NotThere(_))));
    assert!(matches!(parse(dir.path().join("no@main")), Err(ImportError::NotThere(_))));
    let empty = import::ccrab(&parse(dir.path().to_owned()).unwrap(), &Options::default()).unwrap_err();
    assert!(empty.to_string().contains("nothing of a c-CRAB release"), "{empty}");
    let git = parse(PathBuf::from(format!("{}@main", dir.path().display()))).unwrap();
    let error = import::ccrab(&git, &Options::default()).unwrap_err();
    assert!(matches!(error, ImportError::Git { .. }), "{error}");
    fs_err::write(dir.path().join("testgen_combined.zip"), "PK no").unwrap();
    assert!(matches!(
        import::ccrab(&parse(dir.path().to_owned()).unwrap(), &Options::default()),
        Err(ImportError::Nothing { .. })
    ));
    fs_err::write(dir.path().join("two.jsonl"), "{\"instance_id\": 3}\n").unwrap();
    let error = import::swe_care(&dir.path().join("two.jsonl"), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("two.jsonl:1: error: field `instance_id`"), "{error}");
    let error = import::predictions(&dir.path().join("two.jsonl")).unwrap_err();
    assert!(error.to_string().contains("two.jsonl:1: error: field `instance_id`"), "{error}");
}

#[test]
fn folders_written_by_a_person_come_in_one_by_one_or_together() {
    let dir = tempfile::tempdir().unwrap();
    let instance = |name: &str, id: &str, test: &str| {
        let place = dir.path().join("all").join(name);
        let comments = json!([{"id": "c1", "text": "t", "test": test, "framework": "pytest", "before": "failed"}]);
        let value = json!({"instance_id": id, "head_commit": "0123abc", "comments": comments});
        fs_err::create_dir_all(place.join("tests")).unwrap();
        fs_err::write(place.join("tests/c1_test.py"), format!("# {name}\n")).unwrap();
        fs_err::write(place.join("instance.json"), value.to_string()).unwrap();
        place
    };
    let b = instance("b", "o__b-2@0123abc", "tests/c1_test.py");
    instance("a", "o__a-1@0123abc", "tests/c1_test.py");
    instance("again", "O__A-1@0123abc", "tests/c1_test.py");
    instance("missing", "o__m-1@0123abc", "tests/none.py");
    let revision = json!({"instance_id": "o__b-2@0123abc", "model_name_or_path": "tool", "model_patch": "d"});
    fs_err::write(b.join("revisions.jsonl"), format!("{revision}\n{{}}\n")).unwrap();

    let all = import::folder(&[dir.path().join("all")], &Options::default()).unwrap();
    let ids: Vec<_> = all.content.instances.iter().map(|i| i.instance_id.as_str()).collect();
    assert_eq!(ids, ["o__a-1@0123abc", "o__b-2@0123abc"]);
    assert_eq!(all.content.tests["oracles/o__b-2@0123abc/c1/c1_test.py"], b"# b\n");
    assert_eq!((all.content.manifest.arms.as_slice(), all.content.revisions.len()), (&["tool".to_owned()][..], 1));
    let fields: Vec<_> = all.summary.problems.iter().map(|p| (p.line, p.field.as_str())).collect();
    assert_eq!(fields, [(None, "instance_id"), (Some(2), ""), (None, "test")]);
    let out = dir.path().join("out");
    bench::write(&out, &all.content, WriteMode::Careful).unwrap();
    assert_eq!(bench::check(&out), []);

    let one = import::folder(&[b], &Options::default()).unwrap();
    assert_eq!((one.content.instances.len(), one.content.revisions.len()), (1, 1));
    assert!(matches!(
        import::folder(&[dir.path().join("nowhere")], &Options::default()),
        Err(ImportError::NotThere(_))
    ));
    assert!(matches!(import::folder(&[out.join("oracles")], &Options::default()), Err(ImportError::Nothing { .. })));
}
