//! A fix, split into hunks, and the place of a comment in it.

use std::collections::BTreeMap;
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
    /// The files that it edits, as text.
    pub edits: Vec<Edit>,
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
    /// The same in groups, as git shows them.
    pub hunks: Vec<Hunk>,
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
    /// Splits a change. `head` are the files of the commit to review at the change's paths.
    pub fn new(merged: ChangeSet, head: &BTreeMap<TreePath, FileContent>) -> Self {
        let edits = merged.changes.iter().filter_map(|(path, change)| {
            let (Change::Write(new), Some(old)) = (change, head.get(path)) else { return None };
            Edit::new(path, text(old)?, text(new)?)
        });
        let edits = edits.collect();
        Self { merged, edits }
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
        let mut hunks: Vec<Hunk> = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            match hunks.last_mut() {
                Some(hunk) if change.old.start.saturating_sub(hunk.old.end) <= JOINS => {
                    hunk.changes.end = index + 1;
                    (hunk.old.end, hunk.new.end) = (change.old.end, change.new.end);
                }
                _ => hunks.push(Hunk { changes: index..index + 1, old: change.old.clone(), new: change.new.clone() }),
            }
        }
        Some(Self { path: path.clone(), old: old.to_owned(), new: new.to_owned(), changes, hunks })
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
        self.changes.iter().any(|change| change.new.contains(&line))
    }
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
    let shown = comment.diff_hunk.as_deref().and_then(|hunk| shown_at(hunk, &file, stated));
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
