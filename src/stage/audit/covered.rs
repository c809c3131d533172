//! Which lines of the fix the test ran. Pure.

use std::collections::BTreeMap;

use super::card::Coverage;
use crate::oracle::Trace;
use crate::repo::TreePath;
use crate::variants::{CodeLine, Fix, Languages, code_lines};

/// The lines of code of a fix, by file.
pub(super) struct FixLines(BTreeMap<TreePath, Vec<CodeLine>>);

impl FixLines {
    pub(super) fn new(fix: &Fix, languages: &Languages) -> Self {
        Self(fix.edits.iter().map(|edit| (edit.path.clone(), code_lines(edit, languages))).collect())
    }

    /// The files that have some, as a tracer names them.
    pub(super) fn paths(&self) -> Vec<String> {
        let some = self.0.iter().filter(|(_, lines)| !lines.is_empty());
        some.filter_map(|(path, _)| path.to_str().map(str::to_owned)).collect()
    }

    /// Whether a line (from 0) is one of code.
    pub(super) fn has(&self, path: &TreePath, line: usize) -> bool {
        self.find(path, line).is_some()
    }

    /// Whether a line of code ran: a line of its statement up to it did.
    pub(super) fn ran(&self, trace: &Trace, path: &TreePath, line: usize) -> bool {
        let (Some(found), Some(name)) = (self.find(path, line), path.to_str()) else { return false };
        (found.statement..=found.line).any(|line| u32::try_from(line + 1).is_ok_and(|line| trace.ran(name, line)))
    }

    fn find(&self, path: &TreePath, line: usize) -> Option<&CodeLine> {
        self.0.get(path)?.iter().find(|code| code.line == line)
    }

    pub(super) fn coverage(&self, trace: Option<&Trace>) -> Coverage {
        let all = || self.0.iter().flat_map(|(path, lines)| lines.iter().map(move |code| (path, code.line)));
        let executed = trace.map(|trace| all().filter(|(path, line)| self.ran(trace, path, *line)).count() as u64);
        Coverage { changed: all().count() as u64, executed }
    }
}
