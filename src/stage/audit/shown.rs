//! A variant as a patch to look at.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{Change, ChangeSet, FileContent, TreePath, show_change};

/// Patches that are longer are cut.
const LONGEST: usize = 256 << 10;

/// The way from one state to another as a patch. Both are changes to `head`.
pub(super) fn patch(head: &BTreeMap<TreePath, FileContent>, from: &ChangeSet, to: &ChangeSet) -> String {
    let paths: BTreeSet<&TreePath> = from.paths().chain(to.paths()).collect();
    let mut out = String::new();
    for path in paths {
        let content = |set: &ChangeSet| match set.changes.get(path) {
            Some(Change::Write(file)) => Some(file.content.clone()),
            Some(Change::Remove) => None,
            None => head.get(path).map(|file| file.content.clone()),
        };
        let (old, new) = (content(from), content(to));
        if old != new {
            out.push_str(&show_change(path.as_path(), old.as_deref(), new.as_deref()));
        }
        if out.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|at| out.is_char_boundary(*at)).unwrap_or_default();
            out.truncate(end);
            out.push_str("\n[cut]\n");
            break;
        }
    }
    out
}
