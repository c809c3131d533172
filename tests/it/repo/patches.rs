//! Patches against git: its own diffs lead where they should, and nothing hostile gets out.

use git2::Oid;
use proptest::prelude::*;
use redgreen::repo::{
    ApplyMethod, Change, ChangeSet, FileContent, FileMode, MemoryTree, TreePath, apply_patch, normalise_patch,
};

use super::{git_command, me, write_tree};

/// Some text files: few distinct lines, so that hunks are repeated and context is weak.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof!["[ab]{1,2}", Just(String::new()), Just("    x = 1".to_owned()), Just("é\u{1}".to_owned())];
    let text = (proptest::collection::vec(line, 0..25), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(lines, ended, crlf)| {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = lines.join(end);
            if ended && !text.is_empty() {
                text.push_str(end);
            }
            text.into_bytes()
        },
    );
    prop_oneof![8 => text, 1 => proptest::collection::vec(any::<u8>(), 1..60)]
}

fn file() -> impl Strategy<Value = FileContent> {
    let mode = prop_oneof![8 => Just(FileMode::Regular), 2 => Just(FileMode::Executable), 1 => Just(FileMode::Symlink)];
    (mode, content()).prop_map(|(mode, mut content)| {
        if mode == FileMode::Symlink {
            content = b"some/target".iter().chain(&content).copied().filter(|b| *b != 0).collect();
        }
        FileContent { mode, content }
    })
}

/// A tree in which no file is another's folder.
fn tree() -> impl Strategy<Value = MemoryTree> {
    let name = prop_oneof![
        Just("a"),
        Just("b"),
        Just("d/a"),
        Just("d/e/b"),
        Just("d/sp ace"),
        Just("q\"uote\\"),
        Just("é/ü"),
        Just("t\tab")
    ];
    proptest::collection::btree_map(name.prop_map(|n| TreePath::new(n).unwrap()), file(), 0..7)
        .prop_map(|files| MemoryTree { files })
}

fn store(git: &git2::Repository, tree: &MemoryTree) -> Oid {
    let entry = |file: &FileContent| (file.mode.to_git().cast_signed(), git.blob(&file.content).unwrap());
    write_tree(git, &tree.files.iter().map(|(p, f)| (p.as_bytes().to_vec(), entry(f))).collect())
}

fn diff(git: &git2::Repository, old: Oid, new: Oid, renames: bool, context: u32) -> Vec<u8> {
    let mut options = git2::DiffOptions::new();
    options.show_binary(true).context_lines(context).id_abbrev(40);
    let (old, new) = (git.find_tree(old).unwrap(), git.find_tree(new).unwrap());
    let mut diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options)).unwrap();
    if renames {
        let mut find = git2::DiffFindOptions::new();
        find.renames(true).rename_threshold(30);
        diff.find_similar(Some(&mut find)).unwrap();
    }
    let mut text = Vec::new();
    diff.print(git2::DiffFormat::Patch, |_, _, line| {
        if matches!(line.origin(), ' ' | '+' | '-') {
            text.push(line.origin() as u8);
        }
        text.extend_from_slice(line.content());
        true
    })
    .unwrap();
    text
}

fn applied(base: &MemoryTree, changes: &ChangeSet) -> MemoryTree {
    let mut result = base.clone();
    for (path, change) in &changes.changes {
        match change {
            Change::Remove => drop(result.files.remove(path)),
            Change::Write(file) => drop(result.files.insert(path.clone(), file.clone())),
        }
    }
    result
}

/// A file whose kind changes between file and link is two entries in git's diffs, which libgit2 prints as one.
fn same_kinds(old: &MemoryTree, new: &MemoryTree) -> bool {
    let link = |f: &FileContent| f.mode == FileMode::Symlink;
    old.files.iter().all(|(p, f)| new.files.get(p).is_none_or(|n| link(f) == link(n)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_diff_between_two_trees_leads_from_one_to_the_other(old in tree(), new in tree(), renames: bool) {
        prop_assume!(same_kinds(&old, &new));
        let dir = tempfile::tempdir().unwrap();
        let git = git2::Repository::init_bare(dir.path()).unwrap();
        let patch = diff(&git, store(&git, &old), store(&git, &new), renames, 3);
        let result = apply_patch(&old, &patch);
        let result = result.map_err(|e| TestCaseError::fail(format!("{e}\n{}", patch.escape_ascii())))?;
        prop_assert_eq!(result.method, ApplyMethod::Exact);
        prop_assert_eq!(&applied(&old, &result.changes), &new);
        // The change set is exactly the difference, and the regular form is a fixed point that means the same.
        let real = |(p, c): (&TreePath, &Change)| match c {
            Change::Remove => old.files.contains_key(p),
            Change::Write(f) => old.files.get(p) != Some(f),
        };
        prop_assert!(result.changes.changes.iter().all(real));
        let again = normalise_patch(&result.normalised).unwrap();
        prop_assert_eq!(&again.text, &result.normalised);
        prop_assert_eq!(apply_patch(&old, &again.text).unwrap().changes, result.changes);
    }

    #[test]
    fn a_patch_without_context_goes_by_its_line_numbers(old in content(), new in content()) {
        let of = |content: Vec<u8>| MemoryTree {
            files: [(TreePath::new("a").unwrap(), FileContent { mode: FileMode::Regular, content })].into(),
        };
        let (old, new) = (of(old), of(new));
        let dir = tempfile::tempdir().unwrap();
        let git = git2::Repository::init_bare(dir.path()).unwrap();
        let patch = diff(&git, store(&git, &old), store(&git, &new), false, 0);
        let result = apply_patch(&old, &patch);
        let result = result.map_err(|e| TestCaseError::fail(format!("{e}\n{}", patch.escape_ascii())))?;
        prop_assert_eq!(applied(&old, &result.changes), new);
    }

    #[test]
    fn a_broken_patch_neither_panics_nor_leaves_the_tree(
        old in tree(), new in tree(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0..12_usize, "[-+ @a./\\\\\n0-9]{0,4}"), 1..5),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let git = git2::Repository::init_bare(dir.path()).unwrap();
        let mut patch = diff(&git, store(&git, &old), store(&git, &new), true, 3);
        for (at, length, text) in cuts {
            let at = at.index(patch.len() + 1);
            let end = patch.len().min(at + length);
            patch.splice(at..end, text.bytes());
        }
        check_hostile(&old, &patch)?;
    }

    #[test]
    fn hostile_paths_never_leave_the_tree(
        names in proptest::collection::vec("(\\.\\./|/|a/|b/|\\.git/|\\.GIT|l/|d/|\\./){0,4}[ablx]?", 1..4),
        kinds in proptest::collection::vec(0..5_u8, 4),
    ) {
        let mut patch = String::new();
        for (name, kind) in names.iter().zip(kinds) {
            let (q, hunk) = (name.as_str(), "@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file\n");
            patch.push_str(&match kind {
                0 => format!("diff --git a/{q} b/{q}\nnew file mode 120000\n--- /dev/null\n+++ b/{q}\n{hunk}"),
                1 => format!("diff --git a/{q} b/{q}\nnew file mode 100644\n--- /dev/null\n+++ b/{q}\n{hunk}"),
                2 => format!("--- /dev/null\n+++ {q}\n{hunk}"),
                3 => format!("diff --git a/a b/{q}\nrename from a\nrename to {q}\n"),
                _ => format!("diff --git a/l b/{q}\ncopy from l\ncopy to {q}\n"),
            });
        }
        let file = |mode, content: &[u8]| FileContent { mode, content: content.to_vec() };
        let old = MemoryTree {
            files: [
                (TreePath::new("a").unwrap(), file(FileMode::Regular, b"1\n")),
                (TreePath::new("l").unwrap(), file(FileMode::Symlink, b"/tmp")),
            ].into(),
        };
        check_hostile(&old, patch.as_bytes())?;
    }

    #[test]
    fn garbage_never_panics(patch in proptest::collection::vec(any::<u8>(), 0..300), text in "[-+@ \\\\a/bdif\n0-9]{0,200}") {
        let _ = apply_patch(&MemoryTree::default(), &patch);
        let _ = apply_patch(&MemoryTree::default(), text.as_bytes());
        let framed = format!("diff --git a/x b/x\n--- /dev/null\n+++ b/x\n{text}");
        check_hostile(&MemoryTree::default(), framed.as_bytes())?;
        let binary = format!("diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\ndelta 9\n{text}\n");
        check_hostile(&MemoryTree::default(), binary.as_bytes())?;
    }
}

/// Applies a patch that may be anything; what it changes must land inside a layer and nowhere else.
fn check_hostile(old: &MemoryTree, patch: &[u8]) -> Result<(), TestCaseError> {
    let Ok(result) = apply_patch(old, patch) else { return Ok(()) };
    let dir = tempfile::tempdir().unwrap();
    let layer = dir.path().join("layer");
    fs_err::create_dir(&layer).unwrap();
    result.changes.materialise(&layer, me()).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let beside = fs_err::read_dir(dir.path()).unwrap().count();
    prop_assert_eq!(beside, 1, "something was written beside the layer");
    let below = |e: &walkdir::DirEntry| {
        e.path().strip_prefix(&layer).unwrap().components().any(|c| c.as_os_str().eq_ignore_ascii_case(".git"))
    };
    prop_assert!(!walkdir::WalkDir::new(&layer).into_iter().flatten().any(|e| below(&e)));
    // The result is a tree: no file lies below another, and no link is written through.
    let after = applied(old, &result.changes);
    for path in after.files.keys() {
        prop_assert!(path.ancestors().all(|up| !after.files.contains_key(&up)), "{}", path);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// The strictest method accepts what `git apply` accepts, with the same result. (Where a hunk has no context at
    /// all we ask for its stated line, which git does not; and git takes a line that the patch shows as the file's last,
    /// without a newline, for the beginning of the text in any place.)
    #[test]
    fn exact_means_what_git_apply_means(old in content(), new in content(), other in content(), context in 1..4_u32) {
        prop_assume!([&old, &new, &other].iter().all(|c| !c.contains(&0) && !c.is_empty()));
        let of = |content: &[u8]| MemoryTree {
            files: [(TreePath::new("a").unwrap(), FileContent { mode: FileMode::Regular, content: content.to_vec() })].into(),
        };
        let dir = tempfile::tempdir().unwrap();
        let git2 = git2::Repository::init(dir.path()).unwrap();
        let patch = diff(&git2, store(&git2, &of(&old)), store(&git2, &of(&new)), false, context);
        prop_assume!(!patch.is_empty() && !patch.windows(16).any(|w| w == b"GIT binary patch"));
        // Applied to another file than it was made from, or to one with a line more.
        let shifted = [b"first\n".as_slice(), &old].concat();
        for base in [&other, &shifted] {
            fs_err::write(dir.path().join("a"), base).unwrap();
            fs_err::write(dir.path().join("p.diff"), &patch).unwrap();
            let theirs = git_command(dir.path(), &["apply", "--whitespace=nowarn", "p.diff"]).output().unwrap();
            let ours = apply_patch(&of(base), &patch);
            let exact = ours.as_ref().ok().filter(|a| a.method == ApplyMethod::Exact);
            let note = || format!("{}\non {}", patch.escape_ascii(), base.escape_ascii());
            let bare = patch.split(|b| *b == b'\n').all(|l| !l.starts_with(b" "));
            let open_end = patch.split(|b| *b == b'\n').any(|l| l.starts_with(b"\\"));
            if theirs.status.success() {
                if let Some(ours) = exact {
                    let want = fs_err::read(dir.path().join("a")).unwrap();
                    prop_assert_eq!(applied(&of(base), &ours.changes), of(&want), "{}", note());
                } else {
                    prop_assert!(bare || open_end, "only git applies {}", note());
                }
            } else {
                prop_assert!(exact.is_none(), "only we apply {}", note());
            }
        }
    }
}
