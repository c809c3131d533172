use serde_json::json;

use super::*;
use crate::llm::{AnswerSchema, Bounds, Budget, ScriptedModel, Usage};

fn request() -> ChatRequest {
    let schema = json!({
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": false,
    });
    let mut request = ChatRequest::new("filter", "classify", "system", "question");
    request.schema = Some(AnswerSchema { name: "verdict".to_owned(), schema });
    request
}

fn llm(model: &Arc<ScriptedModel>) -> Llm {
    Llm::new(model.clone())
}

fn outcomes(llm: &Llm) -> Vec<String> {
    llm.ledger().calls().into_iter().map(|call| call.outcome).collect()
}

#[tokio::test]
async fn a_bad_answer_is_told_so_and_asked_for_again() {
    let model =
        Arc::new(ScriptedModel::texts(["perhaps", "{\"ok\": true, \"why\": 1}", "```json\n{\"ok\": true}\n```"]));
    let llm = llm(&model);
    let answer = llm.ask(&request()).await.unwrap();
    assert_eq!(answer.json(), Some(&json!({"ok": true})));
    let kinds: Vec<_> = answer.invalid.iter().map(|invalid| invalid.kind).collect();
    assert_eq!(kinds, [FailureKind::NotJson, FailureKind::Misfit]);
    assert_eq!(outcomes(&llm), ["not-json", "misfit", "answered"]);
    let asked = model.asked();
    assert_eq!(asked[0].messages.len(), 1);
    // Only the last answer is shown, with what is wrong with it.
    assert_eq!(asked[2].messages.len(), 3);
    assert_eq!(asked[2].messages[1], Message::assistant("{\"ok\": true, \"why\": 1}"));
    assert!(asked[2].messages[2].text.contains("why") && asked[2].messages[2].text.contains("\"required\""));
}

#[tokio::test]
async fn bad_answers_end_typed_after_the_last_turn() {
    let model = Arc::new(ScriptedModel::texts(["{}", "{}", "{}", "{\"ok\": true}"]));
    let llm = llm(&model);
    let error = llm.ask(&request()).await.unwrap_err();
    assert_eq!((error.kind, error.invalid.len()), (FailureKind::Misfit, 3));
    assert_eq!(error.class(), FailureClass::Model);
    assert_eq!(model.asked().len(), 3);
}

#[tokio::test]
async fn a_refusal_is_not_argued_with_and_a_cut_answer_is_not_shown_again() {
    let refusal = Answer { stop: StopReason::Refusal, ..Answer::text("I would rather not") };
    let model = Arc::new(ScriptedModel::new([Ok(refusal)]));
    let error = llm(&model).ask(&request()).await.unwrap_err();
    assert_eq!((error.kind, model.asked().len()), (FailureKind::Refused, 1));

    let cut = Answer { stop: StopReason::Length, ..Answer::text("{\"ok\": tr") };
    let model = Arc::new(ScriptedModel::new([Ok(cut), Ok(Answer::text("{\"ok\": false}"))]));
    let answer = llm(&model).ask(&request()).await.unwrap();
    assert_eq!(answer.json(), Some(&json!({"ok": false})));
    let second = &model.asked()[1].messages;
    assert!(second.len() == 1 && second[0].text.contains("cut at 2048 tokens"), "{second:?}");
}

#[tokio::test]
async fn a_prompt_beyond_the_window_is_never_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    fs_err::write(&file, "schema = 1\n[[model]]\nname = \"scripted\"\ninput = 0\noutput = 0\nwindow = 2100").unwrap();
    let model = Arc::new(ScriptedModel::texts(["x", "x"]));
    let llm = llm(&model).with_prices(PriceTable::load(&[file]).unwrap());
    let mut request = ChatRequest::new("filter", "classify", "", "a".repeat(300));
    let error = llm.ask(&request).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::ContextTooLong);
    assert!(error.message.contains("an estimate") && model.asked().is_empty(), "{error}");
    request.max_tokens = 2000;
    llm.ask(&request).await.unwrap();
}

#[tokio::test]
async fn the_budget_stops_before_the_call_that_could_exceed_it() {
    let usage = Usage { input: 100, cache_read: 0, cache_write: 0, output: 10, reasoning: 0 };
    let good = || Ok(Answer { usage: Some(usage), ..Answer::text("fine") });
    let model = Arc::new(ScriptedModel::new([good(), good(), good()]));
    let request = ChatRequest::new("filter", "classify", "", "hello");
    let most = request.most_prompt_tokens() + 2048;
    let run = Bounds { tokens: Some(most + 110), ..Bounds::default() };
    let llm = llm(&model).with_budget(Purse::new(Budget { run, ..Budget::default() }));
    llm.ask(&request).await.unwrap();
    llm.ask(&request).await.unwrap();
    let error = llm.ask(&request).await.unwrap_err();
    assert_eq!((error.kind, error.class()), (FailureKind::Budget, FailureClass::Stop));
    assert_eq!(model.asked().len(), 2);
    assert_eq!(llm.ledger().calls().len(), 2);
    assert_eq!(crate::llm::Sum::of(&llm.ledger().calls()).usage.total(), 220);
}
