//! Asks a host: pages by the `Link` header, waits where the host says so, tries again where that can help.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LINK, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};

use super::limits::{Answer, judge};
use super::link;
use super::token::Token;
use crate::http::{Proxies, builder, chain};

/// How a host is to be asked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address of its REST interface, as `https://api.github.com`.
    pub api: String,
    /// The file with the certificates that are trusted.
    pub ca_bundle: Option<PathBuf>,
    /// Proxies. This machine itself is never reached through one.
    pub proxies: Proxies,
    /// Who asks.
    pub token: Option<Token>,
    /// How often one page is tried when the host is in trouble; waiting for a limit is no try.
    pub tries: u32,
    /// The pause before the second try; it doubles each time.
    pub pause: Duration,
    /// The deadline of one answer.
    pub deadline: Duration,
    /// The longest that limits may make us wait, all in all.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api: "https://api.github.com".to_owned(),
            ca_bundle: None,
            proxies: Proxies::default(),
            token: None,
            tries: 5,
            pause: Duration::from_secs(2),
            deadline: Duration::from_secs(60),
            patience: Duration::from_secs(75 * 60),
        }
    }
}

/// Why a host gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The address is none.
    #[error("`{address}` is no address of an API: {problem}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong.
        problem: String,
    },
    /// A next page on another host: the token is not for that one.
    #[error("the host names a next page elsewhere, `{address}`; it is not asked, as the token is for `{api}`")]
    Elsewhere {
        /// What it names.
        address: String,
        /// Whom we asked.
        api: String,
    },
    /// The host said no.
    #[error("{address}: {status}{}: {message}", hint(*status, *with_token))]
    Refused {
        /// What was asked for.
        address: String,
        /// The status.
        status: u16,
        /// Whether a token was sent.
        with_token: bool,
        /// The host's words.
        message: String,
    },
    /// The host is in trouble, or not to be reached.
    #[error("{address}: no answer in {tries} tries; the last one: {problem}")]
    Unreachable {
        /// What was asked for.
        address: String,
        /// How often.
        tries: u32,
        /// What happened.
        problem: String,
    },
    /// The limit asks for more time than there is.
    #[error(
        "{address}: the host asks to wait {seconds} s, more than is left of the time for that; try again later, or with a token"
    )]
    Limited {
        /// What was asked for.
        address: String,
        /// How long.
        seconds: u64,
    },
    /// An answer that is far too long.
    #[error("{address}: the answer is longer than {limit} bytes")]
    TooLong {
        /// What was asked for.
        address: String,
        /// The bound.
        limit: usize,
    },
    /// The client could not be set up.
    #[error("no HTTP client could be made: {0}")]
    Client(String),
    /// The answer could not be kept.
    #[error("an answer could not be kept: {0}")]
    Keep(String),
}

impl HostError {
    /// Whether it may work another time.
    pub fn is_infra(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Limited { .. } | Self::Keep(_))
    }
}

fn hint(status: u16, with_token: bool) -> &'static str {
    match (status, with_token) {
        (401, _) => " (the token is not accepted)",
        (404, true) => " (it is not there, or the token may not see it)",
        (404 | 403, false) => " (it is not there, or it needs a token)",
        _ => "",
    }
}

/// Answers are cut off here: a page of the API is far from it.
const MOST: usize = 64 << 20;
/// More pages than these of one list are not asked for.
const PAGES: usize = 1000;

/// Asks one host.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    api: Url,
    settings: Settings,
    waited: std::sync::Mutex<Duration>,
}

impl Client {
    /// A client.
    ///
    /// # Errors
    /// When the address is none, or TLS cannot be set up.
    pub fn new(settings: Settings) -> Result<Self, HostError> {
        let bad = |problem: String| HostError::Address { address: settings.api.clone(), problem };
        let mut api = Url::parse(&settings.api).map_err(|e| bad(e.to_string()))?;
        if !matches!(api.scheme(), "http" | "https") {
            return Err(bad("it begins with neither `https://` nor `http://`".to_owned()));
        }
        if !api.username().is_empty() || api.password().is_some() {
            return Err(HostError::Address {
                address: "…".to_owned(),
                problem: "it has a name or password in it; give the token by GITHUB_TOKEN or a file".to_owned(),
            });
        }
        if !api.path().ends_with('/') {
            api.set_path(&format!("{}/", api.path()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
        headers.insert("x-github-api-version", HeaderValue::from_static("2022-11-28"));
        if let Some(token) = &settings.token {
            let value = token.header().map_err(|e| HostError::Client(e.to_string()))?;
            headers.insert(AUTHORIZATION, value);
        }
        let http = builder(&api, settings.ca_bundle.as_deref(), &settings.proxies)
            .map_err(|e| HostError::Client(e.to_string()))?
            .default_headers(headers)
            .timeout(settings.deadline)
            .connect_timeout(settings.deadline.min(Duration::from_secs(20)))
            .redirect(reqwest::redirect::Policy::custom(same_host))
            .build()
            .map_err(|e| HostError::Client(chain(&e)))?;
        Ok(Self { http, api, settings, waited: std::sync::Mutex::default() })
    }

    /// Asks for a list or object below the API's address, page by page. `tell` hears of waits, `take` gets each answer.
    ///
    /// # Errors
    /// When the host refuses, is not to be reached, or asks for more time than there is.
    pub async fn pages(
        &self,
        path: &str,
        tell: &dyn Fn(&str),
        take: &mut dyn FnMut(Vec<u8>) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        let bad = |problem: String| HostError::Address { address: path.to_owned(), problem };
        let mut next = Some(self.api.join(path).map_err(|e| bad(e.to_string()))?);
        for _ in 0..PAGES {
            let Some(address) = next.take() else { return Ok(()) };
            let (body, link) = self.page(&address, tell).await?;
            take(body)?;
            let Some(link) = link else { continue };
            let there =
                address.join(&link).map_err(|e| HostError::Address { address: link, problem: e.to_string() })?;
            if there.origin() != self.api.origin() {
                return Err(HostError::Elsewhere { address: there.to_string(), api: self.settings.api.clone() });
            }
            next = Some(there);
        }
        Ok(())
    }

    async fn page(&self, address: &Url, tell: &dyn Fn(&str)) -> Result<(Vec<u8>, Option<String>), HostError> {
        let mut tries = 0;
        let mut pause = self.settings.pause;
        loop {
            tries += 1;
            let problem = match self.ask(address).await? {
                Asked::Page(body, link) => return Ok((body, link)),
                Asked::Limited(wait) => {
                    self.wait(address, wait, tell).await?;
                    tries -= 1;
                    continue;
                }
                Asked::Trouble(problem) => problem,
            };
            if tries >= self.settings.tries {
                return Err(HostError::Unreachable { address: address.to_string(), tries, problem });
            }
            tell(&format!("{address}: {problem}; trying again in {} s", pause.as_secs_f64()));
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn wait(&self, address: &Url, wait: Duration, tell: &dyn Fn(&str)) -> Result<(), HostError> {
        {
            let mut waited = self.waited.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A limit of no time at all must not be asked for for ever.
            let counted = wait.max(Duration::from_secs(1));
            if *waited + counted > self.settings.patience {
                return Err(HostError::Limited { address: address.to_string(), seconds: wait.as_secs() });
            }
            *waited += counted;
        }
        tell(&format!("the host's limit is reached; waiting {} s", wait.as_secs()));
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn ask(&self, address: &Url) -> Result<Asked, HostError> {
        let response = match self.http.get(address.clone()).send().await {
            Ok(response) => response,
            Err(error) => return Ok(Asked::Trouble(chain(&error))),
        };
        let status = response.status();
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (retry, link) = (header(RETRY_AFTER.as_str()), header(LINK.as_str()));
        let (remaining, reset) = (header("x-ratelimit-remaining"), header("x-ratelimit-reset"));
        let body = match read(response, address).await? {
            Ok(body) => body,
            // The stream broke: what came of it is not the answer.
            Err(problem) => return Ok(Asked::Trouble(problem)),
        };
        let now = jiff::Timestamp::now().as_second();
        let judged = judge(status.as_u16(), retry.as_deref(), remaining.as_deref(), reset.as_deref(), &body, now);
        Ok(match judged {
            Answer::Good => Asked::Page(body, link.as_deref().and_then(link::next).map(str::to_owned)),
            Answer::Limited(wait) => Asked::Limited(wait),
            Answer::Trouble => Asked::Trouble(format!("{status}: {}", message(&body, status))),
            Answer::Refused => {
                return Err(HostError::Refused {
                    address: address.to_string(),
                    status: status.as_u16(),
                    with_token: self.settings.token.is_some(),
                    message: message(&body, status),
                });
            }
        })
    }
}

enum Asked {
    Page(Vec<u8>, Option<String>),
    Limited(Duration),
    Trouble(String),
}

async fn read(mut response: Response, address: &Url) -> Result<Result<Vec<u8>, String>, HostError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(Ok(body)),
            Err(error) => return Ok(Err(chain(&error))),
        }
        if body.len() > MOST {
            return Err(HostError::TooLong { address: address.to_string(), limit: MOST });
        }
    }
}

/// Redirects stay on their host: repositories move there, tokens do not.
fn same_host(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    let from = attempt.previous().first().map(Url::origin);
    if attempt.previous().len() > 5 {
        attempt.error("too many redirects")
    } else if from == Some(attempt.url().origin()) {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// What the host says in words, or what its status means.
fn message(body: &[u8], status: StatusCode) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let said = value.as_ref().and_then(|v| v.get("message")?.as_str());
    said.or(status.canonical_reason()).unwrap_or("no reason given").chars().take(200).collect()
}
