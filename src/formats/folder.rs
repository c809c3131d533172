//! `instance.json`: an instance written by a person, with its comments and tests in one object.
//!
//! The names are the data set's where they have one; `head_commit` stands at the top, and each comment brings its test
//! (`test`, `install_as`, `framework`, `kind`, `before`). Fields that have no place in the model are kept on the comment
//! or instance they stand on.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{
    Comment, CommentId, CommitToReview, EnvironmentSpec, Extra, Framework, Instance, InstanceId, MergedKind, Oracle,
    OracleKind, from_value,
};

/// What is wrong with an `instance.json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", if matches!(field.as_str(), "" | "." | "?") { String::new() } else { format!("field `{field}`: ") })]
pub struct FolderError {
    /// The field; empty where the whole file is meant.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

#[derive(Debug, Deserialize)]
struct WireInstance {
    instance_id: InstanceId,
    repo: Option<String>,
    #[serde(default)]
    language: String,
    pull_number: Option<u64>,
    #[serde(default)]
    title: String,
    body: Option<String>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    problem_statement: String,
    #[serde(default)]
    hints_text: String,
    #[serde(default)]
    resolved_issues: Vec<Value>,
    base_commit: Option<String>,
    head_commit: Option<String>,
    commit_to_review: Option<CommitToReview>,
    merged_commit: Option<String>,
    #[serde(default)]
    merged_kind: MergedKind,
    merged_patch: Option<String>,
    #[serde(default)]
    metadata: Value,
    environment: Option<EnvironmentSpec>,
    comments: Vec<WireComment>,
    #[serde(flatten)]
    extra: Extra,
}

#[derive(Debug, Deserialize)]
struct WireComment {
    id: Option<CommentId>,
    text: String,
    #[serde(default)]
    path: String,
    diff_hunk: Option<String>,
    line: Option<u64>,
    start_line: Option<u64>,
    original_line: Option<u64>,
    original_start_line: Option<u64>,
    category: Option<String>,
    test: Option<String>,
    install_as: Option<String>,
    framework: Option<Framework>,
    #[serde(default)]
    kind: OracleKind,
    #[serde(default)]
    before: Before,
    #[serde(default)]
    needs_conftest: bool,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    isolated: bool,
    cfg: Option<Value>,
    #[serde(flatten)]
    extra: Extra,
}

/// One word or several.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Before {
    #[default]
    Absent,
    One(String),
    Many(Vec<String>),
}

/// An instance and the test files that its folder must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct FolderInstance {
    /// The instance; its oracles' `test` already says where the test will lie in the benchmark.
    pub instance: Instance,
    /// For each oracle: the path in the benchmark, and the path in the instance's folder.
    pub tests: Vec<(String, String)>,
}

/// Reads an `instance.json`.
///
/// # Errors
/// When it is no JSON, a field does not fit, there is no commit to review, or a test's path leads out of the folder.
pub fn parse(text: &str) -> Result<FolderInstance, FolderError> {
    let bad = |field: &str, problem: String| FolderError { field: field.to_owned(), problem };
    let value: Value = serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|error| bad("", format!("this is no JSON: {error}")))?;
    let wire: WireInstance = from_value(value).map_err(|(field, problem)| FolderError { field, problem })?;
    let id = wire.instance_id;
    let commit_to_review = match (wire.commit_to_review, wire.head_commit) {
        (Some(commit), _) => commit,
        (None, Some(head_commit)) => CommitToReview {
            head_commit,
            head_commit_message: String::new(),
            patch_to_review: String::new(),
            extra: Extra::new(),
        },
        (None, None) => return Err(bad("head_commit", "the commit to review is missing".to_owned())),
    };
    let mut comments = Vec::with_capacity(wire.comments.len());
    let mut oracles = Vec::new();
    let mut tests = Vec::new();
    for (index, wire) in wire.comments.into_iter().enumerate() {
        let (comment, oracle) = comment(&id, index, wire).map_err(|(field, problem)| {
            let field = format!("comments[{index}].{field}");
            FolderError { field, problem }
        })?;
        if comments.iter().any(|c: &Comment| c.id == comment.id) {
            return Err(bad(&format!("comments[{index}].id"), format!("comment `{}` occurs twice", comment.id)));
        }
        if let Some((oracle, file)) = oracle {
            tests.push((oracle.test.clone(), file));
            oracles.push(oracle);
        }
        comments.push(comment);
    }
    let instance = Instance {
        repo: wire.repo.unwrap_or_else(|| id.repo()),
        language: wire.language,
        pull_number: wire.pull_number.unwrap_or_else(|| id.pull()),
        title: wire.title,
        body: wire.body,
        created_at: wire.created_at,
        problem_statement: wire.problem_statement,
        hints_text: wire.hints_text,
        resolved_issues: wire.resolved_issues,
        base_commit: wire.base_commit,
        commit_to_review,
        reference_review_comments: comments,
        merged_commit: wire.merged_commit,
        merged_kind: wire.merged_kind,
        merged_patch: wire.merged_patch,
        metadata: wire.metadata,
        environment: wire.environment,
        oracles,
        extra: wire.extra,
        instance_id: id,
    };
    Ok(FolderInstance { instance, tests })
}

type Bound = (Comment, Option<(Oracle, String)>);

fn comment(id: &InstanceId, index: usize, wire: WireComment) -> Result<Bound, (&'static str, String)> {
    let comment_id = wire.id.unwrap_or_else(|| CommentId::from_index(index));
    let oracle = match wire.test {
        None => None,
        Some(file) => {
            crate::store::bench::check_relative(&file).map_err(|problem| ("test", problem.to_string()))?;
            if let Some(place) = &wire.install_as {
                crate::store::bench::check_install_as(place).map_err(|problem| ("install_as", problem.to_string()))?;
            }
            let framework = match wire.framework {
                Some(framework) => framework,
                None => framework_of(&file).ok_or_else(|| {
                    ("framework", format!("nobody can tell from `{file}` how to run it; name the framework"))
                })?,
            };
            let name = file.rsplit('/').next().unwrap_or(&file);
            let mut extra = Extra::new();
            if wire.isolated {
                extra.insert("isolated".to_owned(), json!(true));
            }
            if let Some(cfg) = wire.cfg {
                extra.insert("cfg".to_owned(), cfg);
            }
            let oracle = Oracle {
                comment: comment_id.clone(),
                kind: wire.kind,
                framework,
                test: format!("oracles/{id}/{comment_id}/{name}"),
                install_as: wire.install_as,
                needs_conftest: wire.needs_conftest,
                command: wire.command,
                before: match wire.before {
                    Before::Absent => Vec::new(),
                    Before::One(word) if word == "failed" => Vec::new(),
                    Before::One(word) => vec![word],
                    Before::Many(words) => words,
                },
                accepted: true,
                extra,
            };
            Some((oracle, file))
        }
    };
    let comment = Comment {
        id: comment_id,
        text: wire.text,
        path: wire.path,
        diff_hunk: wire.diff_hunk,
        line: wire.line,
        start_line: wire.start_line,
        original_line: wire.original_line,
        original_start_line: wire.original_start_line,
        category: wire.category,
        extra: wire.extra,
    };
    Ok((comment, oracle))
}

/// The framework that a file's ending leaves no doubt about.
fn framework_of(file: &str) -> Option<Framework> {
    match file.rsplit_once('.')?.1 {
        "py" => Some(Framework::Pytest),
        "rs" => Some(Framework::Cargo),
        "js" | "mjs" | "cjs" => Some(Framework::Node),
        "t" => Some(Framework::Tap),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        json!({
            "instance_id": "o__r-7@0123abc", "repo": "o/r", "language": "javascript", "head_commit": "0123abcdef",
            "merged_commit": "ff", "notes": "kept",
            "environment": {"language": "javascript", "version": "20", "packages": ["x@1"], "build_isolation": false},
            "comments": [
                {"id": "c1", "text": "t", "path": "a.js", "line": 3, "category": "style", "test": "tests/c1_test.js",
                 "install_as": "crab_c1.js", "framework": "node", "kind": "behavioral", "before": "failed",
                 "isolated": true, "addressed_by": "ab", "source": "review-thread"},
                {"text": "t", "test": "tests/two.py", "before": ["failed", "errored"]},
                {"text": "no test"}
            ]
        })
    }

    #[test]
    fn a_hand_written_instance_becomes_comments_and_oracles() {
        let FolderInstance { instance, tests } = parse(&sample().to_string()).unwrap();
        assert_eq!(instance.head_commit(), "0123abcdef");
        assert_eq!((instance.pull_number, instance.extra["notes"].as_str()), (7, Some("kept")));
        let ids: Vec<_> = instance.reference_review_comments.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["c1", "1", "2"]);
        assert_eq!(instance.reference_review_comments[0].extra["source"], "review-thread");
        let one = &instance.oracles[0];
        assert_eq!((one.framework, one.kind, one.before.len()), (Framework::Node, OracleKind::Behavioral, 0));
        assert_eq!(one.extra["isolated"], true);
        assert_eq!((instance.oracles[1].framework, instance.oracles[1].before.len()), (Framework::Pytest, 2));
        assert_eq!(instance.environment.unwrap().build_isolation, Some(false));
        assert_eq!(tests[0], ("oracles/o__r-7@0123abc/c1/c1_test.js".to_owned(), "tests/c1_test.js".to_owned()));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_field() {
        type Edit = fn(&mut Value);
        let cases: [(Edit, &str); 7] = [
            (|v| v["comments"][0]["line"] = json!("x"), "comments"),
            (|v| v["comments"][0]["test"] = json!("../x.js"), "comments[0].test"),
            (|v| v["comments"][0]["install_as"] = json!("/x.js"), "comments[0].install_as"),
            (|v| v["comments"][1]["test"] = json!("two.cobol"), "comments[1].framework"),
            (|v| v["comments"][1]["id"] = json!("c1"), "comments[1].id"),
            (|v| v["instance_id"] = json!("r-7"), "instance_id"),
            (|v| v["head_commit"] = Value::Null, "head_commit"),
        ];
        for (edit, field) in cases {
            let mut value = sample();
            edit(&mut value);
            let error = parse(&value.to_string()).unwrap_err();
            assert!(error.field.starts_with(field), "{field}: {error}");
        }
    }
}
