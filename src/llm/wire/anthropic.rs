//! Anthropic's messages. A schema becomes the one tool, which must be called.

use serde_json::{Map, Value, json};

use super::{Fault, Parsed, Structured, Takes, event_json, fault, system, text, tokens};
use crate::llm::sse::Event;
use crate::llm::{ChatRequest, Content, FailureKind, StopReason, Usage};

pub(super) fn body(model: &str, request: &ChatRequest, takes: &Takes) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("max_tokens".to_owned(), json!(request.max_tokens));
    let system = system(request, takes);
    if !system.is_empty() {
        body.insert("system".to_owned(), json!(system));
    }
    let said = request.messages.iter().map(|message| json!({"role": message.role.as_str(), "content": message.text}));
    body.insert("messages".to_owned(), said.collect());
    if let Some(temperature) = request.temperature.filter(|_| takes.temperature) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(schema) = request.schema.as_ref().filter(|_| takes.structured == Structured::Native) {
        let tool = json!({
            "name": schema.name,
            "description": "Gives the answer. Call it once, with the whole answer.",
            "input_schema": schema.schema,
        });
        body.insert("tools".to_owned(), json!([tool]));
        body.insert("tool_choice".to_owned(), json!({"type": "tool", "name": schema.name}));
    }
    body.insert("stream".to_owned(), json!(takes.stream));
    Value::Object(body)
}

pub(super) fn whole(value: &Value) -> Result<Parsed, Fault> {
    let blocks = value
        .get("content")
        .and_then(Value::as_array)
        .ok_or_else(|| Fault::new(FailureKind::Protocol, "the server's answer has no `content`"))?;
    let mut collector = Collector { done: true, ..Collector::default() };
    for block in blocks {
        collector.begin(block);
        if let Some(input) = block.get("input").filter(|_| text(block, "/type") == Some("tool_use")) {
            collector.input = Some(input.to_string());
        }
    }
    collector.model = text(value, "/model").unwrap_or_default().to_owned();
    collector.stop = text(value, "/stop_reason").map(str::to_owned);
    collector.count(value.get("usage"));
    collector.finish()
}

/// What came so far.
#[derive(Debug, Default)]
pub(in crate::llm) struct Collector {
    content: String,
    /// The tool's input as text; pieces of it come one by one.
    input: Option<String>,
    model: String,
    stop: Option<String>,
    usage: Option<Usage>,
    done: bool,
}

impl Collector {
    pub fn take(&mut self, event: &Event) -> Result<bool, Fault> {
        let value = event_json(event)?;
        match text(&value, "/type").unwrap_or(&event.name) {
            "message_start" => {
                self.model = text(&value, "/message/model").unwrap_or_default().to_owned();
                self.count(value.pointer("/message/usage"));
            }
            "content_block_start" => self.begin(value.get("content_block").unwrap_or(&Value::Null)),
            "content_block_delta" => {
                self.content.push_str(text(&value, "/delta/text").unwrap_or_default());
                if let Some(piece) = text(&value, "/delta/partial_json") {
                    self.input.get_or_insert_default().push_str(piece);
                }
            }
            "message_delta" => {
                if let Some(stop) = text(&value, "/delta/stop_reason") {
                    self.stop = Some(stop.to_owned());
                }
                self.count(value.get("usage"));
            }
            "message_stop" => {
                self.done = true;
                return Ok(true);
            }
            "error" => return Err(fault::inside(&value)),
            // Pings, ends of blocks, and what is newer than this.
            _ => {}
        }
        Ok(false)
    }

    /// A block, or the beginning of one.
    fn begin(&mut self, block: &Value) {
        match text(block, "/type") {
            Some("text") => self.content.push_str(text(block, "/text").unwrap_or_default()),
            Some("tool_use") => self.input = Some(String::new()),
            _ => {}
        }
    }

    /// Counts are cumulative: a later one replaces an earlier one, where it has a number.
    fn count(&mut self, counted: Option<&Value>) {
        let Some(counted) = counted.filter(|counted| counted.is_object()) else { return };
        let usage = self.usage.get_or_insert_default();
        for (pointer, field) in [
            ("/input_tokens", &mut usage.input),
            ("/cache_read_input_tokens", &mut usage.cache_read),
            ("/cache_creation_input_tokens", &mut usage.cache_write),
            ("/output_tokens", &mut usage.output),
        ] {
            if counted.pointer(pointer).is_some_and(Value::is_u64) {
                *field = tokens(counted, pointer);
            }
        }
    }

    pub fn finish(self) -> Result<Parsed, Fault> {
        if !self.done {
            return Err(Fault::new(FailureKind::Cut, "the stream ended without its last event"));
        }
        let stop = match self.stop.as_deref() {
            Some("end_turn" | "stop_sequence" | "tool_use") => StopReason::End,
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            Some("refusal") => StopReason::Refusal,
            _ => StopReason::Other,
        };
        let content = match self.input {
            // A tool without input may come without any piece of it.
            Some(input) if input.trim().is_empty() => Content::Json(json!({})),
            Some(input) => serde_json::from_str(&input).map_or(Content::Text(input), Content::Json),
            None => Content::Text(self.content),
        };
        Ok(Parsed { content, model: self.model, stop, usage: self.usage })
    }
}
