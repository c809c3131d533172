//! Near-misses: states in which the concern is as it was, however much else was done.

use super::fix::{Edit, Fix, Place, Spot, lines};
use super::{Class, Languages, Variant};
use crate::repo::{Change, ChangeSet, FileContent, TreePath};

/// A comment of no meaning, in the commented file.
pub const COMMENT_ONLY: &str = "comment-only";
/// The commit to review with the fix's new lines of the commented file as comments.
pub const FIX_AS_COMMENT: &str = "fix-as-comment";
/// The merged change without the hunks that touch the commented lines.
pub const WITHOUT_NEAR: &str = "without-near";
/// The merged change without what it does to the commented file.
pub const WITHOUT_FILE: &str = "without-file";

/// What stands in the comment of no meaning.
const NEUTRAL: &str = "Looked at in review.";

/// The near-misses and drops of a fix. `file` is the commented file in the commit to review; of single hunks at most
/// `most` are dropped, those that touch the place first. The second value says how exactly the place is known.
pub fn controls(
    fix: &Fix,
    place: Option<&Place>,
    file: Option<&FileContent>,
    languages: &Languages,
    most: usize,
) -> (Vec<Variant>, Spot) {
    let mut made = Vec::new();
    let mut add = |class, name: &str, about: &str, changes: ChangeSet| {
        // What is no change of the fix is the control `merged`, and what is no change at all the control `head`.
        if changes != fix.merged && !changes.is_empty() {
            made.push(Variant { class, name: name.to_owned(), about: about.to_owned(), changes });
        }
    };
    if let (Some(place), Some(file)) = (place, file) {
        let at = place.lines.as_ref().map_or(0, |lines| lines.start);
        if let Some(mark) = languages.comment(&place.path)
            && let Some(text) = std::str::from_utf8(&file.content).ok()
        {
            let write = |text: String| change_of(&place.path, file, text);
            let neutral = [NEUTRAL.to_owned()];
            let text = languages.with_comment(&place.path, text, at, mark, &neutral);
            if let Some(text) = text {
                add(
                    Class::NearMiss,
                    COMMENT_ONLY,
                    "the commit to review with a comment in the commented file",
                    write(text),
                );
            }
        }
        if let Some(edit) = fix.edit(&place.path)
            && let Some(text) = fix_as_comment(edit, place, languages)
        {
            let about = "the commit to review with the fix's new lines as comments";
            add(Class::NearMiss, FIX_AS_COMMENT, about, change_of(&place.path, file, text));
        }
    }
    let edit = place.and_then(|place| fix.edit(&place.path));
    let near = match (edit, place.and_then(|place| place.lines.as_ref())) {
        (Some(edit), Some(lines)) => edit.near(lines),
        _ => Vec::new(),
    };
    if let Some(edit) = edit.filter(|_| !near.is_empty()) {
        let about = format!("the merged change without the {} that touch the commented lines", hunks(near.len()));
        add(Class::NearMiss, WITHOUT_NEAR, &about, fix.with(edit, edit.without(&near)));
    }
    if let Some(place) = place {
        // What others did to the file on the main branch stays.
        let mut set = match edit {
            Some(edit) => fix.with(edit, edit.without(&edit.hunks.iter().collect::<Vec<_>>())),
            None => fix.merged.clone(),
        };
        let is_whole = edit.is_none() && fix.own.contains(&place.path);
        if edit.is_some() || is_whole && set.changes.remove(&place.path).is_some() {
            add(Class::NearMiss, WITHOUT_FILE, "the merged change without what it does to the commented file", set);
        }
    }
    for (class, name, about, changes) in drops(fix, edit, &near, languages).into_iter().take(most) {
        add(class, &name, &about, changes);
    }
    let spot = match place {
        _ if !near.is_empty() => Spot::Lines,
        Some(place) if fix.own.contains(&place.path) => Spot::File,
        _ => Spot::Unknown,
    };
    // The same state under two names is one near-miss.
    let mut seen = Vec::new();
    made.retain(|variant: &Variant| {
        let is_new = !seen.contains(&variant.changes.digest());
        seen.push(variant.changes.digest());
        is_new
    });
    (made, spot)
}

fn hunks(count: usize) -> String {
    if count == 1 { "one hunk".to_owned() } else { format!("{count} hunks") }
}

fn change_of(path: &TreePath, file: &FileContent, text: String) -> ChangeSet {
    let change = Change::Write(FileContent { mode: file.mode, content: text.into_bytes() });
    ChangeSet { changes: [(path.clone(), change)].into() }
}

/// The old text with the new lines as comments, before the first changed line or at the place.
fn fix_as_comment(edit: &Edit, place: &Place, languages: &Languages) -> Option<String> {
    let mark = languages.comment(&edit.path)?;
    let new = lines(&edit.new);
    let added: Vec<String> = edit
        .own_changes()
        .flat_map(|change| new.get(change.new.clone()).unwrap_or_default())
        .map(|line| line.trim_end().to_owned())
        .filter(|line| !line.trim().is_empty())
        .collect();
    if added.is_empty() {
        return None;
    }
    let first = edit.own_changes().next().map_or(0, |change| change.old.start);
    let at = place.lines.as_ref().map_or(first, |lines| lines.start);
    languages.with_comment(&edit.path, &edit.old, at, mark, &added)
}

/// The merged change without one hunk, file or new file each: the commented file's first, those that touch the place
/// first of all, and files that no language is known of last. What does not parse any more is left out.
fn drops(
    fix: &Fix,
    commented: Option<&Edit>,
    near: &[&super::Hunk],
    languages: &Languages,
) -> Vec<(Class, String, String, ChangeSet)> {
    let mut found = Vec::new();
    for edit in &fix.edits {
        let is_commented = commented.is_some_and(|commented| commented.path == edit.path);
        for hunk in &edit.hunks {
            let touches = is_commented && near.contains(&hunk);
            let text = edit.without(&[hunk]);
            if languages.breaks(&edit.path, &edit.new, &text) {
                continue;
            }
            let class = if touches { Class::NearMiss } else { Class::Drop };
            let first = hunk.new.start + 1;
            let name = format!("drop {}:{first}", edit.path);
            let about = format!("the merged change without its hunk at line {first} of {}", edit.path);
            let rank = (!touches, !is_commented, languages.comment(&edit.path).is_none());
            found.push((rank, (class, name, about, fix.with(edit, text))));
        }
    }
    for path in fix.own.iter().filter(|path| fix.edit(path).is_none()) {
        let mut set = fix.merged.clone();
        set.changes.remove(path);
        let about = format!("the merged change without what it does to {path}");
        let rank = (true, true, languages.comment(path).is_none());
        found.push((rank, (Class::Drop, format!("drop {path}"), about, set)));
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, drop)| drop).collect()
}
