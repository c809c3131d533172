//! The one way to ask: checks the window and the budget before, the answer after, and keeps the ledger.

use std::sync::Arc;

use super::budget::{Amount, Reservation};
use super::schema::{self, Unfit};
use super::{
    Answer, Call, ChatRequest, Content, FailureClass, FailureKind, InvalidAnswer, Ledger, LlmError, Message, Model,
    Price, PriceTable, Purse, StopReason,
};

/// How often a model is told what is wrong with its answer and asked again.
const REPAIRS: u32 = 2;

/// A model behind everything that a run wants of it. Cheap to clone; clones share budget and ledger.
#[derive(Clone)]
pub struct Llm {
    model: Arc<dyn Model>,
    prices: Arc<PriceTable>,
    purse: Purse,
    ledger: Ledger,
    repairs: u32,
}

impl Llm {
    /// A model without prices and bounds, with a ledger in memory.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model, prices: Arc::default(), purse: Purse::default(), ledger: Ledger::default(), repairs: REPAIRS }
    }

    /// The same with prices and windows.
    #[must_use]
    pub fn with_prices(self, prices: PriceTable) -> Self {
        Self { prices: Arc::new(prices), ..self }
    }

    /// The same with a bound on what it may take. Rows that the ledger holds already count.
    #[must_use]
    pub fn with_budget(self, purse: Purse) -> Self {
        for call in self.ledger.calls().iter().filter(|call| !call.replayed) {
            let tokens = call.usage.unwrap_or_default().total();
            purse.used_before(&call.stage, Amount { usd: call.cost, tokens });
        }
        Self { purse, ..self }
    }

    /// The same with this ledger. Comes before [`Self::with_budget`].
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        Self { ledger, ..self }
    }

    /// The same, which asks again this often after an answer that is not as asked [default: 2].
    #[must_use]
    pub fn with_repairs(self, repairs: u32) -> Self {
        Self { repairs, ..self }
    }

    /// The model that is asked, as its server calls it.
    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// How often an answer that is not as asked is asked for again: part of what could change an answer.
    pub fn repairs(&self) -> u32 {
        self.repairs
    }

    /// All calls so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Asks. With a schema the answer is JSON that fits it; an answer that does not is told so and asked for again, a
    /// bounded number of times. Nothing is ever filled in.
    ///
    /// # Errors
    /// Typed; [`LlmError::class`] says whose matter it is. Answers that were not as asked are in
    /// [`LlmError::invalid`], as those before a good one are in [`Answer::invalid`].
    pub async fn ask(&self, request: &ChatRequest) -> Result<Answer, LlmError> {
        let price = self.prices.get(self.model.name());
        check_window(request, price)?;
        let mut conversation = request.clone();
        let mut invalid = Vec::new();
        let mut turn = 0;
        loop {
            let (judged, answer) = match self.once(&conversation, price, turn).await {
                Ok(judged) => judged,
                Err(mut error) => {
                    error.invalid = invalid;
                    return Err(error);
                }
            };
            let unfit = match judged {
                Ok(content) => return Ok(Answer { content, invalid, ..answer }),
                Err(unfit) => unfit,
            };
            let text = answer.content.to_text();
            invalid.push(InvalidAnswer { kind: unfit.kind, problem: unfit.problem.clone(), text: text.clone() });
            if turn == self.repairs || unfit.kind == FailureKind::Refused || unfit.kind.class() != FailureClass::Model {
                let mut error = LlmError::new(unfit.kind, unfit.problem);
                error.request_id.clone_from(&answer.request_id);
                (error.attempts, error.lost, error.seconds) = (answer.attempts, answer.lost, answer.seconds);
                error.invalid = invalid;
                return Err(error);
            }
            conversation = repair(request, &text, &unfit);
            turn += 1;
        }
    }

    /// One call and its row.
    async fn once(
        &self,
        request: &ChatRequest,
        price: Option<&Price>,
        turn: u32,
    ) -> Result<(Result<Content, Unfit>, Answer), LlmError> {
        let most = Amount {
            usd: price.map(|price| price.most(request.most_prompt_tokens(), u64::from(request.max_tokens))),
            tokens: request.most_prompt_tokens() + u64::from(request.max_tokens),
        };
        let reservation = if self.model.has_recorded(request) {
            None
        } else {
            Some(self.purse.reserve(&request.stage, self.model.name(), most)?)
        };
        let mut call = self.blank(request, turn);
        match self.model.complete(request).await {
            Ok(answer) => {
                let judged = judge(request, &answer);
                if let Err(unfit) = &judged {
                    call.outcome = unfit.kind.as_str().to_owned();
                }
                fill(&mut call, &answer, price, most);
                settle(reservation, &call, most, &answer);
                self.enter(call)?;
                Ok((judged, answer))
            }
            Err(error) => {
                if error.attempts == 0 {
                    // Nothing was sent.
                    if let Some(reservation) = reservation {
                        reservation.give_back();
                    }
                    return Err(error);
                }
                call.outcome = error.kind.as_str().to_owned();
                (call.attempts, call.lost, call.seconds) = (error.attempts, error.lost, error.seconds);
                call.request_id.clone_from(&error.request_id);
                let lost = f64::from(error.lost);
                call.cost = most.usd.map(|usd| usd * lost);
                call.estimated = error.lost > 0;
                if let Some(reservation) = reservation {
                    reservation.settle(Amount { usd: call.cost, tokens: most.tokens * u64::from(error.lost) });
                }
                self.enter(call)?;
                Err(error)
            }
        }
    }

    fn blank(&self, request: &ChatRequest, turn: u32) -> Call {
        Call {
            stage: request.stage.clone(),
            purpose: request.purpose.clone(),
            subject: request.subject.clone(),
            sample: request.sample,
            turn,
            prompt: request.prompt.clone(),
            request: request.key(self.model.name()),
            model: self.model.name().to_owned(),
            served: String::new(),
            outcome: "answered".to_owned(),
            usage: None,
            cost: None,
            estimated: false,
            seconds: 0.0,
            attempts: 0,
            lost: 0,
            replayed: false,
            request_id: None,
            adjusted: Vec::new(),
            extra: crate::model::Extra::new(),
        }
    }

    fn enter(&self, call: Call) -> Result<(), LlmError> {
        let file = |error: crate::store::StoreError| {
            LlmError::new(FailureKind::File, format!("the ledger cannot be written: {error}"))
        };
        self.ledger.add(call).map_err(file)
    }
}

/// Refuses a prompt that will hardly fit, before anybody is asked.
fn check_window(request: &ChatRequest, price: Option<&Price>) -> Result<(), LlmError> {
    let Some(window) = price.and_then(|price| price.window) else { return Ok(()) };
    let prompt = request.likely_prompt_tokens();
    if prompt + u64::from(request.max_tokens) <= window {
        return Ok(());
    }
    let said = format!(
        "the prompt has about {prompt} tokens (an estimate, three bytes each), and with up to {} for the answer that is more \
         than the model's window of {window}",
        request.max_tokens
    );
    Err(LlmError::new(FailureKind::ContextTooLong, said))
}

/// What the answer is worth.
fn judge(request: &ChatRequest, answer: &Answer) -> Result<Content, Unfit> {
    match answer.stop {
        StopReason::Refusal => {
            return Err(Unfit { kind: FailureKind::Refused, problem: "the model would not answer".to_owned() });
        }
        StopReason::Length => {
            let problem = format!("the answer was cut at {} tokens", request.max_tokens);
            return Err(Unfit { kind: FailureKind::TooLong, problem });
        }
        StopReason::End | StopReason::Other => {}
    }
    let Some(schema) = &request.schema else { return Ok(answer.content.clone()) };
    let value = match &answer.content {
        Content::Json(value) => value.clone(),
        Content::Text(text) => schema::parse(text)?,
    };
    schema::check(schema, &value)?;
    Ok(Content::Json(value))
}

/// The conversation that asks for a better answer: the question, the last answer and what is wrong with it.
fn repair(request: &ChatRequest, text: &str, unfit: &Unfit) -> ChatRequest {
    let mut next = request.clone();
    // An answer that was cut is not shown again: it would only be gone on with.
    if unfit.kind != FailureKind::TooLong {
        let shown = if text.is_empty() { "(nothing)" } else { text };
        next.messages.push(Message::assistant(shown));
    }
    let wanted = match &request.schema {
        Some(schema) => format!(
            "Answer again with one JSON value and nothing else. It must fit this JSON Schema:\n{}",
            schema.schema
        ),
        None => "Answer again.".to_owned(),
    };
    let told = match unfit.kind {
        FailureKind::TooLong => {
            format!("Keep it short: an earlier answer was cut at {} tokens. {wanted}", request.max_tokens)
        }
        _ => format!("That answer cannot be used: {}. {wanted}", unfit.problem),
    };
    match next.messages.last_mut().filter(|last| last.role == super::Role::User) {
        Some(last) => last.text = format!("{}\n\n{told}", last.text),
        None => next.messages.push(Message::user(told)),
    }
    next
}

fn fill(call: &mut Call, answer: &Answer, price: Option<&Price>, most: Amount) {
    call.served.clone_from(&answer.model);
    call.usage = answer.usage;
    (call.attempts, call.lost, call.seconds) = (answer.attempts, answer.lost, answer.seconds);
    call.replayed = answer.replayed;
    call.request_id.clone_from(&answer.request_id);
    call.adjusted.clone_from(&answer.adjusted);
    let lost = f64::from(answer.lost);
    call.cost = price.map(|price| {
        let most = most.usd.unwrap_or(0.0);
        answer.usage.map_or(most, |usage| price.cost(usage)) + most * lost
    });
    call.estimated = answer.usage.is_none() || answer.lost > 0;
}

fn settle(reservation: Option<Reservation>, call: &Call, most: Amount, answer: &Answer) {
    let Some(reservation) = reservation else { return };
    if answer.replayed {
        reservation.give_back();
        return;
    }
    let tokens = answer.usage.map_or(most.tokens, super::Usage::total);
    let lost = most.tokens.saturating_mul(u64::from(answer.lost));
    reservation.settle(Amount { usd: call.cost, tokens: tokens.saturating_add(lost) });
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
