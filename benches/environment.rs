//! What environments cost. Prints and asserts nothing.
//!
//! 1. One Python environment from nothing, without network: `env build` (its proofs included) against `docker build
//!    --no-cache` of the Dockerfile that `env plan --dockerfile` prints for it, where a Docker engine with an image that
//!    has python3 answers.
//! 2. Fifty instances of one project: the first build, and the second one, which finds all of it in the cache.
//!
//! `cargo bench --bench environment` runs both; `-- ROUNDS` takes another number of rounds for the first.

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use common::measure::{Case, load, plain, side_by_side};
use common::{Answer, REDGREEN, number};
use git2::{Repository, Signature, Time};
use serde_json::json;

const INSTANCES: usize = 50;

fn main() -> Answer<()> {
    let rounds = number(5);
    let folder = tempfile::tempdir()?;
    let bench = Bench::new(folder.path())?;
    one(&bench, rounds)?;
    fifty(&bench)
}

/// A benchmark of one project with a commit for each instance, below a folder.
struct Bench {
    folder: PathBuf,
    ids: Vec<String>,
}

impl Bench {
    fn new(folder: &Path) -> Answer<Self> {
        let repository = Repository::init_bare(folder.join("mirrors/bench__many.git"))?;
        let place = folder.join("bench");
        fs_err::create_dir_all(&place)?;
        let mut dataset = fs_err::File::create(place.join("dataset.jsonl"))?;
        let source: String = (0..2000).map(|line| format!("VALUE_{line} = {line}\n")).collect();
        let mut ids = Vec::new();
        for number in 1..=INSTANCES {
            let mut tree = repository.treebuilder(None)?;
            tree.insert("project.py", repository.blob(source.as_bytes())?, 0o100_644)?;
            tree.insert("number", repository.blob(number.to_string().as_bytes())?, 0o100_644)?;
            let tree = repository.find_tree(tree.write()?)?;
            let who = Signature::new("Nobody", "nobody@example.org", &Time::new(1_700_000_000, 0))?;
            let name = format!("refs/heads/{number}");
            let head = repository.commit(Some(&name), &who, &who, "Work\n", &tree, &[])?.to_string();
            let id = format!("bench__many-{number}@{}", &head[..7]);
            let test = format!("oracles/{id}/c1/check.sh");
            let path = place.join(&test);
            fs_err::create_dir_all(path.parent().ok_or("a test has a folder")?)?;
            fs_err::write(&path, "test -e number\n")?;
            let row = json!({
                "instance_id": id, "repo": "bench/many", "language": "Python", "pull_number": number, "title": "Work",
                "body": "", "created_at": "2025-01-01T00:00:00Z", "problem_statement": "", "hints_text": "",
                "resolved_issues": [], "base_commit": head, "merged_patch": "",
                "commit_to_review": {"head_commit": head, "head_commit_message": "Work", "patch_to_review": ""},
                "reference_review_comments": [{"id": "c1", "text": "Please finish.", "path": "number", "line": 1}],
                "oracles": [{"comment": "c1", "kind": "behavioral", "framework": "exit", "test": test}],
                "environment": {"language": "python", "steps": ["cat number >made.txt"]},
            });
            writeln!(dataset, "{row}")?;
            ids.push(id);
        }
        dataset.flush()?;
        fs_err::write(
            place.join("bench.json"),
            json!({"schema": 1, "name": "many", "source": "a benchmark"}).to_string(),
        )?;
        Ok(Self { folder: folder.to_owned(), ids })
    }

    fn command(&self, cache: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(REDGREEN);
        command.args(arguments).arg("--cache").arg(cache).arg("--mirrors").arg(self.folder.join("mirrors"));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// One environment from nothing.
fn one(bench: &Bench, rounds: usize) -> Answer<()> {
    let id = bench.ids[0].as_str();
    let mut number = 0;
    let mut cases = vec![Case::new("env build, embedded sandbox, empty cache", || {
        number += 1;
        let cache = bench.folder.join(format!("cache-{number}"));
        plain(&mut bench.command(&cache, &["env", "build", "bench", "--instances", id]))?;
        fs_err::remove_dir_all(cache)?;
        Ok(())
    })];
    let tree = bench.folder.join("tree");
    if let Some(image) = docker_image() {
        let arguments = ["env", "plan", "bench", "--dockerfile", id, "--from", &image];
        let output = bench.command(&bench.folder.join("cache"), &arguments).stdout(Stdio::piped()).output()?;
        if !output.status.success() {
            return Err("no Dockerfile was printed".into());
        }
        fs_err::create_dir_all(&tree)?;
        fs_err::write(tree.join("Dockerfile"), output.stdout)?;
        fs_err::write(tree.join("number"), "1")?;
        let context = tree.clone();
        cases.push(Case::new(format!("docker build --no-cache on {image}"), move || {
            let mut build = Command::new("docker");
            build.args(["build", "--no-cache", "--quiet", "--force-rm", "--tag", "redgreen-bench-environment"]);
            plain(build.arg(&context).stdout(Stdio::null()).stderr(Stdio::null()))
        }));
    } else {
        println!("no Docker engine with an image that has python3 answers: nothing to compare with");
    }
    side_by_side("one Python environment from nothing", rounds, &mut cases)?;
    drop(cases);
    // Whether there is one to remove is all the same.
    let _ = plain(Command::new("docker").args(["rmi", "--force", "redgreen-bench-environment"]).stderr(Stdio::null()));
    Ok(())
}

/// A local image that has python3.
fn docker_image() -> Option<String> {
    let output = Command::new("docker").args(["images", "--format", "{{.Repository}}:{{.Tag}}"]).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let fits = |image: &&str| {
        let words = ["run", "--rm", "--network", "none", image, "python3", "-m", "venv", "--without-pip", "/v"];
        plain(Command::new("docker").args(words)).is_ok()
    };
    names.lines().filter(|name| !name.contains('<')).find(fits).map(str::to_owned)
}

/// Fifty instances of one project, twice.
fn fifty(bench: &Bench) -> Answer<()> {
    let cache = bench.folder.join("cache-fifty");
    for word in ["first", "second"] {
        let began = Instant::now();
        plain(&mut bench.command(&cache, &["env", "build", "bench"]))?;
        println!(
            "{INSTANCES} instances of one project, {word} build: {:.2} s; {}",
            began.elapsed().as_secs_f64(),
            load()
        );
    }
    Ok(())
}
