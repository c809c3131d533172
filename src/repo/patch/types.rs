//! A parsed patch.

use super::binary::BinaryHunk;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The line of its first header, from 1.
    pub line: usize,
    pub operation: Operation,
    /// The old name without prefix; none on the `/dev/null` side.
    pub old: Option<Vec<u8>>,
    /// The new name without prefix.
    pub new: Option<Vec<u8>>,
    /// Other readings of the name of a file that must exist, tried when the first is not in the tree.
    pub alternates: Vec<Vec<u8>>,
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    /// The `index` line's two object ids, as far as they are given.
    pub index: Option<(String, String)>,
    /// Whether there was a `diff --git` line.
    pub git: bool,
    pub body: Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Modify,
    Create,
    Delete,
    Rename,
    Copy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// Headers alone: a mode change, a plain rename, an empty file.
    None,
    Text(Vec<Hunk>),
    /// A git binary patch: forward, and backward as it was (we never go back; kept for rendering).
    Binary {
        forward: BinaryHunk,
        raw: Vec<u8>,
    },
    /// `Binary files a and b differ`.
    BinaryWithoutData,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The line of its header, from 1.
    pub line: usize,
    /// The first old line, from 1, as the header says; none where it has no numbers.
    pub old_start: Option<usize>,
    /// The first new line, likewise.
    pub new_start: Option<usize>,
    /// Whether the header's counts agree with the lines.
    pub counted: bool,
    /// What follows the header's second `@@`.
    pub section: Vec<u8>,
    pub lines: Vec<HunkLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HunkLine {
    pub kind: LineKind,
    /// With its line end, unless the file ends without one.
    pub text: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Context,
    Remove,
    Add,
}

impl FilePatch {
    /// Whether this is about a submodule's commit.
    pub(super) fn is_submodule(&self) -> bool {
        [self.old_mode, self.new_mode].into_iter().flatten().any(|m| m & 0o170_000 == 0o160_000)
    }

    /// The name to show people.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(self.new.as_deref().or(self.old.as_deref()).unwrap_or_default()).into_owned()
    }
}

impl Hunk {
    pub(super) fn count(&self, side: LineKind) -> usize {
        self.lines.iter().filter(|l| l.kind == LineKind::Context || l.kind == side).count()
    }
}
