//! Comments joined into threads: as GraphQL says, or else by what each answers.

use std::collections::BTreeMap;

use super::bag::{Ids, Pull, ReviewComment, ThreadFacts};

/// One comment of a thread.
pub type Message = ReviewComment;

/// A thread: one concern, and what was said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// The id of its first comment.
    pub id: String,
    /// Its comments, the first one first, then by time.
    pub messages: Vec<Message>,
    /// Where it is: the first comment's place, filled from the thread's and the others'.
    pub place: ReviewComment,
    /// Whether somebody marked it as resolved; only GraphQL tells.
    pub resolved: Option<bool>,
    /// Whether its lines changed since.
    pub outdated: Option<bool>,
    /// Whether the host shows it folded; only GraphQL tells.
    pub collapsed: Option<bool>,
    /// Whether its first comment is not in the data: it was deleted, or the page is missing.
    pub headless: bool,
}

/// The threads of a pull request in the order of their first comments in the data. Every comment is in exactly one.
pub fn threads(pull: &Pull) -> Vec<Thread> {
    let mut of_comment: Vec<Option<usize>> = vec![None; pull.comments.len()];
    for (index, facts) in pull.threads.iter().enumerate() {
        for at in facts.comments.iter().filter_map(|ids| pull.comment_at(ids)) {
            of_comment[at].get_or_insert(index);
        }
    }
    // A group's name: the first comment's place, or the id of one that is not there.
    let mut groups: BTreeMap<(usize, String), (Option<usize>, Vec<usize>)> = BTreeMap::new();
    let mut of_thread: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    let mut of_missing: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for at in 0..pull.comments.len() {
        let root = root_of(pull, at);
        let facts = of_comment[at].or_else(|| root.as_ref().ok().and_then(|r| of_comment[*r]));
        let own = match &root {
            Ok(root) => (*root, String::new()),
            Err(missing) => of_missing.entry(missing.text()).or_insert_with(|| (at, missing.text())).clone(),
        };
        let key = match facts {
            Some(index) => of_thread.entry(index).or_insert(own).clone(),
            None => own,
        };
        let group = groups.entry(key).or_default();
        group.0 = group.0.or(facts);
        group.1.push(at);
    }
    let mut found: Vec<(usize, Thread)> = groups
        .into_values()
        .map(|(facts, members)| {
            let first = members.iter().copied().min().unwrap_or_default();
            (first, thread(pull, facts.map(|index| &pull.threads[index]), members))
        })
        .collect();
    found.sort_by_key(|(first, _)| *first);
    found.into_iter().map(|(_, thread)| thread).collect()
}

/// The first comment of the thread that a comment answers, or the ids of one that is not there. Circles end where they
/// began.
fn root_of(pull: &Pull, at: usize) -> Result<usize, Ids> {
    let mut here = at;
    for _ in 0..pull.comments.len() {
        let Some(reply_to) = &pull.comments[here].reply_to else { return Ok(here) };
        match pull.comment_at(reply_to) {
            Some(next) if next != here => here = next,
            Some(_) => return Ok(here),
            None => return Err(reply_to.clone()),
        }
    }
    Ok(at.min(here))
}

fn thread(pull: &Pull, facts: Option<&ThreadFacts>, mut members: Vec<usize>) -> Thread {
    let comment = |at: &usize| &pull.comments[*at];
    members.sort_by(|a, b| {
        let key = |at: &usize| (comment(at).reply_to.is_some(), comment(at).created_at.clone(), *at);
        key(a).cmp(&key(b))
    });
    let messages: Vec<Message> = members.iter().map(|at| comment(at).clone()).collect();
    let first = messages.first().cloned().unwrap_or_default();
    // GraphQL's first comment of a thread may come without what it answers, REST's never has any.
    let headless = first.reply_to.as_ref().is_some_and(|ids| pull.comment_at(ids).is_none());
    let id = if headless { first.reply_to.as_ref().map(Ids::text) } else { None }.unwrap_or_else(|| first.ids.text());
    let mut place = first;
    if let Some(facts) = facts {
        place.place_from(&facts.place);
    }
    for message in &messages {
        place.place_from(message);
    }
    let gone = place.original_line.is_some() && place.line.is_none() && place.diff_hunk.is_some();
    let outdated =
        facts.and_then(|f| f.outdated).or(place.outdated).or_else(|| (place.file_level != Some(true)).then_some(gone));
    Thread {
        id,
        resolved: facts.and_then(|f| f.resolved),
        outdated,
        collapsed: facts.and_then(|f| f.collapsed),
        headless,
        place,
        messages,
    }
}

impl ReviewComment {
    /// Takes over what is not known of the place.
    fn place_from(&mut self, other: &Self) {
        let Self { path, side, start_side, original_line, original_start_line, diff_hunk, original_commit, .. } = self;
        // Lines go together: half of one comment's and half of another's would be a range that nobody meant.
        if original_line.is_none() {
            *original_line = other.original_line;
            *original_start_line = other.original_start_line;
        }
        path.get_or_insert_with(|| other.path.clone().unwrap_or_default());
        *path = path.take().filter(|p| !p.is_empty());
        *side = side.or(other.side);
        *start_side = start_side.or(other.start_side);
        *diff_hunk = diff_hunk.take().or_else(|| other.diff_hunk.clone());
        *original_commit = original_commit.take().or_else(|| other.original_commit.clone());
        self.line = self.line.or(other.line);
        self.start_line = self.start_line.or(other.start_line);
        self.file_level = self.file_level.or(other.file_level);
        self.review = self.review.take().or_else(|| other.review.clone());
        self.commit = self.commit.take().or_else(|| other.commit.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{PullKey, Take};
    use super::*;

    fn of(values: &[Value]) -> Vec<Thread> {
        let mut take = Take::new(Some("o/r"));
        let text: String = values.iter().map(Value::to_string).collect();
        take.file("x.json", &text);
        let bag = take.finish();
        assert_eq!(bag.lost, []);
        threads(&bag.pulls[&PullKey { repo: "o/r".to_owned(), number: 1 }])
    }

    fn rest(id: u64, reply_to: Option<u64>, at: &str) -> Value {
        json!({"id": id, "in_reply_to_id": reply_to, "pull_request_url": "https://api.github.com/repos/o/r/pulls/1",
               "path": "a.py", "diff_hunk": "@@ -1 +1 @@\n+a", "body": format!("b{id}"), "created_at": at,
               "original_line": 1, "line": 1, "original_commit_id": "A1", "side": "RIGHT"})
    }

    fn shape(threads: &[Thread]) -> Vec<(String, Vec<String>)> {
        let bodies = |t: &Thread| t.messages.iter().map(|m| m.body.clone().unwrap_or_default()).collect();
        threads.iter().map(|t| (t.id.clone(), bodies(t))).collect()
    }

    fn want(list: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        list.iter().map(|(id, b)| ((*id).to_owned(), b.iter().map(|b| (*b).to_owned()).collect())).collect()
    }

    #[test]
    fn replies_follow_their_first_comment_by_time() {
        let found = of(&[rest(3, Some(1), "3"), rest(2, None, "0"), rest(1, None, "1"), rest(4, Some(3), "2")]);
        assert_eq!(shape(&found), want(&[("1", &["b1", "b4", "b3"]), ("2", &["b2"])]));
        assert_eq!(found[0].place.original_commit.as_deref(), Some("a1"));
        assert!(!found[0].headless);
    }

    #[test]
    fn replies_to_a_comment_that_is_gone_stay_together() {
        let found = of(&[rest(3, Some(9), "3"), rest(4, Some(9), "2"), rest(5, Some(8), "1")]);
        assert_eq!(shape(&found), want(&[("9", &["b4", "b3"]), ("8", &["b5"])]));
        assert!(found[0].headless);
    }

    #[test]
    fn circles_end() {
        let found = of(&[rest(1, Some(2), "1"), rest(2, Some(1), "2"), rest(3, Some(3), "3")]);
        let messages: usize = found.iter().map(|t| t.messages.len()).sum();
        assert_eq!(messages, 3);
    }

    #[test]
    fn graphql_threads_and_rest_comments_are_joined_by_either_id() {
        let mut second = rest(2, Some(1), "2");
        second["node_id"] = json!("N2");
        let thread = json!({"data": {"repository": {"nameWithOwner": "O/r", "pullRequest": {"number": 1, "reviewThreads": {
            "pageInfo": {"hasNextPage": false}, "nodes": [
                {"id": "T1", "isResolved": true, "isOutdated": true, "isCollapsed": false, "path": "a.py", "diffSide": "LEFT",
                 "comments": {"nodes": [{"databaseId": 1, "id": "N1"}, {"id": "N2"}]}},
                {"id": "T2", "isResolved": false, "isOutdated": false, "path": "b.py", "originalLine": 4, "diffSide": "LEFT",
                 "comments": {"nodes": [{"id": "N7", "body": "b7", "author": {"login": "x", "__typename": "Bot"},
                 "state": "SUBMITTED", "commit": {"oid": "C"}, "originalCommit": {"oid": "D"}, "createdAt": "9"}]}}]}}}}});
        let found = of(&[rest(1, None, "1"), second, thread]);
        assert_eq!(shape(&found), want(&[("1", &["b1", "b2"]), ("N7", &["b7"])]));
        assert_eq!((found[0].resolved, found[0].outdated, found[0].collapsed), (Some(true), Some(true), Some(false)));
        let place = &found[1].place;
        assert_eq!(
            (place.path.as_deref(), place.original_line, place.side),
            (Some("b.py"), Some(4), Some(super::super::Side::Old))
        );
        assert!(found[1].messages[0].author.as_ref().unwrap().bot);
    }

    #[test]
    fn a_line_that_is_gone_makes_a_thread_outdated_where_nothing_else_is_said() {
        let mut gone = rest(1, None, "1");
        gone["line"] = Value::Null;
        let mut file = rest(2, None, "2");
        file["subject_type"] = json!("file");
        let found = of(&[gone, file, rest(3, None, "3")]);
        assert_eq!(found.iter().map(|t| t.outdated).collect::<Vec<_>>(), [Some(true), None, Some(false)]);
    }
}
