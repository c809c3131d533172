//! One reviewed commit with its threads becomes an instance.

use serde_json::{Value, json};

use super::ground::Ground;
use super::locate::{Commits as _, Found, How, Wanted};
use super::words::{self, Authors};
use crate::formats::github::{Hunk, Issue, Pull, Side, Thread, suggestions};
use crate::model::{Comment, CommentId, CommitToReview, Extra, Instance, InstanceId, MergedKind};
use crate::repo::{DiffText, RepoError, Repository};

/// Larger diffs are left out of the data set.
const MOST_DIFF: usize = 16 << 20;

/// What a thread asks for.
pub(super) fn wanted(thread: &Thread, review_commit: Option<&str>) -> Wanted {
    let place = &thread.place;
    let named = place.original_commit.as_deref().or(review_commit).or(place.commit.as_deref());
    let number = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok());
    let (first, last) = (number(place.original_start_line), number(place.original_line));
    // A range that begins on the other side has no length in lines of one file.
    let same_side = place.start_side.is_none() || place.start_side == place.side;
    let lines = first.zip(last).filter(|(first, last)| same_side && first <= last).map_or(1, |(f, l)| l - f + 1);
    Wanted {
        reviewed: named.map(str::to_owned),
        path: place.path.clone(),
        hunk: Hunk::parse(place.diff_hunk.as_deref().unwrap_or_default()).map_err(|error| error.to_string()),
        side: place.side.unwrap_or_default(),
        lines,
        line: last,
        file_level: place.file_level == Some(true),
        written: thread
            .messages
            .first()
            .and_then(|m| m.created_at.as_deref()?.parse().ok())
            .map(jiff::Timestamp::as_second),
    }
}

/// A thread with the place that was found for it.
pub(super) struct Placed<'t> {
    pub thread: &'t Thread,
    pub wanted: &'t Wanted,
    pub found: Found,
}

/// What all instances of a pull request share.
pub(super) struct Shared<'a> {
    pub repository: &'a Repository,
    pub pull: &'a Pull,
    pub number: u64,
    pub issues: Vec<(u64, &'a Issue)>,
    pub authors: Authors,
}

/// An instance, and what is worth knowing of it.
pub(super) struct Made {
    pub instance: Instance,
    pub notes: Vec<String>,
}

/// Makes the instance of a commit that was reviewed against `base`.
pub(super) fn make(
    shared: &Shared<'_>,
    ground: &Ground<'_>,
    (id, head, base): (InstanceId, &str, &str),
    placed: &[Placed<'_>],
) -> Result<Made, RepoError> {
    let details = shared.pull.details.clone().unwrap_or_default();
    let mut notes = Vec::new();
    let mut diff = |from: &str, to: &str| match shared.repository.diff_text(from, to, MOST_DIFF) {
        Ok(DiffText::Whole(text)) => Ok(text),
        Ok(DiffText::TooLong) => {
            notes.push(format!("the diff from {from} to {to} is longer than {MOST_DIFF} bytes and is left out"));
            Ok(String::new())
        }
        Err(error) => Err(error),
    };
    let patch_to_review = diff(base, head)?;
    let merged = ground.merged.as_ref();
    let merged_patch = match (merged, &ground.last) {
        (Some(merged), _) if matches!(merged.kind, MergedKind::Merge | MergedKind::Squash) => {
            match shared.repository.parents(&merged.commit)?.first() {
                Some(before) => Some(diff(before, &merged.commit)?),
                None => None,
            }
        }
        (Some(_), Some(last)) => match ground.base(last) {
            Some(base) => Some(diff(&base, last)?),
            None => None,
        },
        _ => None,
    };
    let pull_author = details.author.as_ref().map(|a| a.login.as_str());
    let mut comments: Vec<Comment> = Vec::new();
    for one in placed {
        let mut comment = comment(one, pull_author, shared.authors)?;
        // An id that only a stranger's file could repeat still must not make two comments one.
        let plain = comment.id.clone();
        for n in 2.. {
            if !comments.iter().any(|c| c.id == comment.id) {
                break;
            }
            comment.id = format!("{plain}-{n}").parse().unwrap_or_else(|_| CommentId::from_index(comments.len()));
        }
        comments.push(comment);
    }
    let reviewed_at = placed.iter().filter_map(|p| p.thread.messages.first()?.created_at.clone()).min();
    let committed_at = shared.repository.times(head)?.1.to_string();
    // The host's clock and the committer's: whichever is earlier. A rebase makes the latter later, a slow clock earlier.
    let before = reviewed_at.clone().map_or(committed_at.clone(), |at| at.min(committed_at));
    let issues: Vec<&Issue> = shared.issues.iter().map(|(_, issue)| *issue).collect();
    let (title, body) = (details.title.unwrap_or_default(), details.body);
    let mut extra = Extra::new();
    if let Some(at) = reviewed_at {
        extra.insert("reviewed_at".to_owned(), json!(at));
    }
    if merged.is_some_and(|m| m.rebased) {
        extra.insert("merged_how".to_owned(), json!("rebase"));
    }
    let instance = Instance {
        instance_id: id,
        repo: shared.pull.repo.clone(),
        language: details.language.unwrap_or_default(),
        pull_number: shared.number,
        problem_statement: words::problem_statement(&title, body.as_deref().unwrap_or_default(), &issues),
        hints_text: words::hints(&issues, &before),
        resolved_issues: shared
            .issues
            .iter()
            .map(|(number, issue)| json!({"number": number, "title": issue.title, "body": issue.body}))
            .collect(),
        title,
        body,
        created_at: details.created_at.unwrap_or_default(),
        base_commit: Some(base.to_owned()),
        commit_to_review: CommitToReview {
            head_commit: head.to_owned(),
            head_commit_message: shared.repository.message(head)?,
            patch_to_review,
            extra: Extra::new(),
        },
        reference_review_comments: comments,
        merged_commit: merged.map(|m| m.commit.clone()),
        merged_kind: merged.map(|m| m.kind).unwrap_or_default(),
        merged_patch,
        metadata: Value::Null,
        environment: None,
        oracles: Vec::new(),
        extra,
    };
    Ok(Made { instance, notes })
}

fn comment(placed: &Placed<'_>, pull_author: Option<&str>, authors: Authors) -> Result<Comment, RepoError> {
    let Placed { thread, wanted, found } = placed;
    let place = &thread.place;
    let (text, messages) = words::thread_words(thread, pull_author, authors);
    let number = |n: usize| n as u64;
    let (first, last) = match found.lines {
        Some((first, last)) => (Some(number(first)).filter(|_| first < last), Some(number(last))),
        None => (place.original_start_line, place.original_line),
    };
    let mut extra = Extra::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            extra.insert(name.to_owned(), value);
        }
    };
    put("side", json!(wanted.side.as_str()));
    let other = place.start_side.filter(|side| place.side.is_some_and(|s| s != *side));
    put("start_side", json!(other.map(Side::as_str)));
    put("subject", if wanted.file_level { json!("file") } else { Value::Null });
    put("created_at", json!(thread.messages.first().and_then(|m| m.created_at.as_ref())));
    put("resolved", json!(thread.resolved));
    put("outdated", json!(thread.outdated));
    put("collapsed", json!(thread.collapsed));
    put("headless", if thread.headless { json!(true) } else { Value::Null });
    let offered: Vec<String> =
        thread.messages.iter().flat_map(|m| suggestions(m.body.as_deref().unwrap_or_default())).collect();
    put("suggestions", if offered.is_empty() { Value::Null } else { json!(offered) });
    let mut located = json!({"how": found.how.as_str()});
    if found.how != How::Commit {
        located["commit"] = json!(wanted.reviewed);
        located["candidates"] = json!(found.candidates);
    }
    if last != place.original_line {
        located["line"] = json!(place.original_line);
        located["start_line"] = json!(place.original_start_line);
    }
    put("located", located);
    put("messages", Value::Array(messages));
    Ok(Comment {
        id: thread.id.parse().unwrap_or_else(|_| CommentId::from_index(0)),
        text,
        path: place.path.clone().unwrap_or_default(),
        diff_hunk: place.diff_hunk.clone(),
        line: place.line,
        start_line: place.start_line,
        original_line: last,
        original_start_line: first,
        category: None,
        extra,
    })
}
