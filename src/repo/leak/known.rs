//! What is known of the commit to review, the base and the merged commit, from whatever place has them.

use std::collections::{BTreeMap, HashMap, HashSet};

use git2::{ObjectType, Oid};

use crate::repo::raw;

/// Reads an object; `None` where it is not there or not what its id says.
pub(super) type Read<'a> = dyn Fn(Oid) -> Option<(ObjectType, Vec<u8>)> + 'a;

/// A file of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeFile {
    pub mode: u32,
    pub id: Oid,
}

/// A whole tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// Files and links by path.
    pub files: BTreeMap<Vec<u8>, TreeFile>,
    /// Submodules by path.
    pub submodules: BTreeMap<Vec<u8>, Oid>,
    /// Every id in it: folders, files, submodules.
    pub ids: HashSet<Oid>,
    /// Folders' objects that could not be read.
    pub missing: u64,
}

/// What is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub head: Option<Oid>,
    pub head_tree: Option<Oid>,
    /// The committer's time of the commit to review.
    pub head_time: Option<i64>,
    /// `review` only.
    pub base: Option<Oid>,
    pub merged: Option<Oid>,
    /// Commits that are no later than the commit to review: its history, itself among it.
    pub past: HashSet<Oid>,
    /// Commits that `review` allows: the base's history.
    pub base_past: HashSet<Oid>,
    /// Commits and what only they hold that are known to be later.
    pub later: HashSet<Oid>,
    /// Every id in the trees that index and work tree may show.
    pub listed: HashSet<Oid>,
    /// The files of the commit to review; `None` where it is not known.
    pub files: Option<Tree>,
    /// The files of the merged commit; `None` where it is not known.
    pub merged_files: Option<Tree>,
}

/// Reads a whole tree.
pub(super) fn tree(root: Oid, read: &Read<'_>) -> Tree {
    let mut tree = Tree::default();
    let mut next = vec![(root, Vec::new())];
    while let Some((id, prefix)) = next.pop() {
        tree.ids.insert(id);
        let object = read(id).filter(|(kind, _)| *kind == ObjectType::Tree);
        let Some(entries) = object.as_ref().and_then(|(_, data)| raw::tree(data)) else {
            tree.missing += 1;
            continue;
        };
        for entry in entries {
            let path = [prefix.as_slice(), entry.name].concat();
            if entry.is_tree() {
                // Names of a tree can be anything; a path of this length is nobody's, and deep trees cost its square.
                if path.len() < 64 << 10 {
                    next.push((entry.id, [path.as_slice(), b"/"].concat()));
                }
                continue;
            }
            tree.ids.insert(entry.id);
            if entry.is_submodule() {
                tree.submodules.insert(path, entry.id);
            } else {
                tree.files.insert(path, TreeFile { mode: entry.mode, id: entry.id });
            }
        }
    }
    tree
}

/// The commits of a history, as far as they can be read, with their parents.
pub(super) fn history(tip: Oid, stop: &HashSet<Oid>, read: &Read<'_>) -> HashMap<Oid, Vec<Oid>> {
    let mut found = HashMap::new();
    let mut next = vec![tip];
    while let Some(id) = next.pop() {
        if stop.contains(&id) || found.contains_key(&id) {
            continue;
        }
        let object = read(id).filter(|(kind, _)| *kind == ObjectType::Commit);
        let parents = object.as_ref().and_then(|(_, data)| Some(raw::commit(data)?.parents));
        let Some(parents) = parents else { continue };
        next.extend(parents.iter().copied());
        found.insert(id, parents);
    }
    found
}

/// Those of some commits that are one of `later` or descend from one of `pivots`, through the commits given.
pub(super) fn descendants(
    commits: &HashMap<Oid, Vec<Oid>>,
    pivots: &[Oid],
    later: impl Fn(Oid) -> bool,
) -> HashSet<Oid> {
    let mut children: HashMap<Oid, Vec<Oid>> = HashMap::new();
    let mut next = Vec::new();
    for (id, parents) in commits {
        if later(*id) || parents.iter().any(|p| pivots.contains(p)) {
            next.push(*id);
        }
        for parent in parents {
            children.entry(*parent).or_default().push(*id);
        }
    }
    let mut found = HashSet::new();
    while let Some(id) = next.pop() {
        if found.insert(id) {
            next.extend(children.get(&id).into_iter().flatten());
        }
    }
    found
}

impl Known {
    /// Learns what is later from the merged commit: it, the commits between that descend from the commit to review, and
    /// what the trees of these have that neither the commit to review nor the other side of the merge has.
    pub(super) fn learn_later(&mut self, merged: Oid, read: &Read<'_>) {
        self.merged = Some(merged);
        if self.past.contains(&merged) {
            return;
        }
        let between = history(merged, &self.past, read);
        let pivots: Vec<Oid> = self.head.into_iter().collect();
        let later = descendants(&between, &pivots, |id| id == merged);
        let tree_of = |id: Oid| {
            let (_, data) = read(id).filter(|(kind, _)| *kind == ObjectType::Commit)?;
            Some(raw::commit(&data)?.tree)
        };
        let mut held: HashSet<Oid> = HashSet::new();
        let mut earlier: HashSet<Oid> = self.files.iter().flat_map(|t| t.ids.iter().copied()).collect();
        for id in &later {
            if let Some(root) = tree_of(*id) {
                let tree = tree(root, read);
                held.extend(&tree.ids);
                if *id == merged {
                    self.merged_files = Some(tree);
                }
            }
            for parent in between.get(id).into_iter().flatten().filter(|p| !later.contains(p)) {
                earlier.extend(tree_of(*parent).into_iter().flat_map(|root| tree(root, read).ids));
            }
        }
        self.later.extend(held.difference(&earlier));
        self.later.extend(&later);
    }

    /// The commits whose descendants are later: the one to review, and the merged one unless that is a part of its history.
    pub(super) fn pivots(&self) -> Vec<Oid> {
        self.head.into_iter().chain(self.merged.filter(|merged| !self.past.contains(merged))).collect()
    }

    /// Learns which commits of whole histories descend from the commit to review or the merged one.
    pub(super) fn learn_descendants(&mut self, tips: &[Oid], read: &Read<'_>) {
        let mut commits = HashMap::new();
        let mut stop = self.past.clone();
        for tip in tips {
            let more = history(*tip, &stop, read);
            stop.extend(more.keys());
            commits.extend(more);
        }
        self.later.extend(descendants(&commits, &self.pivots(), |_| false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Oid {
        Oid::from_bytes(&[n; 20]).unwrap()
    }

    #[test]
    fn descent_decides_and_not_the_order() {
        // 1 ← 2 ← 3, 1 ← 4, 3 and 4 ← 5, 9 alone.
        let commits = HashMap::from([
            (id(5), vec![id(3), id(4)]),
            (id(3), vec![id(2)]),
            (id(2), vec![id(1)]),
            (id(4), vec![id(1)]),
            (id(9), vec![]),
        ]);
        let later = descendants(&commits, &[id(2)], |_| false);
        assert_eq!(later, HashSet::from([id(3), id(5)]));
        assert_eq!(descendants(&commits, &[], |c| c == id(9)), HashSet::from([id(9)]));
    }

    /// A little store: commits `C` with trees of one file each.
    fn store() -> HashMap<Oid, (ObjectType, Vec<u8>)> {
        let mut store = HashMap::new();
        for (commit, parents, file) in [(1, vec![], 101), (2, vec![1], 102), (3, vec![1], 103), (4, vec![3, 2], 104)] {
            let root = [b"40000 d\0".as_slice(), id(commit + 50).as_bytes()].concat();
            let below = [b"100644 f\0".as_slice(), id(file).as_bytes()].concat();
            store.insert(id(commit + 20), (ObjectType::Tree, root));
            store.insert(id(commit + 50), (ObjectType::Tree, below));
            let parents: String = parents.into_iter().map(|p| format!("parent {}\n", id(p))).collect();
            let text = format!("tree {}\n{parents}committer x <y> 5 +0000\n\nm\n", id(commit + 20));
            store.insert(id(commit), (ObjectType::Commit, text.into_bytes()));
        }
        store
    }

    #[test]
    fn what_only_the_merge_has_is_later() {
        let store = store();
        let read = |id: Oid| store.get(&id).cloned();
        // 2 is under review, 3 is what the main branch got meanwhile, 4 merges both.
        let mut known = Known { head: Some(id(2)), past: HashSet::from([id(1), id(2)]), ..Known::default() };
        known.files = Some(tree(id(22), &read));
        known.learn_later(id(4), &read);
        assert_eq!(known.later, HashSet::from([id(4), id(24), id(54), id(104)]));
        assert_eq!(known.merged_files.as_ref().unwrap().files[b"d/f".as_slice()].id, id(104));
        // 3 is beside what is under review, 4 comes from it.
        let mut known = Known { head: Some(id(2)), past: HashSet::from([id(1), id(2)]), ..Known::default() };
        known.learn_descendants(&[id(3), id(4), id(2)], &read);
        assert_eq!(known.later, HashSet::from([id(4)]));
        // A merged commit that is under review itself shows nothing later.
        let mut same = Known { past: HashSet::from([id(4)]), ..Known::default() };
        same.learn_later(id(4), &read);
        assert!(same.later.is_empty());
        assert_eq!(tree(id(99), &read).missing, 1);
    }
}
