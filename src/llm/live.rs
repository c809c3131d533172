//! A model behind a server: sends, waits, tries again, and learns what the server does not take.

use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response};
use tokio::time::{Instant, timeout, timeout_at};

use super::wire::{self, Collector, Fault, Headers, Parsed, Takes};
use super::{Answer, AnswerFuture, ChatRequest, Endpoint, FailureKind, Limiter, LlmError, Model, Wire, http, locked};
use crate::llm::sse::Parser;

/// The longest answer that is read, in bytes.
const MOST_BYTES: usize = 32 << 20;

/// How much of an error's body is read, in bytes.
const MOST_ERROR_BYTES: usize = 64 << 10;

/// A model behind a server.
#[derive(Debug)]
pub struct LiveModel {
    endpoint: Endpoint,
    url: String,
    client: Client,
    limiter: Limiter,
    takes: Mutex<Takes>,
}

/// One request that brought no answer.
struct Failed {
    kind: FailureKind,
    message: String,
    status: Option<u16>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    retry: Option<bool>,
    /// Whether the server had begun to work.
    lost: bool,
}

impl Failed {
    fn new(kind: FailureKind, message: impl Into<String>, lost: bool) -> Self {
        Self { kind, message: message.into(), status: None, request_id: None, retry_after: None, retry: None, lost }
    }

    fn of(fault: Fault, request_id: Option<String>) -> Self {
        Self { request_id, ..Self::new(fault.kind, fault.message, true) }
    }

    fn is_retryable(&self) -> bool {
        self.retry.unwrap_or(self.kind.is_retryable())
    }
}

impl LiveModel {
    /// A client of this endpoint within these limits, which others that ask the same server can share.
    ///
    /// # Errors
    /// [`FailureKind::Setup`]: the URL, the CA bundle or a proxy cannot be used.
    pub fn new(endpoint: Endpoint, limiter: Limiter) -> Result<Self, LlmError> {
        let client = http::client(&endpoint)?;
        let url = endpoint.wire.url(&endpoint.base_url);
        let takes = Mutex::new(Takes::new(endpoint.stream));
        Ok(Self { endpoint, url, client, limiter, takes })
    }

    /// Tries until there is an answer or nothing more to try.
    async fn tries(&self, request: &ChatRequest) -> Result<Answer, LlmError> {
        let began = Instant::now();
        let deadline = began + self.endpoint.timeouts.total;
        let (mut attempts, mut lost, mut failures) = (0, 0, 0);
        let give_up = |failed: Failed, attempts: u32, lost: u32| LlmError {
            status: failed.status,
            request_id: failed.request_id,
            retry_after: failed.retry_after,
            attempts,
            lost,
            seconds: began.elapsed().as_secs_f64(),
            ..LlmError::new(failed.kind, http::scrub(&self.endpoint, &failed.message))
        };
        let too_late = || {
            let total = self.endpoint.timeouts.total.as_secs_f64();
            Failed::new(FailureKind::Timeout, format!("there was no answer within {total} s, all tries included"), true)
        };
        loop {
            let Ok(Some(permit)) = timeout_at(deadline, self.limiter.enter()).await else {
                return Err(give_up(too_late(), attempts, lost));
            };
            let takes = *locked(&self.takes);
            attempts += 1;
            let tried = timeout_at(deadline, self.once(request, &takes)).await;
            let failed = match tried {
                Ok(Ok((parsed, request_id))) => {
                    return Ok(Answer {
                        content: parsed.content,
                        model: parsed.model,
                        stop: parsed.stop,
                        usage: parsed.usage,
                        seconds: began.elapsed().as_secs_f64(),
                        attempts,
                        lost,
                        request_id,
                        adjusted: takes.adjusted(request),
                        replayed: false,
                        invalid: Vec::new(),
                    });
                }
                Ok(Err(failed)) => failed,
                Err(_) => return Err(give_up(too_late(), attempts, lost + 1)),
            };
            lost += u32::from(failed.lost);
            if matches!(failed.status, Some(400 | 404 | 422 | 501))
                && !matches!(failed.kind, FailureKind::ContextTooLong | FailureKind::Quota)
                && let Some(less) = takes.without(self.endpoint.wire, request, &failed.message)
            {
                let mut shared = locked(&self.takes);
                if *shared == takes {
                    *shared = less;
                }
                continue;
            }
            failures += 1;
            if !failed.is_retryable() || failures >= self.endpoint.retries.most {
                return Err(give_up(failed, attempts, lost));
            }
            let wait = self.endpoint.retries.wait(failures, failed.retry_after, random_part());
            if Instant::now() + wait >= deadline {
                return Err(give_up(failed, attempts, lost));
            }
            if matches!(failed.kind, FailureKind::RateLimited | FailureKind::Overloaded) {
                // Everybody else would hear the same.
                self.limiter.pause(wait);
            }
            drop(permit);
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends one request and reads its answer.
    async fn once(&self, request: &ChatRequest, takes: &Takes) -> Result<(Parsed, Option<String>), Failed> {
        let endpoint = &self.endpoint;
        let body = wire::body(endpoint.wire, &endpoint.model, request, takes).to_string();
        let sending = self.client.post(&self.url).headers(self.headers()?).body(body).send();
        let first_byte = Instant::now() + endpoint.timeouts.first_byte;
        let response = match timeout_at(first_byte, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                // What broke after the connection stood may have been read.
                let lost = !error.is_connect() && !error.is_builder();
                let timed_out = error.is_timeout();
                let said = http::chain(&error.without_url());
                if said.contains("invalid peer certificate") {
                    let said = format!(
                        "the server's certificate is not trusted ({said}); `--ca-bundle FILE` names another authority"
                    );
                    return Err(Failed::new(FailureKind::Setup, said, false));
                }
                let kind = if timed_out { FailureKind::Timeout } else { FailureKind::Connect };
                return Err(Failed::new(kind, said, lost));
            }
            Err(_) => return Err(self.no_first_byte()),
        };
        let request_id = ["request-id", "x-request-id"].iter().find_map(|name| header(&response, name));
        if !response.status().is_success() {
            return Err(self.refused(response, request_id).await);
        }
        let streams = header(&response, "content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let read =
            if streams { self.stream(response, first_byte).await } else { self.whole(response, first_byte).await };
        match read {
            Ok(parsed) => Ok((parsed, request_id)),
            Err(mut failed) => {
                failed.request_id = request_id;
                Err(failed)
            }
        }
    }

    fn headers(&self) -> Result<HeaderMap, Failed> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (name, value) = match (self.endpoint.wire, &self.endpoint.key) {
            (Wire::Openai, Some(key)) => ("authorization", Some(format!("Bearer {}", key.reveal()))),
            (Wire::Anthropic, Some(key)) => ("x-api-key", Some(key.reveal().to_owned())),
            (_, None) => ("authorization", None),
        };
        if let Some(value) = value {
            let unusable = |_| Failed::new(FailureKind::Auth, "the key has a character that no header can hold", false);
            let mut value = HeaderValue::from_str(&value).map_err(unusable)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if self.endpoint.wire == Wire::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        Ok(headers)
    }

    async fn refused(&self, mut response: Response, request_id: Option<String>) -> Failed {
        let status = response.status().as_u16();
        let headers = Headers {
            retry_after: header(&response, "retry-after"),
            retry_after_ms: header(&response, "retry-after-ms"),
            should_retry: header(&response, "x-should-retry"),
        };
        let mut body = Vec::new();
        // What of the body does not come is no matter: the status came.
        while body.len() < MOST_ERROR_BYTES
            && let Ok(Ok(Some(piece))) = timeout(self.endpoint.timeouts.idle, response.chunk()).await
        {
            body.extend_from_slice(&piece);
        }
        let refused = wire::refused(status, &body, &headers, jiff::Timestamp::now());
        Failed {
            status: Some(status),
            request_id,
            retry_after: refused.retry_after,
            retry: refused.retry,
            ..Failed::new(refused.kind, refused.message, false)
        }
    }

    async fn stream(&self, mut response: Response, first_byte: Instant) -> Result<Parsed, Failed> {
        let (mut parser, mut collector) = (Parser::default(), Collector::new(self.endpoint.wire));
        let (mut began, mut bytes) = (false, 0);
        while let Some(piece) = self.piece(&mut response, first_byte, &mut began).await? {
            bytes += piece.len();
            if bytes > MOST_BYTES {
                return Err(too_large());
            }
            for event in parser.take(&piece) {
                if collector.take(&event).map_err(|fault| Failed::of(fault, None))? {
                    return collector.finish().map_err(|fault| Failed::of(fault, None));
                }
            }
        }
        collector.finish().map_err(|fault| Failed::of(fault, None))
    }

    async fn whole(&self, mut response: Response, first_byte: Instant) -> Result<Parsed, Failed> {
        let mut body = Vec::new();
        let mut began = false;
        while let Some(piece) = self.piece(&mut response, first_byte, &mut began).await? {
            if body.len() + piece.len() > MOST_BYTES {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        wire::whole(self.endpoint.wire, &body).map_err(|fault| Failed::of(fault, None))
    }

    /// The next piece of an answer, in time.
    async fn piece(
        &self,
        response: &mut Response,
        first_byte: Instant,
        began: &mut bool,
    ) -> Result<Option<bytes::Bytes>, Failed> {
        let idle = self.endpoint.timeouts.idle;
        let until = if *began { Instant::now() + idle } else { first_byte };
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(piece)) => {
                *began = true;
                Ok(piece)
            }
            Ok(Err(error)) => {
                let said = format!("the answer broke off: {}", http::chain(&error.without_url()));
                Err(Failed::new(FailureKind::Cut, said, true))
            }
            Err(_) if *began => {
                let said = format!("the answer stood still for {} s", idle.as_secs_f64());
                Err(Failed::new(FailureKind::Timeout, said, true))
            }
            Err(_) => Err(self.no_first_byte()),
        }
    }

    fn no_first_byte(&self) -> Failed {
        let time = self.endpoint.timeouts.first_byte.as_secs_f64();
        Failed::new(FailureKind::Timeout, format!("the answer did not begin within {time} s"), true)
    }
}

impl Model for LiveModel {
    fn name(&self) -> &str {
        &self.endpoint.model
    }

    fn complete<'a>(&'a self, request: &'a ChatRequest) -> AnswerFuture<'a> {
        Box::pin(self.tries(request))
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn too_large() -> Failed {
    Failed::new(FailureKind::Protocol, format!("the answer is longer than {} MiB", MOST_BYTES >> 20), true)
}

/// A random number from 0 to 1, so that many who wait don't come back together.
fn random_part() -> f64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes) as f64 / u64::MAX as f64,
        _ => 1.0,
    }
}
