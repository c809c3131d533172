//! The two wire formats: requests out, answers and errors in. Pure; nothing here sends.

mod anthropic;
mod fault;
mod openai;

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sse::Event;
use super::{ChatRequest, Content, FailureKind, StopReason, Usage};

pub(super) use fault::{Headers, refused};

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI's chat completions, which most other servers speak too.
    Openai,
    /// Anthropic's messages.
    Anthropic,
}

impl Wire {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// The vendor's own server.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Openai => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
        }
    }

    /// The variable in which its users keep their key.
    pub fn default_key_variable(self) -> &'static str {
        match self {
            Self::Openai => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
        }
    }

    /// Where requests go, below the base URL.
    pub(super) fn url(self, base: &str) -> String {
        let base = base.trim_end_matches('/');
        match self {
            Self::Openai => format!("{base}/chat/completions"),
            Self::Anthropic => format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base)),
        }
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "openai" => Ok(Self::Openai),
            "anthropic" => Ok(Self::Anthropic),
            _ => Err(format!("`{text}` is no wire format (use `openai` or `anthropic`)")),
        }
    }
}

/// How a server is bound to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Structured {
    /// By its own means: `response_format` with the schema, or a tool that must be called.
    Native,
    /// To any JSON; the schema is in the prompt.
    Object,
    /// Not at all; the schema is in the prompt.
    Prompt,
}

/// What a server takes, as far as it is known: everything, until it refuses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takes {
    pub stream: bool,
    pub stream_usage: bool,
    pub structured: Structured,
    pub temperature: bool,
    pub seed: bool,
    /// The newer name of the bound on the answer.
    pub completion_tokens: bool,
}

impl Takes {
    pub fn new(stream: bool) -> Self {
        Self {
            stream,
            stream_usage: true,
            structured: Structured::Native,
            temperature: true,
            seed: true,
            completion_tokens: false,
        }
    }

    /// What of a request is asked in another way than it says.
    pub fn adjusted(&self, request: &ChatRequest) -> Vec<String> {
        let mut out = Vec::new();
        if request.temperature.is_some() && !self.temperature {
            out.push("no temperature".to_owned());
        }
        if request.seed.is_some() && !self.seed {
            out.push("no seed".to_owned());
        }
        match self.structured {
            Structured::Object if request.schema.is_some() => out.push("schema in the prompt, any JSON".to_owned()),
            Structured::Prompt if request.schema.is_some() => out.push("schema in the prompt".to_owned()),
            _ => {}
        }
        out
    }

    /// What to ask without after the server refused a request with this text; `None` where that would not help.
    pub fn without(self, wire: Wire, request: &ChatRequest, said: &str) -> Option<Self> {
        let said = said.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if wire == Wire::Openai && !self.completion_tokens && has(&["max_completion_tokens"]) {
            return Some(Self { completion_tokens: true, ..self });
        }
        if self.stream && self.stream_usage && has(&["stream_options", "include_usage"]) {
            return Some(Self { stream_usage: false, ..self });
        }
        if request.temperature.is_some() && self.temperature && has(&["temperature"]) {
            return Some(Self { temperature: false, ..self });
        }
        if request.seed.is_some() && self.seed && has(&["seed"]) {
            return Some(Self { seed: false, ..self });
        }
        let structured = ["response_format", "json_schema", "json_object", "grammar", "tool_choice", "tools"];
        if request.schema.is_some() && has(&structured) {
            let structured = match (wire, self.structured) {
                (Wire::Openai, Structured::Native) => Structured::Object,
                (Wire::Anthropic, Structured::Native) | (_, Structured::Object) => Structured::Prompt,
                (_, Structured::Prompt) => return None,
            };
            return Some(Self { structured, ..self });
        }
        None
    }
}

/// The system text, with the schema where the server is not bound to it.
fn system(request: &ChatRequest, takes: &Takes) -> String {
    let Some(schema) = request.schema.as_ref().filter(|_| takes.structured != Structured::Native) else {
        return request.system.clone();
    };
    let told = format!(
        "Answer with one JSON value and nothing else: no prose, no code fence. It must fit this JSON Schema:\n{}",
        schema.schema
    );
    if request.system.is_empty() { told } else { format!("{}\n\n{told}", request.system) }
}

/// What an answer says, vendors' differences removed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parsed {
    pub content: Content,
    pub model: String,
    pub stop: StopReason,
    pub usage: Option<Usage>,
}

/// What came is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub kind: FailureKind,
    pub message: String,
}

impl Fault {
    fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The body of a request.
pub(super) fn body(wire: Wire, model: &str, request: &ChatRequest, takes: &Takes) -> Value {
    match wire {
        Wire::Openai => openai::body(model, request, takes),
        Wire::Anthropic => anthropic::body(model, request, takes),
    }
}

/// An answer that came in one piece.
pub(super) fn whole(wire: Wire, bytes: &[u8]) -> Result<Parsed, Fault> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Fault::new(FailureKind::Protocol, format!("the server's answer is no JSON: {error}")))?;
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(fault::inside(&value));
    }
    match wire {
        Wire::Openai => openai::whole(&value),
        Wire::Anthropic => anthropic::whole(&value),
    }
}

/// Puts an answer together from the events of a stream.
#[derive(Debug)]
pub(super) enum Collector {
    Openai(openai::Collector),
    Anthropic(anthropic::Collector),
}

impl Collector {
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Openai => Self::Openai(openai::Collector::default()),
            Wire::Anthropic => Self::Anthropic(anthropic::Collector::default()),
        }
    }

    /// Takes an event in; true when it was the last one.
    pub fn take(&mut self, event: &Event) -> Result<bool, Fault> {
        match self {
            Self::Openai(collector) => collector.take(event),
            Self::Anthropic(collector) => collector.take(event),
        }
    }

    /// The answer, once the last event came.
    pub fn finish(self) -> Result<Parsed, Fault> {
        match self {
            Self::Openai(collector) => collector.finish(),
            Self::Anthropic(collector) => collector.finish(),
        }
    }
}

/// A number of tokens; what is missing or null counts for nothing.
fn tokens(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn event_json(event: &Event) -> Result<Value, Fault> {
    serde_json::from_str(&event.data)
        .map_err(|error| Fault::new(FailureKind::Protocol, format!("an event of the stream is no JSON: {error}")))
}

#[cfg(test)]
mod tests;
