//! A patch as coloured lines.

use serde::Serialize;

use super::bounds::PATCH_BYTES;
use super::text::{cut, visible};

/// A patch, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PatchView {
    /// Neighbouring lines of one kind.
    pub chunks: Vec<Chunk>,
    /// Bytes that are not shown.
    pub left_out: usize,
    /// Lines that are added, over the whole patch.
    pub added: usize,
    /// Lines that are removed, over the whole patch.
    pub removed: usize,
    /// The file in the run folder that holds all of it.
    pub path: String,
}

/// Neighbouring lines of one kind, with their line ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chunk {
    /// `add`, `del`, `hunk`, `file` or `same`.
    pub kind: &'static str,
    /// The lines as the patch has them.
    pub text: String,
}

/// Shows a patch. It is shown as it was given, whether or not it applies, so that lines are told apart by how they
/// begin and where they stand: `---` and `+++` name files only outside a hunk.
pub fn view(patch: &[u8], path: String) -> PatchView {
    let mut kinds = Kinds::default();
    let (mut added, mut removed) = (0, 0);
    for line in patch.split(|b| *b == b'\n') {
        match kinds.of(line) {
            "add" => added += 1,
            "del" => removed += 1,
            _ => {}
        }
    }
    let shown = cut(patch, PATCH_BYTES, PATCH_BYTES);
    let text = visible(&shown.head);
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut kinds = Kinds::default();
    for line in text.split_inclusive('\n') {
        let kind = kinds.of(line.trim_end_matches('\n').as_bytes());
        match chunks.last_mut() {
            Some(last) if last.kind == kind => last.text.push_str(line),
            _ => chunks.push(Chunk { kind, text: line.to_owned() }),
        }
    }
    PatchView { chunks, left_out: shown.left_out, added, removed, path }
}

/// Tells lines apart. Inside a hunk its header's counts say what `--- x` means: a removed line that begins with `-- x`.
#[derive(Default)]
struct Kinds {
    old_left: usize,
    new_left: usize,
}

impl Kinds {
    fn of(&mut self, line: &[u8]) -> &'static str {
        let inside = self.old_left > 0 || self.new_left > 0;
        match line.first() {
            Some(b'@') if line.starts_with(b"@@") => {
                (self.old_left, self.new_left) = counts(line).unwrap_or((0, 0));
                "hunk"
            }
            Some(b'-') if !inside && line.starts_with(b"--- ") => "file",
            Some(b'+') if !inside && line.starts_with(b"+++ ") => "file",
            Some(b'-') => {
                self.old_left = self.old_left.saturating_sub(1);
                "del"
            }
            Some(b'+') => {
                self.new_left = self.new_left.saturating_sub(1);
                "add"
            }
            Some(b' ') | None if inside => {
                self.old_left = self.old_left.saturating_sub(1);
                self.new_left = self.new_left.saturating_sub(1);
                "same"
            }
            _ if inside => "same",
            _ if FILE_LINES.iter().any(|start| line.starts_with(start.as_bytes())) => "file",
            _ => "same",
        }
    }
}

const FILE_LINES: [&str; 11] = [
    "diff --git ",
    "index ",
    "new file mode ",
    "deleted file mode ",
    "old mode ",
    "new mode ",
    "rename ",
    "copy ",
    "similarity index ",
    "Binary files ",
    "GIT binary patch",
];

/// The two counts of `@@ -1,2 +3,4 @@`.
fn counts(line: &[u8]) -> Option<(usize, usize)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split(' ').skip(1);
    let mut count = |sign| {
        let range = words.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
    };
    Some((count('-')?, count('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_by_where_they_stand() {
        let patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ fn\n same\n--- was a comment\n+++ is a list\n\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n";
        let shown = view(patch, "blobs/x".to_owned());
        let kinds: Vec<_> = shown.chunks.iter().map(|c| (c.kind, c.text.lines().count())).collect();
        assert_eq!(
            kinds,
            [
                ("file", 3),
                ("hunk", 1),
                ("same", 1),
                ("del", 1),
                ("add", 1),
                ("same", 1),
                ("file", 2),
                ("hunk", 1),
                ("del", 1),
                ("add", 1),
                ("same", 1)
            ]
        );
        assert_eq!((shown.added, shown.removed, shown.left_out), (2, 2, 0));
    }

    #[test]
    fn a_huge_line_is_cut_and_counted() {
        let patch = [b"@@ -0,0 +1,2 @@\n+".to_vec(), vec![b'x'; 1 << 20], b"\n+y\n".to_vec()].concat();
        let shown = view(&patch, String::new());
        assert_eq!((shown.added, shown.left_out), (2, patch.len() - PATCH_BYTES));
        assert!(shown.chunks.iter().map(|c| c.text.len()).sum::<usize>() <= PATCH_BYTES);
    }

    #[test]
    fn a_patch_that_is_none_is_shown_all_the_same() {
        let shown = view(b"\x1b[31m<script>\xff\n@@ nonsense\n+a", String::new());
        assert_eq!(shown.chunks[0], Chunk { kind: "same", text: "⟨ESC⟩[31m<script>\u{fffd}\n".to_owned() });
        assert_eq!(shown.added, 1);
    }
}
