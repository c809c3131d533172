//! Something that answers, and one that answers from a script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Mutex;

use super::{Answer, ChatRequest, FailureKind, LlmError};

/// What [`Model::complete`] gives.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, LlmError>> + Send + 'a>>;

/// Answers one request: a live server, a cassette, a script. What it gives is not checked against the schema yet; rooms
/// that ask go through [`Llm`](super::Llm), which checks, counts and bounds.
pub trait Model: Send + Sync {
    /// The model that is asked, as its server calls it.
    fn name(&self) -> &str;

    /// Answers. Dropping the future gives up.
    fn complete<'a>(&'a self, request: &'a ChatRequest) -> AnswerFuture<'a>;

    /// Whether the answer is on record, so that it costs nothing now.
    fn has_recorded(&self, _request: &ChatRequest) -> bool {
        false
    }
}

/// Answers in the order of a script, for tests of what asks. It keeps what it was asked.
#[derive(Debug, Default)]
pub struct ScriptedModel {
    script: Mutex<VecDeque<Result<Answer, LlmError>>>,
    asked: Mutex<Vec<ChatRequest>>,
}

impl ScriptedModel {
    /// A model that gives these, one a request; after the last one it fails as [`FailureKind::CassetteMiss`].
    pub fn new(script: impl IntoIterator<Item = Result<Answer, LlmError>>) -> Self {
        Self { script: Mutex::new(script.into_iter().collect()), asked: Mutex::default() }
    }

    /// A model that answers with these texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(texts.into_iter().map(|text| Ok(Answer::text(text))))
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<ChatRequest> {
        super::locked(&self.asked).clone()
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    fn complete<'a>(&'a self, request: &'a ChatRequest) -> AnswerFuture<'a> {
        super::locked(&self.asked).push(request.clone());
        let next = super::locked(&self.script).pop_front();
        let over = || Err(LlmError::new(FailureKind::CassetteMiss, "the script is over"));
        Box::pin(std::future::ready(next.unwrap_or_else(over)))
    }
}
