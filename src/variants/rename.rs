//! Other names for local variables, where it is certain that nothing else goes by these names.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use super::definition::Language;
use super::fix::Edit;
use super::syntax::{Tree, replace};

/// What a new name has behind the old one.
const ENDING: &str = "_value";

/// The edit's new text with other names for local variables of functions that the fix touches; proven to be the same tree
/// but for these names.
pub(super) fn renamed(edit: &Edit, language: &Language) -> Option<String> {
    let queries = language.rename.as_ref()?;
    let tree = Tree::new(language, &edit.new).filter(|tree| !tree.has_error())?;
    let (mut parts, mut names) = (Vec::new(), BTreeMap::new());
    for captures in tree.matches(&queries.scope, tree.root()) {
        let of = |name: &str| captures.iter().find(|(captured, _)| captured == name).map(|(_, node)| *node);
        let (Some(scope), Some(body)) = (of("scope"), of("body")) else { continue };
        let touched = (scope.start_position().row..=scope.end_position().row).any(|line| edit.is_new(line));
        if !touched || !tree.captured(&queries.forbidden, body, "forbidden").is_empty() {
            continue;
        }
        let texts = |nodes: Vec<Node<'_>>| nodes.into_iter().map(|node| tree.text_of(node)).collect::<BTreeSet<_>>();
        let kept = texts(tree.captured(&queries.kept, scope, "name"));
        let mut bound = texts(tree.captured(&queries.bound, body, "name"));
        bound.retain(|name| {
            !kept.contains(name) && !name.starts_with('_') && !edit.new.contains(&format!("{name}{ENDING}"))
        });
        let other: BTreeSet<usize> = tree.captured(&queries.other, body, "name").iter().map(Node::id).collect();
        for node in tree.captured(&queries.identifiers, body, "name") {
            let name = tree.text_of(node);
            if bound.contains(name) && !other.contains(&node.id()) {
                let new = format!("{name}{ENDING}");
                names.insert(new.clone(), name.to_owned());
                parts.push((node.byte_range(), new));
            }
        }
    }
    if parts.is_empty() {
        return None;
    }
    let text = replace(&edit.new, parts);
    let after = Tree::new(language, &text)?;
    let same = |a: &str, b: &str| a == b || names.get(b).is_some_and(|old| old == a);
    tree.is_same(&after, same).then_some(text)
}
