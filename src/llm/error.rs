//! Why there is no answer: a closed set of kinds, each of one class.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::InvalidAnswer;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The server cannot be reached, or the connection broke before an answer began.
    Connect,
    /// No first byte, no further byte, or no end in time.
    Timeout,
    /// Too many requests for now (429).
    RateLimited,
    /// The server has too much to do (503, 529).
    Overloaded,
    /// The server failed (other 5xx).
    Server,
    /// The answer broke off: no end, or an error after it had begun.
    Cut,
    /// What came is no answer of this wire format.
    Protocol,
    /// The key is missing or not accepted (401, 403).
    Auth,
    /// Money, quota or a spend limit ran out at the server.
    Quota,
    /// No such model or path (404).
    NotFound,
    /// The server refuses the request as it is (other 4xx).
    BadRequest,
    /// The prompt and the answer's room are more than the model's window.
    ContextTooLong,
    /// The model, or a filter of the server's, would not answer.
    Refused,
    /// The answer was cut at `max_tokens`.
    TooLong,
    /// The answer is no JSON.
    NotJson,
    /// The answer is JSON and does not fit the schema.
    Misfit,
    /// The call could exceed a budget.
    Budget,
    /// There is a budget of money and the model's price is not known.
    UnknownPrice,
    /// The cassette has no answer to this request.
    CassetteMiss,
    /// A file of ours (cassette, ledger) cannot be read or written.
    File,
    /// The settings do not work (URL, CA bundle, schema).
    Setup,
}

/// Whose matter a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The network's or the server's: it may go away, and says nothing of the question. Never a final record.
    Infra,
    /// The model's: it answered, but not as asked. A final record.
    Model,
    /// The question's own: it will be refused again.
    Request,
    /// Every further call would meet it: no key, no money, no cassette entry, a budget that is used up.
    Stop,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Connect,
        Self::Timeout,
        Self::RateLimited,
        Self::Overloaded,
        Self::Server,
        Self::Cut,
        Self::Protocol,
        Self::Auth,
        Self::Quota,
        Self::NotFound,
        Self::BadRequest,
        Self::ContextTooLong,
        Self::Refused,
        Self::TooLong,
        Self::NotJson,
        Self::Misfit,
        Self::Budget,
        Self::UnknownPrice,
        Self::CassetteMiss,
        Self::File,
        Self::Setup,
    ];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate-limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Cut => "cut",
            Self::Protocol => "protocol",
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::NotFound => "not-found",
            Self::BadRequest => "bad-request",
            Self::ContextTooLong => "context-too-long",
            Self::Refused => "refused",
            Self::TooLong => "too-long",
            Self::NotJson => "not-json",
            Self::Misfit => "misfit",
            Self::Budget => "budget",
            Self::UnknownPrice => "unknown-price",
            Self::CassetteMiss => "cassette-miss",
            Self::File => "file",
            Self::Setup => "setup",
        }
    }

    /// Whose matter it is.
    pub fn class(self) -> FailureClass {
        match self {
            Self::Connect
            | Self::Timeout
            | Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Cut
            | Self::Protocol => FailureClass::Infra,
            Self::Refused | Self::TooLong | Self::NotJson | Self::Misfit => FailureClass::Model,
            Self::BadRequest | Self::ContextTooLong => FailureClass::Request,
            Self::Auth
            | Self::Quota
            | Self::NotFound
            | Self::Budget
            | Self::UnknownPrice
            | Self::CassetteMiss
            | Self::File
            | Self::Setup => FailureClass::Stop,
        }
    }

    /// Whether the same request may be sent again at once.
    pub fn is_retryable(self) -> bool {
        self.class() == FailureClass::Infra
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct LlmError {
    /// What went wrong.
    pub kind: FailureKind,
    /// In words, free of secrets; from a server as it said it.
    pub message: String,
    /// The HTTP status, where one came.
    pub status: Option<u16>,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
    /// How many requests were sent.
    pub attempts: u32,
    /// Requests among these that broke off after the server had begun to work, whose tokens nobody knows.
    pub lost: u32,
    /// Seconds from the first try to the end, waits included.
    pub seconds: f64,
    /// Answers that the model gave and that are not as asked.
    pub invalid: Vec<InvalidAnswer>,
}

impl LlmError {
    /// An error of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            request_id: None,
            retry_after: None,
            attempts: 0,
            lost: 0,
            seconds: 0.0,
            invalid: Vec::new(),
        }
    }

    /// Whose matter it is.
    pub fn class(&self) -> FailureClass {
        self.kind.class()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_string_form() {
        for kind in FailureKind::ALL {
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.as_str());
            assert_eq!(serde_json::from_value::<FailureKind>(json).unwrap(), kind);
        }
        let names: std::collections::BTreeSet<_> = FailureKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), FailureKind::ALL.len());
    }

    #[test]
    fn what_the_network_did_may_be_tried_again_and_what_the_model_did_not() {
        for kind in [FailureKind::Connect, FailureKind::RateLimited, FailureKind::Overloaded, FailureKind::Cut] {
            assert!(kind.is_retryable(), "{kind}");
        }
        for kind in
            [FailureKind::Auth, FailureKind::Quota, FailureKind::Refused, FailureKind::Budget, FailureKind::Misfit]
        {
            assert!(!kind.is_retryable(), "{kind}");
        }
    }
}
