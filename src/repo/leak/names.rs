//! What names inside a `.git` mean. Pure.

use super::finding::LeakKind;

/// The kind of a ref by its name.
pub(super) fn ref_kind(name: &[u8]) -> LeakKind {
    const PREFIXES: [(&[u8], LeakKind); 13] = [
        (b"refs/heads/", LeakKind::Branch),
        (b"refs/remotes/", LeakKind::RemoteBranch),
        (b"refs/tags/", LeakKind::Tag),
        (b"refs/notes/", LeakKind::Notes),
        (b"refs/replace/", LeakKind::Replace),
        (b"refs/original/", LeakKind::OriginalRef),
        (b"refs/pull/", LeakKind::PullRef),
        (b"refs/pull-requests/", LeakKind::PullRef),
        (b"refs/merge-requests/", LeakKind::PullRef),
        (b"refs/changes/", LeakKind::PullRef),
        (b"refs/worktree/", LeakKind::WorktreeRef),
        (b"refs/bisect/", LeakKind::WorktreeRef),
        (b"refs/rewritten/", LeakKind::WorktreeRef),
    ];
    if name == b"refs/stash" {
        return LeakKind::Stash;
    }
    PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(LeakKind::OtherRef, |(_, kind)| *kind)
}

/// What lies directly in a `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GitEntry {
    /// A part of every repository, looked at by itself.
    Known,
    /// Lines with ids, such as `FETCH_HEAD`.
    PseudoRef,
    /// The state of an unfinished operation.
    Operation,
    /// A text that git left behind.
    Message,
    /// Nothing that git makes.
    Unknown,
}

/// What an entry directly in a `.git` is, by its name.
pub(super) fn git_entry(name: &[u8]) -> GitEntry {
    match name {
        b"HEAD" | b"config" | b"config.worktree" | b"index" | b"objects" | b"refs" | b"packed-refs" | b"logs"
        | b"hooks" | b"info" | b"description" | b"branches" | b"remotes" | b"shallow" | b"modules" | b"worktrees"
        | b"lfs" | b"commondir" | b"gitdir" | b"index.lock" | b"locked" => GitEntry::Known,
        b"FETCH_HEAD"
        | b"ORIG_HEAD"
        | b"MERGE_HEAD"
        | b"CHERRY_PICK_HEAD"
        | b"REVERT_HEAD"
        | b"REBASE_HEAD"
        | b"AUTO_MERGE"
        | b"BISECT_HEAD"
        | b"BISECT_EXPECTED_REV"
        | b"MERGE_AUTOSTASH" => GitEntry::PseudoRef,
        b"rebase-merge"
        | b"rebase-apply"
        | b"sequencer"
        | b"BISECT_LOG"
        | b"BISECT_NAMES"
        | b"BISECT_START"
        | b"BISECT_TERMS"
        | b"BISECT_RUN"
        | b"BISECT_ANCESTORS_OK"
        | b"BISECT_FIRST_PARENT"
        | b"NOTES_MERGE_REF"
        | b"NOTES_MERGE_PARTIAL"
        | b"NOTES_MERGE_WORKTREE"
        | b"MERGE_RR"
        | b"rr-cache" => GitEntry::Operation,
        b"COMMIT_EDITMSG" | b"MERGE_MSG" | b"MERGE_MODE" | b"SQUASH_MSG" | b"TAG_EDITMSG" | b"NOTES_EDITMSG"
        | b"EDIT_DESCRIPTION" | b"gc.log" | b"gc.pid" | b"ADD_EDIT.patch" | b"BUNDLE_URI" => GitEntry::Message,
        // Other names in capitals are refs that some program keeps beside `HEAD`.
        _ if name.ends_with(b"_HEAD") && name.iter().all(|b| b.is_ascii_uppercase() || *b == b'_') => {
            GitEntry::PseudoRef
        }
        _ => GitEntry::Unknown,
    }
}

/// Whether a `description` is the text that git puts there.
pub(super) fn is_usual_description(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text.is_empty() || text == b"Unnamed repository; edit this file 'description' to name the repository."
}

/// The lines of `info/exclude` and the like that are no comment.
pub(super) fn rules(text: &[u8]) -> usize {
    let lines = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).count()
}

/// The ids (40 hex digits, alone between other characters) in a text, each with its line, counted from 1.
pub(super) fn ids_in(text: &[u8]) -> impl Iterator<Item = (usize, git2::Oid)> {
    text.split(|b| *b == b'\n').enumerate().flat_map(|(at, line)| {
        line.split(|b| !b.is_ascii_alphanumeric()).filter_map(crate::repo::raw::oid).map(move |id| (at + 1, id))
    })
}

/// A path or name as text: what is no printable text is escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_have_kinds() {
        for (name, kind) in [
            ("refs/heads/a/b", LeakKind::Branch),
            ("refs/remotes/origin/HEAD", LeakKind::RemoteBranch),
            ("refs/pull/7/head", LeakKind::PullRef),
            ("refs/stash", LeakKind::Stash),
            ("refs/stashes", LeakKind::OtherRef),
            ("refs/hidden/x", LeakKind::OtherRef),
            ("refs/bisect/bad", LeakKind::WorktreeRef),
        ] {
            assert_eq!(ref_kind(name.as_bytes()), kind, "{name}");
        }
    }

    #[test]
    fn entries_of_git_are_told_apart() {
        assert_eq!(git_entry(b"FETCH_HEAD"), GitEntry::PseudoRef);
        assert_eq!(git_entry(b"MY_TOOL_HEAD"), GitEntry::PseudoRef);
        assert_eq!(git_entry(b"my_HEAD"), GitEntry::Unknown);
        assert_eq!(git_entry(b"rebase-merge"), GitEntry::Operation);
        assert_eq!(git_entry(b"notes.txt"), GitEntry::Unknown);
        assert_eq!(git_entry(b"objects"), GitEntry::Known);
    }

    #[test]
    fn ids_are_found_with_their_lines() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let text = format!("x {id}\t\n\n{id}{id}\nref: {id}.\n0{id}");
        assert_eq!(ids_in(text.as_bytes()).map(|(line, _)| line).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(rules(b"# a\n\n  # b\n*.o\n"), 1);
        assert_eq!(shown(b"a\xff\n"), "a\\xff\\n");
    }
}
