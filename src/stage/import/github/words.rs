//! What an instance says in words: the problem, hints, and each thread's text without its people. Pure.

use serde_json::{Map, Value, json};

use crate::formats::github::{
    Bag, Issue, IssueKey, Names, Pull, PullKey, ReviewComment, Thread, closing_references, plain_lines,
};

/// The issues that a pull request closes: those that the host lists, and those that its text names. With each whether
/// it is in the data.
pub(super) fn issues_of<'b>(bag: &'b Bag, key: &PullKey, pull: &Pull) -> Vec<(IssueKey, Option<&'b Issue>)> {
    let mut found = pull.closes.clone();
    let text = pull.details.as_ref().and_then(|d| d.body.as_deref()).unwrap_or_default();
    for (repo, number) in closing_references(&key.repo, text) {
        let issue = IssueKey { repo: repo.to_ascii_lowercase(), number };
        if !found.contains(&issue) && issue != *key {
            found.push(issue);
        }
    }
    found.into_iter().map(|key| (key.clone(), bag.issues.get(&key).filter(|i| !i.title.is_empty()))).collect()
}

/// What is to be solved: the closed issues' titles and texts; of a pull request without any, its own.
pub(super) fn problem_statement(title: &str, body: &str, issues: &[&Issue]) -> String {
    let own = Issue { title: title.to_owned(), body: body.to_owned(), comments: Vec::new() };
    let issues = if issues.is_empty() { vec![&own] } else { issues.to_vec() };
    let parts: Vec<String> = issues
        .iter()
        .map(|issue| format!("{}\n{}", issue.title.trim(), plain_lines(&issue.body)).trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    parts.join("\n\n")
}

/// What was said on the closed issues before a moment. Times are the host's, in one form, so they compare as texts.
pub(super) fn hints(issues: &[&Issue], before: &str) -> String {
    let comments = issues.iter().flat_map(|issue| &issue.comments);
    let earlier = comments.filter(|c| c.updated_at.as_deref().is_some_and(|at| at < before));
    earlier.map(|c| plain_lines(&c.body)).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Whose names a data set keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authors {
    /// Nobody's.
    #[default]
    Anonymous,
    /// Everybody's, as `login` beside the stand-in; texts have stand-ins all the same.
    Real,
}

/// A thread's text, and its messages one by one.
pub(super) fn thread_words(thread: &Thread, pull_author: Option<&str>, authors: Authors) -> (String, Vec<Value>) {
    let mut names = Names::new(pull_author);
    let mut parts = Vec::new();
    let mut messages = Vec::new();
    for message in &thread.messages {
        let login = message.author.as_ref().map(|a| a.login.as_str());
        let name = names.of(login);
        let text = names.hide(&plain_lines(message.body.as_deref().unwrap_or_default()));
        if !text.is_empty() {
            parts.push(format!("{name}:\n{text}"));
        }
        messages.push(one(message, &name, &text, authors));
    }
    (parts.join("\n\n"), messages)
}

fn one(message: &ReviewComment, name: &str, text: &str, authors: Authors) -> Value {
    let association = message.association.as_deref().unwrap_or_default();
    let mut row = Map::new();
    row.insert("author".to_owned(), json!(name));
    row.insert("bot".to_owned(), json!(message.author.as_ref().is_some_and(|a| a.bot)));
    row.insert("pull_author".to_owned(), json!(name == "@author"));
    row.insert("member".to_owned(), json!(matches!(association, "OWNER" | "MEMBER" | "COLLABORATOR")));
    row.insert("created_at".to_owned(), json!(message.created_at));
    if let Some(reason) = &message.minimized {
        row.insert("minimized".to_owned(), json!(reason));
    }
    row.insert("text".to_owned(), json!(text));
    if authors == Authors::Real {
        row.insert("login".to_owned(), json!(message.author.as_ref().map(|a| &a.login)));
    }
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::github::IssueComment;

    fn issue(title: &str, body: &str, comments: &[(&str, &str)]) -> Issue {
        let said = |(at, body): &(&str, &str)| IssueComment {
            body: (*body).to_owned(),
            updated_at: Some((*at).to_owned()),
            ..IssueComment::default()
        };
        Issue { title: title.to_owned(), body: body.to_owned(), comments: comments.iter().map(said).collect() }
    }

    #[test]
    fn the_problem_is_the_issues_or_else_the_pull_requests() {
        let (one, two) = (issue("A", "a\r\nb\r\n", &[]), issue("B", "", &[]));
        assert_eq!(problem_statement("T", "x", &[&one, &two]), "A\na\nb\n\nB");
        assert_eq!(problem_statement("T", "x", &[]), "T\nx");
        assert_eq!(problem_statement("", "", &[]), "");
    }

    #[test]
    fn hints_are_older_than_the_review() {
        let said = issue(
            "A",
            "",
            &[("2026-01-01T00:00:00Z", "one"), ("2026-01-02T00:00:00Z", "two"), ("2026-01-03T00:00:00Z", "3")],
        );
        assert_eq!(hints(&[&said], "2026-01-03T00:00:00Z"), "one\n\ntwo");
        assert_eq!(hints(&[&said], ""), "");
    }
}
