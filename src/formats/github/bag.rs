//! What files of the API hold, joined: one pull request, commit, review, comment, thread or issue each, however many
//! files and interfaces told of it.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::hunk::Side;
use crate::model::AttritionReason;

/// A pull request's name: repository in lower case, and number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PullKey {
    /// `owner/name` in lower case.
    pub repo: String,
    /// Its number.
    pub number: u64,
}

impl std::fmt::Display for PullKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

/// An issue's name, as a pull request's.
pub type IssueKey = PullKey;

/// The ids of one object in both interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    /// REST's number.
    pub database: Option<u64>,
    /// GraphQL's text.
    pub node: Option<String>,
}

impl Ids {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.database.is_none() && self.node.is_none()
    }

    /// The number, or else the text with `_` for what an id of ours cannot have.
    pub fn text(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        match (self.database, &self.node) {
            (Some(number), _) => number.to_string(),
            (None, Some(node)) => node.chars().map(plain).collect(),
            (None, None) => String::new(),
        }
    }

    fn fill(&mut self, other: Self) {
        self.database = self.database.or(other.database);
        self.node = self.node.take().or(other.node);
    }
}

/// Somebody who wrote something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The account's name.
    pub login: String,
    /// Whether the host says that it is a program, or its name does.
    pub bot: bool,
}

/// What a pull request itself says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// The repository's name as the host spells it.
    pub repo: Option<String>,
    /// The repository's main language.
    pub language: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its text.
    pub body: Option<String>,
    /// Who opened it.
    pub author: Option<Author>,
    /// When.
    pub created_at: Option<String>,
    /// Whether it was merged, where the data says.
    pub merged: Option<bool>,
    /// The commit that it was merged as; for one that is not merged a trial of the host's, which means nothing.
    pub merge_commit: Option<String>,
    /// The name of the branch that it is for.
    pub base_name: Option<String>,
    /// The tip of that branch as the host last compared with it.
    pub base: Option<String>,
    /// The last commit of its own branch.
    pub head: Option<String>,
}

/// A pull request with all that belongs to it.
#[derive(Debug, Clone, Default)]
pub struct Pull {
    /// The repository's name as first seen.
    pub repo: String,
    /// What it says itself; `None` when only its parts are there.
    pub details: Option<Details>,
    /// Commits that the data lists for it.
    pub commits: Vec<String>,
    /// Commits that force pushes put aside or put in place.
    pub pushed: Vec<String>,
    /// Reviews, in the data's order.
    pub reviews: Vec<Review>,
    /// Review comments, in the data's order.
    pub comments: Vec<ReviewComment>,
    /// What GraphQL says of threads.
    pub threads: Vec<ThreadFacts>,
    /// Comments on the pull request as a whole.
    pub conversation: Vec<IssueComment>,
    /// Issues that it closes.
    pub closes: Vec<IssueKey>,
    by_number: HashMap<u64, usize>,
    by_node: HashMap<String, usize>,
}

/// A commit as the API tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub sha: String,
    /// Its parents' ids.
    pub parents: Vec<String>,
}

/// A review: what one person submitted at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Review {
    /// Its ids.
    pub ids: Ids,
    /// Who.
    pub author: Option<Author>,
    /// `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`, `DISMISSED`, `PENDING`.
    pub state: Option<String>,
    /// Its summary.
    pub body: String,
    /// The commit that was reviewed.
    pub commit: Option<String>,
}

/// A review comment. What neither interface gave is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReviewComment {
    /// Its ids.
    pub ids: Ids,
    /// The comment that it answers; in REST always the thread's first.
    pub reply_to: Option<Ids>,
    /// The review that it belongs to.
    pub review: Option<Ids>,
    /// Who wrote it.
    pub author: Option<Author>,
    /// What the author is to the repository: `OWNER`, `MEMBER`, `COLLABORATOR`, `CONTRIBUTOR`, `NONE` …
    pub association: Option<String>,
    /// Its text.
    pub body: Option<String>,
    /// The commented file.
    pub path: Option<String>,
    /// The side of the commented line.
    pub side: Option<Side>,
    /// The side of the first commented line.
    pub start_side: Option<Side>,
    /// The last commented line in the pull request's last state; none where it is gone.
    pub line: Option<u64>,
    /// The first one of several.
    pub start_line: Option<u64>,
    /// `line` when it was written.
    pub original_line: Option<u64>,
    /// `start_line` when it was written.
    pub original_start_line: Option<u64>,
    /// The hunk down to the commented line.
    pub diff_hunk: Option<String>,
    /// The commit that the host shows it at now.
    pub commit: Option<String>,
    /// The commit that it was written on.
    pub original_commit: Option<String>,
    /// When.
    pub created_at: Option<String>,
    /// Whether it is on the file as a whole.
    pub file_level: Option<bool>,
    /// Whether the host says that its lines changed since.
    pub outdated: Option<bool>,
    /// Why it was hidden, in lower case.
    pub minimized: Option<String>,
    /// Whether it was never sent.
    pub pending: bool,
}

/// What GraphQL says of a thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadFacts {
    /// Its ids.
    pub ids: Ids,
    /// Whether somebody marked it as resolved.
    pub resolved: Option<bool>,
    /// Whether its lines changed since.
    pub outdated: Option<bool>,
    /// Whether the host shows it folded.
    pub collapsed: Option<bool>,
    /// Place and lines, for comments that do not say so themselves.
    pub place: ReviewComment,
    /// Its comments, first one first.
    pub comments: Vec<Ids>,
}

/// An issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issue {
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Its comments.
    pub comments: Vec<IssueComment>,
}

/// A comment on an issue, or on a pull request as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssueComment {
    /// Its ids.
    pub ids: Ids,
    /// Its text.
    pub body: String,
    /// When it was written last.
    pub updated_at: Option<String>,
}

/// Something that did not find its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The file.
    pub file: String,
    /// The line that it begins on.
    pub line: usize,
    /// Where in the value, as `data.repository.pullRequest`; empty for the value itself.
    pub field: String,
    /// Why.
    pub reason: AttritionReason,
    /// In words.
    pub detail: String,
}

/// How many objects of one kind were read: `read = kept + again + lost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counted {
    /// Objects in the files.
    pub read: usize,
    /// Objects that are kept, each once.
    pub kept: usize,
    /// Objects that were there already; what only they say was added.
    pub again: usize,
    /// Objects without a place, each with its line of attrition.
    pub lost: usize,
}

/// Everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Bag {
    /// Pull requests.
    pub pulls: BTreeMap<PullKey, Pull>,
    /// Commits by repository (in lower case) and id.
    pub commits: BTreeMap<String, BTreeMap<String, Commit>>,
    /// Issues.
    pub issues: BTreeMap<IssueKey, Issue>,
    /// What did not find its place.
    pub lost: Vec<Lost>,
    /// Lists whose last page is not there: of which pull request, and the list's name.
    pub unfinished: Vec<(PullKey, String)>,
    /// Objects by kind.
    pub counted: BTreeMap<&'static str, Counted>,
}

/// Fills what is empty.
macro_rules! fill {
    ($into:expr, $from:expr, $($field:ident),+) => {
        $( if $into.$field.is_none() { $into.$field = $from.$field; } )+
    };
}

impl Bag {
    /// The pull request of a name, made where it is not there yet.
    pub(super) fn pull(&mut self, repo: &str, number: u64) -> &mut Pull {
        let pull = self.pulls.entry(PullKey { repo: repo.to_ascii_lowercase(), number }).or_default();
        if pull.repo.is_empty() {
            pull.repo = repo.to_owned();
        }
        pull
    }

    /// The commits of a pull request's own branch as the data has them: those listed for it, and those that its head
    /// leads to.
    pub fn commits_of(&self, key: &PullKey, pull: &Pull) -> Vec<String> {
        let known = self.commits.get(&key.repo);
        let mut found = pull.commits.clone();
        let head = pull.details.as_ref().and_then(|d| d.head.clone());
        let mut next: Vec<String> = head.into_iter().collect();
        let mut seen: std::collections::BTreeSet<String> = found.iter().cloned().collect();
        while let Some(sha) = next.pop() {
            let Some(commit) = known.and_then(|commits| commits.get(&sha)) else { continue };
            if seen.insert(sha.clone()) {
                found.push(sha);
            }
            next.extend(commit.parents.iter().filter(|p| !seen.contains(*p)).cloned());
        }
        found
    }
}

impl Details {
    pub(super) fn fill(&mut self, other: Self) {
        fill!(
            self,
            other,
            repo,
            language,
            title,
            body,
            author,
            created_at,
            merged,
            merge_commit,
            base_name,
            base,
            head
        );
    }
}

impl Pull {
    /// The place of a comment in `comments`.
    pub fn comment_at(&self, ids: &Ids) -> Option<usize> {
        let by_number = ids.database.and_then(|n| self.by_number.get(&n));
        by_number.or_else(|| ids.node.as_ref().and_then(|n| self.by_node.get(n))).copied()
    }

    /// Adds a comment, or what it says that was not known of it. Whether it is new.
    pub(super) fn put_comment(&mut self, comment: ReviewComment) -> bool {
        let found = self.comment_at(&comment.ids);
        let at = found.unwrap_or(self.comments.len());
        match found {
            Some(at) => self.comments[at].fill(comment),
            None => self.comments.push(comment),
        }
        let ids = &self.comments[at].ids;
        if let Some(number) = ids.database {
            self.by_number.insert(number, at);
        }
        if let Some(node) = &ids.node {
            self.by_node.insert(node.clone(), at);
        }
        found.is_none()
    }

    /// The review of these ids.
    pub fn review(&self, ids: &Ids) -> Option<&Review> {
        self.reviews.iter().find(|review| same(&review.ids, ids))
    }

    pub(super) fn put_review(&mut self, review: Review) -> bool {
        match self.reviews.iter_mut().find(|r| same(&r.ids, &review.ids)) {
            Some(old) => {
                old.ids.fill(review.ids);
                fill!(old, review, author, state, commit);
                if old.body.is_empty() {
                    old.body = review.body;
                }
                false
            }
            None => {
                self.reviews.push(review);
                true
            }
        }
    }

    pub(super) fn put_thread(&mut self, thread: ThreadFacts) -> bool {
        let new_comments = thread.comments.clone();
        let (at, new) = match self.threads.iter().position(|t| same(&t.ids, &thread.ids)) {
            Some(at) => {
                let old = &mut self.threads[at];
                fill!(old, thread, resolved, outdated, collapsed);
                old.place.fill(thread.place);
                (at, false)
            }
            None => {
                self.threads.push(ThreadFacts { comments: Vec::new(), ..thread });
                (self.threads.len() - 1, true)
            }
        };
        for ids in new_comments {
            if !self.threads[at].comments.iter().any(|known| same(known, &ids)) {
                self.threads[at].comments.push(ids);
            }
        }
        new
    }
}

impl ReviewComment {
    fn fill(&mut self, other: Self) {
        self.ids.fill(other.ids);
        fill!(self, other, reply_to, review, author, association, body, path, side, start_side, line, start_line);
        fill!(self, other, original_line, original_start_line, diff_hunk, commit, original_commit, created_at);
        fill!(self, other, file_level, outdated, minimized);
        self.pending |= other.pending;
    }
}

/// Whether two sets of ids are of one object. Objects without any are themselves only.
pub(super) fn same(a: &Ids, b: &Ids) -> bool {
    (a.database.is_some() && a.database == b.database) || (a.node.is_some() && a.node == b.node)
}
