//! Which objects of a checkout are allowed, and what the others are.

use std::collections::{BTreeMap, HashMap, HashSet};

use git2::{ObjectType, Oid};

use super::Watch;
use super::finding::{CommitBrief, Finding, Later, LeakKind};
use super::inventory::{Inventory, Lead};
use super::known::{Known, descendants};
use super::stores::{Objects, Unread};
use crate::repo::raw;

/// How many objects of one kind one place holds, and the commits among them with their times.
type Group = (u64, Vec<(i64, Oid)>);

/// What is known of one object. The later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// Nothing leads to it.
    Dangling,
    /// Commits that are later lead to it, and no others.
    Later,
    /// Commits that nobody knows lead to it.
    Unknown,
    /// The commit to review leads to it.
    NotLater,
    /// The mode allows it.
    Allowed,
}

/// The marks of all rows, one byte each.
pub(super) struct Marks<'o> {
    objects: &'o Objects,
    marks: Vec<Mark>,
    later: HashSet<Oid>,
    /// How many objects are named but not there.
    pub missing: u64,
}

/// How many commits a finding shows.
const SHOWN: usize = 10;

impl<'o> Marks<'o> {
    pub(super) fn new(objects: &'o Objects) -> Self {
        Self { objects, marks: vec![Mark::Dangling; objects.rows.len()], later: HashSet::new(), missing: 0 }
    }

    fn mark(&self, id: Oid) -> Option<Mark> {
        self.marks.get(self.objects.range(id).start).copied().filter(|_| self.objects.has(id))
    }

    fn set(&mut self, id: Oid, mark: Mark) {
        for at in self.objects.range(id) {
            self.marks[at] = mark;
        }
    }

    /// Whether the checkout has an object.
    pub(super) fn has(&self, id: Oid) -> bool {
        self.objects.has(id)
    }

    /// Allows one object alone.
    pub(super) fn allow_one(&mut self, id: Oid) {
        self.set(id, Mark::Allowed);
    }

    /// Allows an object and all that it leads to.
    pub(super) fn allow(&mut self, root: Oid, inventory: &mut Inventory, watch: &mut Watch<'_>) {
        self.reach(vec![root], Mark::Allowed, inventory, watch);
    }

    /// Marks an object and all that it leads to as no later than the commit to review.
    pub(super) fn not_later(&mut self, root: Oid, inventory: &mut Inventory, watch: &mut Watch<'_>) {
        self.reach(vec![root], Mark::NotLater, inventory, watch);
    }

    fn reach(&mut self, roots: Vec<Oid>, mark: Mark, inventory: &mut Inventory, watch: &mut Watch<'_>) {
        let mut done = 0;
        let mut next = roots;
        while let Some(id) = next.pop() {
            match self.mark(id) {
                None => {
                    self.missing += 1;
                    continue;
                }
                Some(before) if before >= mark => continue,
                Some(_) => self.set(id, mark),
            }
            done += 1;
            watch("objects read", done);
            let (kind, data) = match self.objects.read(id) {
                Ok(object) => object,
                Err(Unread::Absent) => continue,
                Err(Unread::Damaged) => {
                    inventory
                        .damaged(self.place_of(id), format!("object {id} cannot be read, or is not what its id says"));
                    continue;
                }
            };
            match kind {
                ObjectType::Commit => {
                    let commit = raw::commit(&data);
                    next.extend(commit.into_iter().flat_map(|c| c.parents.into_iter().chain([c.tree])));
                }
                ObjectType::Tree => {
                    let Some(entries) = raw::tree(&data) else {
                        inventory.damaged(self.place_of(id), format!("the tree {id} cannot be read"));
                        continue;
                    };
                    for entry in entries.iter().filter(|e| !e.is_submodule()) {
                        if entry.is_tree() {
                            next.push(entry.id);
                        } else if self.mark(entry.id).is_some_and(|before| before < mark) {
                            // A file's content leads nowhere, so it need not be read.
                            self.set(entry.id, mark);
                        } else if !self.objects.has(entry.id) {
                            self.missing += 1;
                        }
                    }
                }
                ObjectType::Tag => next.extend(raw::tag(&data).map(|t| t.target)),
                _ => {}
            }
        }
    }

    fn place_of(&self, id: Oid) -> String {
        let row = &self.objects.rows[self.objects.range(id)];
        row.first().map_or_else(String::new, |row| self.objects.sources[row.source as usize].place.clone())
    }

    /// Looks at what is not allowed: which commits are later, what leads to what, which tags are old. Gives a finding
    /// for each kind and place.
    pub(super) fn leftovers(&mut self, known: &Known, inventory: &mut Inventory, watch: &mut Watch<'_>) {
        let mut commits: HashMap<Oid, Vec<Oid>> = HashMap::new();
        let mut times: HashMap<Oid, i64> = HashMap::new();
        let mut tags: Vec<Oid> = Vec::new();
        let mut kinds: HashMap<Oid, ObjectType> = HashMap::new();
        let mut done = 0;
        for at in 0..self.marks.len() {
            let id = self.objects.rows[at].id;
            if self.marks[at] == Mark::Allowed || (at > 0 && self.objects.rows[at - 1].id == id) {
                continue;
            }
            done += 1;
            watch("objects that are not allowed", done);
            let Ok((_, kind)) = self.objects.header(id) else {
                inventory.damaged(self.place_of(id), format!("object {id} cannot be read"));
                continue;
            };
            kinds.insert(id, kind);
            match kind {
                ObjectType::Tag => tags.push(id),
                ObjectType::Commit => {
                    let object = self.objects.read(id).ok();
                    let commit = object.as_ref().and_then(|(_, data)| raw::commit(data));
                    let Some(commit) = commit else {
                        inventory.damaged(self.place_of(id), format!("the commit {id} cannot be read"));
                        continue;
                    };
                    times.extend(commit.time.map(|time| (id, time)));
                    commits.insert(id, commit.parents);
                }
                _ => {}
            }
        }
        let pivots: Vec<Oid> = known.pivots();
        self.later = descendants(&commits, &pivots, |id| known.later.contains(&id));
        let (later, unknown): (Vec<Oid>, Vec<Oid>) = commits.keys().partition(|id| self.later.contains(id));
        // What else leads to an object is asked first, so that `Later` says that nothing else does.
        let not_marked = |marks: &Self, id: &Oid| marks.mark(*id) == Some(Mark::Dangling);
        let unknown: Vec<Oid> = unknown.into_iter().filter(|id| not_marked(self, id)).collect();
        self.reach(unknown, Mark::Unknown, inventory, watch);
        self.reach(later, Mark::Later, inventory, watch);
        self.old_tags(&tags, known);
        self.report(known, &kinds, &times, inventory);
    }

    /// A tag on something allowed that was made before the commit to review is no leak.
    fn old_tags(&mut self, tags: &[Oid], known: &Known) {
        for id in tags {
            let Ok((ObjectType::Tag, data)) = self.objects.read(*id) else { continue };
            let Some(tag) = raw::tag(&data) else { continue };
            let old = matches!((tag.time, known.head_time), (Some(tag), Some(head)) if tag <= head);
            if old && self.mark(tag.target) == Some(Mark::Allowed) {
                self.set(*id, Mark::Allowed);
            } else if self.judge(tag.target, known) == Some(Later::Certain) {
                self.set(*id, Mark::Later);
            }
        }
    }

    /// What an id is: `None` where it is allowed.
    pub(super) fn judge(&self, id: Oid, known: &Known) -> Option<Later> {
        let mark = self.mark(id);
        if mark == Some(Mark::Allowed) {
            return None;
        }
        if self.later.contains(&id) || known.later.contains(&id) {
            return Some(Later::Certain);
        }
        match mark {
            Some(Mark::Later) => Some(Later::Certain),
            Some(Mark::NotLater) => Some(Later::No),
            Some(_) => Some(Later::Possible),
            None if known.base_past.contains(&id) || known.listed.contains(&id) => None,
            None if known.past.contains(&id) => Some(Later::No),
            None => Some(Later::Possible),
        }
    }

    /// A commit (or the one that a tag names) for people.
    pub(super) fn brief(&self, id: Oid) -> Option<CommitBrief> {
        let named = || CommitBrief { id: id.to_string(), date: String::new(), subject: String::new() };
        match self.objects.read(id) {
            Ok((ObjectType::Commit, data)) => {
                let commit = raw::commit(&data)?;
                let date = commit.time.and_then(|t| jiff::Timestamp::from_second(t).ok());
                let date = date.map_or_else(String::new, |t| t.to_string());
                Some(CommitBrief { id: id.to_string(), date, subject: raw::subject(commit.message) })
            }
            Ok((ObjectType::Tag, data)) => {
                let target = raw::tag(&data)?.target;
                if self.mark(target) == Some(Mark::Allowed) {
                    None
                } else {
                    self.brief(target).filter(|b| b.id != id.to_string())
                }
            }
            Ok(_) => None,
            Err(_) => Some(named()),
        }
    }

    /// The finding of a lead, if it is one.
    pub(super) fn finding(&self, lead: &Lead, known: &Known) -> Option<Finding> {
        let mut ids = lead.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        let bad: Vec<(Oid, Later)> =
            ids.into_iter().filter(|id| !id.is_zero()).filter_map(|id| Some((id, self.judge(id, known)?))).collect();
        let later = bad.iter().map(|(_, later)| *later).max();
        let later = later.max(lead.otherwise)?;
        // The most telling ones first.
        let mut order = bad.clone();
        order.sort_by_key(|(_, later)| std::cmp::Reverse(*later));
        let mut commits: Vec<CommitBrief> = order.iter().take(200).filter_map(|(id, _)| self.brief(*id)).collect();
        commits.sort_by(|a, b| (&b.date, &a.id).cmp(&(&a.date, &b.id)));
        commits.truncate(SHOWN);
        Some(Finding::new(lead.kind, &lead.place, later, &lead.what).count(bad.len().max(1) as u64).commits(commits))
    }

    fn report(
        &self,
        known: &Known,
        kinds: &HashMap<Oid, ObjectType>,
        times: &HashMap<Oid, i64>,
        inventory: &mut Inventory,
    ) {
        let mut groups: BTreeMap<(u32, LeakKind, Later), Group> = BTreeMap::new();
        for (at, row) in self.objects.rows.iter().enumerate() {
            if self.marks[at] == Mark::Allowed {
                continue;
            }
            let kind = match kinds.get(&row.id) {
                Some(ObjectType::Commit) => LeakKind::Commit,
                Some(ObjectType::Tree) => LeakKind::Tree,
                Some(ObjectType::Blob) => LeakKind::Blob,
                Some(ObjectType::Tag) => LeakKind::TagObject,
                _ => continue,
            };
            let Some(later) = self.judge(row.id, known) else { continue };
            let group = groups.entry((row.source, kind, later)).or_default();
            group.0 += 1;
            if kind == LeakKind::Commit {
                group.1.push((times.get(&row.id).copied().unwrap_or_default(), row.id));
            }
        }
        for ((source, kind, later), (count, mut commits)) in groups {
            commits.sort_unstable_by(|a, b| b.cmp(a));
            let mut what = format!("{count} {}{}", noun(kind), if count == 1 { "" } else { "s" });
            what.push_str(match later {
                Later::Certain => ", later than the commit to review",
                Later::Possible => " that nothing allowed leads to",
                Later::No => " of the commit to review's own history, which this mode does not have",
            });
            if let (Later::Possible, LeakKind::Commit, Some(head)) = (later, kind, known.head_time) {
                let after = commits.iter().filter(|(time, _)| *time > head).count();
                what.push_str(&format!("; {after} with a date after it, which can lie"));
            }
            let briefs = commits.iter().take(SHOWN).filter_map(|(_, id)| self.brief(*id)).collect();
            let place = &self.objects.sources[source as usize].place;
            inventory.findings.push(Finding::new(kind, place, later, what).count(count).commits(briefs));
        }
    }
}

fn noun(kind: LeakKind) -> &'static str {
    match kind {
        LeakKind::Commit => "commit",
        LeakKind::Tree => "folder object",
        LeakKind::TagObject => "annotated tag",
        _ => "file content",
    }
}
