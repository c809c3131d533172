use serde_json::json;

use super::*;
use crate::llm::AnswerSchema;
use crate::llm::sse::Parser;

fn request() -> ChatRequest {
    let mut request = ChatRequest::new("s", "p", "be brief", "hello");
    request.seed = Some(7);
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
    request.schema = Some(AnswerSchema { name: "verdict".to_owned(), schema });
    request
}

fn stream(wire: Wire, text: &str) -> Result<Parsed, Fault> {
    let (mut parser, mut collector) = (Parser::default(), Collector::new(wire));
    for event in parser.take(text.as_bytes()) {
        if collector.take(&event)? {
            break;
        }
    }
    collector.finish()
}

#[test]
fn requests_of_openai_ask_for_the_schema_as_far_as_the_server_takes_it() {
    let takes = Takes::new(true);
    let sent = body(Wire::Openai, "m", &request(), &takes);
    assert_eq!(sent["response_format"]["json_schema"]["strict"], true);
    assert_eq!(sent["max_tokens"], 2048);
    assert_eq!(sent["stream_options"], json!({"include_usage": true}));
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "be brief"}));
    let takes = takes
        .without(Wire::Openai, &request(), "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'")
        .unwrap();
    let takes = takes.without(Wire::Openai, &request(), "`temperature` does not support 0").unwrap();
    let takes = takes.without(Wire::Openai, &request(), "response_format json_schema is unknown").unwrap();
    let sent = body(Wire::Openai, "m", &request(), &takes);
    assert_eq!(sent["response_format"], json!({"type": "json_object"}));
    assert_eq!((sent.get("max_tokens"), &sent["max_completion_tokens"]), (None, &json!(2048)));
    assert!(sent.get("temperature").is_none());
    let system = sent["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("be brief") && system.contains("\"required\""), "{system}");
    let takes = takes.without(Wire::Openai, &request(), "response_format?").unwrap();
    assert!(body(Wire::Openai, "m", &request(), &takes).get("response_format").is_none());
    assert_eq!(takes.adjusted(&request()), ["no temperature", "schema in the prompt"]);
    // There is an end to it.
    assert_eq!(takes.without(Wire::Openai, &request(), "response_format?"), None);
    assert_eq!(takes.without(Wire::Openai, &request(), "something else"), None);
}

#[test]
fn requests_of_anthropic_force_one_tool() {
    let sent = body(Wire::Anthropic, "m", &request(), &Takes::new(false));
    assert_eq!(sent["tool_choice"], json!({"type": "tool", "name": "verdict"}));
    assert_eq!(sent["tools"][0]["input_schema"], request().schema.unwrap().schema);
    assert_eq!((&sent["system"], &sent["stream"]), (&json!("be brief"), &json!(false)));
    assert!(sent.get("seed").is_none());
    assert_eq!(Wire::Anthropic.url("https://h/v1/"), "https://h/v1/messages");
    assert_eq!(Wire::Anthropic.url("https://h"), "https://h/v1/messages");
    assert_eq!(Wire::Openai.url("https://h/v1"), "https://h/v1/chat/completions");
}

#[test]
fn both_vendors_tokens_mean_the_same() {
    // 1,000 tokens of prompt of which 600 were cached, in either way of counting.
    let openai = json!({
        "model": "m-1", "choices": [{"message": {"content": "hi", "tool_calls": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
                  "prompt_tokens_details": {"cached_tokens": 600}, "completion_tokens_details": null},
        "timings": {}
    });
    let anthropic = json!({
        "model": "m-1", "content": [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "hi"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 400, "cache_read_input_tokens": 600, "cache_creation_input_tokens": null, "output_tokens": 20}
    });
    let one = whole(Wire::Openai, openai.to_string().as_bytes()).unwrap();
    assert_eq!(one, whole(Wire::Anthropic, anthropic.to_string().as_bytes()).unwrap());
    assert_eq!(one.usage.unwrap().prompt(), 1000);
    assert_eq!(one.stop, StopReason::End);
}

#[test]
fn a_stream_of_openai() {
    let text = ": ping\n\ndata: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"he\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"llo\"},\"finish_reason\":null}],\ndata: \"usage\":null}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n";
    assert_eq!(stream(Wire::Openai, text).unwrap_err().kind, FailureKind::Cut);
    let parsed = stream(Wire::Openai, &format!("{text}data: [DONE]\n\n")).unwrap();
    assert_eq!((parsed.content, parsed.stop), (Content::Text("hello".to_owned()), StopReason::Length));
    assert_eq!(parsed.usage.unwrap().total(), 11);
    let broken = format!("{text}data: {{\"error\":{{\"message\":\"the engine died\"}}}}\n\ndata: [DONE]\n\n");
    let fault = stream(Wire::Openai, &broken).unwrap_err();
    assert!(fault.kind.is_retryable() && fault.message.contains("the engine died"), "{fault:?}");
    let refused =
        "data: {\"choices\":[{\"delta\":{\"refusal\":\"no\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(stream(Wire::Openai, refused).unwrap().stop, StopReason::Refusal);
    assert_eq!(stream(Wire::Openai, "data: {oops\n\n").unwrap_err().kind, FailureKind::Protocol);
}

#[test]
fn a_stream_of_anthropic() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"c\",\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":2,\"output_tokens\":1}}}\n\n\
        event: ping\ndata: {\"type\":\"ping\"}\n\nevent: tomorrow\ndata: {\"type\":\"tomorrow\"}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"name\":\"verdict\",\"input\":{}}}\n\n";
    let piece = |text: &str| {
        let data = json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": text}});
        format!("event: content_block_delta\ndata: {data}\n\n")
    };
    let end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":30}}\n\n";
    let stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let whole = format!("{start}{}{}{end}{stop}", piece("{\"ok\":"), piece("true}"));
    let parsed = stream(Wire::Anthropic, &whole).unwrap();
    assert_eq!((parsed.content, parsed.stop), (Content::Json(json!({"ok": true})), StopReason::End));
    assert_eq!(parsed.usage, Some(Usage { input: 5, cache_read: 2, cache_write: 0, output: 30, reasoning: 0 }));
    let empty = stream(Wire::Anthropic, &format!("{start}{end}{stop}")).unwrap();
    assert_eq!(empty.content, Content::Json(json!({})));
    let torn = stream(Wire::Anthropic, &format!("{start}{}{end}{stop}", piece("{\"ok\":"))).unwrap();
    assert_eq!(torn.content, Content::Text("{\"ok\":".to_owned()));
    assert_eq!(stream(Wire::Anthropic, &format!("{start}{end}")).unwrap_err().kind, FailureKind::Cut);
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    assert_eq!(stream(Wire::Anthropic, &format!("{start}{overloaded}")).unwrap_err().kind, FailureKind::Overloaded);
}

#[test]
fn what_is_no_answer_is_said_to_be_none() {
    for wire in [Wire::Openai, Wire::Anthropic] {
        for bytes in [&b"<html>"[..], b"{}", b"[]", b"null", b""] {
            assert_eq!(whole(wire, bytes).unwrap_err().kind, FailureKind::Protocol);
        }
    }
    let fault =
        whole(Wire::Openai, b"{\"error\": {\"message\": \"late\", \"type\": \"rate_limit_exceeded\"}}").unwrap_err();
    assert_eq!(fault.kind, FailureKind::RateLimited);
}

proptest::proptest! {
    #[test]
    fn nothing_that_a_server_sends_ends_the_program(bytes: Vec<u8>, data in "[ -~\\n]{0,80}", shape in 0..6_usize, n: u64) {
        let values = [
            json!({"choices": [{"message": {"content": data, "refusal": n}, "finish_reason": n}], "usage": {"prompt_tokens": n, "completion_tokens": n}}),
            json!({"choices": [{"delta": {"content": [{"text": data}, n]}}], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": n}}}),
            json!({"type": "message_delta", "usage": {"input_tokens": n, "output_tokens": n}, "delta": n}),
            json!({"type": "content_block_start", "content_block": {"type": "tool_use"}, "content": [{"type": "tool_use", "input": n}]}),
            json!({"error": data}),
            json!([[data]]),
        ];
        let value = values[shape].to_string();
        for wire in [Wire::Openai, Wire::Anthropic] {
            let _ = whole(wire, &bytes);
            if let Ok(parsed) = whole(wire, value.as_bytes()) {
                let _ = parsed.usage.map(Usage::total);
            }
            let (mut parser, mut collector) = (Parser::default(), Collector::new(wire));
            let text = format!("data: {value}\n\ndata: {data}\n\n{}", String::from_utf8_lossy(&bytes));
            for event in parser.take(text.as_bytes()) {
                let _ = collector.take(&event);
            }
            let _ = collector.finish();
        }
        let _ = refused(shape as u16 * 100, &bytes, &Headers::default(), jiff::Timestamp::UNIX_EPOCH);
    }
}
