//! One folder of test generation becomes an instance with comments and oracles.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Joined;
use crate::formats::ccrab::outcome::{first_line, framework};
use crate::formats::ccrab::wire::{TestgenFile, TestgenRow};
use crate::formats::ccrab::{Folder, is_text_only};
use crate::model::{
    AttritionReason, AttritionScope, Comment, CommentId, CommitToReview, Extra, Framework, Instance, InstanceId,
    MergedKind, Oracle, OracleKind, from_value,
};

/// What is known of one comment beside its row.
#[derive(Debug, Clone)]
pub(super) struct TestedComment {
    pub id: CommentId,
    pub text: String,
    pub state: State,
}

/// What test generation made of a comment.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Its test fails before and passes after.
    Valid,
    /// It has none that does, and this is why.
    Lost(AttritionReason, String),
}

/// The comments of an instance and the files of their tests.
#[derive(Debug, Clone, Default)]
pub(super) struct Tested {
    pub comments: Vec<TestedComment>,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Tested {
    /// The comment with this index of test generation.
    pub fn by_index(&self, index: usize) -> Option<&TestedComment> {
        let id = CommentId::from_index(index);
        self.comments.iter().find(|c| c.id == id)
    }

    /// The first comment with this text that has a valid test.
    pub fn by_text(&self, text: &str) -> Option<&TestedComment> {
        self.comments.iter().find(|c| c.text == text && matches!(c.state, State::Valid))
    }
}

pub(super) fn read(folder: &str, files: &Folder, joined: &mut Joined) -> Option<(Instance, Tested)> {
    let (reason, detail) = match parse(folder, files) {
        Ok((id, file)) => return Some(build(id, file, files, joined)),
        Err(lost) => lost,
    };
    joined.lose(AttritionScope::Instance, "testgen", reason, detail).instance_id = Some(folder.to_owned());
    None
}

fn parse(folder: &str, files: &Folder) -> Result<(InstanceId, TestgenFile), (AttritionReason, String)> {
    let broken = |problem: String| (AttritionReason::Malformed, format!("`{folder}/result.json`: {problem}"));
    let bytes = files.get("result.json").ok_or_else(|| {
        (AttritionReason::NotInSource, format!("test generation has a folder `{folder}` without `result.json`"))
    })?;
    let value: Value = serde_json::from_slice(bytes).map_err(|error| broken(error.to_string()))?;
    let file: TestgenFile =
        from_value(value).map_err(|(field, problem)| broken(format!("field `{field}`: {problem}")))?;
    let id = file.instance_id.parse().map_err(|error: crate::model::IdError| broken(error.to_string()))?;
    Ok((id, file))
}

fn build(id: InstanceId, file: TestgenFile, files: &Folder, joined: &mut Joined) -> (Instance, Tested) {
    let mut tested = Tested::default();
    let mut comments: Vec<Comment> = Vec::new();
    let mut oracles = Vec::new();
    let mut language = None;
    for (position, value) in file.results.into_iter().enumerate() {
        let (row, problem) = match from_value::<TestgenRow>(value) {
            Ok(row) if comments.iter().any(|c| c.id == CommentId::from_index(row.comment_index)) => {
                (None, (AttritionReason::Duplicate, format!("comment index {} occurs twice", row.comment_index)))
            }
            Ok(row) => (Some(row), (AttritionReason::Malformed, String::new())),
            Err((field, problem)) => (None, (AttritionReason::Malformed, format!("field `{field}`: {problem}"))),
        };
        let Some(row) = row else {
            let detail = format!("entry {position} of `{id}/result.json`: {}", problem.1);
            joined.lose(AttritionScope::Row, "testgen", problem.0, detail).instance_id = Some(id.to_string());
            continue;
        };
        language = language.or_else(|| row.language.clone());
        let made = oracle(&id, &row, files);
        if let Ok((oracle, bytes)) = &made {
            tested.files.insert(oracle.test.clone(), bytes.clone());
            oracles.push(oracle.clone());
        }
        tested.comments.push(TestedComment {
            id: CommentId::from_index(row.comment_index),
            text: row.comment_text.clone(),
            state: state(&row, made.err()),
        });
        comments.push(comment(row));
    }
    let mut extra = Extra::new();
    if let Some(model) = file.model {
        extra.insert("testgen_model".to_owned(), Value::from(model));
    }
    let instance = Instance {
        repo: file.repo.unwrap_or_else(|| id.repo()),
        language: language.unwrap_or_default(),
        pull_number: id.pull(),
        title: String::new(),
        body: None,
        created_at: String::new(),
        problem_statement: String::new(),
        hints_text: String::new(),
        resolved_issues: Vec::new(),
        base_commit: None,
        commit_to_review: CommitToReview {
            head_commit: id.short_commit().to_owned(),
            head_commit_message: String::new(),
            patch_to_review: String::new(),
            extra: Extra::new(),
        },
        reference_review_comments: comments,
        merged_commit: None,
        merged_kind: MergedKind::Unknown,
        merged_patch: None,
        metadata: Value::Null,
        environment: None,
        oracles,
        extra,
        instance_id: id,
    };
    (instance, tested)
}

fn comment(row: TestgenRow) -> Comment {
    let mut extra = Extra::new();
    let facts = [
        ("language", json!(row.language)),
        ("before_passed", json!(row.before_passed)),
        ("after_passed", json!(row.after_passed)),
        ("attempts_used", json!(row.attempts_used)),
        ("before_first_line", json!(row.before_output.as_deref().and_then(first_line))),
    ];
    extra.extend(facts.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.to_owned(), v)));
    Comment {
        id: CommentId::from_index(row.comment_index),
        text: row.comment_text,
        path: String::new(),
        diff_hunk: None,
        line: None,
        start_line: None,
        original_line: None,
        original_start_line: None,
        category: row.comment_type,
        extra,
    }
}

/// The oracle of a comment, also of a test that was found to be no good (it is kept, but not accepted).
fn oracle(id: &InstanceId, row: &TestgenRow, files: &Folder) -> Result<(Oracle, Vec<u8>), (AttritionReason, String)> {
    let no_test = || {
        let said = row.error.clone().unwrap_or_else(|| "test generation gave no test".to_owned());
        (AttritionReason::NoTest, said)
    };
    let recorded = row.test_file.as_deref().ok_or_else(no_test)?;
    let name = recorded.rsplit('/').next().unwrap_or_default();
    // The text in the record is what the release ran; the file beside it stands in where the record has none.
    let bytes = match (&row.test_code, files.get(name)) {
        (Some(code), _) => code.clone().into_bytes(),
        (None, Some(bytes)) => bytes.clone(),
        (None, None) => return Err(no_test()),
    };
    let language = row.language.as_deref().unwrap_or_default();
    let framework = framework(language)
        .ok_or_else(|| (AttritionReason::Unsupported, format!("there is no runner for a test in `{language}`")))?;
    if crate::store::bench::check_relative(name).is_err() {
        return Err((AttritionReason::Malformed, format!("`{recorded}` is no name for a test file")));
    }
    let mut extra = Extra::new();
    if framework == Framework::Pytest {
        extra.insert("text_only".to_owned(), Value::from(is_text_only(&String::from_utf8_lossy(&bytes))));
    }
    let comment = CommentId::from_index(row.comment_index);
    let oracle = Oracle {
        kind: OracleKind::Unknown,
        framework,
        test: format!("oracles/{id}/{comment}/{name}"),
        install_as: Some(name.to_owned()),
        needs_conftest: false,
        command: Vec::new(),
        before: vec!["failed".to_owned(), "errored".to_owned()],
        accepted: row.success,
        extra,
        comment,
    };
    Ok((oracle, bytes))
}

fn state(row: &TestgenRow, no_oracle: Option<(AttritionReason, String)>) -> State {
    if let Some((reason, detail)) = no_oracle {
        return State::Lost(reason, detail);
    }
    let attempts = row.attempts_used.map(|n| format!(" in {n} attempts")).unwrap_or_default();
    match (row.success, row.before_passed, row.after_passed) {
        (true, ..) => State::Valid,
        (_, Some(true), _) => {
            State::Lost(AttritionReason::PassesBefore, format!("the test passes on the commit to review{attempts}"))
        }
        (_, _, Some(false)) => {
            State::Lost(AttritionReason::FailsAfter, format!("the test fails on the merged commit too{attempts}"))
        }
        _ => State::Lost(AttritionReason::NoTest, row.error.clone().unwrap_or_else(|| "the test was never run".into())),
    }
}
