//! Which lines of a fix hold code, so that it can be said how many of them ran.

use super::definition::Languages;
use super::fix::Edit;
use super::syntax::{Tree, is_comment};

/// A changed line that holds code. Lines count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLine {
    /// The line.
    pub line: usize,
    /// The first line of its statement: it ran when one of these lines up to it did.
    pub statement: usize,
}

/// The changed lines of an edit that hold code: no comments, no docstrings. Nothing where the language is not known.
pub fn code_lines(edit: &Edit, languages: &Languages) -> Vec<CodeLine> {
    let Some(language) = languages.of(&edit.path) else { return Vec::new() };
    let Some(tree) = Tree::new(language, &edit.new) else { return Vec::new() };
    let ignored: Vec<usize> = language
        .ignore
        .iter()
        .flat_map(|query| tree.captured(query, tree.root(), "ignore"))
        .map(|node| node.id())
        .collect();
    let mut statements: Vec<(usize, usize)> = Vec::new(); // depth and first line of those that are open
    let mut kinds: Vec<&str> = Vec::new();
    let mut found: Vec<CodeLine> = Vec::new();
    tree.walk(|node, depth| {
        statements.retain(|(open, _)| *open < depth);
        if is_comment(node) || ignored.contains(&node.id()) {
            return false;
        }
        let row = node.start_position().row;
        kinds.truncate(depth);
        if kinds.last().is_some_and(|parent| language.statements.iter().any(|kind| kind == parent)) {
            statements.push((depth, row));
        }
        kinds.push(node.kind());
        if node.child_count() == 0 && !node.byte_range().is_empty() {
            let statement = statements.last().map_or(row, |(_, first)| *first);
            for line in row..=node.end_position().row {
                if edit.is_new(line) && found.last().is_none_or(|last| last.line != line) {
                    found.push(CodeLine { line, statement });
                }
            }
        }
        true
    });
    found
}
