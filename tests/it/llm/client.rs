//! The live client: what a server can do to it, and what comes of that.

use std::sync::Arc;
use std::time::Duration;

use redgreen::llm::{
    Answer, AnswerSchema, Bounds, Budget, ChatRequest, Endpoint, FailureClass, FailureKind, Limiter, LiveModel, Llm,
    LlmError, PriceTable, Purse, Secret, Sum, Wire,
};
use serde_json::json;

use super::server::{Reply, Server, anthropic_stream, error, openai, openai_stream};

const GOOD: &str = "{\"ok\": true}";

fn endpoint(server: &Server, wire: Wire) -> Endpoint {
    let mut endpoint = Endpoint::new(wire, server.base(), "tiny");
    endpoint.key = Some(Secret::new("sk-hunter2"));
    endpoint.retries.first_wait = Duration::from_millis(5);
    endpoint.timeouts.connect = Duration::from_secs(5);
    endpoint.timeouts.first_byte = Duration::from_millis(1500);
    endpoint.timeouts.idle = Duration::from_millis(300);
    endpoint.retries.most = 3;
    endpoint
}

fn llm(endpoint: Endpoint) -> Llm {
    Llm::new(Arc::new(LiveModel::new(endpoint, Limiter::new(4, None)).unwrap()))
}

fn request() -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
    let mut request = ChatRequest::new("filter", "classify", "system", "question");
    request.schema = Some(AnswerSchema { name: "verdict".to_owned(), schema });
    request
}

#[tokio::main(flavor = "current_thread")]
async fn ask(llm: &Llm, request: &ChatRequest) -> Result<Answer, LlmError> {
    llm.ask(request).await
}

/// What comes of this script with OpenAI's wire.
fn outcome(replies: Vec<Reply>) -> (Result<Answer, LlmError>, usize) {
    let server = Server::scripted(replies);
    let ended = ask(&llm(endpoint(&server, Wire::Openai)), &request());
    (ended, server.asked().len())
}

#[test]
fn both_wires_give_the_same_answer() {
    for (wire, reply) in [(Wire::Openai, openai_stream(GOOD)), (Wire::Anthropic, anthropic_stream(GOOD))] {
        let server = Server::scripted([reply]);
        let llm = llm(endpoint(&server, wire));
        let answer = ask(&llm, &request()).unwrap();
        assert_eq!(answer.json(), Some(&json!({"ok": true})));
        assert_eq!(answer.request_id.as_deref(), Some("req-7"));
        let usage = answer.usage.unwrap();
        assert_eq!((usage.prompt(), usage.output), (100, 20));
        let asked = &server.asked()[0];
        match wire {
            Wire::Openai => {
                assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
                assert_eq!(asked.header("authorization"), Some("Bearer sk-hunter2"));
                assert_eq!(asked.body["response_format"]["type"], "json_schema");
            }
            Wire::Anthropic => {
                assert_eq!(asked.line, "POST /v1/messages HTTP/1.1");
                assert_eq!(asked.header("x-api-key"), Some("sk-hunter2"));
                assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
                assert_eq!(asked.body["tool_choice"]["name"], "verdict");
            }
        }
        let row = serde_json::to_string(&llm.ledger().calls()).unwrap();
        assert!(row.contains("\"served\":\"") && !row.contains("hunter2"), "{row}");
    }
}

#[test]
fn a_whole_answer_is_read_too_with_cache_tokens_apart() {
    let server = Server::scripted([openai(GOOD)]);
    let mut endpoint = endpoint(&server, Wire::Openai);
    endpoint.stream = false;
    let answer = ask(&llm(endpoint), &request()).unwrap();
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.output), (60, 40, 20));
    assert_eq!((answer.model.as_str(), answer.request_id.as_deref()), ("tiny-1", Some("req-1")));
    assert_eq!(server.asked()[0].body["stream"], false);
}

#[test]
fn a_rate_limit_is_waited_out_as_long_as_the_server_asks() {
    let limited = Reply::Whole(429, vec![("retry-after", "1".to_owned())], "slow down".to_owned());
    let server = Server::scripted([limited, openai_stream(GOOD)]);
    let answer = ask(&llm(endpoint(&server, Wire::Openai)), &request()).unwrap();
    assert_eq!(answer.attempts, 2);
    let asked = server.asked();
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1));
}

#[test]
fn a_rate_limit_pauses_everybody() {
    let mut first = true;
    let server = Server::answering(move |_| {
        if std::mem::take(&mut first) {
            return Reply::Whole(429, vec![("retry-after-ms", "700".to_owned())], String::new());
        }
        openai_stream(GOOD)
    });
    let llm = llm(endpoint(&server, Wire::Openai));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let request = request();
        let one = llm.ask(&request);
        let other = async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            llm.ask(&request).await
        };
        let (one, other) = tokio::join!(one, other);
        assert_eq!((one.unwrap().attempts, other.unwrap().attempts), (2, 1));
    });
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].at - asked[0].at >= Duration::from_millis(650), "the other one did not wait");
}

#[test]
fn what_passes_is_tried_again() {
    for reply in [
        error(529, "overloaded_error", "Overloaded"),
        error(500, "api_error", "oops"),
        Reply::Whole(502, Vec::new(), "<html>Bad gateway</html>".to_owned()),
        Reply::Whole(200, vec![("content-type", "text/html".to_owned())], "<html>captive</html>".to_owned()),
        Reply::Stream {
            pieces: vec!["data: {\"choices\":[{\"delta\":{\"content\":\"{\"}}]}\n\n".to_owned()],
            torn: true,
        },
        Reply::Stream {
            pieces: vec![
                "data: {\"choices\":[{\"delta\":{\"content\":\"{}\"},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
            ],
            torn: false,
        },
        Reply::Stream {
            pieces: vec!["data: {\"error\":{\"message\":\"the engine died\"}}\n\n".to_owned()],
            torn: false,
        },
        Reply::Stall(vec!["data: {\"choices\":[{\"delta\":{\"content\":\"{\"}}]}\n\n".to_owned()]),
    ] {
        let (ended, asked) = outcome(vec![reply.clone(), openai_stream(GOOD)]);
        let answer = ended.unwrap_or_else(|error| panic!("{reply:?}: {error}"));
        assert_eq!((answer.attempts, asked), (2, 2), "{reply:?}");
    }
}

#[test]
fn failures_that_stay_are_typed() {
    let torn = Reply::Stream { pieces: vec!["data: {\"choices\":[]}\n\n".to_owned()], torn: true };
    let refusal = Reply::Stream {
        pieces: vec!["data: {\"choices\":[{\"delta\":{\"refusal\":\"I can't\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_owned()],
        torn: false,
    };
    let cut = Reply::Stream {
        pieces: vec!["data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"ok\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n".to_owned()],
        torn: false,
    };
    for (reply, kind, class, requests) in [
        (
            error(401, "authentication_error", "Incorrect API key provided: sk-hunter2"),
            FailureKind::Auth,
            FailureClass::Stop,
            1,
        ),
        (error(403, "permission_error", "no"), FailureKind::Auth, FailureClass::Stop, 1),
        (error(404, "not_found_error", "no model `tiny`"), FailureKind::NotFound, FailureClass::Stop, 1),
        (error(400, "context_length_exceeded", "too long"), FailureKind::ContextTooLong, FailureClass::Request, 1),
        (error(400, "invalid_request_error", "bad role"), FailureKind::BadRequest, FailureClass::Request, 1),
        (error(429, "insufficient_quota", "pay first"), FailureKind::Quota, FailureClass::Stop, 1),
        (error(429, "rate_limit_exceeded", "slow"), FailureKind::RateLimited, FailureClass::Infra, 3),
        (error(529, "overloaded_error", "Overloaded"), FailureKind::Overloaded, FailureClass::Infra, 3),
        (torn, FailureKind::Cut, FailureClass::Infra, 3),
        (refusal, FailureKind::Refused, FailureClass::Model, 1),
        (cut, FailureKind::TooLong, FailureClass::Model, 3),
        (openai_stream("perhaps"), FailureKind::NotJson, FailureClass::Model, 3),
        (openai_stream("{\"ok\": true, \"why\": 1}"), FailureKind::Misfit, FailureClass::Model, 3),
        (openai_stream("{}"), FailureKind::Misfit, FailureClass::Model, 3),
    ] {
        let (ended, asked) = outcome(vec![reply.clone(); 6]);
        let error = ended.unwrap_err();
        assert_eq!((error.kind, error.class(), asked), (kind, class, requests), "{reply:?}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[test]
fn a_hang_ends_in_time_and_a_dead_server_is_told_apart() {
    let server = Server::answering(|_| Reply::Hang);
    let mut hanging = endpoint(&server, Wire::Openai);
    hanging.timeouts.first_byte = Duration::from_millis(200);
    hanging.retries.most = 2;
    let error = ask(&llm(hanging.clone()), &request()).unwrap_err();
    assert_eq!((error.kind, error.attempts, error.lost), (FailureKind::Timeout, 2, 2));
    hanging.timeouts.total = Duration::from_millis(100);
    let error = ask(&llm(hanging), &request()).unwrap_err();
    assert_eq!((error.kind, error.attempts), (FailureKind::Timeout, 1));

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut dead = endpoint(&server, Wire::Openai);
    dead.base_url = format!("http://127.0.0.1:{free}/v1");
    let error = ask(&llm(dead), &request()).unwrap_err();
    assert_eq!((error.kind, error.attempts, error.lost), (FailureKind::Connect, 3, 0), "{error}");
}

#[test]
fn a_bad_answer_is_repaired_over_the_wire() {
    let server = Server::scripted([openai_stream("perhaps"), openai_stream(GOOD)]);
    let llm = llm(endpoint(&server, Wire::Openai));
    let answer = ask(&llm, &request()).unwrap();
    assert_eq!(answer.invalid.len(), 1);
    let messages = server.asked()[1].body["messages"].as_array().unwrap().clone();
    assert_eq!(messages[2], json!({"role": "assistant", "content": "perhaps"}));
    assert_eq!(
        llm.ledger().calls().iter().map(|call| call.outcome.as_str()).collect::<Vec<_>>(),
        ["not-json", "answered"]
    );
}

#[test]
fn what_a_server_does_not_take_is_left_out_and_told() {
    let server = Server::answering(|asked| {
        let body = &asked.body;
        if body.get("max_tokens").is_some() {
            error(400, "invalid_request_error", "Unsupported parameter: use 'max_completion_tokens' instead.")
        } else if body.get("temperature").is_some() {
            error(400, "invalid_request_error", "Unsupported value: 'temperature' must be 1.")
        } else if body["response_format"]["type"] == "json_schema" {
            error(400, "invalid_request_error", "response_format of type json_schema is not known")
        } else {
            openai_stream(GOOD)
        }
    });
    let llm = llm(endpoint(&server, Wire::Openai));
    let answer = ask(&llm, &request()).unwrap();
    assert_eq!(answer.adjusted, ["no temperature", "schema in the prompt, any JSON"]);
    assert_eq!(server.asked().len(), 4);
    // It is learned once.
    ask(&llm, &request()).unwrap();
    assert_eq!(server.asked().len(), 5);
}

#[test]
fn the_budget_stops_before_the_server_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    fs_err::write(&file, "schema = 1\n[[model]]\nname = \"tiny\"\ninput = 1000\noutput = 1000").unwrap();
    let prices = PriceTable::load(&[file]).unwrap();
    let server = Server::scripted([openai_stream(GOOD), openai_stream(GOOD)]);
    let request = request();
    // One call can take this much, and then took 120 tokens.
    let most = (request.most_prompt_tokens() as f64 + 2048.0) / 1000.0;
    for (usd, calls) in [(most - 0.01, 0), (most + 0.1, 1)] {
        let run = Bounds { usd: Some(usd), ..Bounds::default() };
        let purse = Purse::new(Budget { run, ..Budget::default() });
        let llm = llm(endpoint(&server, Wire::Openai)).with_prices(prices.clone()).with_budget(purse);
        let before = server.asked().len();
        for _ in 0..calls {
            ask(&llm, &request).unwrap();
        }
        let error = ask(&llm, &request).unwrap_err();
        assert_eq!((error.kind, server.asked().len() - before), (FailureKind::Budget, calls), "{error}");
        let sum = Sum::of(&llm.ledger().calls());
        assert!((sum.usd - 0.12 * calls as f64).abs() < 1e-9, "{sum:?}");
    }
    let purse = Purse::new(Budget { run: "usd=1".parse().unwrap(), ..Budget::default() });
    let error = ask(&llm(endpoint(&server, Wire::Openai)).with_budget(purse), &request).unwrap_err();
    assert_eq!((error.kind, server.asked().len()), (FailureKind::UnknownPrice, 1));
}
