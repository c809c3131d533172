//! Rewrites that leave the meaning of a fix as it is. Each is proven by the parser: the syntax tree is the same but for what
//! the rewrite is allowed to change.

use std::ops::Range;

use tree_sitter::Node;

use super::definition::{Language, Languages};
use super::fix::{Edit, Fix, lines};
use super::rename::renamed;
use super::syntax::{Tree, is_comment, replace};
use super::{Class, Variant};
use crate::repo::{Change, ChangeSet};

/// The rewrites of a fix that its languages have and that change something.
pub fn rewrites(fix: &Fix, languages: &Languages) -> Vec<Variant> {
    type Way = fn(&Edit, &Language) -> Option<String>;
    let ways: [(&str, &str, Way); 6] = [
        ("line-breaks", "a line break after each comma inside brackets of the fix's lines", line_breaks),
        ("joined-lines", "brackets of the fix that span several lines on one line", joined_lines),
        ("quotes", "the other quotes around plain strings of the fix's lines", quotes),
        ("comments", "a blank line and a comment before each change of the fix", comments),
        ("import-order", "names of one import in another order, in the files of the fix", import_order),
        ("renamed-locals", "other names for local variables of functions that the fix touches", renamed),
    ];
    let made = ways.into_iter().filter_map(|(name, about, way)| {
        let mut set = fix.merged.clone();
        for edit in &fix.edits {
            let Some(language) = languages.of(&edit.path) else { continue };
            if let Some(text) = way(edit, language) {
                put(&mut set, edit, text);
            }
        }
        let (name, about) = (name.to_owned(), about.to_owned());
        (set != fix.merged).then_some(Variant { class: Class::Rewrite, name, about, changes: set })
    });
    made.collect()
}

fn put(set: &mut ChangeSet, edit: &Edit, text: String) {
    // What a rewrite makes of a fix can be the text before it; then the fix was a rewrite itself.
    if text == edit.old {
        set.changes.remove(&edit.path);
    } else if let Some(Change::Write(file)) = set.changes.get_mut(&edit.path) {
        file.content = text.into_bytes();
    }
}

/// The edit's new text with parts replaced, where it still parses to the same tree.
fn proven(
    edit: &Edit,
    language: &Language,
    parts: Vec<(Range<usize>, String)>,
    same: impl Fn(&str, &str) -> bool,
) -> Option<String> {
    if parts.is_empty() {
        return None;
    }
    let before = Tree::new(language, &edit.new).filter(|tree| !tree.has_error())?;
    let text = replace(&edit.new, parts);
    let after = Tree::new(language, &text)?;
    let is_proven = text != edit.new && before.is_same(&after, same);
    is_proven.then_some(text)
}

/// Nodes of the bracket kinds that stand on lines of the fix and in no string.
fn brackets<'t>(tree: &'t Tree<'_>, edit: &Edit, language: &Language) -> Vec<Node<'t>> {
    let mut found = Vec::new();
    tree.walk(|node, _| {
        let (first, last) = (node.start_position().row, node.end_position().row);
        if !(first..=last).any(|line| edit.is_new(line)) || node.kind().contains("string") {
            return false;
        }
        if language.brackets.iter().any(|kind| kind == node.kind()) {
            found.push(node);
        }
        true
    });
    found
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

fn line_breaks(edit: &Edit, language: &Language) -> Option<String> {
    let tree = Tree::new(language, &edit.new)?;
    let mut parts = Vec::new();
    for node in brackets(&tree, edit, language) {
        let line = lines(&edit.new).get(node.start_position().row).copied().unwrap_or_default();
        let indent: String = line.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
        for pair in children(node).windows(2) {
            let (comma, next) = (pair[0], pair[1]);
            let row = comma.start_position().row;
            if comma.kind() == "," && next.start_position().row == row && edit.is_new(row) && !is_comment(next) {
                parts.push((comma.end_byte()..next.start_byte(), format!("\n{indent}        ")));
            }
        }
    }
    proven(edit, language, parts, |a, b| a == b)
}

fn joined_lines(edit: &Edit, language: &Language) -> Option<String> {
    let tree = Tree::new(language, &edit.new)?;
    let mut parts = Vec::new();
    for node in brackets(&tree, edit, language) {
        let inside = children(node);
        if node.start_position().row == node.end_position().row || inside.iter().any(|child| is_comment(*child)) {
            continue;
        }
        let last = inside.len().saturating_sub(1);
        for (index, pair) in inside.windows(2).enumerate() {
            let gap = pair[0].end_byte()..pair[1].start_byte();
            let is_edge = index == 0 || index + 1 == last;
            if edit.new.get(gap.clone()).is_some_and(|text| text.contains('\n') && text.trim().is_empty()) {
                parts.push((gap, if is_edge { String::new() } else { " ".to_owned() }));
            }
        }
    }
    proven(edit, language, parts, |a, b| a == b)
}

fn quotes(edit: &Edit, language: &Language) -> Option<String> {
    let kind = language.strings.as_deref()?;
    let tree = Tree::new(language, &edit.new)?;
    let mut parts = Vec::new();
    tree.walk(|node, _| {
        if node.kind() != kind {
            return true;
        }
        let text = tree.text_of(node);
        let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
        let is_plain = !inner.is_empty() && !inner.contains(['\'', '"', '\\', '\n', '{']);
        let other = match (text.chars().next(), text.chars().last()) {
            (Some('\''), Some('\'')) => '"',
            (Some('"'), Some('"')) => '\'',
            _ => return false,
        };
        if is_plain && edit.is_new(node.start_position().row) {
            parts.push((node.byte_range(), format!("{other}{inner}{other}")));
        }
        false
    });
    let plain = |text: &str| matches!(text, "'" | "\"");
    proven(edit, language, parts, |a, b| a == b || plain(a) && plain(b))
}

fn comments(edit: &Edit, language: &Language) -> Option<String> {
    let before = Tree::new(language, &edit.new).filter(|tree| !tree.has_error())?;
    let all = lines(&edit.new);
    let mut text = edit.new.clone();
    // From the end, so that what stands above keeps its line numbers.
    for change in edit.own_changes().rev().filter(|change| !change.new.is_empty()) {
        let line = all.get(change.new.start).copied().unwrap_or_default();
        let indent: String = line.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
        let at: usize = all[..change.new.start.min(all.len())].iter().map(|line| line.len()).sum();
        if change.new.start == 0 {
            continue;
        }
        let added = format!("\n{indent}{} The next lines are as before.\n", language.comment);
        let tried = replace(&text, vec![(at..at, added)]);
        if Tree::new(language, &tried).is_some_and(|after| before.is_same(&after, |a, b| a == b)) {
            text = tried;
        }
    }
    (text != edit.new).then_some(text)
}

fn import_order(edit: &Edit, language: &Language) -> Option<String> {
    let tree = Tree::new(language, &edit.new).filter(|tree| !tree.has_error())?;
    let mut parts = Vec::new();
    for query in &language.orderless {
        let mut lists: Vec<(usize, Vec<Node<'_>>)> = Vec::new();
        for item in tree.captured(query, tree.root(), "item") {
            let Some(list) = item.parent().map(|list| list.id()) else { continue };
            match lists.iter_mut().find(|(id, _)| *id == list) {
                Some((_, items)) => items.push(item),
                None => lists.push((list, vec![item])),
            }
        }
        for (_, items) in lists.iter().filter(|(_, items)| items.len() > 1) {
            // `from __future__` and the like are for the compiler.
            if items[0].parent().is_some_and(|list| tree.text_of(list).contains("__")) {
                continue;
            }
            let swapped = items.iter().zip(items.iter().rev());
            parts.extend(swapped.map(|(item, other)| (item.byte_range(), tree.text_of(*other).to_owned())));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let text = replace(&edit.new, parts);
    let is_good = text != edit.new && Tree::new(language, &text).is_some_and(|after| !after.has_error());
    is_good.then_some(text)
}
