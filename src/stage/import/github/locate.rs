//! Which commit a thread was written on, and on which lines of it. Pure over [`Commits`].
//!
//! The commit that the host names counts where it is to be had and holds the thread's hunk. Otherwise the pull request's
//! other commits are searched for the hunk's lines: after a rebase the commit's successor has them. Of a review's threads
//! those that one commit holds together go there together.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::formats::github::{Asked, Fit, Hunk, Quality, Side, fit, lines_of};
use crate::model::AttritionReason;

/// The commits of a pull request that are to be had.
pub(super) trait Commits {
    /// Whether a commit is to be had.
    fn has(&self, commit: &str) -> bool;
    /// A file's text at a commit; `None` where there is none, or it is no text.
    fn file(&self, commit: &str, path: &str) -> Option<Rc<str>>;
    /// The commit that a commit's change is read against; `None` where there is none.
    fn base(&self, commit: &str) -> Option<String>;
    /// When its content was written, in seconds since the epoch.
    fn authored(&self, commit: &str) -> i64;
}

/// A thread to be located.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The commit that the host names.
    pub reviewed: Option<String>,
    /// The commented file.
    pub path: Option<String>,
    /// The hunk, or why there is none.
    pub hunk: Result<Hunk, String>,
    /// The commented side.
    pub side: Side,
    /// How many lines are commented.
    pub lines: usize,
    /// The last commented line, as the host numbers it.
    pub line: Option<usize>,
    /// Whether it is on the file as a whole.
    pub file_level: bool,
    /// When it was written, in seconds since the epoch.
    pub written: Option<i64>,
}

/// How a thread's commit was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It is the one that the host names.
    Commit,
    /// It has all lines of the hunk.
    Hunk,
    /// It has the commented lines, and most of the lines above.
    HunkFuzzy,
    /// It has the file, which the thread is on as a whole.
    File,
}

impl How {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Hunk => "hunk",
            Self::HunkFuzzy => "hunk-fuzzy",
            Self::File => "file",
        }
    }
}

/// Where a thread belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The commit.
    pub commit: String,
    /// How it was found.
    pub how: How,
    /// First and last commented line there.
    pub lines: Option<(usize, usize)>,
    /// How many commits fitted as well as this one.
    pub candidates: usize,
}

/// Why a thread belongs nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nowhere {
    pub reason: AttritionReason,
    pub detail: String,
}

/// What a commit has of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Lines(Fit),
    File,
}

impl Held {
    /// All that is asked for, or only roughly that.
    fn is_whole(self) -> bool {
        !matches!(self, Self::Lines(Fit { quality: Quality::Fuzzy(_), .. }))
    }

    fn score(self) -> u16 {
        match self {
            Self::Lines(Fit { quality: Quality::Fuzzy(score), .. }) => score,
            _ => 1000,
        }
    }

    fn found(self, commit: &str, named: bool, candidates: usize) -> Found {
        let (how, lines) = match self {
            Self::File => (How::File, None),
            Self::Lines(fit) if self.is_whole() => (How::Hunk, Some((fit.first, fit.last))),
            Self::Lines(fit) => (How::HunkFuzzy, Some((fit.first, fit.last))),
        };
        let how = if named && how != How::HunkFuzzy { How::Commit } else { how };
        Found { commit: commit.to_owned(), how, lines, candidates }
    }
}

/// What the candidates have of a thread, those that have anything.
type Fits = BTreeMap<usize, Held>;

/// Locates threads. `candidates` are the pull request's commits, earlier ones first.
pub(super) fn locate(wanted: &[Wanted], candidates: &[String], commits: &dyn Commits) -> Vec<Result<Found, Nowhere>> {
    let mut found: Vec<Option<Result<Found, Nowhere>>> = vec![None; wanted.len()];
    // By the commit that the host names: the threads that are not there, with the commits that could be meant.
    let mut groups: BTreeMap<Option<&str>, Vec<(usize, Fits)>> = BTreeMap::new();
    for (index, thread) in wanted.iter().enumerate() {
        let Some(path) = &thread.path else {
            let detail = "it names no file".to_owned();
            found[index] = Some(Err(Nowhere { reason: AttritionReason::NotInline, detail }));
            continue;
        };
        let named = thread.reviewed.as_deref().filter(|commit| commits.has(commit));
        let there = named.and_then(|commit| held(thread, path, commit, commits).map(|held| (commit, held)));
        if let Some((commit, held)) = there.filter(|(_, held)| held.is_whole()) {
            found[index] = Some(Ok(held.found(commit, true, 1)));
            continue;
        }
        if let (Some(commit), Err(_), Some(lines)) =
            (named, &thread.hunk, lines_without_hunk(thread, path, named, commits))
        {
            found[index] =
                Some(Ok(Found { commit: commit.to_owned(), how: How::Commit, lines: Some(lines), candidates: 1 }));
            continue;
        }
        let mut best: Fits = BTreeMap::new();
        for (at, commit) in candidates.iter().enumerate() {
            best.extend(held(thread, path, commit, commits).map(|held| (at, held)));
        }
        let whole = best.values().any(|held| held.is_whole());
        if !whole && let Some((commit, held)) = there {
            // The host's own word, and nothing that fits better.
            found[index] = Some(Ok(held.found(commit, true, 1)));
            continue;
        }
        let top = best.values().map(|held| held.score()).max().unwrap_or(0);
        best.retain(|_, held| if whole { held.is_whole() } else { held.score() == top });
        if best.is_empty() {
            found[index] = Some(Err(nowhere(thread, path, candidates.len(), commits)));
        } else {
            groups.entry(thread.reviewed.as_deref()).or_default().push((index, best));
        }
    }
    for group in groups.into_values() {
        settle(group, wanted, candidates, commits, &mut found);
    }
    let lost = || Nowhere { reason: AttritionReason::NotLocated, detail: "no commit was found for it".to_owned() };
    found.into_iter().map(|one| one.unwrap_or_else(|| Err(lost()))).collect()
}

/// Why no commit was found.
fn nowhere(thread: &Wanted, path: &str, others: usize, commits: &dyn Commits) -> Nowhere {
    let commit = match &thread.reviewed {
        Some(commit) if commits.has(commit) => format!("commit {commit} does not hold the commented lines"),
        Some(commit) => format!("commit {commit} is not in the mirror"),
        None => "no commit is named".to_owned(),
    };
    let detail = match &thread.hunk {
        _ if thread.file_level => format!("{commit}, and none of the {others} that are to be had has `{path}`"),
        Ok(_) => format!("{commit}, and none of the {others} that are to be had holds its hunk's lines in `{path}`"),
        Err(why) => format!("{commit}, and there is nothing to look for: {why}"),
    };
    Nowhere { reason: AttritionReason::NotLocated, detail }
}

/// Puts the threads of one group where most of them fit, then the rest where most of these fit, and so on.
fn settle(
    mut group: Vec<(usize, Fits)>,
    wanted: &[Wanted],
    candidates: &[String],
    commits: &dyn Commits,
    found: &mut [Option<Result<Found, Nowhere>>],
) {
    while !group.is_empty() {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for at in group.iter().flat_map(|(_, best)| best.keys()) {
            *counts.entry(*at).or_default() += 1;
        }
        let Some(most) = counts.values().copied().max() else { return };
        let tied: Vec<usize> = counts.into_iter().filter(|(_, n)| *n == most).map(|(at, _)| at).collect();
        let written = group.iter().filter_map(|(index, _)| wanted[*index].written).min();
        // Dates decide only between commits that hold the same lines: a commit that was written after the comment is an
        // answer to it. Otherwise the last one, which is the most of what the reviewer can have seen.
        let before = |at: &&usize| written.is_none_or(|written| commits.authored(&candidates[**at]) <= written);
        let Some(at) = tied.iter().rev().find(before).or(tied.first()).copied() else { return };
        let (here, rest): (Vec<_>, Vec<_>) = group.into_iter().partition(|(_, best)| best.contains_key(&at));
        let only_files = here.iter().all(|(_, best)| best.get(&at) == Some(&Held::File));
        for (index, best) in here {
            let path = wanted[index].path.as_deref().unwrap_or_default();
            let differ =
                || best.keys().map(|at| commits.file(&candidates[*at], path)).collect::<BTreeSet<_>>().len() > 1;
            found[index] = Some(if only_files && differ() {
                let detail = format!(
                    "it is on the file `{path}` as a whole, its commit is not in the mirror, and {} commits have the file",
                    best.len()
                );
                Err(Nowhere { reason: AttritionReason::Ambiguous, detail })
            } else {
                Ok(best[&at].found(&candidates[at], false, best.len()))
            });
        }
        group = rest;
    }
}

/// What a commit has of a thread; `None` where it is not the one.
fn held(thread: &Wanted, path: &str, commit: &str, commits: &dyn Commits) -> Option<Held> {
    let new = commits.file(commit, path);
    let old = || commits.base(commit).and_then(|base| commits.file(&base, path));
    if thread.file_level {
        return (new.is_some() || old().is_some()).then_some(Held::File);
    }
    let hunk = thread.hunk.as_ref().ok()?;
    let asked = Asked { hunk, side: thread.side, lines: thread.lines, line: thread.line };
    if thread.side == Side::New {
        return new.and_then(|text| fit(&asked, &lines_of(&text))).map(Held::Lines);
    }
    // Lines that are gone: the old file has them, and the new one has what the hunk shows beside them instead.
    let (gone, beside) = (hunk.side(Side::Old), hunk.side(Side::New));
    let fits = match &new {
        None => beside.is_empty(),
        Some(text) => {
            let lines = lines_of(text);
            let stands = |block: &[&str]| !block.is_empty() && lines.windows(block.len()).any(|there| there == block);
            let short = Asked { side: Side::New, lines: 1, line: None, ..asked };
            !stands(&gone) && (beside.is_empty() || stands(&beside) || fit(&short, &lines).is_some())
        }
    };
    let old = old().filter(|_| fits)?;
    fit(&asked, &lines_of(&old)).map(Held::Lines)
}

/// The commented lines by the host's numbers alone, where the file has so many.
fn lines_without_hunk(
    thread: &Wanted,
    path: &str,
    commit: Option<&str>,
    commits: &dyn Commits,
) -> Option<(usize, usize)> {
    let (commit, last) = commit.zip(thread.line)?;
    let at = if thread.side == Side::Old { commits.base(commit)? } else { commit.to_owned() };
    let there = commits.file(&at, path)?.lines().count();
    (last <= there).then(|| ((last + 1).saturating_sub(thread.lines.max(1)).max(1), last))
}

#[cfg(test)]
#[path = "locate_tests.rs"]
mod tests;
