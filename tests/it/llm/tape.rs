//! Cassettes over a real connection: recorded once, replayed without a server.

use std::sync::Arc;

use redgreen::llm::{Cassette, ChatRequest, Endpoint, FailureKind, Limiter, LiveModel, Llm, Secret, Wire};

use super::server::{Server, openai_stream};

#[tokio::test]
async fn a_recording_replays_offline_with_equal_ledgers_and_holds_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("tape.jsonl");
    let server = Server::scripted([openai_stream("one"), openai_stream("two")]);
    let mut endpoint = Endpoint::new(Wire::Openai, server.base(), "tiny");
    endpoint.key = Some(Secret::new("sk-hunter2"));
    let live = Arc::new(LiveModel::new(endpoint, Limiter::new(1, None)).unwrap());
    let requests = ["a", "b"].map(|text| ChatRequest::new("filter", "classify", "s", text));
    let record = Llm::new(Arc::new(Cassette::record(&tape, live).unwrap()));
    let mut recorded = Vec::new();
    for request in &requests {
        recorded.push(record.ask(request).await.unwrap());
    }
    let text = fs_err::read_to_string(&tape).unwrap();
    assert!(!text.contains("hunter2") && !text.contains(&server.port.to_string()), "{text}");
    assert_eq!(server.asked().len(), 2);
    drop(server);

    let mut ledgers = Vec::new();
    for _ in 0..2 {
        let replay = Llm::new(Arc::new(Cassette::replay(&tape, None).unwrap()));
        for (request, wanted) in requests.iter().zip(&recorded) {
            let mut answer = replay.ask(request).await.unwrap();
            assert!(std::mem::take(&mut answer.replayed));
            assert_eq!(&answer, wanted);
        }
        let other = ChatRequest::new("filter", "classify", "s", "c");
        let error = replay.ask(&other).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::CassetteMiss);
        assert!(error.message.contains("line 1 of `messages[0].text` is `c`"), "{error}");
        ledgers.push(serde_json::to_string(&replay.ledger().calls()).unwrap());
    }
    assert_eq!(ledgers[0], ledgers[1]);
}
