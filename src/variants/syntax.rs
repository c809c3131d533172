//! Syntax trees: parsing, walking without recursion, and telling whether two texts mean the same to a parser.

use std::ops::Range;

use tree_sitter::{Node, Parser, Query, QueryCursor, StreamingIterator};

use super::definition::Language;

/// A text with its syntax tree.
pub(super) struct Tree<'t> {
    pub(super) text: &'t str,
    tree: tree_sitter::Tree,
}

/// One node of a tree laid out flat, in the order of the text.
struct Token<'t> {
    depth: usize,
    kind: &'t str,
    /// The text of a leaf.
    text: Option<&'t str>,
}

/// Nodes whose text counts as a whole, as their children do not cover it.
const WHOLE: [&str; 2] = ["string_content", "string_fragment"];

impl<'t> Tree<'t> {
    /// Parses a text; `None` when the parser gives up.
    pub(super) fn new(language: &Language, text: &'t str) -> Option<Self> {
        let mut parser = Parser::new();
        parser.set_language(&language.grammar).ok()?;
        Some(Self { text, tree: parser.parse(text, None)? })
    }

    pub(super) fn has_error(&self) -> bool {
        self.tree.root_node().has_error()
    }

    pub(super) fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }

    pub(super) fn text_of(&self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Every node in the order of the text; `enter` says whether to look below one.
    pub(super) fn walk<'a>(&'a self, mut enter: impl FnMut(Node<'a>, usize) -> bool) {
        let mut cursor = self.tree.walk();
        let mut depth = 0;
        loop {
            if enter(cursor.node(), depth) && cursor.goto_first_child() {
                depth += 1;
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                depth -= 1;
            }
        }
    }

    /// The captures of a query below a node: for each match the captures' names and nodes.
    pub(super) fn matches<'a>(&'a self, query: &Query, below: Node<'a>) -> Vec<Vec<(String, Node<'a>)>> {
        let mut cursor = QueryCursor::new();
        let names = query.capture_names();
        let mut matches = cursor.matches(query, below, self.text.as_bytes());
        let mut found = Vec::new();
        while let Some(matched) = matches.next() {
            let name = |index: u32| names.get(index as usize).map(|name| (*name).to_owned()).unwrap_or_default();
            found.push(matched.captures().iter().map(|capture| (name(capture.index), capture.node)).collect());
        }
        found
    }

    /// The nodes that a query captures under a name.
    pub(super) fn captured<'a>(&'a self, query: &Query, below: Node<'a>, name: &str) -> Vec<Node<'a>> {
        let matches = self.matches(query, below);
        matches.into_iter().flatten().filter(|(captured, _)| captured == name).map(|(_, node)| node).collect()
    }

    fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        self.walk(|node, depth| {
            if is_comment(node) {
                return false;
            }
            let is_leaf = node.child_count() == 0 || WHOLE.contains(&node.kind());
            tokens.push(Token { depth, kind: node.kind(), text: is_leaf.then(|| self.text_of(node)) });
            !is_leaf
        });
        tokens
    }

    /// Whether another text has the same tree, comments and white space apart. `same` compares the texts of leaves.
    pub(super) fn is_same(&self, other: &Tree<'_>, same: impl Fn(&str, &str) -> bool) -> bool {
        let (one, other) = (self.tokens(), other.tokens());
        let leaf = |a: &Token<'_>, b: &Token<'_>| match (a.text, b.text) {
            (Some(a), Some(b)) => same(a, b),
            (None, None) => true,
            _ => false,
        };
        one.len() == other.len()
            && one.iter().zip(&other).all(|(a, b)| a.depth == b.depth && a.kind == b.kind && leaf(a, b))
    }
}

pub(super) fn is_comment(node: Node<'_>) -> bool {
    node.is_extra() && node.kind().contains("comment")
}

/// A text with parts of it replaced; parts that overlap an earlier one are left as they are.
pub(super) fn replace(text: &str, mut parts: Vec<(Range<usize>, String)>) -> String {
    parts.sort_by_key(|(range, _)| (range.start, range.end));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, new) in parts {
        let Some(between) = text.get(at..range.start).filter(|_| range.start >= at && range.end <= text.len()) else {
            continue;
        };
        out.push_str(between);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}
