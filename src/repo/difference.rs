//! Differences between two texts: which lines changed, and the same as a patch to show.

use std::ops::Range;
use std::path::Path;

/// One change: these old lines became these new ones. Lines count from 0; an empty range lies before the line of its
/// number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineChange {
    /// In the old text.
    pub old: Range<usize>,
    /// In the new text.
    pub new: Range<usize>,
}

/// The changes from one text to another, from the top, without context. Nothing for texts that git takes for binary.
pub fn line_changes(old: &[u8], new: &[u8]) -> Vec<LineChange> {
    let mut options = git2::DiffOptions::new();
    options.context_lines(0).interhunk_lines(0).indent_heuristic(true);
    let Ok(patch) = git2::Patch::from_buffers(old, None, new, None, Some(&mut options)) else { return Vec::new() };
    let range = |start: u32, lines: u32| {
        // git names the line before an empty range, and the first line of any other.
        let start = if lines == 0 { start as usize } else { (start as usize).saturating_sub(1) };
        start..start + lines as usize
    };
    (0..patch.num_hunks())
        .filter_map(|index| patch.hunk(index).ok())
        .map(|(hunk, _)| LineChange {
            old: range(hunk.old_start(), hunk.old_lines()),
            new: range(hunk.new_start(), hunk.new_lines()),
        })
        .collect()
}

/// The change of one file as a patch with three lines of context; empty where nothing changes, or nothing can be shown.
pub fn show_change(path: &Path, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let mut options = git2::DiffOptions::new();
    let (before, after) = (old.unwrap_or_default(), new.unwrap_or_default());
    let patch = git2::Patch::from_buffers(before, Some(path), after, Some(path), Some(&mut options));
    let Ok(mut patch) = patch else { return String::new() };
    patch.to_buf().map(|buffer| String::from_utf8_lossy(&buffer).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_lines() {
        let changes = line_changes(b"a\nb\nc\nd\ne\n", b"a\nx\ny\nc\ne\nf\n");
        let wanted = [(1..2, 1..3), (3..4, 4..4), (5..5, 5..6)];
        assert_eq!(changes, wanted.map(|(old, new)| LineChange { old, new }));
        assert_eq!(line_changes(b"", b"a\n"), [LineChange { old: 0..0, new: 0..1 }]);
        assert_eq!(line_changes(b"a\n", b"a\n"), []);
        assert_eq!(line_changes(b"a\0", b"b\0"), []);
    }

    #[test]
    fn a_change_is_shown_as_git_shows_it() {
        let shown = show_change(Path::new("d/a.py"), Some(b"a\nb\n"), Some(b"a\nc\n"));
        assert!(shown.starts_with("diff --git a/d/a.py b/d/a.py\n") && shown.ends_with("\n a\n-b\n+c\n"), "{shown}");
        assert_eq!(show_change(Path::new("a"), Some(b"a"), Some(b"a")), "");
    }
}
