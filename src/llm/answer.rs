//! What a model answered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FailureKind;

/// The answer itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Any text.
    Text(String),
    /// A JSON value. From [`Llm::ask`](super::Llm::ask) it fits the request's schema.
    Json(Value),
}

impl Content {
    /// The text, or the JSON as text.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Json(value) => value.to_string(),
        }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// It was done.
    End,
    /// The answer reached `max_tokens`.
    Length,
    /// It, or a filter of the server's, would not answer.
    Refusal,
    /// Something that this version does not know.
    Other,
}

impl StopReason {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Length => "length",
            Self::Refusal => "refusal",
            Self::Other => "other",
        }
    }
}

/// Tokens of one call. The four kinds of the prompt and the answer do not overlap, whichever vendor counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens that no cache was involved in.
    pub input: u64,
    /// Prompt tokens that were read from the server's cache.
    pub cache_read: u64,
    /// Prompt tokens that were written to it.
    pub cache_write: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// Those of `output` that were reasoning, where the server says so.
    pub reasoning: u64,
}

impl Usage {
    /// All tokens of prompt and answer.
    pub fn total(self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// All tokens of the prompt.
    pub fn prompt(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// One answer with what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What the model said.
    pub content: Content,
    /// The model's id as the server gave it; empty where it gave none.
    pub model: String,
    /// Why it stopped.
    pub stop: StopReason,
    /// Its tokens; `None` where the server did not count them.
    pub usage: Option<Usage>,
    /// Seconds from the first try to the last byte, waits included.
    pub seconds: f64,
    /// How many requests were sent for it.
    pub attempts: u32,
    /// Requests among these that broke off after the server had begun to work, whose tokens nobody knows.
    pub lost: u32,
    /// The server's id of the request, for asking its makers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What was asked in another way than the request says, because the server refuses it (no temperature, no schema).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjusted: Vec<String>,
    /// Whether it comes from a record.
    #[serde(skip)]
    pub replayed: bool,
    /// Answers before this one that were not as asked.
    #[serde(skip)]
    pub invalid: Vec<InvalidAnswer>,
}

/// An answer that is not as asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidAnswer {
    /// In which way: refused, cut, no JSON, a misfit.
    pub kind: FailureKind,
    /// What is wrong with it.
    pub problem: String,
    /// What the model said.
    pub text: String,
}

impl Answer {
    /// A plain answer, as tests and cassettes make them.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: Content::Text(text.into()),
            model: String::new(),
            stop: StopReason::End,
            usage: None,
            seconds: 0.0,
            attempts: 1,
            lost: 0,
            request_id: None,
            adjusted: Vec::new(),
            replayed: false,
            invalid: Vec::new(),
        }
    }

    /// The JSON value, where it is one.
    pub fn json(&self) -> Option<&Value> {
        match &self.content {
            Content::Json(value) => Some(value),
            Content::Text(_) => None,
        }
    }
}
