//! Files into the bag: each object is recognised, read with its type, and put where it belongs.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::bag::{Bag, Ids, IssueComment, Lost, PullKey, Review, same};
use super::context::{Context, Role};
use super::convert::{author, comment, details, ids, ids_of, list, refusal, thread};
use super::kind::{INSIDE, Kind, kind_of};
use super::read;
use super::wire::{
    PageInfo, WireComment, WireCommit, WireEvent, WireIssue, WireIssueComment, WireParents, WirePull, WireReview,
    WireThread,
};
use crate::model::{AttritionReason, from_value};

/// Reads files into a [`Bag`].
#[derive(Debug, Default)]
pub struct Take {
    repo: Option<String>,
    bag: Bag,
    /// Lists of pull requests that came in pages, and whether the last page was among them.
    pages: BTreeMap<(PullKey, String), bool>,
}

/// Where an object stands.
#[derive(Debug, Clone)]
struct Place<'a> {
    file: &'a str,
    line: usize,
    path: String,
}

impl Place<'_> {
    fn below(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() || name.starts_with('[') { "" } else { "." };
        Self { path: format!("{}{dot}{name}", self.path), ..*self }
    }
}

/// Objects may be in objects so deep; what is deeper is none of the API's.
const DEPTH: usize = 24;

impl Take {
    /// Begins. `repo` is the repository of objects that do not say theirs.
    pub fn new(repo: Option<&str>) -> Self {
        Self { repo: repo.map(str::to_owned), ..Self::default() }
    }

    /// Reads one file; `name` is its name in messages.
    pub fn file(&mut self, name: &str, text: &str) {
        let context = Context { repo: self.repo.clone(), ..Context::default() };
        let broken = read::values(text, |line, value| {
            self.value(value, &context, &Place { file: name, line, path: String::new() }, 0);
        });
        for broken in broken {
            let place = Place { file: name, line: broken.line, path: String::new() };
            self.lose("others", &place, AttritionReason::Malformed, broken.problem);
        }
    }

    /// What was read.
    pub fn finish(mut self) -> Bag {
        // REST gives the comments on a pull request as a whole as those of an issue with its number.
        for (key, pull) in &mut self.bag.pulls {
            if self.bag.issues.get(key).is_some_and(|issue| issue.title.is_empty()) {
                pull.conversation.extend(self.bag.issues.remove(key).into_iter().flat_map(|issue| issue.comments));
            }
        }
        let unfinished = self.pages.into_iter().filter(|(_, ended)| !ended);
        self.bag.unfinished = unfinished.map(|(list, _)| list).collect();
        self.bag
    }

    fn count(&mut self, kind: &'static str, new: bool) {
        let counted = self.bag.counted.entry(kind).or_default();
        counted.read += 1;
        if new {
            counted.kept += 1;
        } else {
            counted.again += 1;
        }
    }

    fn lose(&mut self, kind: &'static str, place: &Place<'_>, reason: AttritionReason, detail: impl Into<String>) {
        let counted = self.bag.counted.entry(kind).or_default();
        counted.read += 1;
        counted.lost += 1;
        let (file, field) = (place.file.to_owned(), place.path.clone());
        self.bag.lost.push(Lost { file, line: place.line, field, reason, detail: detail.into() });
    }

    fn read<T: DeserializeOwned>(&mut self, kind: &'static str, value: Value, place: &Place<'_>) -> Option<T> {
        match from_value(value) {
            Ok(read) => Some(read),
            Err((field, problem)) => {
                let field = if matches!(field.as_str(), "." | "?") { place.clone() } else { place.below(&field) };
                self.lose(kind, &field, AttritionReason::Malformed, problem);
                None
            }
        }
    }

    fn value(&mut self, value: Value, context: &Context, place: &Place<'_>, depth: usize) {
        match value {
            _ if depth > DEPTH => self.lose("others", place, AttritionReason::Malformed, "nested too deep"),
            Value::Array(list) => {
                for (index, value) in list.into_iter().enumerate() {
                    self.value(value, context, &place.below(&format!("[{index}]")), depth + 1);
                }
            }
            Value::Object(object) => self.object(object, context, place, depth),
            // GraphQL gives null for what the token may not see.
            Value::Null => {}
            _ => self.lose("others", place, AttritionReason::Malformed, "this is no object of the API"),
        }
    }

    fn object(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>, depth: usize) {
        let mut context = context.clone();
        context.learn(&object);
        let kind = match (kind_of(&object), context.role) {
            (Kind::Unknown | Kind::Review | Kind::CommitNode, Role::ReviewComment) => Kind::Comment,
            (Kind::Unknown, Role::IssueComment) => Kind::IssueComment,
            (kind, _) => kind,
        };
        let depth = depth + 1;
        match kind {
            Kind::Pull => self.pull(object, &context, place, depth),
            Kind::Commit => self.commit(object, &context, place),
            Kind::CommitNode => {
                let inner = object.into_iter().find(|(name, _)| name == "commit").map(|(_, v)| v).unwrap_or_default();
                self.value(inner, &context, &place.below("commit"), depth);
            }
            Kind::Review => self.review(object, &context, place, depth),
            Kind::Comment => self.comment(object, &context, place),
            Kind::Thread => self.thread(object, &context, place, depth),
            Kind::Issue => self.issue(object, &context, place, depth),
            Kind::IssueComment => self.issue_comment(object, &context, place),
            Kind::Event => self.event(object, &context, place),
            Kind::File => {
                let detail = "a list of changed files; the mirror says what changed";
                self.lose("files", place, AttritionReason::Unused, detail);
            }
            Kind::IssueOfPull => {
                let detail = "a pull request in the shape of an issue; the pull request itself is what counts";
                self.lose("others", place, AttritionReason::Unused, detail);
            }
            Kind::Refusal => {
                let message = refusal(&object);
                self.lose("others", place, AttritionReason::NotInSource, format!("the API gave no answer: {message}"));
            }
            Kind::Wrapper => self.inside(object, &context, place, depth),
            Kind::Unknown => {
                let names: Vec<&str> = object.keys().map(String::as_str).take(6).collect();
                let detail = format!("no object of the API that is known here (its fields: {})", names.join(", "));
                self.lose("others", place, AttritionReason::Malformed, detail);
            }
        }
    }

    /// Looks into the fields of a wrapper, or those of an object that hold others.
    fn inside(&mut self, mut object: Map<String, Value>, context: &Context, place: &Place<'_>, depth: usize) {
        if let Some(errors) = object.get("errors").and_then(Value::as_array).filter(|e| !e.is_empty()) {
            let message = errors[0].get("message").and_then(Value::as_str).unwrap_or("no message");
            self.lose("others", place, AttritionReason::NotInSource, format!("the API reports: {message}"));
        }
        for name in INSIDE {
            let Some(value) = object.remove(name) else { continue };
            // REST's objects have numbers and addresses by these names.
            if !value.is_array() && !value.is_object() {
                continue;
            }
            let place = place.below(name);
            let mut context = context.clone();
            match name {
                "comments" | "nodes" | "edges" | "node" => {}
                _ => context.role = Role::None,
            }
            match name {
                "closingIssuesReferences" | "closing_issues" | "linked_issues" => context.closes = true,
                "pullRequest" | "pull_request" | "pull" => {
                    // A page of a pull request's list need not say what the pull request is.
                    if let Value::Object(inner) = value {
                        context.learn(&inner);
                        self.pull(inner, &context, &place, depth);
                        continue;
                    }
                }
                _ => {}
            }
            self.page(name, &value, &context);
            self.value(value, &context, &place, depth);
        }
    }

    /// Notes whether a page is the last one of its list.
    fn page(&mut self, name: &str, value: &Value, context: &Context) {
        let Some((repo, number)) = context.pull_request() else { return };
        let Some(info) = value.get("pageInfo") else { return };
        let info: PageInfo = from_value(info.clone()).unwrap_or_default();
        let name = match &context.review {
            Some(ids) => format!("{name} of {}", ids.text()),
            None => name.to_owned(),
        };
        let key = PullKey { repo: repo.to_ascii_lowercase(), number };
        *self.pages.entry((key, name)).or_insert(false) |= !info.more;
    }

    fn pull(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>, depth: usize) {
        let Some((repo, number)) = context.pull_request() else {
            let detail =
                "nothing says which repository and number this pull request is; name the repository by `--repo`";
            return self.lose("pull_requests", place, AttritionReason::NoPartner, detail);
        };
        let (inner, own): (Map<_, _>, Map<_, _>) =
            object.into_iter().partition(|(name, _)| INSIDE.contains(&name.as_str()) && name != "repository");
        let says = [
            "title",
            "body",
            "base",
            "head",
            "baseRefOid",
            "headRefOid",
            "state",
            "mergedAt",
            "merged_at",
            "createdAt",
        ];
        if own.keys().any(|name| says.contains(&name.as_str())) {
            let Some(wire) = self.read::<WirePull>("pull_requests", Value::Object(own), place) else { return };
            let details = details(wire);
            let pull = self.bag.pull(&repo, number);
            let new = pull.details.is_none();
            match &mut pull.details {
                Some(old) => old.fill(details),
                None => pull.details = Some(details),
            }
            if let Some(name) =
                pull.details.as_ref().and_then(|d| d.repo.clone()).filter(|n| n.eq_ignore_ascii_case(&repo))
            {
                pull.repo = name;
            }
            self.count("pull_requests", new);
        } else {
            self.bag.pull(&repo, number);
        }
        let context = Context { role: Role::IssueComment, issue: None, ..context.clone() };
        self.inside(inner, &context, place, depth);
    }

    fn commit(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>) {
        let Some(wire) = self.read::<WireCommit>("commits", Value::Object(object), place) else { return };
        let sha = wire.sha.or(wire.oid).map(|s| s.to_ascii_lowercase()).unwrap_or_default();
        let Some(repo) = &context.repo else {
            let detail = format!("nothing says which repository commit `{sha}` is of; name it by `--repo`");
            return self.lose("commits", place, AttritionReason::NoPartner, detail);
        };
        let parents = match wire.parents {
            Some(WireParents::List(list) | WireParents::Page { nodes: list }) => list,
            None => Vec::new(),
        };
        let parents: Vec<String> =
            parents.into_iter().filter_map(|p| p.sha.or(p.oid)).map(|s| s.to_ascii_lowercase()).collect();
        let commits = self.bag.commits.entry(repo.to_ascii_lowercase()).or_default();
        let known = commits.entry(sha.clone()).or_default();
        let new = known.sha.is_empty();
        known.sha.clone_from(&sha);
        if known.parents.is_empty() {
            known.parents = parents;
        }
        if let Some((repo, number)) = context.pull_request() {
            let pull = self.bag.pull(&repo, number);
            if !pull.commits.contains(&sha) {
                pull.commits.push(sha);
            }
        }
        self.count("commits", new);
    }

    fn review(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>, depth: usize) {
        let (mut inner, own): (Map<_, _>, Map<_, _>) = object.into_iter().partition(|(name, _)| name == "comments");
        let Some(wire) = self.read::<WireReview>("reviews", Value::Object(own), place) else { return };
        let Some((repo, number)) = context.pull_request() else {
            return self.lose(
                "reviews",
                place,
                AttritionReason::NoPartner,
                "nothing says which pull request this review is of",
            );
        };
        let ids = ids(wire.id, wire.node_id, [wire.database_id, wire.full_database_id]);
        let review = Review {
            ids: ids.clone(),
            author: wire.user.or(wire.author).and_then(author),
            state: wire.state,
            body: wire.body.unwrap_or_default(),
            commit: wire.commit_id.or(wire.commit.and_then(|c| c.oid)).map(|s| s.to_ascii_lowercase()),
        };
        let new = self.bag.pull(&repo, number).put_review(review);
        self.count("reviews", new);
        if let Some(comments) = inner.remove("comments") {
            let context = Context { role: Role::ReviewComment, review: Some(ids), ..context.clone() };
            self.page("comments", &comments, &context);
            self.value(comments, &context, &place.below("comments"), depth);
        }
    }

    fn comment(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>) {
        let Some(wire) = self.read::<WireComment>("review_comments", Value::Object(object), place) else { return };
        let Some((repo, number)) = context.pull_request() else {
            let detail = "nothing says which pull request this comment is of";
            return self.lose("review_comments", place, AttritionReason::NoPartner, detail);
        };
        let mut comment = comment(wire);
        if comment.ids.is_empty() {
            return self.lose("review_comments", place, AttritionReason::Malformed, "a review comment without an id");
        }
        comment.review = comment.review.take().or_else(|| context.review.clone());
        let new = self.bag.pull(&repo, number).put_comment(comment);
        self.count("review_comments", new);
    }

    fn thread(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>, depth: usize) {
        let (mut inner, own): (Map<_, _>, Map<_, _>) = object.into_iter().partition(|(name, _)| name == "comments");
        let Some(wire) = self.read::<WireThread>("review_threads", Value::Object(own), place) else { return };
        let Some((repo, number)) = context.pull_request() else {
            let detail = "nothing says which pull request this thread is of";
            return self.lose("review_threads", place, AttritionReason::NoPartner, detail);
        };
        let comments = inner.remove("comments").unwrap_or_default();
        let mut members = Vec::new();
        list(&comments, &mut |object| members.push(ids_of(object)));
        members.retain(|ids: &Ids| !ids.is_empty());
        let mut thread = thread(wire);
        if thread.ids.is_empty() {
            // A thread is its first comment's where it has no id of its own.
            thread.ids = members.first().cloned().unwrap_or_default();
        }
        thread.comments = members;
        let thread_ids = thread.ids.clone();
        let new = self.bag.pull(&repo, number).put_thread(thread);
        self.count("review_threads", new);
        // `review` makes the page's list one of a thread's; comments have a review of their own, or none is known.
        let context = Context { role: Role::ReviewComment, ..context.clone() };
        self.page("comments", &comments, &Context { review: Some(thread_ids), ..context.clone() });
        self.value(comments, &context, &place.below("comments"), depth);
    }

    fn issue(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>, depth: usize) {
        let (mut inner, own): (Map<_, _>, Map<_, _>) =
            object.into_iter().partition(|(name, v)| name == "comments" && !v.is_number());
        let Some(wire) = self.read::<WireIssue>("issues", Value::Object(own), place) else { return };
        let Some(repo) = wire.repository.and_then(|r| r.full_name).or_else(|| context.repo.clone()) else {
            let detail = "nothing says which repository this issue is of; name it by `--repo`";
            return self.lose("issues", place, AttritionReason::NoPartner, detail);
        };
        let key = PullKey { repo: repo.to_ascii_lowercase(), number: wire.number };
        let new = self.bag.issues.get(&key).is_none_or(|issue| issue.title.is_empty());
        let issue = self.bag.issues.entry(key.clone()).or_default();
        for (into, from) in [(&mut issue.title, wire.title), (&mut issue.body, wire.body)] {
            if into.is_empty() {
                *into = from.unwrap_or_default();
            }
        }
        if let Some((of, number)) = context.pull_request().filter(|_| context.closes) {
            let closes = &mut self.bag.pull(&of, number).closes;
            if !closes.contains(&key) {
                closes.push(key.clone());
            }
        }
        self.count("issues", new);
        if let Some(comments) = inner.remove("comments") {
            let role = Role::IssueComment;
            let context = Context {
                repo: Some(repo),
                pull: None,
                pull_repo: None,
                issue: Some(key.number),
                role,
                closes: false,
                review: None,
            };
            self.value(comments, &context, &place.below("comments"), depth);
        }
    }

    fn issue_comment(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>) {
        let Some(wire) = self.read::<WireIssueComment>("issue_comments", Value::Object(object), place) else { return };
        let of_issue = context.repo.clone().zip(context.issue);
        let Some((repo, number)) = of_issue.or_else(|| context.pull_request()) else {
            let detail = "nothing says what this comment is on";
            return self.lose("issue_comments", place, AttritionReason::NoPartner, detail);
        };
        let comment = IssueComment {
            ids: ids(wire.id, wire.node_id, [None, None]),
            body: wire.body.unwrap_or_default(),
            updated_at: wire.updated_at.or(wire.created_at),
        };
        // Of REST's comments nothing says whether they are on an issue or a pull request: both have them at the issue.
        let key = PullKey { repo: repo.to_ascii_lowercase(), number };
        let on_pull = context.issue.is_none();
        let comments = if on_pull {
            &mut self.bag.pull(&repo, number).conversation
        } else {
            &mut self.bag.issues.entry(key).or_default().comments
        };
        let new = !comments.iter().any(|known| same(&known.ids, &comment.ids));
        if new {
            comments.push(comment);
        }
        self.count("issue_comments", new);
    }

    fn event(&mut self, object: Map<String, Value>, context: &Context, place: &Place<'_>) {
        let Some(wire) = self.read::<WireEvent>("events", Value::Object(object), place) else { return };
        let name = wire.event.or(wire.typename).unwrap_or_default();
        let forced = matches!(name.as_str(), "head_ref_force_pushed" | "HeadRefForcePushedEvent");
        let Some((repo, number)) = context.pull_request().filter(|_| forced) else {
            return self.lose(
                "events",
                place,
                AttritionReason::Unused,
                format!("nothing is made of the event `{name}`"),
            );
        };
        let commits = [wire.commit_id, wire.before.and_then(|p| p.oid), wire.after.and_then(|p| p.oid)];
        let pushed = &mut self.bag.pull(&repo, number).pushed;
        pushed.extend(commits.into_iter().flatten().map(|s| s.to_ascii_lowercase()));
        self.count("events", true);
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
