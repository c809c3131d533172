//! Where a comment's lines are, by its diff hunk alone. Commit ids are no help once a branch was rebased: the commit
//! that was commented on is gone, and its lines are in another one.
//!
//! The host gives the hunk from its first line down to the commented one, so the commented lines are the last ones of
//! their side. A file holds the hunk *exactly* when all lines of the side stand in it one after the other, and
//! *roughly* when the commented lines do (up to white space) and enough of the lines above them, at one place only.

/// The side of the diff that a comment is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Side {
    /// The file before the change: removed lines.
    Old,
    /// The file after the change.
    #[default]
    New,
}

impl Side {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

/// One line of a hunk without its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    old: bool,
    new: bool,
    text: String,
}

/// A diff hunk as the host shows it with a comment: cut off behind the commented line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    old_start: usize,
    new_start: usize,
    lines: Vec<Line>,
}

/// Why a text is no hunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HunkError {
    /// There is no text.
    #[error("the diff hunk is empty")]
    Empty,
    /// The first line is no header.
    #[error("the diff hunk does not begin with `@@ -A,B +C,D @@`")]
    NoHeader,
    /// A line has none of the marks ` `, `+`, `-`, `\`.
    #[error("line {0} of the diff hunk has none of the marks ` `, `+`, `-`")]
    BadLine(usize),
}

impl Hunk {
    /// Reads a hunk. Line ends may be CRLF; a line without anything is an empty context line.
    ///
    /// # Errors
    /// When it has no header, or a line has no mark.
    pub fn parse(text: &str) -> Result<Self, HunkError> {
        let mut rows = text.split('\n').map(|row| row.strip_suffix('\r').unwrap_or(row));
        let header = rows.next().filter(|row| !row.is_empty()).ok_or(HunkError::Empty)?;
        let (old_start, new_start) = header_starts(header).ok_or(HunkError::NoHeader)?;
        let mut lines = Vec::new();
        let mut rows = rows.enumerate().peekable();
        while let Some((index, row)) = rows.next() {
            let last = rows.peek().is_none();
            let (old, new, text) = match row.as_bytes().first() {
                // The end of a text that ends in a newline is no line.
                None if last => continue,
                None => (true, true, ""),
                Some(b' ') => (true, true, &row[1..]),
                Some(b'+') => (false, true, &row[1..]),
                Some(b'-') => (true, false, &row[1..]),
                Some(b'\\') => continue,
                Some(_) => return Err(HunkError::BadLine(index + 2)),
            };
            lines.push(Line { old, new, text: text.to_owned() });
        }
        Ok(Self { old_start, new_start, lines })
    }

    /// The lines of one side.
    pub fn side(&self, side: Side) -> Vec<&str> {
        let on = |line: &&Line| if side == Side::Old { line.old } else { line.new };
        self.lines.iter().filter(on).map(|line| line.text.as_str()).collect()
    }

    /// The number of the first line of one side, from 1.
    pub fn start(&self, side: Side) -> usize {
        if side == Side::Old { self.old_start } else { self.new_start }
    }

    /// The number of the last line of one side, by the header; `None` where the side has no line.
    pub fn last(&self, side: Side) -> Option<usize> {
        let count = self.side(side).len();
        (count > 0).then(|| self.start(side).saturating_add(count - 1))
    }
}

/// The starts in `@@ -A,B +C,D @@`.
fn header_starts(header: &str) -> Option<(usize, usize)> {
    let inside = header.strip_prefix("@@ ")?;
    let end = inside.find(" @@")?;
    let (old, new) = inside[..end].split_once(' ')?;
    let start = |text: &str, mark: char| text.strip_prefix(mark)?.split(',').next()?.parse().ok();
    Some((start(old, '-')?, start(new, '+')?))
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The comment's hunk.
    pub hunk: &'a Hunk,
    /// The side of the comment.
    pub side: Side,
    /// How many lines are commented: 1 for a comment on one line.
    pub lines: usize,
    /// The last commented line as the host numbers it, where it does.
    pub line: Option<usize>,
}

/// How well a file holds a hunk; better ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quality {
    /// The commented lines and enough of the lines above, at one place only; of a thousand.
    Fuzzy(u16),
    /// Every line, but elsewhere than the hunk says.
    Moved,
    /// Every line, where the hunk says.
    Exact,
}

/// The commented lines in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// How well it fits.
    pub quality: Quality,
    /// The first commented line, from 1.
    pub first: usize,
    /// The last commented line.
    pub last: usize,
}

/// A file's lines without their ends.
pub fn lines_of(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// The lines above the commented ones must agree this well where the hunk is found roughly.
const ENOUGH: u16 = 600;
/// The second best place must be worse by this much.
const CLEARLY: u16 = 200;
/// No more lines than these are compared above the commented ones.
const CONTEXT: usize = 40;
/// At most so many places are compared roughly; commented lines that occur more often say nothing.
const PLACES: usize = 200;

/// Where the commented lines are in a file (the old file for comments on the old side); `None` when they are not in it,
/// or when nobody can say which of several places is meant.
pub fn fit(asked: &Asked<'_>, file: &[&str]) -> Option<Fit> {
    let needle = asked.hunk.side(asked.side);
    let count = asked.lines.clamp(1, needle.len().max(1));
    if needle.is_empty() || needle.len() > file.len().saturating_add(CONTEXT) {
        return None;
    }
    let at = |start: usize, quality| {
        let last = start + needle.len();
        Fit { quality, first: last + 1 - count, last }
    };
    let stands = |start: usize| {
        let there = start.checked_add(needle.len()).and_then(|end| file.get(start..end));
        there.is_some_and(|there| there == needle.as_slice())
    };
    // The header's numbers, or the host's where it showed the hunk without its beginning.
    let hints =
        [Some(asked.hunk.start(asked.side).saturating_sub(1)), asked.line.and_then(|l| l.checked_sub(needle.len()))];
    if let Some(start) = hints.into_iter().flatten().find(|start| stands(*start)) {
        return Some(at(start, Quality::Exact));
    }
    if needle.iter().any(|line| says_something(line)) {
        let mut places = (0..=file.len().saturating_sub(needle.len())).filter(|start| stands(*start));
        match (places.next(), places.next()) {
            (Some(start), None) => return Some(at(start, Quality::Moved)),
            (Some(_), Some(_)) => return None,
            _ => {}
        }
    }
    roughly(&needle, count, file)
}

/// Whether a line tells one place from another: braces and blank lines do not.
fn says_something(line: &str) -> bool {
    line.chars().filter(|c| c.is_alphanumeric()).count() >= 3
}

/// The words of a line: white space aside, two lines are the same when these are.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The one place where the commented lines stand and the lines above agree well enough.
fn roughly(needle: &[&str], count: usize, file: &[&str]) -> Option<Fit> {
    let (above, commented) = needle.split_at(needle.len() - count);
    if !commented.iter().any(|line| says_something(line)) {
        return None;
    }
    let commented: Vec<_> = commented.iter().map(|line| words(line)).collect();
    let above: Vec<_> = above[above.len().saturating_sub(CONTEXT)..].iter().map(|line| words(line)).collect();
    let file: Vec<_> = file.iter().map(|line| words(line)).collect();
    let places: Vec<usize> =
        (0..file.len()).filter(|start| file[*start..].starts_with(&commented)).take(PLACES + 1).collect();
    if places.len() > PLACES {
        return None;
    }
    let score = |start: usize| {
        if above.is_empty() {
            return 1000;
        }
        let window = &file[start.saturating_sub(above.len() + above.len() / 2 + 2)..start];
        (1000 * common(&above, window) / above.len()) as u16
    };
    let mut scored: Vec<(u16, usize)> = places.into_iter().map(|start| (score(start), start)).collect();
    scored.sort_unstable_by(|a, b| b.cmp(a));
    let (best, start) = *scored.first()?;
    let clear = scored.get(1).is_none_or(|(second, _)| second + CLEARLY <= best);
    // With nothing above to compare, one place is enough where the lines themselves are enough to tell.
    (best >= ENOUGH && clear).then(|| Fit {
        quality: Quality::Fuzzy(best.min(999)),
        first: start + 1,
        last: start + commented.len(),
    })
}

/// The length of the longest common subsequence.
fn common(a: &[Vec<&str>], b: &[Vec<&str>]) -> usize {
    let mut row = vec![0_usize; b.len() + 1];
    for left in a {
        let mut diagonal = 0;
        for (at, right) in b.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if left == right { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "hunk_tests.rs"]
mod tests;
