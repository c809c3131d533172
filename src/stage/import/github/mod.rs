//! `import github PATH…`: pull requests from API JSON on disk, with the repositories' own history from mirrors.

mod ground;
mod instance;
mod locate;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use words::Authors;

use ground::Ground;
use instance::{Made, Placed, Shared};
use locate::{Commits as _, Nowhere, Wanted};

use super::swe_care::manifest;
use super::{ImportError, Imported, Options, Summary};
use crate::formats::github::{Bag, Lost, Pull, PullKey, Take, Thread, threads};
use crate::model::{Attrition, AttritionReason, AttritionScope, CommentId, Extra, Instance, InstanceId};
use crate::repo::{RepoError, Repository};
use crate::store::bench::{Content, Problem};

/// How pull requests are to be imported, beside what all imports take.
pub struct GithubOptions<'a> {
    /// What all imports take. Its finder of merged commits is not used: the pull requests themselves say.
    pub common: Options<'a>,
    /// The repository of objects that do not say theirs.
    pub repo: Option<&'a str>,
    /// Whose names are kept.
    pub authors: Authors,
    /// Opens a repository by `owner/name`.
    pub open: &'a dyn Fn(&str) -> Result<Repository, RepoError>,
}

/// Larger files are refused: a page of the API is far from it.
const MOST_BYTES: u64 = 512 << 20;

/// Imports files of GitHub's API, and in folders all that end in `.json`, `.jsonl` or `.ndjson`.
///
/// Each commit with review comments becomes an instance. Every review comment is in a thread of the data set or in one
/// that has a line of attrition (with the number of its `messages`); every other object that nothing came of has a line.
///
/// # Errors
/// When a path is not there, or no pull request at all was found.
pub fn github(paths: &[PathBuf], options: &GithubOptions<'_>) -> Result<Imported, ImportError> {
    let mut take = Take::new(options.repo);
    let mut summary = Summary::default();
    let mut unreadable = Vec::new();
    for path in paths {
        for (name, file) in files(path)? {
            match read(&file) {
                Ok(text) => take.file(&name, &text),
                Err(problem) => unreadable.push((name, problem)),
            }
        }
    }
    summary.problems.extend(unreadable.iter().map(|(name, problem)| Problem::error(name, None, "", problem)));
    let bag = take.finish();
    if bag.pulls.is_empty() {
        let problem = match (summary.problems.first(), bag.lost.first()) {
            (Some(first), _) => format!("no pull request that can be read (first problem: {first})"),
            (None, Some(first)) => format!("no pull request that can be read (first problem: {})", problem_of(first)),
            (None, None) => "no pull request of GitHub's API (`.json`, `.jsonl` or `.ndjson`)".to_owned(),
        };
        return Err(ImportError::Nothing { path: paths.first().cloned().unwrap_or_default(), problem });
    }
    let source = match bag.pulls.len() {
        1 => "one pull request of GitHub's API".to_owned(),
        n => format!("{n} pull requests of GitHub's API"),
    };
    let mut work = Work { bag: &bag, options, instances: Vec::new(), attrition: Vec::new(), problems: Vec::new() };
    for (name, problem) in &unreadable {
        work.row(AttritionScope::File, AttritionReason::Malformed, format!("`{name}`: {problem}"));
    }
    bag.lost.iter().for_each(|lost| work.lost(lost));
    let mut opened: BTreeMap<&str, Result<Repository, String>> = BTreeMap::new();
    for (key, pull) in &bag.pulls {
        let repository =
            opened.entry(&key.repo).or_insert_with(|| (options.open)(&pull.repo).map_err(|error| error.to_string()));
        work.pull(key, pull, repository.as_ref().map_err(String::as_str));
    }
    let mut content = Content::new(manifest(options.common.name.unwrap_or("github"), &source));
    content.instances = work.instances;
    content.instances.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
    content.attrition = work.attrition;
    summary.problems.extend(work.problems);
    summary.merged_found = content.instances.iter().filter(|i| i.merged_commit.is_some()).count();
    summary.merged_not_found = content.instances.len() - summary.merged_found;
    Options { merged: None, ..options.common }.apply(&mut content.instances, &mut summary);
    summary.read = bag.counted.iter().map(|(kind, counted)| ((*kind).to_owned(), *counted)).collect();
    summary.count(&content);
    Ok(Imported { content, summary })
}

/// The files of a path with their names in messages, in the order of their names.
fn files(path: &Path) -> Result<Vec<(String, PathBuf)>, ImportError> {
    if path.is_file() {
        return Ok(vec![(path.display().to_string(), path.to_owned())]);
    }
    if !path.is_dir() {
        return Err(ImportError::NotThere(path.to_owned()));
    }
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        let entry = entry.map_err(std::io::Error::from)?;
        let ending = entry.path().extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        if entry.file_type().is_file() && matches!(ending.as_str(), "json" | "jsonl" | "ndjson") {
            found.push((entry.path().display().to_string(), entry.into_path()));
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    let size = fs_err::metadata(path).map_err(|e| e.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("it has {size} bytes, more than {MOST_BYTES}; split it"));
    }
    // A byte that is no text is in somebody's words, and the rest is still good.
    Ok(String::from_utf8_lossy(&fs_err::read(path).map_err(|e| e.to_string())?).into_owned())
}

fn problem_of(lost: &Lost) -> Problem {
    Problem::error(&lost.file, lost.line, &lost.field, lost.detail.clone())
}

/// An import under way.
struct Work<'a> {
    bag: &'a Bag,
    options: &'a GithubOptions<'a>,
    instances: Vec<Instance>,
    attrition: Vec<Attrition>,
    problems: Vec<Problem>,
}

impl Work<'_> {
    fn row(&mut self, scope: AttritionScope, reason: AttritionReason, detail: String) -> &mut Attrition {
        let at = self.attrition.len();
        let (instance_id, comment, arm, extra) = (None, None, None, Extra::new());
        self.attrition.push(Attrition {
            scope,
            instance_id,
            comment,
            arm,
            stage: "import".to_owned(),
            reason,
            detail,
            extra,
        });
        &mut self.attrition[at]
    }

    /// An object that found no place. What nothing is made of on purpose is no problem.
    fn lost(&mut self, lost: &Lost) {
        if lost.reason != AttritionReason::Unused {
            self.problems.push(problem_of(lost));
        }
        let at = if lost.field.is_empty() { String::new() } else { format!(" ({})", lost.field) };
        let detail = format!("`{}`, line {}{at}: {}", lost.file, lost.line, lost.detail);
        self.row(AttritionScope::Row, lost.reason, detail);
    }

    /// A thread that becomes no comment.
    fn lose_thread(&mut self, name: &str, thread: &Thread, reason: AttritionReason, detail: String) {
        let (comment, messages) = (thread.id.parse::<CommentId>().ok(), thread.messages.len());
        let row = self.row(AttritionScope::Comment, reason, detail);
        (row.instance_id, row.comment) = (Some(name.to_owned()), comment);
        row.extra.insert("messages".to_owned(), messages.into());
    }

    fn pull(&mut self, key: &PullKey, pull: &Pull, repository: Result<&Repository, &str>) {
        let name = format!("{}-{}", pull.repo.replace('/', "__"), key.number);
        for (of, list) in &self.bag.unfinished {
            if of == key {
                let text = format!("the last page of `{list}` of {key} is missing: what is on it does not take part");
                self.problems.push(Problem::warning(&key.to_string(), None, list, text));
            }
        }
        self.beside(&name, key, pull);
        let threads = threads(pull);
        let (threads, unsent): (Vec<_>, Vec<_>) =
            threads.into_iter().partition(|t| !t.messages.iter().all(|m| m.pending));
        for thread in &unsent {
            self.lose_thread(&name, thread, AttritionReason::Unused, "its review was never submitted".to_owned());
        }
        if threads.is_empty() {
            let (reason, detail) = match pull.details {
                Some(_) => (AttritionReason::NoComments, "the pull request has no review comments"),
                None => (AttritionReason::NoPartner, "parts of this pull request are there, but not itself"),
            };
            self.row(AttritionScope::Instance, reason, detail.to_owned()).instance_id = Some(name);
            return;
        }
        let all = |work: &mut Self, reason, detail: &str| {
            threads.iter().for_each(|thread| work.lose_thread(&name, thread, reason, detail.to_owned()));
            work.row(AttritionScope::Instance, reason, detail.to_owned()).instance_id = Some(name.clone());
        };
        if pull.details.is_none() {
            return all(self, AttritionReason::NoPartner, "parts of this pull request are there, but not itself");
        }
        match repository {
            Err(problem) => all(self, AttritionReason::NoCommit, problem),
            Ok(repository) => {
                if let Err(error) = self.in_repository(key, pull, repository, &name, &threads) {
                    all(self, AttritionReason::NoCommit, &error.to_string());
                }
            }
        }
    }

    /// What belongs to the pull request and has no place in its code: summaries of reviews, and its conversation.
    fn beside(&mut self, name: &str, key: &PullKey, pull: &Pull) {
        let whole = pull.conversation.iter().map(|c| (c.ids.text(), "a comment on the pull request as a whole"));
        let summaries = pull.reviews.iter().filter(|r| !r.body.trim().is_empty());
        let summaries = summaries.map(|r| (r.ids.text(), "the summary of a review"));
        for (id, what) in whole.chain(summaries).collect::<Vec<_>>() {
            let row = self.row(AttritionScope::Row, AttritionReason::NotInline, format!("{what} (id {id})"));
            row.instance_id = Some(name.to_owned());
        }
        for (issue, there) in words::issues_of(self.bag, key, pull) {
            if there.is_none() {
                let detail = format!("the issue {issue} that it closes is not in the data");
                self.row(AttritionScope::Row, AttritionReason::NotInSource, detail).instance_id = Some(name.to_owned());
            }
        }
    }

    fn in_repository(
        &mut self,
        key: &PullKey,
        pull: &Pull,
        repository: &Repository,
        name: &str,
        threads: &[Thread],
    ) -> Result<(), RepoError> {
        let ground = Ground::new(repository, self.bag, key, pull)?;
        let wanted: Vec<Wanted> = threads
            .iter()
            .map(|thread| {
                let review = thread.place.review.as_ref().and_then(|ids| pull.review(ids));
                instance::wanted(thread, review.and_then(|r| r.commit.as_deref()))
            })
            .collect();
        let located = locate::locate(&wanted, &ground.candidates, &ground);
        // Threads by the commit that they are on.
        let mut heads: BTreeMap<String, Vec<Placed<'_>>> = BTreeMap::new();
        for ((thread, wanted), found) in threads.iter().zip(&wanted).zip(located) {
            let said = thread.messages.iter().any(|m| m.body.as_deref().is_some_and(|b| !b.trim().is_empty()));
            match found {
                _ if !said => {
                    self.lose_thread(
                        name,
                        thread,
                        AttritionReason::NotInSource,
                        "its text is not in the data".to_owned(),
                    );
                }
                Err(Nowhere { reason, detail }) => self.lose_thread(name, thread, reason, detail),
                Ok(found) => match repository.resolve(&found.commit) {
                    Ok(head) => heads.entry(head).or_default().push(Placed { thread, wanted, found }),
                    Err(error) => self.lose_thread(name, thread, AttritionReason::NoCommit, error.to_string()),
                },
            }
        }
        if heads.is_empty() {
            let detail = "none of its review comments has a commit that is to be had".to_owned();
            self.row(AttritionScope::Instance, AttritionReason::NotLocated, detail).instance_id = Some(name.to_owned());
        }
        let issues = words::issues_of(self.bag, key, pull);
        let shared = Shared {
            repository,
            pull,
            number: key.number,
            issues: issues.into_iter().filter_map(|(key, issue)| Some((key.number, issue?))).collect(),
            authors: self.options.authors,
        };
        let mut ids: BTreeSet<InstanceId> = BTreeSet::new();
        for (head, placed) in heads {
            if let Err((reason, detail)) = self.instance(&shared, &ground, &head, &placed, name, &mut ids) {
                for one in &placed {
                    self.lose_thread(name, one.thread, reason, detail.clone());
                }
                self.row(AttritionScope::Instance, reason, detail).instance_id = Some(format!("{name}@{}", &head[..7]));
            }
        }
        Ok(())
    }

    fn instance(
        &mut self,
        shared: &Shared<'_>,
        ground: &Ground<'_>,
        head: &str,
        placed: &[Placed<'_>],
        name: &str,
        ids: &mut BTreeSet<InstanceId>,
    ) -> Result<(), (AttritionReason, String)> {
        let id: InstanceId = format!("{name}@{}", head.get(..7).unwrap_or(head))
            .parse()
            .map_err(|error| (AttritionReason::Malformed, format!("{error}")))?;
        let Some(base) = ground.base(head) else {
            let detail = format!("nothing tells which commit {head} branched from, or it is on the base branch itself");
            return Err((AttritionReason::NoBase, detail));
        };
        if ids.contains(&id) {
            let detail = format!("two reviewed commits have ids that begin with {}", &head[..7]);
            return Err((AttritionReason::Duplicate, detail));
        }
        let made = instance::make(shared, ground, (id.clone(), head, &base), placed);
        let Made { instance, notes } = made.map_err(|error| (AttritionReason::NoCommit, error.to_string()))?;
        self.problems.extend(notes.into_iter().map(|note| Problem::warning(&id.to_string(), None, "patch", note)));
        ids.insert(id);
        self.instances.push(instance);
        Ok(())
    }
}
