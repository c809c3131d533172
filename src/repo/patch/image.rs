//! Places hunks in a file's lines.
//!
//! The exact level behaves as `git apply` does: full context, the nearest place to the stated line wins, a hunk that
//! starts at line 1 must match at the beginning and one without context after it at the end. The other levels are the
//! steps of [`ApplyMethod`].

use super::ApplyMethod;
use super::types::{Hunk, HunkLine, LineKind};

/// How many lines may be compared for one file before we give up: a guard against patches made to be slow. Moving lines
/// counts, too.
const COMPARISONS: u64 = 200_000_000;
/// How many lines are moved in the time of one comparison.
const LINES_MOVED_FOR_ONE: u64 = 4;
const TOO_SLOW: &str = "it takes too long to put the hunks where they go";

/// A file's lines while hunks are put into it.
pub(super) struct Image {
    lines: Vec<Line>,
    /// By how many lines the hunks so far made the file longer.
    grown: isize,
    budget: u64,
}

struct Line {
    text: Vec<u8>,
    /// Put there by this patch: later hunks do not match it.
    fresh: bool,
}

/// A part of a hunk and the way to compare it.
struct Attempt<'a> {
    lines: &'a [HunkLine],
    /// Context lines left off at the start.
    skipped: usize,
    same: fn(&[u8], &[u8]) -> bool,
    begin: bool,
    end: bool,
    choice: Choice,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The stated line and no other: for hunks made without context, which say nothing about where they belong.
    Stated,
    /// The place nearest to the stated line.
    Nearest,
    /// The stated line, or the only place.
    StatedOrOnly,
    /// The only place.
    Only,
}

impl Image {
    pub(super) fn new(content: &[u8]) -> Self {
        let lines = content.split_inclusive(|b| *b == b'\n').map(|l| Line { text: l.to_vec(), fresh: false }).collect();
        Self { lines, grown: 0, budget: COMPARISONS }
    }

    pub(super) fn into_content(self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.lines.iter().map(|l| l.text.len()).sum());
        self.lines.iter().for_each(|l| content.extend_from_slice(&l.text));
        content
    }

    /// Puts one hunk in, by the strictest method up to `most` that fits. Gives the method and the line (from 1) where
    /// it went when that is not the stated one.
    pub(super) fn apply(&mut self, hunk: &Hunk, most: ApplyMethod) -> Result<(ApplyMethod, Option<usize>), String> {
        if !hunk.counted && most < ApplyMethod::Recount {
            return Err(match hunk.old_start {
                Some(_) => format!("the counts in the hunk header at line {} are wrong", hunk.line),
                None => format!("the hunk header at line {} has no line numbers", hunk.line),
            });
        }
        let least = if hunk.counted { ApplyMethod::Exact } else { ApplyMethod::Recount };
        let stated = self.stated(hunk);
        let leading = hunk.lines.iter().take_while(|l| l.kind == LineKind::Context).count();
        let trailing = hunk.lines.iter().rev().take_while(|l| l.kind == LineKind::Context).count();
        let begin = matches!(hunk.old_start, Some(0 | 1));
        let end = trailing == 0;
        let full = |same, choice| Attempt { lines: &hunk.lines, skipped: 0, same, begin, end, choice };
        let near = match stated {
            Some(_) if leading == 0 && trailing == 0 => Choice::Stated,
            Some(_) => Choice::Nearest,
            None => Choice::Only,
        };
        let exact = full(same_bytes, near);
        let mut tries = vec![(least, exact)];
        if most >= ApplyMethod::LineEnds {
            tries.push((ApplyMethod::LineEnds, full(same_but_line_end, near)));
        }
        if most >= ApplyMethod::Whitespace {
            tries.push((
                ApplyMethod::Whitespace,
                full(same_but_space, if near == Choice::Nearest { Choice::StatedOrOnly } else { near }),
            ));
        }
        if most >= ApplyMethod::ReducedContext {
            // First all the context without the anchors, then less and less of it, but never none.
            let widest = leading.max(trailing);
            for context in (1..=widest).rev() {
                let (skip, cut) = (leading.saturating_sub(context), trailing.saturating_sub(context));
                if skip + cut >= hunk.lines.len() {
                    // Context alone, from both ends: nothing would be left of it.
                    break;
                }
                let lines = &hunk.lines[skip..hunk.lines.len() - cut];
                if skip + cut > 0 && lines.iter().all(|l| l.kind == LineKind::Add || l.text.trim_ascii().is_empty()) {
                    break;
                }
                let choice = Choice::Only;
                let same = same_but_line_end;
                tries.push((
                    ApplyMethod::ReducedContext,
                    Attempt { lines, skipped: skip, same, begin: false, end: false, choice },
                ));
            }
            if widest == 0 {
                // Made without context (`diff -U0`): the line numbers are all there is.
                let lines = &hunk.lines[..];
                let choice = Choice::StatedOrOnly;
                tries.push((
                    ApplyMethod::ReducedContext,
                    Attempt { lines, skipped: 0, same: same_but_line_end, begin: false, end: false, choice },
                ));
            }
        }
        let mut ambiguous = false;
        for (method, attempt) in &tries {
            match self.find(attempt, stated)? {
                Found::At(at) => {
                    let moved = stated.map(|s| s + attempt.skipped) != Some(at);
                    self.spend((self.lines.len() - at) as u64 / LINES_MOVED_FOR_ONE)?;
                    self.splice(attempt.lines, at);
                    return Ok((*method, moved.then_some(at + 1)));
                }
                Found::Several => ambiguous = true,
                Found::Nowhere => {}
            }
        }
        let place = hunk.old_start.map_or_else(|| "somewhere".to_owned(), |n| format!("near line {n}"));
        let what = if ambiguous { "fits in more than one place" } else { "does not match" };
        Err(format!("the hunk at line {} of the patch ({place} of the file) {what}", hunk.line))
    }

    /// The index of the line where the hunk should start, by its header and what came before it.
    fn stated(&self, hunk: &Hunk) -> Option<usize> {
        let start = hunk.old_start?;
        // Without old lines the header names the line *after* which the new ones go.
        let index = if hunk.count(LineKind::Remove) == 0 { start } else { start.saturating_sub(1) };
        let index = isize::try_from(index).ok()?.saturating_add(self.grown);
        Some(usize::try_from(index).unwrap_or(0).min(self.lines.len()))
    }

    fn find(&mut self, attempt: &Attempt<'_>, stated: Option<usize>) -> Result<Found, String> {
        let pattern: Vec<&[u8]> =
            attempt.lines.iter().filter(|l| l.kind != LineKind::Add).map(|l| l.text.as_slice()).collect();
        let Some(last) = self.lines.len().checked_sub(pattern.len()) else { return Ok(Found::Nowhere) };
        let stated = stated.map(|s| s + attempt.skipped);
        if pattern.is_empty() {
            // Nothing to compare. With the anchors only an empty file (or the end) will do.
            let at = match (attempt.begin, attempt.end) {
                (true, _) => Some(0).filter(|_| self.lines.is_empty()),
                (false, true) => stated.filter(|s| *s == self.lines.len()),
                (false, false) => stated,
            };
            return Ok(at.map_or(Found::Nowhere, Found::At));
        }
        let (low, high) = match (attempt.begin, attempt.end) {
            (true, true) if last > 0 => return Ok(Found::Nowhere),
            (true, _) => (0, 0),
            (false, true) => (last, last),
            (false, false) => (0, last),
        };
        let from = stated.unwrap_or(low).clamp(low, high);
        let mut first = None;
        // Outwards from the stated line, upwards first where both are as near.
        let reach = (from - low).max(high - from);
        for distance in 0..=reach {
            let up = from.checked_sub(distance).filter(|at| *at >= low);
            let down = Some(from + distance).filter(|at| distance > 0 && *at <= high);
            for at in [up, down].into_iter().flatten() {
                if !self.matches(&pattern, at, attempt.same)? {
                    continue;
                }
                match (attempt.choice, first) {
                    (Choice::Stated, _) if stated == Some(at) => return Ok(Found::At(at)),
                    (Choice::Stated, _) => {}
                    (Choice::Nearest, _) => return Ok(Found::At(at)),
                    (Choice::StatedOrOnly, None) if stated == Some(at) => return Ok(Found::At(at)),
                    (_, None) => first = Some(at),
                    (_, Some(_)) => return Ok(Found::Several),
                }
            }
        }
        Ok(first.map_or(Found::Nowhere, Found::At))
    }

    fn matches(&mut self, pattern: &[&[u8]], at: usize, same: fn(&[u8], &[u8]) -> bool) -> Result<bool, String> {
        let window = &self.lines[at..at + pattern.len()];
        for (line, want) in window.iter().zip(pattern) {
            self.budget = self.budget.checked_sub(1).ok_or(TOO_SLOW)?;
            if line.fresh || !same(&line.text, want) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn spend(&mut self, work: u64) -> Result<(), String> {
        self.budget = self.budget.checked_sub(work).ok_or(TOO_SLOW)?;
        Ok(())
    }

    /// Replaces the matched lines. Context lines stay as the file has them; added lines take the file's line ends where
    /// the patch's own context shows that the patch lost (or won) carriage returns.
    fn splice(&mut self, lines: &[HunkLine], at: usize) {
        let matched = lines.iter().filter(|l| l.kind != LineKind::Add).count();
        let old: Vec<Line> = self.lines.drain(at..at + matched).collect();
        let mut shifts = vec![Shift::None; lines.len()];
        let (mut next, mut known) = (0, None);
        for (i, line) in lines.iter().enumerate() {
            if line.kind != LineKind::Add {
                known = Shift::between(&line.text, &old[next].text).or(known);
                next += 1;
            }
            shifts[i] = known.unwrap_or(Shift::None);
        }
        // Lines before the first matched one look ahead.
        let first_matched = lines.iter().position(|l| l.kind != LineKind::Add).unwrap_or(lines.len());
        let mut ahead = None;
        let mut next = old.len();
        for (i, line) in lines.iter().enumerate().rev() {
            if line.kind != LineKind::Add {
                next -= 1;
                ahead = Shift::between(&line.text, &old[next].text).or(ahead);
            } else if i < first_matched {
                shifts[i] = ahead.unwrap_or(Shift::None);
            }
        }
        let mut kept = old.into_iter();
        let mut new = Vec::with_capacity(lines.len());
        for (line, shift) in lines.iter().zip(shifts) {
            match line.kind {
                LineKind::Context => new.extend(kept.next()),
                LineKind::Remove => drop(kept.next()),
                LineKind::Add => new.push(Line { text: shift.apply(&line.text), fresh: true }),
            }
        }
        self.grown += isize::try_from(new.len()).unwrap_or(0) - isize::try_from(matched).unwrap_or(0);
        let end = at + new.len();
        self.lines.splice(at..at, new);
        // A line in the middle needs its newline, also if it was the last one before.
        let total = self.lines.len();
        for i in at.saturating_sub(1)..end.min(total.saturating_sub(1)) {
            if !self.lines[i].text.ends_with(b"\n") {
                let crlf = self.lines[i + 1].text.ends_with(b"\r\n");
                self.lines[i].text.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
            }
        }
    }
}

enum Found {
    At(usize),
    Several,
    Nowhere,
}

/// How the file's line ends differ from the patch's.
#[derive(Clone, Copy)]
enum Shift {
    None,
    ToCrlf,
    ToLf,
}

impl Shift {
    /// What a matched pair shows; nothing where a side has no line end.
    fn between(patch: &[u8], file: &[u8]) -> Option<Self> {
        if !patch.ends_with(b"\n") || !file.ends_with(b"\n") {
            return None;
        }
        Some(match (patch.ends_with(b"\r\n"), file.ends_with(b"\r\n")) {
            (false, true) => Self::ToCrlf,
            (true, false) => Self::ToLf,
            _ => Self::None,
        })
    }

    fn apply(self, text: &[u8]) -> Vec<u8> {
        match (self, text.strip_suffix(b"\r\n"), text.strip_suffix(b"\n")) {
            (Self::ToCrlf, None, Some(bare)) => [bare, b"\r\n"].concat(),
            (Self::ToLf, Some(bare), _) => [bare, b"\n"].concat(),
            _ => text.to_vec(),
        }
    }
}

fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a == b
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn same_but_line_end(a: &[u8], b: &[u8]) -> bool {
    without_line_end(a) == without_line_end(b)
}

/// Equal when runs of white space count as one, and white space at the end not at all (as `--ignore-space-change`).
fn same_but_space(a: &[u8], b: &[u8]) -> bool {
    let (mut a, mut b) = (a.trim_ascii_end(), b.trim_ascii_end());
    loop {
        let (rest_a, rest_b) = (a.trim_ascii_start(), b.trim_ascii_start());
        if (rest_a.len() < a.len()) != (rest_b.len() < b.len()) {
            return false;
        }
        match (rest_a.split_first(), rest_b.split_first()) {
            (None, None) => return true,
            (Some((x, next_a)), Some((y, next_b))) if x == y => (a, b) = (next_a, next_b),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(start: usize, text: &str) -> Hunk {
        let kind = |c| match c {
            "-" => LineKind::Remove,
            "+" => LineKind::Add,
            _ => LineKind::Context,
        };
        let lines = text.split_inclusive('\n').map(|l| HunkLine { kind: kind(&l[..1]), text: l[1..].into() }).collect();
        Hunk { line: 1, old_start: Some(start), new_start: Some(start), counted: true, section: Vec::new(), lines }
    }

    fn apply(file: &str, hunk: &Hunk, most: ApplyMethod) -> Result<(String, ApplyMethod), String> {
        let mut image = Image::new(file.as_bytes());
        let (method, _) = image.apply(hunk, most)?;
        Ok((String::from_utf8(image.into_content()).unwrap(), method))
    }

    #[test]
    fn white_space_comparison() {
        assert!(same_but_space(b"a  b\t\n", b"a b\r\n"));
        assert!(same_but_space(b"\ta\n", b"    a\n"));
        assert!(!same_but_space(b"ab\n", b"a b\n"));
        assert!(!same_but_space(b" a\n", b"a\n"));
    }

    #[test]
    fn crlf_files_stay_crlf_and_their_untouched_lines_stay_as_they_are() {
        let file = "a\r\nb\r\nmixed\nc\r\n";
        let patch = hunk(1, " a\n-b\n+B\n+new\n mixed\n+after\n c\n");
        assert!(apply(file, &patch, ApplyMethod::Recount).is_err());
        let (text, method) = apply(file, &patch, ApplyMethod::LineEnds).unwrap();
        assert_eq!((text.as_str(), method), ("a\r\nB\r\nnew\r\nmixed\nafter\nc\r\n", ApplyMethod::LineEnds));
        // Added lines before any matched one look at the next.
        let (text, _) = apply("a\r\n", &hunk(1, "+x\n a\n"), ApplyMethod::LineEnds).unwrap();
        assert_eq!(text, "x\r\na\r\n");
    }

    #[test]
    fn a_lost_last_newline_does_not_glue_lines() {
        let (text, _) = apply("a\nb", &hunk(1, " a\n b\n+c\n"), ApplyMethod::LineEnds).unwrap();
        assert_eq!(text, "a\nb\nc\n");
    }

    #[test]
    fn exact_places_are_those_of_git_apply() {
        let file = "x\na\nb\nx\na\nb\nx\na\nb\n";
        let (text, _) = apply(file, &hunk(4, " x\n-a\n+A\n b\n"), ApplyMethod::Exact).unwrap();
        assert_eq!(text, "x\na\nb\nx\nA\nb\nx\na\nb\n");
        assert!(apply("0\na\nb\n", &hunk(1, "-a\n+A\n b\n"), ApplyMethod::Exact).is_err(), "must match at line 1");
        assert!(apply("a\nb\nc\n", &hunk(2, " a\n-b\n"), ApplyMethod::Exact).is_err(), "must match at the end");
    }

    #[test]
    fn reduced_context_only_where_it_is_clear() {
        let patch = hunk(2, " one\n two\n-old\n+new\n");
        let (text, method) = apply("0\nONE\ntwo\nold\nz\n", &patch, ApplyMethod::ReducedContext).unwrap();
        assert_eq!((text.as_str(), method), ("0\nONE\ntwo\nnew\nz\n", ApplyMethod::ReducedContext));
        let error = apply("ONE\ntwo\nold\nTWO\ntwo\nold\n", &patch, ApplyMethod::ReducedContext).unwrap_err();
        assert!(error.contains("more than one place"), "{error}");
        assert!(apply("ONE\ntwo\nOLD\n", &patch, ApplyMethod::ReducedContext).is_err(), "removed lines must be there");
    }

    #[test]
    fn without_context_the_line_numbers_count() {
        let file = "{\n}\n{\n}\n{\n}\n";
        let (text, _) = apply(file, &hunk(4, "-}\n+];\n"), ApplyMethod::ReducedContext).unwrap();
        assert_eq!(text, "{\n}\n{\n];\n{\n}\n");
        let (text, _) = apply(file, &hunk(2, "+new\n"), ApplyMethod::ReducedContext).unwrap();
        assert_eq!(text, "{\n}\nnew\n{\n}\n{\n}\n");
        let (text, _) = apply("a\n", &hunk(0, "+new\n"), ApplyMethod::ReducedContext).unwrap();
        assert_eq!(text, "new\na\n");
    }

    #[test]
    fn a_slow_patch_is_given_up() {
        let mut image = Image::new("a\n".repeat(300).as_bytes());
        image.budget = 1000;
        let patch = hunk(5, &(" a\n".repeat(100) + "-b\n+c\n a\n"));
        let error = image.apply(&patch, ApplyMethod::Exact).unwrap_err();
        assert!(error.contains("too long"), "{error}");
    }
}
