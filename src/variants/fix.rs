//! A fix, split into hunks, and the place of a comment in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::model::Comment;
use crate::repo::{Change, ChangeSet, FileContent, LineChange, TreePath, line_changes};

/// Lines of unchanged text between two changes of one hunk, at most: as many as git joins.
const JOINS: usize = 6;
/// How many lines a hunk may be away from the commented ones and still touch the place.
const NEAR: usize = 3;
/// Larger files are taken as a whole.
const LARGEST: usize = 2 << 20;

/// What the merged change does to the commit to review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// The whole change.
    pub merged: ChangeSet,
    /// The files that the pull request edits, as text.
    pub edits: Vec<Edit>,
    /// All paths that it changes.
    pub own: BTreeSet<TreePath>,
}

/// The change of one text file that both states have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub path: TreePath,
    /// Its text in the commit to review.
    pub old: String,
    /// Its text in the merged state.
    pub new: String,
    /// The changes of lines, from the top.
    pub changes: Vec<LineChange>,
    /// Whether each is of the pull request.
    own: Vec<bool>,
    /// Those of the pull request in groups, as git shows them.
    pub hunks: Vec<Hunk>,
}

/// What the main branch did, so that it can be told from what the pull request did. A merged state that lies on the main branch
/// has everything that landed there since the pull request began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// Files where the pull request began; none where that is not known.
    pub base: Option<BTreeMap<TreePath, FileContent>>,
    /// Files of the main branch just before the pull request landed.
    pub before: BTreeMap<TreePath, FileContent>,
}

/// Changes that stand close together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Their places in [`Edit::changes`].
    pub changes: Range<usize>,
    /// The old lines from the first to the last of them.
    pub old: Range<usize>,
    /// The new lines.
    pub new: Range<usize>,
}

/// Where a comment stands in the commit to review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The commented file.
    pub path: TreePath,
    /// The commented lines, from 0, where they are known.
    pub lines: Option<Range<usize>>,
}

/// How exactly a comment's place is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spot {
    /// The commented lines.
    Lines,
    /// The commented file.
    File,
    /// Nothing.
    Unknown,
}

impl Fix {
    /// Splits a change. `head` are the files of the commit to review at the change's paths. With `origins` what others
    /// did on the main branch is left as merged in all variants; without them the whole change is the pull request's.
    pub fn new(merged: ChangeSet, head: &BTreeMap<TreePath, FileContent>, origins: Option<&Origins>) -> Self {
        let edits = merged.changes.iter().filter_map(|(path, change)| {
            let (Change::Write(new), Some(old)) = (change, head.get(path)) else { return None };
            let edit = Edit::new(path, text(old)?, text(new)?)?;
            let Some(origins) = origins else { return Some(edit) };
            let of = |files: &BTreeMap<TreePath, FileContent>| {
                files.get(path).map_or(Some(String::new()), |file| text(file).map(str::to_owned))
            };
            let base = match &origins.base {
                Some(base) => Some(of(base)?),
                None => None,
            };
            Some(edit.of_pull_request(base.as_deref(), &of(&origins.before)?)).filter(|edit| !edit.hunks.is_empty())
        });
        let edits = edits.collect();
        let is_own = |path: &&TreePath| {
            let Some(origins) = origins else { return true };
            let same = |one: Option<&FileContent>, other: Option<&FileContent>| one == other;
            let landed = match merged.changes.get(path) {
                Some(Change::Write(file)) => Some(file),
                Some(Change::Remove) | None => None,
            };
            !same(landed, origins.before.get(path))
                || origins.base.as_ref().is_some_and(|base| !same(head.get(path), base.get(path)))
        };
        let own = merged.paths().filter(is_own).cloned().collect();
        Self { merged, edits, own }
    }

    /// The edit of a file.
    pub fn edit(&self, path: &TreePath) -> Option<&Edit> {
        self.edits.iter().find(|edit| edit.path == *path)
    }

    /// The merged change with another text for one of its files; with the old text the file is not changed at all.
    pub fn with(&self, edit: &Edit, text: String) -> ChangeSet {
        let mut set = self.merged.clone();
        let Some(Change::Write(file)) = set.changes.get_mut(&edit.path) else { return set };
        if text == edit.old {
            set.changes.remove(&edit.path);
        } else {
            file.content = text.into_bytes();
        }
        set
    }
}

fn text(file: &FileContent) -> Option<&str> {
    let is_plain = file.mode != crate::repo::FileMode::Symlink && file.content.len() <= LARGEST;
    std::str::from_utf8(&file.content).ok().filter(|text| is_plain && !text.contains('\0'))
}

impl Edit {
    /// The change of one text to another; `None` where no lines change.
    pub fn new(path: &TreePath, old: &str, new: &str) -> Option<Self> {
        let changes = line_changes(old.as_bytes(), new.as_bytes());
        if changes.is_empty() {
            return None;
        }
        let own = vec![true; changes.len()];
        let hunks = hunks(&changes, &own);
        Some(Self { path: path.clone(), old: old.to_owned(), new: new.to_owned(), changes, own, hunks })
    }

    /// The edit with the changes alone that are of the pull request: their new lines landed with it, or their old lines
    /// came with it. `base` and `before` are the file where it began and just before it landed. Where it is not known how it
    /// began, lines that only went are taken for its own.
    fn of_pull_request(mut self, base: Option<&str>, before: &str) -> Self {
        let landed = line_changes(before.as_bytes(), self.new.as_bytes());
        let came = base.map(|base| line_changes(base.as_bytes(), self.old.as_bytes()));
        let meets = |range: &Range<usize>, changes: &[LineChange]| {
            changes.iter().any(|change| change.new.start < range.end && range.start < change.new.end)
        };
        let is_own = |change: &LineChange| {
            let came = came.as_ref().map_or(change.new.is_empty(), |came| meets(&change.old, came));
            came || meets(&change.new, &landed)
        };
        self.own = self.changes.iter().map(is_own).collect();
        self.hunks = hunks(&self.changes, &self.own);
        self
    }

    /// The changes that are of the pull request.
    pub fn own_changes(&self) -> impl DoubleEndedIterator<Item = &LineChange> {
        self.changes.iter().zip(&self.own).filter(|(_, own)| **own).map(|(change, _)| change)
    }

    /// The new text without these hunks.
    pub fn without(&self, dropped: &[&Hunk]) -> String {
        let (old, new) = (lines(&self.old), lines(&self.new));
        let (mut out, mut at) = (String::new(), 0);
        for (index, change) in self.changes.iter().enumerate() {
            let is_dropped = dropped.iter().any(|hunk| hunk.changes.contains(&index));
            out.extend(part(&new, at..change.new.start));
            out.extend(if is_dropped { part(&old, change.old.clone()) } else { part(&new, change.new.clone()) });
            at = change.new.end;
        }
        out.extend(part(&new, at..new.len()));
        out
    }

    /// The hunks that touch the place. Where no hunk stands that close, the closest one does.
    pub fn near(&self, commented: &Range<usize>) -> Vec<&Hunk> {
        let away = |hunk: &Hunk| {
            let after = hunk.old.start.saturating_sub(commented.end.max(1) - 1);
            let before = commented.start.saturating_sub(hunk.old.end.max(hunk.old.start + 1) - 1);
            after.max(before)
        };
        let closest = self.hunks.iter().map(away).min().unwrap_or_default();
        self.hunks.iter().filter(|hunk| away(hunk) <= NEAR.max(closest)).collect()
    }

    /// Whether a line of the new text, from 0, is of the fix.
    pub fn is_new(&self, line: usize) -> bool {
        self.own_changes().any(|change| change.new.contains(&line))
    }
}

/// Groups changes that are of the pull request, as far as they stand close together with none of others between.
fn hunks(changes: &[LineChange], own: &[bool]) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for (index, (change, _)) in changes.iter().zip(own).enumerate().filter(|(_, (_, own))| **own) {
        match hunks.last_mut() {
            Some(hunk) if hunk.changes.end == index && change.old.start.saturating_sub(hunk.old.end) <= JOINS => {
                hunk.changes.end = index + 1;
                (hunk.old.end, hunk.new.end) = (change.old.end, change.new.end);
            }
            _ => hunks.push(Hunk { changes: index..index + 1, old: change.old.clone(), new: change.new.clone() }),
        }
    }
    hunks
}

/// A text's lines with their ends.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn part<'a>(lines: &[&'a str], range: Range<usize>) -> impl Iterator<Item = &'a str> + use<'a> {
    let end = range.end.min(lines.len());
    lines.get(range.start.min(end)..end).unwrap_or_default().to_vec().into_iter()
}

/// Finds a comment's place. What the host showed of the file (the last lines of its hunk) goes before line numbers, as
/// these may be of another commit; a text that is there several times is taken where the numbers say, or first.
pub fn place(comment: &Comment, head: &BTreeMap<TreePath, FileContent>) -> Option<Place> {
    let path = TreePath::new(comment.path.as_str()).ok()?;
    let file = head.get(&path).and_then(text).map(lines).unwrap_or_default();
    let last = comment.original_line.or(comment.line).and_then(|line| usize::try_from(line).ok());
    let first = comment.original_start_line.or(comment.start_line).and_then(|line| usize::try_from(line).ok());
    let length = match (first, last) {
        (Some(first), Some(last)) if first <= last => last - first + 1,
        _ => 1,
    };
    let stated = last.filter(|line| (1..=file.len()).contains(line));
    let shown = comment.diff_hunk.as_deref().and_then(|hunk| shown_at(hunk, &file, last));
    let lines = shown.or(stated).map(|line| line.saturating_sub(length)..line);
    Some(Place { path, lines })
}

/// The line, from 1, at which the last lines of a hunk's new side stand in a file.
fn shown_at(hunk: &str, file: &[&str], stated: Option<usize>) -> Option<usize> {
    const SHOWN: usize = 4;
    let side: Vec<&str> = hunk
        .lines()
        .filter(|line| !line.starts_with("@@") && !line.starts_with('-') && !line.starts_with('\\'))
        .map(|line| line.get(1..).unwrap_or_default().trim_end())
        .collect();
    if hunk.lines().last()?.starts_with('-') || side.is_empty() {
        return None; // the comment is on the old side
    }
    for count in (1..=SHOWN.min(side.len())).rev() {
        let wanted = &side[side.len() - count..];
        if wanted.iter().all(|line| line.trim().is_empty()) {
            return None;
        }
        let fits = |end: &usize| {
            *end >= count && file[end - count..*end].iter().zip(wanted).all(|(line, wanted)| line.trim_end() == *wanted)
        };
        let found: Vec<usize> = (1..=file.len()).filter(fits).collect();
        let closest = found.iter().min_by_key(|end| stated.map_or(0, |stated| stated.abs_diff(**end)));
        if let Some(end) = closest {
            return Some(*end);
        }
    }
    None
}
