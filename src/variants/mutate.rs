//! Mutants: the fix with one small mistake.

use std::collections::HashSet;

use tree_sitter::Node;

use super::definition::{Languages, To};
use super::fix::{Edit, Fix};
use super::syntax::{Tree, replace};
use super::{Class, Variant};
use crate::model::digest_json;
use crate::repo::TreePath;

/// Mistakes that could be made are looked at until as many are found as are wanted; this many at most.
const LOOKED_AT: usize = 400;

/// One mistake that could be made.
struct Candidate<'f> {
    edit: &'f Edit,
    start: usize,
    end: usize,
    to: String,
    operator: String,
    line: usize,
}

/// At most `most` mutants of a fix, drawn by `seed`, and how many there are to draw from. A mutant changes one place of
/// a line that `takes` takes (file and line, from 0), parses, and differs from the fix and from all others.
pub fn mutants(
    fix: &Fix,
    languages: &Languages,
    takes: &dyn Fn(&TreePath, usize) -> bool,
    seed: u64,
    most: usize,
) -> (Vec<Variant>, usize) {
    let mut all: Vec<Candidate<'_>> = fix.edits.iter().flat_map(|edit| candidates(edit, languages, takes)).collect();
    all.sort_by_cached_key(|candidate| {
        let path = candidate.edit.path.to_string();
        digest_json(&serde_json::json!([seed, path, candidate.start, candidate.end, candidate.operator, candidate.to]))
            .as_str()
            .to_owned()
    });
    let count = all.len();
    let (mut made, mut seen) = (Vec::new(), HashSet::new());
    for candidate in all.into_iter().take(LOOKED_AT) {
        if made.len() == most {
            break;
        }
        let Candidate { edit, start, end, to, operator, line } = candidate;
        let text = replace(&edit.new, vec![(start..end, to.clone())]);
        if text == edit.old || languages.breaks(&edit.path, &edit.new, &text) {
            continue;
        }
        let changes = fix.with(edit, text);
        if !seen.insert(changes.digest()) {
            continue;
        }
        let was = edit.new.get(start..end).unwrap_or_default();
        let about = format!("{operator} at line {} of {}: `{}` → `{}`", line + 1, edit.path, short(was), short(&to));
        let name = format!("{operator} {}:{}@{start}", edit.path, line + 1);
        made.push(Variant { class: Class::Mutant, name, about, changes });
    }
    (made, count)
}

fn short(text: &str) -> String {
    const LONGEST: usize = 60;
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= LONGEST {
        one_line
    } else {
        one_line.chars().take(LONGEST).collect::<String>() + "…"
    }
}

fn candidates<'f>(
    edit: &'f Edit,
    languages: &Languages,
    takes: &dyn Fn(&TreePath, usize) -> bool,
) -> Vec<Candidate<'f>> {
    let Some(language) = languages.of(&edit.path) else { return Vec::new() };
    let Some(tree) = Tree::new(language, &edit.new) else { return Vec::new() };
    let ignored: Vec<Node<'_>> =
        language.ignore.iter().flat_map(|query| tree.captured(query, tree.root(), "ignore")).collect();
    let mut found = Vec::new();
    for mutation in &language.mutations {
        for captures in tree.matches(&mutation.query, tree.root()) {
            let Some((_, target)) = captures.iter().find(|(name, _)| name == "target") else { continue };
            let (line, range) = (target.start_position().row, target.byte_range());
            let is_ignored =
                ignored.iter().any(|node| node.start_byte() <= range.start && range.end <= node.end_byte());
            if is_ignored || !edit.is_new(line) || !takes(&edit.path, line) {
                continue;
            }
            let was = tree.text_of(*target);
            let to = match &mutation.to {
                To::Map(map) => match map.get(was) {
                    Some(to) => to.clone(),
                    None => continue,
                },
                To::Text(template) => captures.iter().fold(template.clone(), |text, (name, node)| {
                    text.replace(&format!("{{{name}}}"), tree.text_of(*node))
                }),
            };
            if to != was {
                let operator = mutation.operator.clone();
                found.push(Candidate { edit, start: range.start, end: range.end, to, operator, line });
            }
        }
    }
    found
}
