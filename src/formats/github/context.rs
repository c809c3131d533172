//! Which pull request an object belongs to: what it says itself, or else what it stands in.

use serde_json::{Map, Value};

use super::bag::Ids;
use super::kind::{Kind, kind_of};

/// What an object is a part of.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    pub repo: Option<String>,
    /// The pull request, and its repository where that was said with it.
    pub pull: Option<u64>,
    pub pull_repo: Option<String>,
    pub issue: Option<u64>,
    pub review: Option<Ids>,
    pub role: Role,
    pub closes: bool,
}

/// What objects without a mark of their own are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    #[default]
    None,
    ReviewComment,
    IssueComment,
}

impl Context {
    /// Takes what an object says of where it belongs.
    pub(super) fn learn(&mut self, object: &Map<String, Value>) {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        for name in ["nameWithOwner", "full_name", "repo", "repository"] {
            if let Some(repo) = text(name).filter(|t| t.matches('/').count() == 1) {
                self.repo = Some(repo.to_owned());
            }
        }
        for name in ["repository", "baseRepository"] {
            if let Some(repo) = object.get(name).and_then(full_name) {
                self.repo = Some(repo.to_owned());
            }
        }
        let kind = kind_of(object);
        for name in ["pull_request_url", "issue_url", "repository_url", "url", "html_url", "resourcePath"] {
            let Some((repo, at)) = text(name).and_then(from_url) else { continue };
            self.repo = Some(repo.clone());
            match at {
                Some(("pull", number)) => (self.pull, self.pull_repo) = (Some(number), Some(repo)),
                Some((_, number)) if kind == Kind::IssueComment => self.issue = Some(number),
                _ => {}
            }
            if at.is_some() || name == "repository_url" {
                break;
            }
        }
        let number = |object: &Map<String, Value>| object.get("number").and_then(Value::as_u64);
        let of_base =
            |object: &Map<String, Value>| object.get("base")?.get("repo").and_then(full_name).map(str::to_owned);
        let mut found = match kind {
            Kind::Pull | Kind::Wrapper => object.get("pull_number").and_then(Value::as_u64).or_else(|| number(object)),
            _ => None,
        };
        let mut repo = of_base(object);
        if matches!(kind, Kind::Pull | Kind::Wrapper | Kind::Comment | Kind::Review | Kind::Thread) {
            let inner = ["pullRequest", "pull_request", "pull"].iter().find_map(|name| object.get(*name)?.as_object());
            if let Some(inner) = inner {
                found = found.or_else(|| number(inner));
                repo = repo
                    .or_else(|| of_base(inner))
                    .or_else(|| inner.get("repository").and_then(full_name).map(str::to_owned));
            }
        }
        self.repo = repo.or_else(|| self.repo.take());
        if found.is_some() {
            (self.pull, self.pull_repo) = (found, self.repo.clone());
        }
    }

    /// The pull request that this is of: repository and number.
    pub(super) fn pull_request(&self) -> Option<(String, u64)> {
        self.pull_repo.clone().or_else(|| self.repo.clone()).zip(self.pull)
    }
}

/// `owner/name` of a repository's object.
fn full_name(repository: &Value) -> Option<&str> {
    repository.get("nameWithOwner").or_else(|| repository.get("full_name")).and_then(Value::as_str)
}

/// Repository, and pull request or issue, of one of the host's addresses: of its API, or of its pages.
pub(super) fn from_url(url: &str) -> Option<(String, Option<(&'static str, u64)>)> {
    let url = url.split(['#', '?']).next()?;
    let path = match url.find("/repos/") {
        Some(at) => &url[at + 7..],
        None => url.split_once("://")?.1.split_once('/')?.1,
    };
    let mut parts = path.split('/').filter(|p| !p.is_empty());
    let (owner, name) = (parts.next()?, parts.next()?);
    let kind = match parts.next() {
        Some("pull" | "pulls") => Some("pull"),
        Some("issues") => Some("issue"),
        _ => None,
    };
    let number = parts.next().and_then(|n| n.parse().ok());
    Some((format!("{owner}/{name}"), kind.zip(number)))
}
