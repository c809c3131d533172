//! Which languages lay claim to a tree, and how strong each claim is.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tree::Tree;
use crate::environment::definition::Definition;

/// How many entries of a tree are counted; the rest would not change much.
const MAX_ENTRIES: usize = 50_000;

/// Folders whose files the project did not write, or does not build.
const NOT_COUNTED: [&str; 14] = [
    "node_modules",
    "vendor",
    "third_party",
    "thirdparty",
    "3rdparty",
    "external",
    "dist",
    "build",
    "target",
    "venv",
    "site-packages",
    "__pycache__",
    "docs",
    "doc",
];

/// What speaks for one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The language.
    pub language: String,
    /// The file at the root that tells it.
    pub file: Option<String>,
    /// Whether that file is the language's alone.
    pub strong: bool,
    /// How many source files there are.
    pub sources: u64,
}

impl Claim {
    fn weight(&self) -> u64 {
        match (&self.file, self.strong) {
            // A manifest alone still says more than a stray file.
            (Some(_), true) => self.sources * 4 + 2,
            (Some(_), false) => self.sources * 2,
            (None, _) => self.sources,
        }
    }
}

/// All claims, the strongest first; equal ones in the order of the definitions.
pub(super) fn claims<'a>(
    definitions: impl Iterator<Item = &'a Definition>,
    tree: Tree<'_>,
) -> Vec<(&'a Definition, Claim)> {
    let counts = counts(tree);
    let mut out: Vec<(&Definition, Claim)> = definitions
        .map(|definition| {
            let detect = &definition.detect;
            let strong = detect.files.iter().find(|name| tree.has_file(name));
            let file = strong.or_else(|| detect.weak.iter().find(|name| tree.has_file(name)));
            let sources = detect.extensions.iter().filter_map(|ending| counts.get(ending)).sum();
            let (language, file, strong) = (definition.name.clone(), file.cloned(), strong.is_some());
            (definition, Claim { language, file, strong, sources })
        })
        .filter(|(_, claim)| claim.weight() > 0)
        .collect();
    out.sort_by_key(|(_, claim)| std::cmp::Reverse((claim.weight(), claim.sources)));
    out
}

/// Source files by ending, hidden and vendored folders apart.
fn counts(tree: Tree<'_>) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    let walk = walkdir::WalkDir::new(tree.0).follow_links(false).sort_by_file_name().into_iter();
    let counted = walk.filter_entry(|entry| {
        let name = entry.file_name().to_string_lossy();
        let folder = entry.file_type().is_dir();
        entry.depth() == 0 || !folder || !(name.starts_with('.') || NOT_COUNTED.contains(&name.as_ref()))
    });
    for entry in counted.take(MAX_ENTRIES).filter_map(Result::ok).filter(|entry| entry.file_type().is_file()) {
        let name = entry.file_name().to_string_lossy();
        if let Some((stem, ending)) = name.rsplit_once('.')
            && !stem.is_empty()
            && !stem.ends_with(".min")
        {
            *out.entry(ending.to_owned()).or_default() += 1;
        }
    }
    out
}
