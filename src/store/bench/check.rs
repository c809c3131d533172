//! Checks a benchmark folder for what would make its results wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::load::{Rows, digest_on_disk, read};
use super::{
    ATTRITION, BenchError, DATASET, FILTER, MANIFEST, Problem, RECORDED, REVIEWS, REVISIONS, SYNTH, VALIDATE,
    check_install_as, check_relative,
};
use crate::model::{CommentId, Framework, Instance, InstanceId};

/// The outcome classes that an oracle may declare in `before` beside `failed`. Infrastructure is never an answer, and
/// `passed` would turn the oracle's meaning round.
const BEFORE_WORDS: [&str; 6] = ["failed", "errored", "timed-out", "out-of-memory", "no-tests", "crashed"];

/// Checks a benchmark folder. Every problem names file, line and field, and says what to do; errors come before
/// warnings only within a line. An empty answer means that the folder is sound.
pub fn check(dir: &Path) -> Vec<Problem> {
    let mut rows = match read(dir) {
        Ok(rows) => rows,
        Err(error) => return vec![unreadable(&error)],
    };
    let mut problems = std::mem::take(&mut rows.problems);
    let known = instances(dir, &rows, &mut problems);
    references(&rows, &known, &mut problems);
    attempts(&rows, &known, &mut problems);
    frozen(&rows, &known, &mut problems);
    digest(dir, &rows, &mut problems);
    bundles(dir, &rows, &mut problems);
    let order = [MANIFEST, DATASET, REVIEWS, REVISIONS, RECORDED, ATTRITION, FILTER, SYNTH, VALIDATE];
    problems.sort_by_key(|p| (order.iter().position(|f| *f == p.file), p.line, p.severity));
    problems
}

fn unreadable(error: &BenchError) -> Problem {
    let field = match error {
        BenchError::Manifest { field, .. } => field.as_str(),
        BenchError::Newer { .. } => "schema",
        _ => "",
    };
    Problem::error(MANIFEST, None, field, error.to_string())
}

/// The comments of each known instance.
type Known<'a> = BTreeMap<&'a InstanceId, BTreeSet<&'a str>>;

fn instances<'a>(dir: &Path, rows: &'a Rows, problems: &mut Vec<Problem>) -> Known<'a> {
    let mut first_lines: BTreeMap<&InstanceId, usize> = BTreeMap::new();
    let mut known = Known::new();
    let root = fs_err::canonicalize(dir).ok();
    for (line, instance) in &rows.instances {
        if let Some(first) = first_lines.get(&instance.instance_id) {
            let text = format!(
                "`{}` is already on line {first} (ids compare without case); remove one of the two",
                instance.instance_id
            );
            problems.push(Problem::error(DATASET, *line, "instance_id", text));
            continue;
        }
        first_lines.insert(&instance.instance_id, *line);
        identity(*line, instance, problems);
        known.insert(&instance.instance_id, comments(*line, instance, problems));
        oracles(dir, root.as_deref(), *line, instance, problems);
    }
    if rows.instances.is_empty() && problems.is_empty() {
        problems.push(Problem::warning(DATASET, None, "", "there are no instances; import some"));
    }
    known
}

fn identity(line: usize, instance: &Instance, problems: &mut Vec<Problem>) {
    let id = &instance.instance_id;
    if !instance.repo.eq_ignore_ascii_case(&id.repo()) {
        let text = format!("`{}` does not fit the id, which says `{}`; correct one of them", instance.repo, id.repo());
        problems.push(Problem::warning(DATASET, line, "repo", text));
    }
    let head = instance.head_commit().to_ascii_lowercase();
    let short = id.short_commit().to_ascii_lowercase();
    if head.is_empty() {
        let text = "there is no commit to review; fill in `head_commit`";
        problems.push(Problem::error(DATASET, line, "commit_to_review.head_commit", text));
    } else if !head.starts_with(&short) && !short.starts_with(&head) {
        let text = format!("`{head}` does not start with `{short}`, the commit in the id; correct one of them");
        problems.push(Problem::warning(DATASET, line, "commit_to_review.head_commit", text));
    }
}

fn comments<'a>(line: usize, instance: &'a Instance, problems: &mut Vec<Problem>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (index, comment) in instance.reference_review_comments.iter().enumerate() {
        if !seen.insert(comment.id.as_str()) {
            let field = format!("reference_review_comments[{index}].id");
            let text = format!("comment `{}` occurs twice; give each comment an id of its own", comment.id);
            problems.push(Problem::error(DATASET, line, &field, text));
        }
    }
    seen
}

fn oracles(dir: &Path, root: Option<&Path>, line: usize, instance: &Instance, problems: &mut Vec<Problem>) {
    let mut bound: BTreeSet<&CommentId> = BTreeSet::new();
    for (index, oracle) in instance.oracles.iter().enumerate() {
        let mut error = |field: &str, text: String| {
            problems.push(Problem::error(DATASET, line, &format!("oracles[{index}].{field}"), text));
        };
        if instance.comment(&oracle.comment).is_none() {
            error(
                "comment",
                format!("there is no comment `{}` in this instance; bind the oracle to one", oracle.comment),
            );
        }
        if oracle.accepted && !bound.insert(&oracle.comment) {
            let text = format!("comment `{}` has another accepted oracle; accept only one of them", oracle.comment);
            error("comment", text);
        }
        if let Err(text) = test_file(dir, root, &oracle.test) {
            error("test", text);
        }
        if let Some(Err(problem)) = oracle.install_as.as_deref().map(check_install_as) {
            error("install_as", format!("{problem}; the test must be placed inside the tree"));
        }
        for word in &oracle.before {
            if !BEFORE_WORDS.contains(&word.as_str()) {
                error("before", format!("`{word}` is not known here; use {}", quoted(&BEFORE_WORDS)));
            }
        }
        let takes_command = matches!(oracle.framework, Framework::Tap | Framework::Junit | Framework::Exit);
        if !takes_command && !oracle.command.is_empty() {
            let text = format!("framework `{}` has its own command; leave this out", oracle.framework.as_str());
            error("command", text);
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

fn test_file(dir: &Path, root: Option<&Path>, test: &str) -> Result<(), String> {
    check_relative(test).map_err(|problem| problem.to_string())?;
    let path: PathBuf = dir.join(test);
    let real = fs_err::canonicalize(&path)
        .map_err(|_| format!("there is no file `{test}` in the folder; put it there or import again"))?;
    if root.is_some_and(|root| !real.starts_with(root)) {
        return Err(format!("`{test}` is a symbolic link that leads out of the folder; put a copy there"));
    }
    if real.is_file() { Ok(()) } else { Err(format!("`{test}` is not a file")) }
}

fn references(rows: &Rows, known: &Known<'_>, problems: &mut Vec<Problem>) {
    let unknown = |id: &InstanceId| {
        (!known.contains_key(id))
            .then(|| format!("there is no instance `{id}` in {DATASET}; add it or remove this line"))
    };
    let mut reviews = BTreeMap::new();
    for (line, review) in &rows.reviews {
        problems.extend(unknown(&review.instance_id).map(|text| Problem::error(REVIEWS, *line, "instance_id", text)));
        if let Some(first) = reviews.insert((&review.instance_id, &review.tool), *line) {
            let text = format!("`{}` reviewed this instance on line {first} already; keep one", review.tool);
            problems.push(Problem::error(REVIEWS, *line, "tool", text));
        }
        for (index, finding) in review.findings.iter().enumerate() {
            if let Some(side) = finding.side.as_deref().filter(|s| !matches!(*s, "old" | "new")) {
                let text = format!("`{side}` is not known here; use `old` or `new`");
                problems.push(Problem::warning(REVIEWS, *line, &format!("findings[{index}].side"), text));
            }
        }
    }
    let mut revisions = BTreeMap::new();
    for (line, row) in &rows.revisions {
        problems.extend(unknown(&row.instance_id).map(|text| Problem::error(REVISIONS, *line, "instance_id", text)));
        if row.arm.is_state() {
            let text = format!("arm `{}` is a state of the repository and has no revisions; use another name", row.arm);
            problems.push(Problem::error(REVISIONS, *line, "arm", text));
        }
        if row.attempt == 0 {
            problems.push(Problem::error(REVISIONS, *line, "attempt", "attempts are counted from 1"));
        }
        let key = (&row.instance_id, &row.arm, &row.agent, &row.model, row.attempt);
        if let Some(first) = revisions.insert(key, *line) {
            let text =
                format!("line {first} has the same instance, arm, agent, model and attempt; number the attempts");
            problems.push(Problem::error(REVISIONS, *line, "attempt", text));
        }
    }
    let mut recorded = BTreeMap::new();
    for (line, row) in &rows.recorded {
        if let Some(text) = unknown(&row.instance_id) {
            problems.push(Problem::error(RECORDED, *line, "instance_id", text));
        } else if !known.get(&row.instance_id).is_some_and(|c| c.contains(row.comment.as_str())) {
            let text = format!("`{}` has no comment `{}`; correct or remove this line", row.instance_id, row.comment);
            problems.push(Problem::error(RECORDED, *line, "comment", text));
        }
        if let Some(first) = recorded.insert((&row.instance_id, &row.comment, &row.arm), *line) {
            let text = format!("line {first} has a verdict of the same instance, comment and arm; keep one");
            problems.push(Problem::error(RECORDED, *line, "comment", text));
        }
    }
    let mut filtered = BTreeMap::new();
    for (line, row) in &rows.filter {
        if let Some(text) = unknown(&row.instance_id) {
            problems.push(Problem::error(FILTER, *line, "instance_id", text));
        } else if !known.get(&row.instance_id).is_some_and(|c| c.contains(row.comment.as_str())) {
            let text = format!("`{}` has no comment `{}`; correct or remove this line", row.instance_id, row.comment);
            problems.push(Problem::error(FILTER, *line, "comment", text));
        }
        if let Some(first) = filtered.insert((&row.instance_id, &row.comment), *line) {
            let text = format!("line {first} is of the same comment; keep one");
            problems.push(Problem::error(FILTER, *line, "comment", text));
        }
    }
}

/// Rows of attempts, of models and of agents, must be of comments that are there, each attempt once.
fn attempts(rows: &Rows, known: &Known<'_>, problems: &mut Vec<Problem>) {
    let synth = rows.synth.iter().map(|(line, row)| (SYNTH, *line, &row.instance_id, &row.comment, "", row.attempt));
    let validate = rows
        .validate
        .iter()
        .map(|(line, row)| (VALIDATE, *line, &row.instance_id, &row.comment, row.agent.as_str(), row.attempt));
    let mut seen = BTreeMap::new();
    for (file, line, id, comment, agent, attempt) in synth.chain(validate) {
        if !known.get(id).is_some_and(|comments| comments.contains(comment.as_str())) {
            let text = format!("{DATASET} has no comment `{comment}` of `{id}`; correct or remove this line");
            problems.push(Problem::error(file, line, "comment", text));
        }
        if let Some(first) = seen.insert((file, id, comment, agent, attempt), line) {
            let text = format!("line {first} is of the same attempt; keep one");
            problems.push(Problem::error(file, line, "attempt", text));
        }
    }
}

fn frozen(rows: &Rows, known: &Known<'_>, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (index, row) in rows.manifest.frozen.iter().flatten().enumerate() {
        let field = format!("frozen[{index}]");
        let fix = "correct the frozen set, or import again";
        if !known.get(&row.instance_id).is_some_and(|c| c.contains(row.comment.as_str())) {
            let text = format!("{DATASET} has no comment `{}` of `{}`; {fix}", row.comment, row.instance_id);
            problems.push(Problem::error(MANIFEST, None, &field, text));
            continue;
        }
        if !seen.insert((&row.instance_id, &row.comment)) {
            let text = format!("comment `{}` of `{}` is listed twice; {fix}", row.comment, row.instance_id);
            problems.push(Problem::error(MANIFEST, None, &field, text));
        }
        let instance = rows.instances.iter().find(|(_, i)| i.instance_id == row.instance_id);
        if instance.is_some_and(|(_, i)| i.oracle(&row.comment).is_none()) {
            let text = format!("comment `{}` of `{}` has no accepted oracle; {fix}", row.comment, row.instance_id);
            problems.push(Problem::warning(MANIFEST, None, &field, text));
        }
    }
}

fn digest(dir: &Path, rows: &Rows, problems: &mut Vec<Problem>) {
    let Some(wanted) = &rows.manifest.dataset_digest else { return };
    let found = digest_on_disk(dir, rows.instances.iter().map(|(_, i)| i));
    if found.as_str() != wanted {
        let text = format!(
            "the dataset or a test has changed since it was frozen (now `{}`); undo the change, or remove this field to \
             accept it as another benchmark",
            found.short()
        );
        problems.push(Problem::error(MANIFEST, None, "dataset_digest", text));
    }
}

/// Bundles that `bench.json` lists (`bundles`, a list of paths) must be there; the rest of `repos/` is not our business.
fn bundles(dir: &Path, rows: &Rows, problems: &mut Vec<Problem>) {
    let Some(listed) = rows.manifest.extra.get("bundles") else { return };
    let Some(listed) = listed.as_array() else {
        problems.push(Problem::error(MANIFEST, None, "bundles", "this must be a list of paths"));
        return;
    };
    for (index, entry) in listed.iter().enumerate() {
        let field = format!("bundles[{index}]");
        let text = match entry.as_str() {
            None => "this must be a path".to_owned(),
            Some(path) => match check_relative(path) {
                Err(problem) => problem.to_string(),
                Ok(()) if dir.join(path).is_file() => continue,
                Ok(()) => format!("there is no file `{path}`; put the bundle there, or take it off the list"),
            },
        };
        problems.push(Problem::error(MANIFEST, None, &field, text));
    }
}
