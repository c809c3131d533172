//! What is asked for of one pull request.

use std::str::FromStr;

use super::client::{Client, HostError};
use crate::formats::github::closing_references;

/// A pull request's name, `owner/name#123`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullName {
    /// `owner/name`.
    pub repo: String,
    /// Its number.
    pub number: u64,
}

impl FromStr for PullName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` names no pull request (use `owner/name#123`)");
        let (repo, number) = text.split_once('#').ok_or_else(bad)?;
        let (owner, name) = repo.split_once('/').ok_or_else(bad)?;
        let plain = |part: &str| {
            let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && !part.starts_with('.') && part.chars().all(safe)
        };
        let number = number.parse().map_err(|_| bad())?;
        if plain(owner) && plain(name) { Ok(Self { repo: repo.to_owned(), number }) } else { Err(bad()) }
    }
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// A name for a file: `owner__name/123/comments-1.json`.
    pub name: String,
    /// The answer as it came.
    pub body: Vec<u8>,
}

/// Asks for a pull request, its commits, reviews and review comments, and the issues that its text says it closes with
/// their comments. Each answer is given to `take` as soon as it is whole. An issue that is not there is none of the
/// answers.
///
/// # Errors
/// When the host gives no answer, or `take` fails.
pub async fn fetch_pull(
    client: &Client,
    name: &PullName,
    tell: &dyn Fn(&str),
    take: &mut dyn FnMut(Page) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let PullName { repo, number } = name;
    let folder = format!("{}/{number}", repo.replace('/', "__"));
    let mut body_text = String::new();
    for (file, path) in [
        ("pull", format!("repos/{repo}/pulls/{number}")),
        ("commits", format!("repos/{repo}/pulls/{number}/commits?per_page=100")),
        ("reviews", format!("repos/{repo}/pulls/{number}/reviews?per_page=100")),
        ("comments", format!("repos/{repo}/pulls/{number}/comments?per_page=100")),
    ] {
        let mut page = 0;
        let mut keep = |body: Vec<u8>| {
            page += 1;
            if file == "pull" {
                body_text = text_of(&body);
            }
            take(Page { name: format!("{folder}/{file}-{page}.json"), body })
        };
        client.pages(&path, tell, &mut keep).await?;
    }
    for (repo, number) in closing_references(repo, &body_text) {
        let issue = format!("repos/{repo}/issues/{number}");
        let file = format!("{folder}/issue-{}-{number}", repo.replace('/', "__"));
        for (what, path) in [("", issue.clone()), ("-comments", format!("{issue}/comments?per_page=100"))] {
            let mut page = 0;
            let mut keep = |body: Vec<u8>| {
                page += 1;
                take(Page { name: format!("{file}{what}-{page}.json"), body })
            };
            match client.pages(&path, tell, &mut keep).await {
                // It is gone, or not for us; the import says that it is not in the data.
                Err(HostError::Refused { status: 404 | 410, .. }) => {
                    tell(&format!("issue {repo}#{number} is not to be had"));
                    break;
                }
                done => done?,
            }
        }
    }
    Ok(())
}

fn text_of(pull: &[u8]) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(pull).ok();
    value.and_then(|v| v.get("body")?.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!("a-b/c.d#12".parse(), Ok(PullName { repo: "a-b/c.d".to_owned(), number: 12 }));
        for bad in ["a/b", "a#1", "/b#1", "a/b#x", "a/b/c#1", "a/..#1", "a /b#1", "a/b?x#1", "#1"] {
            assert!(bad.parse::<PullName>().is_err(), "{bad}");
        }
    }
}
