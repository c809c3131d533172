//! What a server says when it does not answer.

use std::time::Duration;

use serde_json::Value;

use super::{Fault, text};
use crate::llm::FailureKind;

/// How much of a server's words is kept, in characters.
const KEPT: usize = 400;

/// The headers that have a say.
#[derive(Debug, Clone, Default)]
pub(in crate::llm) struct Headers {
    pub retry_after: Option<String>,
    pub retry_after_ms: Option<String>,
    pub should_retry: Option<String>,
}

/// A status that is no success.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::llm) struct Refused {
    pub kind: FailureKind,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// Whether to try again, where the server says so itself.
    pub retry: Option<bool>,
}

/// Reads a status, its body (JSON, plain text or a proxy's page) and headers.
pub(in crate::llm) fn refused(status: u16, body: &[u8], headers: &Headers, now: jiff::Timestamp) -> Refused {
    let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let message = match said(&value) {
        Some(said) => plain(said),
        None => plain(&String::from_utf8_lossy(body)),
    };
    let retry_after = retry_after(headers, now);
    let retry = match headers.should_retry.as_deref() {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    let words = words(&value, &message);
    let has = |any: &[&str]| any.iter().any(|word| words.contains(word));
    let out_of_money =
        has(&["insufficient_quota", "billing_error", "billing_hard_limit", "credit balance", "spend limit"]);
    let kind = match status {
        401 | 403 => FailureKind::Auth,
        402 => FailureKind::Quota,
        404 => FailureKind::NotFound,
        400 | 422 if out_of_money => FailureKind::Quota,
        400 | 422 if is_about_context(&words) => FailureKind::ContextTooLong,
        400 if has(&["content_filter", "content_policy", "responsible ai"]) => FailureKind::Refused,
        408 => FailureKind::Timeout,
        409 | 425 => FailureKind::Server,
        413 => FailureKind::ContextTooLong,
        // The same status for what passes and for what does not.
        429 if has(&["insufficient_quota", "billing_hard_limit", "billing_error"]) => FailureKind::Quota,
        429 if out_of_money && retry_after.is_none() => FailureKind::Quota,
        429 => FailureKind::RateLimited,
        503 | 529 => FailureKind::Overloaded,
        500.. => FailureKind::Server,
        _ => FailureKind::BadRequest,
    };
    let message = if message.is_empty() { format!("status {status}") } else { format!("status {status}: {message}") };
    Refused { kind, message, retry_after, retry }
}

/// An error object in an answer that began as a success.
pub(super) fn inside(value: &Value) -> Fault {
    let message = plain(said(value).unwrap_or("an error without a message"));
    let words = words(value, &message);
    let has = |any: &[&str]| any.iter().any(|word| words.contains(word));
    let kind = if has(&["insufficient_quota", "billing_error"]) {
        FailureKind::Quota
    } else if has(&["overloaded"]) {
        FailureKind::Overloaded
    } else if has(&["rate_limit"]) {
        FailureKind::RateLimited
    } else if has(&["authentication_error", "permission_error"]) {
        FailureKind::Auth
    } else if is_about_context(&words) {
        FailureKind::ContextTooLong
    } else if has(&["invalid_request"]) {
        FailureKind::BadRequest
    } else {
        FailureKind::Cut
    };
    Fault { kind, message: format!("an error instead of the answer: {message}") }
}

fn said(value: &Value) -> Option<&str> {
    ["/error/message", "/message", "/detail", "/error"].iter().find_map(|pointer| text(value, pointer))
}

/// All that tells the kind, in lower case.
fn words(value: &Value, message: &str) -> String {
    let typed = ["/error/type", "/error/code", "/type", "/code"].iter().filter_map(|pointer| text(value, pointer));
    typed.chain([message]).collect::<Vec<_>>().join(" ").to_ascii_lowercase()
}

fn is_about_context(words: &str) -> bool {
    ["context_length", "context length", "context window", "context size", "prompt is too long", "exceed_context"]
        .iter()
        .any(|said| words.contains(said))
}

/// Somebody's words on one line, without what could move a terminal, and not too long.
fn plain(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out: String = line.chars().filter(|c| !c.is_control()).take(KEPT).collect();
    if line.chars().count() > KEPT {
        out.push('…');
    }
    out
}

/// How long the server asks to wait: in milliseconds, in seconds, or until a date.
fn retry_after(headers: &Headers, now: jiff::Timestamp) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && (0.0..1e7).contains(n));
    if let Some(milliseconds) = headers.retry_after_ms.as_deref().and_then(number) {
        return Some(Duration::from_secs_f64(milliseconds / 1000.0));
    }
    let text = headers.retry_after.as_deref()?;
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs_f64(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    Some(until.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(status: u16, body: &Value) -> FailureKind {
        refused(status, body.to_string().as_bytes(), &Headers::default(), jiff::Timestamp::UNIX_EPOCH).kind
    }

    #[test]
    fn statuses_have_kinds_by_what_comes_with_them() {
        let error = |kind: &str, said: &str| json!({"error": {"type": kind, "code": kind, "message": said}});
        for (status, body, wanted) in [
            (401, error("invalid_api_key", "no"), FailureKind::Auth),
            (403, json!("<html>no</html>"), FailureKind::Auth),
            (404, error("model_not_found", "no such model"), FailureKind::NotFound),
            (400, error("invalid_request_error", "bad"), FailureKind::BadRequest),
            (400, error("context_length_exceeded", "x"), FailureKind::ContextTooLong),
            (
                400,
                error("invalid_request_error", "prompt is too long: 9 tokens > 5 maximum"),
                FailureKind::ContextTooLong,
            ),
            (400, error("exceed_context_size_error", "x"), FailureKind::ContextTooLong),
            (400, error("invalid_request_error", "Your credit balance is too low"), FailureKind::Quota),
            (400, error("content_filter", "the prompt was filtered"), FailureKind::Refused),
            (402, json!({}), FailureKind::Quota),
            (413, error("request_too_large", "x"), FailureKind::ContextTooLong),
            (429, error("rate_limit_exceeded", "slow"), FailureKind::RateLimited),
            (429, error("insufficient_quota", "pay"), FailureKind::Quota),
            (429, error("rate_limit_error", "the monthly spend limit is reached"), FailureKind::Quota),
            (500, error("api_error", "x"), FailureKind::Server),
            (502, json!("Bad gateway"), FailureKind::Server),
            (503, json!({}), FailureKind::Overloaded),
            (529, error("overloaded_error", "x"), FailureKind::Overloaded),
            (408, json!({}), FailureKind::Timeout),
            (302, json!({}), FailureKind::BadRequest),
        ] {
            assert_eq!(kind(status, &body), wanted, "{status} {body}");
        }
        let page = refused(502, b"<html>\n<b>Bad\x1b[31m</b>", &Headers::default(), jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(page.message, "status 502: <html> <b>Bad[31m</b>");
    }

    #[test]
    fn waits_are_read_in_all_three_ways() {
        let now: jiff::Timestamp = "2026-01-05T10:00:00Z".parse().unwrap();
        let after = |text: &str| Headers { retry_after: Some(text.to_owned()), ..Headers::default() };
        assert_eq!(retry_after(&after("2"), now), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&after("Mon, 05 Jan 2026 10:00:30 GMT"), now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(&after("Mon, 05 Jan 2026 09:00:00 GMT"), now), Some(Duration::ZERO));
        let both = Headers { retry_after_ms: Some("250".to_owned()), ..after("9") };
        assert_eq!(retry_after(&both, now), Some(Duration::from_millis(250)));
        for text in ["soon", "-1", "NaN", "1e300", ""] {
            assert_eq!(retry_after(&after(text), now), None, "{text}");
        }
    }
}
