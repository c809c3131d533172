//! OpenAI's chat completions.

use serde_json::{Map, Value, json};

use super::{Fault, Parsed, Structured, Takes, event_json, fault, system, text, tokens};
use crate::llm::schema::is_strict;
use crate::llm::sse::Event;
use crate::llm::{ChatRequest, Content, FailureKind, StopReason, Usage};

pub(super) fn body(model: &str, request: &ChatRequest, takes: &Takes) -> Value {
    let mut messages = Vec::new();
    let system = system(request, takes);
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system}));
    }
    let said = request.messages.iter().map(|message| json!({"role": message.role.as_str(), "content": message.text}));
    messages.extend(said);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("messages".to_owned(), json!(messages));
    let bound = if takes.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    body.insert(bound.to_owned(), json!(request.max_tokens));
    if let Some(temperature) = request.temperature.filter(|_| takes.temperature) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(seed) = request.seed.filter(|_| takes.seed) {
        body.insert("seed".to_owned(), json!(seed));
    }
    match (&request.schema, takes.structured) {
        (Some(schema), Structured::Native) => {
            let strict = is_strict(&schema.schema);
            let format = json!({"name": schema.name, "strict": strict, "schema": schema.schema});
            body.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": format}));
        }
        (Some(_), Structured::Object) => {
            body.insert("response_format".to_owned(), json!({"type": "json_object"}));
        }
        _ => {}
    }
    body.insert("stream".to_owned(), json!(takes.stream));
    if takes.stream && takes.stream_usage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

pub(super) fn whole(value: &Value) -> Result<Parsed, Fault> {
    let choice = value
        .pointer("/choices/0")
        .ok_or_else(|| Fault::new(FailureKind::Protocol, "the server's answer has no `choices`"))?;
    let message = choice.get("message").unwrap_or(&Value::Null);
    let mut collector = Collector { done: true, ..Collector::default() };
    collector.take_message(message);
    collector.finish = text(choice, "/finish_reason").map(str::to_owned);
    collector.take_rest(value);
    collector.finish()
}

/// What came so far.
#[derive(Debug, Default)]
pub(in crate::llm) struct Collector {
    content: String,
    refusal: String,
    model: String,
    finish: Option<String>,
    usage: Option<Usage>,
    done: bool,
}

impl Collector {
    pub fn take(&mut self, event: &Event) -> Result<bool, Fault> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(true);
        }
        let value = event_json(event)?;
        if value.get("error").is_some_and(|error| !error.is_null()) || event.name == "error" {
            return Err(fault::inside(&value));
        }
        if let Some(choice) = value.pointer("/choices/0") {
            self.take_message(choice.get("delta").unwrap_or(&Value::Null));
            if let Some(finish) = text(choice, "/finish_reason") {
                self.finish = Some(finish.to_owned());
            }
        }
        self.take_rest(&value);
        Ok(false)
    }

    /// A message, or a piece of one.
    fn take_message(&mut self, message: &Value) {
        match message.get("content") {
            Some(Value::String(content)) => self.content.push_str(content),
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|part| text(part, "/text")).for_each(|part| self.content.push_str(part));
            }
            _ => {}
        }
        self.refusal.push_str(text(message, "/refusal").unwrap_or_default());
    }

    fn take_rest(&mut self, value: &Value) {
        if let Some(model) = text(value, "/model") {
            model.clone_into(&mut self.model);
        }
        if let Some(counted) = value.get("usage").filter(|usage| usage.is_object()) {
            // Cached tokens are among those of the prompt here.
            let (prompt, cached) =
                (tokens(counted, "/prompt_tokens"), tokens(counted, "/prompt_tokens_details/cached_tokens"));
            self.usage = Some(Usage {
                input: prompt.saturating_sub(cached),
                cache_read: cached.min(prompt),
                cache_write: 0,
                output: tokens(counted, "/completion_tokens"),
                reasoning: tokens(counted, "/completion_tokens_details/reasoning_tokens"),
            });
        }
    }

    pub fn finish(self) -> Result<Parsed, Fault> {
        if !self.done {
            return Err(Fault::new(FailureKind::Cut, "the stream ended without its last event"));
        }
        let refused = !self.refusal.is_empty();
        let stop = match self.finish.as_deref() {
            _ if refused => StopReason::Refusal,
            Some("stop") => StopReason::End,
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Refusal,
            _ => StopReason::Other,
        };
        let text = if refused { self.refusal } else { self.content };
        Ok(Parsed { content: Content::Text(text), model: self.model, stop, usage: self.usage })
    }
}
