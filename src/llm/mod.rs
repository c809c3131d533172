//! Language models: asked in one shape, whoever serves them; answers checked, counted, bounded, recorded.
//!
//! A room that asks builds a [`ChatRequest`] and gives it to [`Llm::ask`], which refuses what would exceed the window or a
//! [`Budget`], lets a [`Model`] answer, holds the answer against its schema (with a bounded number of turns that ask for a
//! better one) and writes a row into the [`Ledger`]. A model is a live server ([`LiveModel`]), a recording of one
//! ([`Cassette`]) or a script ([`ScriptedModel`]). Nothing here knows a stage.

mod answer;
mod budget;
mod cassette;
mod desk;
mod endpoint;
mod error;
mod http;
mod ledger;
mod limit;
mod live;
mod model;
mod nearest;
mod prices;
mod prompts;
mod request;
mod schema;
mod sse;
mod wire;

pub use answer::{Answer, Content, InvalidAnswer, StopReason, Usage};
pub use budget::{Amount, Bounds, Budget, Purse, Reservation};
pub use cassette::Cassette;
pub use desk::Llm;
pub use endpoint::{Endpoint, Timeouts, Tries};
pub use error::{FailureClass, FailureKind, LlmError};
pub use ledger::{Call, Ledger, Sum};
pub use limit::Limiter;
pub use live::LiveModel;
pub use model::{AnswerFuture, Model, ScriptedModel};
pub use prices::{Price, PriceError, PriceTable};
pub use prompts::{Prompt, PromptError, Prompts, Rendered};
pub use request::{AnswerSchema, ChatRequest, Message, PromptId, Role};
pub use wire::Wire;

pub use crate::http::{Proxies, Secret};

/// Locks what no panic can leave half-done.
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
