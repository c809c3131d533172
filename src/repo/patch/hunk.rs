//! Reads hunks, also those whose header counts are wrong.

use std::collections::BTreeSet;

use super::error::PatchError;
use super::parse::malformed;
use super::types::{Hunk, HunkLine, LineKind};

/// Reads hunks from a patch's lines (without their line ends).
pub(super) struct HunkReader<'a> {
    lines: &'a [&'a [u8]],
    pub repairs: BTreeSet<String>,
}

/// A header's numbers: the start and count of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    old: (usize, usize),
    new: (usize, usize),
}

impl<'a> HunkReader<'a> {
    pub(super) fn new(lines: &'a [&'a [u8]]) -> Self {
        Self { lines, repairs: BTreeSet::new() }
    }

    fn starts(&self, at: usize, with: &[u8]) -> bool {
        self.lines.get(at).is_some_and(|l| l.starts_with(with))
    }

    /// Whether a plain file header (`---`, `+++`, `@@`) is here.
    pub(super) fn is_plain_header(&self, at: usize) -> bool {
        self.starts(at, b"--- ") && self.starts(at + 1, b"+++ ") && self.starts(at + 2, b"@@")
    }

    /// Whether the line ends any hunk: another header, a fence, the signature that `git format-patch` adds.
    fn is_border(&self, at: usize) -> bool {
        let Some(line) = self.lines.get(at) else { return true };
        line.starts_with(b"diff --git ")
            || line.starts_with(b"@@")
            || line.starts_with(b"```")
            || self.is_plain_header(at)
            || self.is_signature(at)
    }

    /// `-- ` and a version number, at the end of a mailed patch.
    fn is_signature(&self, at: usize) -> bool {
        let version = |l: &&[u8]| l.first().is_some_and(u8::is_ascii_digit) && l.len() < 40 && l.contains(&b'.');
        matches!(self.lines.get(at), Some(&b"-- " | &b"--")) && self.lines.get(at + 1).is_some_and(version)
    }

    /// Reads the hunk whose header is at `at`, and moves `at` behind it.
    pub(super) fn read(&mut self, at: &mut usize) -> Result<Hunk, PatchError> {
        let header = *at;
        let (numbers, section) = parse_header(self.lines[header]);
        let strict = numbers.and_then(|n| self.read_counted(header + 1, n));
        let (counted, (lines, end)) = match strict {
            Some(found) => (true, found),
            None => (false, self.read_uncounted(header + 1)?),
        };
        *at = end;
        let start = |side: fn(&Numbers) -> usize| numbers.as_ref().map(side);
        let (old_start, new_start) = (start(|n| n.old.0), start(|n| n.new.0));
        Ok(Hunk { line: header + 1, old_start, new_start, counted, section, lines })
    }

    /// Takes exactly the lines that the header announces; `None` where they are not there, or where more follow.
    fn read_counted(&mut self, mut at: usize, numbers: Numbers) -> Option<(Vec<HunkLine>, usize)> {
        let (mut old, mut new) = (numbers.old.1, numbers.new.1);
        let mut lines: Vec<HunkLine> = Vec::new();
        while old > 0 || new > 0 {
            let Some(line) = self.lines.get(at) else {
                // Trimming a patch's end takes blank context lines with it.
                if old != new || old > 3 || lines.iter().all(|l| l.kind == LineKind::Context) {
                    return None;
                }
                self.repairs.insert("restored blank context lines that the end of the patch had lost".to_owned());
                lines.extend((0..old).map(|_| HunkLine { kind: LineKind::Context, text: b"\n".to_vec() }));
                return Some((lines, at));
            };
            if line.first() == Some(&b'\\') {
                cut_newline(&mut lines)?;
                at += 1;
                continue;
            }
            let parsed = hunk_line(line)?;
            let (takes_old, takes_new) = (parsed.kind != LineKind::Add, parsed.kind != LineKind::Remove);
            old = old.checked_sub(usize::from(takes_old))?;
            new = new.checked_sub(usize::from(takes_new))?;
            lines.push(parsed);
            at += 1;
        }
        if self.starts(at, b"\\") {
            cut_newline(&mut lines)?;
            at += 1;
        }
        let mut next = at;
        while !self.is_border(next) {
            match self.lines[next].first() {
                Some(b'+' | b'-') => return None,
                Some(b' ' | b'\\') => next += 1,
                _ => break,
            }
        }
        Some((lines, at))
    }

    /// Takes every line that can belong to the hunk.
    fn read_uncounted(&self, first: usize) -> Result<(Vec<HunkLine>, usize), PatchError> {
        let mut at = first;
        let mut lines: Vec<HunkLine> = Vec::new();
        while !self.is_border(at) {
            let line = self.lines[at];
            if line.first() == Some(&b'\\') {
                cut_newline(&mut lines).ok_or_else(|| malformed(at, "a `\\` line without a line before it"))?;
            } else if let Some(parsed) = hunk_line(line) {
                lines.push(parsed);
            } else {
                break;
            }
            at += 1;
        }
        // Text after the patch may follow; but if more changes follow, a line of the hunk itself is broken.
        if at < self.lines.len() && !self.is_border(at) {
            let more = (at..self.lines.len()).take_while(|i| !self.is_border(*i)).any(|i| self.is_change(i));
            if more {
                return Err(malformed(at, "a line inside a hunk that starts with none of ` `, `+`, `-`, `\\`"));
            }
        }
        // Blank lines at the end are more likely space between hunks than context that lost its first column.
        let mut end = at;
        while end > first && self.lines[end - 1].is_empty() {
            end -= 1;
            lines.pop();
        }
        if lines.is_empty() {
            return Err(malformed(first - 1, "a hunk without lines"));
        }
        Ok((lines, at))
    }

    fn is_change(&self, at: usize) -> bool {
        matches!(self.lines[at].first(), Some(b'+' | b'-'))
    }
}

/// One line of a hunk; an empty line is a blank context line that lost its first column.
fn hunk_line(line: &[u8]) -> Option<HunkLine> {
    let (kind, text) = match line.split_first() {
        None => (LineKind::Context, line),
        Some((b' ', text)) => (LineKind::Context, text),
        Some((b'+', text)) => (LineKind::Add, text),
        Some((b'-', text)) => (LineKind::Remove, text),
        Some((b'\r', [])) => (LineKind::Context, line),
        Some(_) => return None,
    };
    let mut text = text.to_vec();
    text.push(b'\n');
    Some(HunkLine { kind, text })
}

/// `\ No newline at end of file`: the line before has none.
fn cut_newline(lines: &mut [HunkLine]) -> Option<()> {
    let last = lines.last_mut()?;
    (last.text.pop() == Some(b'\n')).then_some(())
}

/// `@@ -1,2 +3,4 @@ section`. Headers of another form count as having no numbers.
fn parse_header(line: &[u8]) -> (Option<Numbers>, Vec<u8>) {
    let parse = || {
        let text = line.strip_prefix(b"@@ -")?;
        let end = text.windows(3).position(|w| w == b" @@")?;
        let ranges = std::str::from_utf8(&text[..end]).ok()?;
        let (old, new) = ranges.split_once(" +")?;
        let range = |text: &str| {
            let (start, count) = text.split_once(',').unwrap_or((text, "1"));
            // Nothing real has more lines, and sums of these cannot overflow.
            let number = |t: &str| t.parse::<usize>().ok().filter(|n| *n <= 1 << 40);
            Some((number(start)?, number(count)?))
        };
        Some((Numbers { old: range(old)?, new: range(new)? }, text[end + 3..].to_vec()))
    };
    match parse() {
        Some((numbers, section)) => (Some(numbers), section),
        None => (None, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Hunk, usize), PatchError> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let mut at = 0;
        let hunk = HunkReader::new(&lines).read(&mut at)?;
        Ok((hunk, at))
    }

    #[test]
    fn headers() {
        let numbers = |t: &str| parse_header(t.as_bytes()).0.map(|n| (n.old, n.new));
        assert_eq!(numbers("@@ -1,2 +3,4 @@ fn x()"), Some(((1, 2), (3, 4))));
        assert_eq!(numbers("@@ -7 +8 @@"), Some(((7, 1), (8, 1))));
        assert_eq!(numbers("@@ -99999999999999999999 +8 @@"), None);
        assert_eq!(numbers("@@ ... @@"), None);
    }

    #[test]
    fn right_counts_end_a_hunk_before_prose_and_signatures() {
        let (hunk, end) = read("@@ -1,2 +1,2 @@\n a\n-b\n+c\n-- \n2.40.1\n").unwrap();
        assert_eq!((hunk.counted, hunk.lines.len(), end), (true, 3, 4));
        let (hunk, end) = read("@@ -1 +1 @@\n-- x\n+++ y\nprose\n").unwrap();
        assert_eq!((hunk.counted, hunk.lines[0].text.as_slice(), end), (true, &b"- x\n"[..], 3));
    }

    #[test]
    fn wrong_counts_are_counted_again() {
        let (hunk, _) = read("@@ -1,9 +1,9 @@\n a\n-b\n+c\n\n```\n").unwrap();
        assert_eq!((hunk.counted, hunk.lines.len()), (false, 3));
        let (hunk, _) = read("@@ -1 +1 @@\n-b\n+c\n+d\n").unwrap();
        assert_eq!((hunk.counted, hunk.lines.len()), (false, 3), "too small counts must not lose lines");
    }

    #[test]
    fn a_broken_line_between_changes_is_an_error() {
        let error = read("@@ -1,9 +1,9 @@\n a\n+b\nlost its column\n+c\n").unwrap_err();
        assert!(matches!(error, PatchError::Malformed { line: 4, .. }), "{error}");
    }

    #[test]
    fn trimmed_blank_context_comes_back() {
        let (hunk, _) = read("@@ -1,3 +1,4 @@\n a\n+b\n c").unwrap();
        assert_eq!((hunk.counted, hunk.lines.len()), (true, 4));
        assert_eq!(hunk.lines[3], HunkLine { kind: LineKind::Context, text: b"\n".to_vec() });
    }

    #[test]
    fn no_newline_marks() {
        let (hunk, end) = read("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline\n").unwrap();
        assert_eq!((hunk.lines[0].text.as_slice(), hunk.lines[1].text.as_slice(), end), (&b"a"[..], &b"b"[..], 5));
    }
}
