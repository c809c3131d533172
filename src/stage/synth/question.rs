//! How the model is asked for a test, and for a better one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::kit::Offered;
use super::material::Material;
use crate::llm::{AnswerSchema, ChatRequest, Message, Prompt, PromptError};
use crate::model::{Instance, SideSeen, SynthAnswer, SynthRow};

/// The stage's name in ledgers, budgets and attrition.
pub const STAGE: &str = "synth";

/// The first question's prompt.
pub const PROMPT: &str = "synth";

/// The prompt of the questions after it.
pub const AGAIN: &str = "synth_again";

/// When the model is shown the merged change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum See {
    /// Never.
    Before,
    /// From the second attempt on.
    #[default]
    Later,
    /// From the first.
    After,
}

impl See {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Later => "later",
            Self::After => "after",
        }
    }

    /// Whether it is shown at this attempt, from 1.
    pub fn at(self, attempt: u32) -> bool {
        match self {
            Self::Before => false,
            Self::Later => attempt > 1,
            Self::After => true,
        }
    }
}

impl fmt::Display for See {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for See {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Before, Self::Later, Self::After];
        let found = all.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is not known here (use `before`, `later` or `after`)"))
    }
}

/// What an answer must look like.
pub fn schema(offered: &[&Offered]) -> AnswerSchema {
    let frameworks: Vec<&str> = offered.iter().map(|one| one.name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "testable": {"type": "boolean"},
            "why": {"type": "string"},
            "kind": {"type": "string", "enum": ["behavioral", "structural"]},
            "framework": {"type": "string", "enum": frameworks},
            "missing": {"type": "string"},
            "test": {"type": "string"},
        },
        "required": ["testable", "why", "kind", "framework", "missing", "test"],
        "additionalProperties": false,
    });
    AnswerSchema { name: "review_test".to_owned(), schema }
}

/// How the model is asked.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The first question.
    pub prompt: Prompt,
    /// The ones after it.
    pub again: Prompt,
    /// When the merged change is shown.
    pub see: See,
    /// Attempts at most.
    pub attempts: u32,
    /// Sampling temperature; absent: the server's default.
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    pub max_tokens: u32,
}

/// What the prompt of a later question is made from.
#[derive(Debug, Serialize)]
struct Feedback<'a> {
    verdict: String,
    checks: &'a [crate::model::CheckHit],
    before: Option<Shown<'a>>,
    after: Option<Shown<'a>>,
    merged: &'a str,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    outcomes: String,
    message: &'a str,
    output: &'a str,
}

impl<'a> Shown<'a> {
    fn of(side: &'a SideSeen) -> Self {
        let mut outcomes: Vec<String> = side.outcomes.iter().map(ToString::to_string).collect();
        outcomes.dedup();
        Self {
            outcomes: outcomes.join(", then "),
            message: side.message.as_deref().unwrap_or_default(),
            output: &side.output,
        }
    }
}

impl Asking {
    /// The question of an attempt. `last` is the row of the attempt before it.
    ///
    /// # Errors
    /// When a prompt wants a value that there is not.
    pub fn request(
        &self,
        instance: &Instance,
        comment: &crate::model::Comment,
        material: &Material,
        attempt: u32,
        last: Option<&SynthRow>,
    ) -> Result<ChatRequest, PromptError> {
        // The first question stays as it was: what is shown later comes with the later question.
        let values = material.values(self.see.at(1));
        let rendered = self.prompt.render(&values)?;
        let mut request = ChatRequest {
            subject: format!("{} {}", instance.instance_id, comment.id),
            prompt: Some(self.prompt.id.clone()),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            seed: Some(u64::from(attempt)),
            sample: 0,
            schema: Some(schema(&material.offered())),
            ..ChatRequest::new(STAGE, "write-test", &rendered.system, &rendered.user)
        };
        let Some((last, answer)) = last.and_then(|row| Some((row, row.answer.as_ref()?))) else { return Ok(request) };
        let feedback = Feedback {
            verdict: verdict(last),
            checks: &last.checks,
            before: last.before.as_ref().map(Shown::of),
            after: last.after.as_ref().map(Shown::of),
            merged: if self.see.at(attempt) && !self.see.at(1) { material.merged() } else { "" },
        };
        let told = self.again.render(&feedback)?;
        if !told.system.is_empty() {
            request.system = told.system;
        }
        request.purpose = "write-test-again".to_owned();
        request.prompt = Some(self.again.id.clone());
        request.messages.push(Message::assistant(said(answer)));
        request.messages.push(Message::user(told.user));
        Ok(request)
    }

    /// The digests of the prompts.
    pub fn prompts(&self) -> Vec<crate::model::Digest> {
        vec![self.prompt.id.digest.clone(), self.again.id.digest.clone()]
    }

    /// What is not in a request and could change an attempt's row.
    pub fn key(&self) -> Value {
        json!({"see": self.see})
    }
}

/// The model's own answer, as it is shown to it again.
fn said(answer: &SynthAnswer) -> String {
    json!({
        "testable": answer.testable, "why": answer.why, "kind": answer.kind, "framework": answer.framework,
        "missing": answer.missing, "test": answer.test,
    })
    .to_string()
}

fn verdict(row: &SynthRow) -> String {
    let reason = row.reason.map_or("rejected", |reason| reason.as_str());
    if row.detail.is_empty() { reason.to_owned() } else { format!("{reason}, {}", row.detail) }
}
