//! Data of our own: a repository with many small pull requests, a benchmark of them, and run folders of any size.

use std::io::Write;
use std::path::{Path, PathBuf};

use git2::{Repository, Signature, Time};
use redgreen::model::{Digest, digest_bytes, digest_json};
use redgreen::stage::score::{Roster, STAGE};
use redgreen::store::{BenchmarkRef, MANIFEST_SCHEMA, RunFolder, RunManifest};
use serde_json::{Value, json};

use super::Answer;

/// Comments of each instance.
pub const COMMENTS: usize = 10;
/// Tool arms.
pub const TOOLS: usize = 8;
/// Oracle runs of each instance: every comment on every tool's revision and on both controls.
pub const RUNS: usize = COMMENTS * (TOOLS + 2);

/// A benchmark on disk.
pub struct Synthetic {
    /// The benchmark folder.
    pub bench: PathBuf,
    /// The folder with its repository.
    pub mirrors: PathBuf,
}

/// Makes a benchmark of `instances` pull requests below `folder`, [`RUNS`] oracle runs each. Every oracle is a shell
/// script that reads one line; about half of the revisions pass.
pub fn benchmark(folder: &Path, instances: usize) -> Answer<Synthetic> {
    let made = Synthetic { bench: folder.join("bench"), mirrors: folder.join("mirrors") };
    let repository = Repository::init_bare(made.mirrors.join("synthetic/trivial"))?;
    fs_err::create_dir_all(&made.bench)?;
    let file = |name: &str| fs_err::File::create(made.bench.join(name)).map(std::io::BufWriter::new);
    let (mut dataset, mut revisions) = (file("dataset.jsonl")?, file("revisions.jsonl")?);
    for number in 0..instances {
        let head = commit(&repository, number, "open\n")?;
        let merged = commit(&repository, number, "done\n")?;
        let id = format!("synthetic__trivial-{}@{}", number + 1, &head[..7]);
        let mut oracles = Vec::new();
        for comment in (0..COMMENTS).map(comment_id) {
            let test = format!("oracles/{id}/{comment}/check.sh");
            let path = made.bench.join(&test);
            fs_err::create_dir_all(path.parent().ok_or("a test has a folder")?)?;
            fs_err::write(&path, format!("# {comment} of {id}\nread -r state <state\ntest \"$state\" = done\n"))?;
            oracles.push(json!({"comment": comment, "kind": "behavioral", "framework": "exit", "test": test}));
        }
        let mut row = instance(&id, number);
        row["commit_to_review"]["head_commit"] = json!(head);
        row["base_commit"] = json!(head);
        row["merged_commit"] = json!(merged);
        row["oracles"] = json!(oracles);
        writeln!(dataset, "{row}")?;
        for tool in 0..TOOLS {
            let state = if (number + tool) % 2 == 0 { "done" } else { "almost" };
            let patch = format!(
                "diff --git a/state b/state\n--- a/state\n+++ b/state\n@@ -1 +1,2 @@\n-open\n+{state}\n+{tool}\n"
            );
            let row = json!({"instance_id": id, "arm": tool_name(tool), "agent": "agent", "model": "model",
                "attempt": 1, "patch": patch, "status": "done"});
            writeln!(revisions, "{row}")?;
        }
    }
    dataset.flush()?;
    revisions.flush()?;
    let tools: Vec<String> = (0..TOOLS).map(tool_name).collect();
    let manifest = json!({"schema": 1, "name": "trivial", "source": "made by a benchmark", "arms": tools});
    fs_err::write(made.bench.join("bench.json"), manifest.to_string())?;
    Ok(made)
}

fn comment_id(number: usize) -> String {
    format!("c{}", number + 1)
}

fn tool_name(number: usize) -> String {
    format!("tool-{number}")
}

fn instance(id: &str, number: usize) -> Value {
    let comments: Vec<Value> = (0..COMMENTS)
        .map(|c| json!({"id": comment_id(c), "text": "Please finish.", "path": "state", "line": 1}))
        .collect();
    json!({
        "instance_id": id, "repo": "synthetic/trivial", "language": "Shell", "pull_number": number + 1, "title": "Work",
        "body": "", "created_at": "2025-01-01T00:00:00Z", "problem_statement": "", "hints_text": "",
        "resolved_issues": [], "base_commit": "", "merged_kind": "squash", "merged_patch": "",
        "commit_to_review": {"head_commit": "", "head_commit_message": "Work", "patch_to_review": ""},
        "reference_review_comments": comments, "environment": {"language": "shell"},
    })
}

/// A commit without parents, kept by a ref.
fn commit(repository: &Repository, number: usize, state: &str) -> Answer<String> {
    let mut tree = repository.treebuilder(None)?;
    let notes: String = (0..40).map(|line| format!("line {line} of {number}\n")).collect();
    tree.insert("notes", repository.blob(notes.as_bytes())?, 0o100_644)?;
    tree.insert("state", repository.blob(state.as_bytes())?, 0o100_644)?;
    let tree = repository.find_tree(tree.write()?)?;
    let who = Signature::new("Nobody", "nobody@example.org", &Time::new(1_700_000_000, 0))?;
    let name = format!("refs/heads/{number}-{}", state.trim());
    Ok(repository.commit(Some(&name), &who, &who, "Work\n", &tree, &[])?.to_string())
}

/// Makes a run folder of `instances` times [`RUNS`] finished verdicts, as `score` writes it, from one record and one row
/// of a real run, `like`. The files are not flushed to the disk one by one.
pub fn run_folder(root: &Path, like: &Path, instances: usize) -> Answer<()> {
    let like = RunFolder::open(like)?;
    let row = like
        .rows::<Value>()?
        .into_iter()
        .find(|row| row["arm"].as_str().is_some_and(|arm| arm.starts_with("tool-")))
        .ok_or("the run has no row of a tool")?;
    let key: Digest = serde_json::from_value(row["state"]["keys"][0].clone())?;
    let record: Value = like.record(STAGE, &key)?.ok_or("the run has no record of its row")?;
    let ids: Vec<String> = (1..=instances).map(|number| format!("synthetic__trivial-{number}@0123abc")).collect();
    let all: Vec<redgreen::model::Instance> = ids
        .iter()
        .enumerate()
        .map(|(number, id)| {
            let mut instance = instance(id, number);
            let oracle = |c| json!({"comment": comment_id(c), "kind": "behavioral", "framework": "exit", "test": "t"});
            instance["oracles"] = (0..COMMENTS).map(oracle).collect();
            serde_json::from_value(instance)
        })
        .collect::<Result<_, _>>()?;
    let roster = serde_json::to_vec(&Roster::new(&all, None, &[], &[], |_| None))?;
    let manifest = RunManifest {
        schema: MANIFEST_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        benchmark: BenchmarkRef { name: "trivial".to_owned(), path: "bench".into(), digest: digest_bytes(b"trivial") },
        policy: "strict".to_owned(),
        roster: digest_bytes(&roster),
        denominator: "valid".to_owned(),
        cache: None,
    };
    let run = RunFolder::create(root, &manifest)?;
    run.put_blob(&roster)?;
    for first in 0..=255 {
        for folder in ["rows".to_owned(), format!("records/{STAGE}")] {
            fs_err::create_dir_all(root.join(folder).join(format!("{first:02x}")))?;
        }
    }
    let arms: Vec<String> =
        ["head", "merged"].map(str::to_owned).into_iter().chain((0..TOOLS).map(tool_name)).collect();
    for (number, id) in ids.iter().enumerate() {
        for comment in 0..COMMENTS {
            for (place, arm) in arms.iter().enumerate() {
                let key = digest_json(&json!([id, comment, arm]));
                let passed = arm == "merged" || (arm != "head" && (number + comment + place) % 2 == 0);
                let (mut row, mut record) = (row.clone(), record.clone());
                row["instance_id"] = json!(id);
                row["comment"] = json!(comment_id(comment));
                row["arm"] = json!(arm);
                row["state"]["keys"] = json!([key]);
                record["key"] = json!(key);
                record["outcome"] = json!(if passed { "passed" } else { "failed" });
                let name = digest_json(&json!([id, comment, arm, "row"]));
                fs_err::write(root.join("rows").join(name.shard()).join(format!("{name}.json")), row.to_string())?;
                fs_err::write(run.record_path(STAGE, &key), serde_json::to_string_pretty(&record)?)?;
            }
        }
    }
    Ok(())
}
