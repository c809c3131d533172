//! What the model is asked about a comment, and what its answers come to.

use serde::Serialize;
use serde_json::{Value, json};

use crate::llm::{AnswerSchema, ChatRequest, Prompt, PromptError};
use crate::model::{Comment, ConcernCategory, ExpectedOracle, Instance, Labels};

/// The stage's name in ledgers and budgets.
pub const STAGE: &str = "filter";

/// The prompt's name.
pub const PROMPT: &str = "filter";

/// How much of a text is shown to the model, in characters.
const SHOWN: usize = 6000;

/// The values that the prompt is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Values {
    repo: String,
    language: String,
    title: String,
    body: String,
    path: String,
    line: Option<u64>,
    hunk: String,
    comment: String,
}

impl Values {
    /// Those of one comment. Long texts are cut, and the cut is said; of a hunk the end stays, where the comment is.
    pub fn of(instance: &Instance, comment: &Comment) -> Self {
        Self {
            repo: instance.repo.clone(),
            language: instance.language.clone(),
            title: instance.title.clone(),
            body: head(instance.body.as_deref().unwrap_or_default()),
            path: comment.path.clone(),
            line: comment.line.or(comment.original_line),
            hunk: tail(comment.diff_hunk.as_deref().unwrap_or_default()),
            comment: head(&comment.text),
        }
    }
}

fn head(text: &str) -> String {
    match text.trim().char_indices().nth(SHOWN) {
        None => text.trim().to_owned(),
        Some((at, _)) => format!("{}\n[… cut]", &text.trim()[..at]),
    }
}

fn tail(text: &str) -> String {
    let text = text.trim_end();
    let count = text.chars().count();
    if count <= SHOWN {
        return text.to_owned();
    }
    format!("[cut …]\n{}", text.chars().skip(count - SHOWN).collect::<String>())
}

/// What an answer must look like.
pub fn schema() -> AnswerSchema {
    let words = |all: &[&str]| json!({"type": "string", "enum": all});
    let categories: Vec<&str> = ConcernCategory::ALL.iter().map(|one| one.as_str()).collect();
    let oracles: Vec<&str> = ExpectedOracle::ALL.iter().map(|one| one.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "actionable": {"type": "boolean"},
            "specific": {"type": "boolean"},
            "verifiable": {"type": "boolean"},
            "category": words(&categories),
            "oracle_reason": {"type": "string"},
            "oracle": words(&oracles),
        },
        "required": ["reason", "actionable", "specific", "verifiable", "category", "oracle_reason", "oracle"],
        "additionalProperties": false,
    });
    AnswerSchema { name: "comment_labels".to_owned(), schema }
}

/// How the model is asked.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The prompt.
    pub prompt: Prompt,
    /// Answers per comment, of which the majority counts.
    pub votes: u32,
    /// Sampling temperature; absent: the server's default.
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    pub max_tokens: u32,
}

impl Asking {
    /// The questions about one comment, one for each vote.
    ///
    /// # Errors
    /// When the prompt wants a value that there is not.
    pub fn requests(&self, instance: &Instance, comment: &Comment) -> Result<Vec<ChatRequest>, PromptError> {
        let rendered = self.prompt.render(&Values::of(instance, comment))?;
        let request = |sample: u32| ChatRequest {
            subject: format!("{} {}", instance.instance_id, comment.id),
            prompt: Some(self.prompt.id.clone()),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            // Equal seeds would make equal answers.
            seed: Some(u64::from(sample)),
            sample,
            schema: Some(schema()),
            ..ChatRequest::new(STAGE, "classify", &rendered.system, &rendered.user)
        };
        Ok((0..self.votes.max(1)).map(request).collect())
    }

    /// All of it that could change an answer, for the row's key.
    pub fn key(&self) -> Value {
        json!({
            "prompt": self.prompt.id.digest,
            "votes": self.votes,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "schema": schema().schema,
        })
    }
}

/// The majority of several answers, point by point. A tie goes to `false` for yes-or-no points, and elsewhere to what was
/// said first. The texts are those of the first answer whose `oracle` is the majority's. `None` without any answer.
pub fn majority(votes: &[Labels]) -> Option<Labels> {
    let most = |point: fn(&Labels) -> bool| 2 * votes.iter().filter(|vote| point(vote)).count() > votes.len();
    let category = commonest(votes.iter().map(|vote| vote.category))?;
    let oracle = commonest(votes.iter().map(|vote| vote.oracle))?;
    let told = votes.iter().find(|vote| vote.oracle == oracle)?;
    Some(Labels {
        actionable: most(|vote| vote.actionable),
        specific: most(|vote| vote.specific),
        verifiable: most(|vote| vote.verifiable),
        category,
        oracle,
        oracle_reason: told.oracle_reason.clone(),
        reason: told.reason.clone(),
    })
}

fn commonest<T: PartialEq + Copy>(said: impl Iterator<Item = T> + Clone) -> Option<T> {
    let mut best: Option<(T, usize)> = None;
    for one in said.clone() {
        let count = said.clone().filter(|other| *other == one).count();
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((one, count));
        }
    }
    best.map(|(one, _)| one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Prompts;

    fn labels(yes: bool, category: ConcernCategory, oracle: ExpectedOracle, reason: &str) -> Labels {
        Labels {
            actionable: yes,
            specific: yes,
            verifiable: yes,
            category,
            oracle,
            oracle_reason: reason.to_owned(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn the_majority_is_point_by_point() {
        use ConcernCategory::{Design, Functional, Security};
        use ExpectedOracle::{Behavioral, None as Not};
        let votes = [
            labels(true, Security, Not, "one"),
            labels(false, Functional, Behavioral, "two"),
            labels(true, Functional, Behavioral, "three"),
        ];
        let found = majority(&votes).unwrap();
        assert_eq!(found, labels(true, Functional, Behavioral, "two"));
        let tie = majority(&[labels(true, Design, Behavioral, "a"), labels(false, Security, Not, "b")]).unwrap();
        assert_eq!(tie, labels(false, Design, Behavioral, "a"));
        assert_eq!(majority(&[]), None);
    }

    #[test]
    fn the_prompt_that_comes_along_takes_every_comment() {
        let prompts = Prompts::load(&[]).unwrap();
        let asking =
            Asking { prompt: prompts.get(PROMPT).unwrap().clone(), votes: 2, temperature: Some(0.5), max_tokens: 500 };
        let row = json!({
            "instance_id": "o__r-1@0123abc", "repo": "o/r", "commit_to_review": {"head_commit": "0123abc"}, "title": "T {{x}}",
            "reference_review_comments": [{"text": "say {{why}}"},
                {"text": "b", "path": "a.py", "line": 3, "diff_hunk": format!("{}\n+last", "x".repeat(7000))}, {"text": "c", "path": "a.py"}],
        });
        let instance: Instance = serde_json::from_value(row).unwrap();
        let comments = &instance.reference_review_comments;
        let first = asking.requests(&instance, &comments[0]).unwrap();
        assert_eq!(first.len(), 2);
        assert_ne!(first[0].key("m"), first[1].key("m"));
        let text = &first[0].messages[0].text;
        assert!(
            text.contains("say {{why}}") && text.contains("T {{x}}") && text.contains("change as a whole"),
            "{text}"
        );
        let second = &asking.requests(&instance, &comments[1]).unwrap()[0].messages[0].text;
        assert!(
            second.contains("in a.py, line 3") && second.contains("+last\n>>>>>") && second.contains("[cut …]"),
            "{second}"
        );
        let third = &asking.requests(&instance, &comments[2]).unwrap()[0].messages[0].text;
        assert!(third.contains("on the file a.py.") && !third.contains("hunk"), "{third}");
    }

    #[test]
    fn labels_and_the_schema_are_of_one_shape() {
        let value =
            serde_json::to_value(labels(true, ConcernCategory::Testing, ExpectedOracle::Structural, "")).unwrap();
        let mut names: Vec<&String> = value.as_object().unwrap().keys().collect();
        let schema = schema().schema;
        let mut wanted: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        names.sort();
        wanted.sort();
        assert_eq!(names, wanted);
    }
}
