//! Patches of every kind against small trees in memory.

use super::*;
use crate::repo::{Change, ChangeSet, FileContent, FileMode, MemoryTree, TreePath};

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn tree(files: &[(&str, FileMode, &str)]) -> MemoryTree {
    let file = |mode, content: &str| FileContent { mode, content: content.into() };
    MemoryTree { files: files.iter().map(|(p, mode, content)| (path(p), file(*mode, content))).collect() }
}

fn plain(files: &[(&str, &str)]) -> MemoryTree {
    tree(&files.iter().map(|(p, c)| (*p, FileMode::Regular, *c)).collect::<Vec<_>>())
}

fn apply(base: &MemoryTree, patch: &str) -> Applied {
    apply_patch(base, patch.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{patch}"))
}

fn refuse(base: &MemoryTree, patch: &str) -> PatchError {
    apply_patch(base, patch.as_bytes()).expect_err(patch)
}

/// The change as text: `644 content`, `755 content`, `link target` or `gone`.
fn shown(changes: &ChangeSet) -> Vec<(String, String)> {
    let text = |change: &Change| match change {
        Change::Remove => "gone".to_owned(),
        Change::Write(file) => {
            let kind = match file.mode {
                FileMode::Regular => "644",
                FileMode::Executable => "755",
                FileMode::Symlink => "link",
            };
            format!("{kind} {}", String::from_utf8_lossy(&file.content))
        }
    };
    changes.changes.iter().map(|(p, c)| (p.to_string(), text(c))).collect()
}

#[track_caller]
fn assert_changes(applied: &Applied, want: &[(&str, &str)]) {
    let want: Vec<(String, String)> = want.iter().map(|(p, c)| ((*p).to_owned(), (*c).to_owned())).collect();
    assert_eq!(shown(&applied.changes), want);
}

const SIMPLE: &str = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";

#[test]
fn a_simple_patch_is_exact_and_needs_no_repair() {
    let applied = apply(&plain(&[("x.py", "a\nb\nc\n")]), SIMPLE);
    assert_changes(&applied, &[("x.py", "644 a\nB\nc\n")]);
    assert_eq!((applied.method, applied.log.len(), applied.repairs.len()), (ApplyMethod::Exact, 0, 0));
    assert_eq!(applied.normalised, SIMPLE.as_bytes());
}

#[test]
fn an_empty_patch_changes_nothing_and_prose_is_no_patch() {
    let base = plain(&[("x", "a\n")]);
    for empty in ["", "\n", "  \n\n", "```diff\n```\n"] {
        assert!(apply(&base, empty).changes.is_empty());
    }
    assert!(matches!(refuse(&base, "I could not do it.\n"), PatchError::Malformed { .. }));
}

#[test]
fn a_patch_that_ends_where_it_began_is_empty() {
    let base = plain(&[("x", "a\nb\n")]);
    let there = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n";
    let back = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-A\n+a\n b\n";
    assert!(apply(&base, &format!("{there}{back}")).changes.is_empty());
}

#[test]
fn forms_that_models_and_people_write() {
    let base = plain(&[("src/x.py", "a\nb\nc\n")]);
    let want = [("src/x.py", "644 a\nB\nc\n")];
    let hunk = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";
    let crlf = |text: &str| text.replace('\n', "\r\n");
    for (patch, repair) in [
        (format!("--- a/src/x.py\n+++ b/src/x.py\n{}", hunk.trim_end()), "last newline"),
        (crlf(&format!("--- a/src/x.py\n+++ b/src/x.py\n{hunk}")), "CRLF"),
        (format!("Here it is:\n\n```diff\n--- a/src/x.py\n+++ b/src/x.py\n{hunk}```\nDone - I hope.\n"), "fence"),
        (format!("--- src/x.py\n+++ src/x.py\n{hunk}"), "prefixes"),
        (format!("--- ./src/x.py\n+++ ./src/x.py\n{hunk}"), "prefixes"),
        (format!("diff --git src/x.py src/x.py\n--- src/x.py\n+++ src/x.py\n{hunk}"), "prefixes"),
        (format!("--- a/src/x.py\n+++ a/src/x.py\n{hunk}"), "read the file name"),
        (format!("--- a/src/x.py.orig\n+++ b/src/x.py\n{hunk}"), "two file names"),
        (format!("Index: src/x.py\n=====\n--- src/x.py\t(revision 1)\n+++ src/x.py\t(working copy)\n{hunk}"), "around"),
    ] {
        let applied = apply(&base, &patch);
        assert_changes(&applied, &want);
        assert!(applied.repairs.iter().any(|r| r.contains(repair)), "{repair}: {:?}", applied.repairs);
        assert_eq!(applied.method, ApplyMethod::Exact, "{patch}");
    }
    for patch in [
        format!("--- old/src/x.py\n+++ new/src/x.py\n{hunk}"),
        format!("diff --git i/src/x.py w/src/x.py\n--- i/src/x.py\n+++ w/src/x.py\n{hunk}"),
        format!("--- lib-1.0/src/x.py\n+++ lib-1.1/src/x.py\n{hunk}"),
    ] {
        let applied = apply(&base, &patch);
        assert_changes(&applied, &want);
        assert_eq!(applied.repairs.len(), 0, "{:?}", applied.repairs);
    }
}

#[test]
fn a_real_folder_named_a_is_found() {
    let base = plain(&[("a/x", "1\n"), ("b/x", "1\n")]);
    let applied = apply(&base, "--- a/x\n+++ a/x\n@@ -1 +1 @@\n-1\n+2\n");
    assert_changes(&applied, &[("a/x", "644 2\n")]);
}

#[test]
fn a_hunk_of_context_alone_is_not_cut_from_both_ends() {
    let base = plain(&[("x", "1\n2\n3\n")]);
    let patch = "--- a/x\n+++ b/x\n@@ @@\n one\n two\n three\n";
    assert!(matches!(refuse(&base, patch), PatchError::DoesNotApply { .. }));
}

#[test]
fn the_null_name_on_the_git_line_is_a_file_that_is_not_there() {
    let new = "diff --git /dev/null b/new\nnew file mode 100644\n";
    assert_changes(&apply(&plain(&[]), new), &[("new", "644 ")]);
    let gone = "diff --git a/x /dev/null\ndeleted file mode 100644\n";
    assert_changes(&apply(&plain(&[("x", "")]), gone), &[("x", "gone")]);
    // Whatever is read can be written and read again.
    for text in ["diff --git x /dev/null\n", "diff --git /dev/null x\n", new, gone] {
        let once = normalise_patch(text.as_bytes()).unwrap();
        assert_eq!(normalise_patch(&once.text).unwrap().text, once.text, "{text}");
    }
}

#[test]
fn mailed_patches() {
    let mail = format!("From abc Mon Sep 17\nSubject: [PATCH] x\n\n---\n x.py | 2 +-\n\n{SIMPLE}-- \n2.40.1\n\n");
    assert_changes(&apply(&plain(&[("x.py", "a\nb\nc\n")]), &mail), &[("x.py", "644 a\nB\nc\n")]);
}

#[test]
fn wrong_counts_and_missing_numbers() {
    let base = plain(&[("x.py", "a\nb\nc\nd\n")]);
    for header in ["@@ -1,7 +1,9 @@", "@@ -2,1 +2,1 @@ def f():", "@@ @@", "@@ ... @@"] {
        let applied = apply(&base, &format!("--- a/x.py\n+++ b/x.py\n{header}\n a\n-b\n+B\n c\n"));
        assert_changes(&applied, &[("x.py", "644 a\nB\nc\nd\n")]);
        assert_eq!(applied.method, ApplyMethod::Recount, "{header}");
        assert!(applied.log[0].starts_with("exact: "), "{:?}", applied.log);
    }
    let twice = plain(&[("x.py", "b\nc\nb\nc\n")]);
    assert!(matches!(refuse(&twice, "--- a/x.py\n+++ b/x.py\n@@ @@\n-b\n+B\n c\n"), PatchError::DoesNotApply { .. }));
}

#[test]
fn created_deleted_renamed_copied_and_modes() {
    let base = tree(&[
        ("old", FileMode::Regular, "1\n2\n3\n"),
        ("tool", FileMode::Regular, "#!/bin/sh\n"),
        ("dead", FileMode::Regular, "x\n"),
        ("empty", FileMode::Regular, ""),
        ("link", FileMode::Symlink, "old"),
    ]);
    let patch = "\
diff --git a/new b/new
new file mode 100755
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+n
\\ No newline at end of file
diff --git a/touch b/touch
new file mode 100644
index 0000000..e69de29
diff --git a/dead b/dead
deleted file mode 100644
--- a/dead
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/empty b/empty
deleted file mode 100644
index e69de29..0000000
diff --git a/old b/moved
similarity index 66%
rename from old
rename to moved
--- a/old
+++ b/moved
@@ -1,3 +1,3 @@
 1
-2
+two
 3
diff --git a/tool b/copy
similarity index 100%
copy from tool
copy to copy
diff --git a/tool b/tool
old mode 100644
new mode 100755
diff --git a/link b/link
index 489b07c..5716ca5 120000
--- a/link
+++ b/link
@@ -1 +1 @@
-old
\\ No newline at end of file
+moved
\\ No newline at end of file
";
    let applied = apply(&base, patch);
    assert_changes(
        &applied,
        &[
            ("copy", "644 #!/bin/sh\n"),
            ("dead", "gone"),
            ("empty", "gone"),
            ("link", "link moved"),
            ("moved", "644 1\ntwo\n3\n"),
            ("new", "755 n"),
            ("old", "gone"),
            ("tool", "755 #!/bin/sh\n"),
            ("touch", "644 "),
        ],
    );
    assert_eq!(applied.method, ApplyMethod::Exact);
    assert_eq!(apply_patch(&base, &applied.normalised).unwrap().changes, applied.changes);
}

#[test]
fn files_that_trade_names() {
    let base = plain(&[("a", "1\n"), ("b", "2\n")]);
    let patch = "diff --git a/a b/b\nrename from a\nrename to b\ndiff --git a/b b/a\nrename from b\nrename to a\n";
    assert_changes(&apply(&base, patch), &[("a", "644 2\n"), ("b", "644 1\n")]);
}

#[test]
fn a_file_becomes_a_link_and_a_folder_becomes_a_file() {
    let base = plain(&[("x", "1\n"), ("d/y", "2\n")]);
    let patch = "\
diff --git a/x b/x
deleted file mode 100644
--- a/x
+++ /dev/null
@@ -1 +0,0 @@
-1
diff --git a/x b/x
new file mode 120000
--- /dev/null
+++ b/x
@@ -0,0 +1 @@
+d
\\ No newline at end of file
diff --git a/d/y b/d/y
deleted file mode 100644
--- a/d/y
+++ /dev/null
@@ -1 +0,0 @@
-2
diff --git a/d b/d
new file mode 100644
--- /dev/null
+++ b/d
@@ -0,0 +1 @@
+3
";
    assert_changes(&apply(&base, patch), &[("d", "644 3\n"), ("d/y", "gone"), ("x", "link d")]);
}

#[test]
fn names_with_spaces_quotes_and_other_letters() {
    let base = plain(&[("a b.txt", "1\n"), ("é", "1\n"), ("q\"x", "1\n")]);
    let patch = "\
diff --git a/a b.txt b/a b.txt
--- a/a b.txt\t
+++ b/a b.txt\t
@@ -1 +1 @@
-1
+2
diff --git \"a/\\303\\251\" \"b/\\303\\251\"
--- \"a/\\303\\251\"
+++ \"b/\\303\\251\"
@@ -1 +1 @@
-1
+2
diff --git \"a/q\\\"x\" \"b/q\\\"x\"
old mode 100644
new mode 100755
";
    let applied = apply(&base, patch);
    assert_changes(&applied, &[("a b.txt", "644 2\n"), ("q\"x", "755 1\n"), ("é", "644 2\n")]);
    assert_eq!(String::from_utf8_lossy(&applied.normalised), patch);
}

#[test]
fn what_does_not_fit_the_tree_does_not_apply() {
    let base = plain(&[("x.py", "a\nother\nc\n"), ("d/y", "1\n")]);
    for (patch, part) in [
        (SIMPLE, "does not match"),
        ("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", "`none` is not there"),
        ("--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n", "`x.py` is there already"),
        ("--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "more content than the patch removes"),
        ("--- a/none\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "`none` is not there"),
        ("--- /dev/null\n+++ b/x.py/z\n@@ -0,0 +1 @@\n+a\n", "`x.py` is a file"),
        ("--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+a\n", "it is a folder"),
        ("diff --git a/x.py b/d/y\nrename from x.py\nrename to d/y\n", "`d/y` is there already"),
        ("diff --git a/x.py b/x.py\nold mode 120000\nnew mode 100644\n", "another type"),
        ("diff --git a/x.py b/x.py\nold mode 100644\nnew mode 120000\n", "change its type"),
    ] {
        let error = refuse(&base, patch);
        assert!(matches!(error, PatchError::DoesNotApply { .. }), "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let empty_link = "diff --git a/l b/l\nnew file mode 120000\nindex 0000000..e69de29\n";
    let long = format!("--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+a\n", "n".repeat(256));
    for patch in [empty_link, &long] {
        assert!(refuse(&base, patch).to_string().contains("cannot be written"));
    }
    match refuse(&base, SIMPLE) {
        PatchError::DoesNotApply { attempts } => {
            assert_eq!(attempts.iter().map(|(m, _)| *m).collect::<Vec<_>>(), ApplyMethod::ALL);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn all_or_nothing() {
    let base = plain(&[("x.py", "a\nb\nc\n"), ("y", "1\n")]);
    let patch = format!("{SIMPLE}--- a/y\n+++ b/y\n@@ -1 +1 @@\n-2\n+3\n");
    assert!(matches!(refuse(&base, &patch), PatchError::DoesNotApply { .. }));
}

#[test]
fn what_leaves_the_tree_is_refused_with_its_way() {
    let base = tree(&[("link", FileMode::Symlink, "/etc"), ("x", FileMode::Regular, "1\n")]);
    let new = |name: &str| {
        format!("diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n")
    };
    let make_link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n";
    for (patch, how) in [
        (new("../x"), Escape::Parent),
        (new("d/../../x"), Escape::Parent),
        (new("/etc/x"), Escape::Absolute),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n".to_owned(), Escape::Absolute),
        (new(".git/hooks/pre-commit"), Escape::GitFolder),
        (new(".GIT/config"), Escape::GitFolder),
        (new("sub/.git"), Escape::GitFolder),
        (new(".git /config"), Escape::GitFolder),
        (new("git~1/config"), Escape::GitFolder),
        (new("link/x"), Escape::Symlink("link".to_owned())),
        (format!("{make_link}{}", new("l/x")), Escape::Symlink("l".to_owned())),
        (format!("{}{make_link}", new("l/x")), Escape::Symlink("l".to_owned())),
        ("--- a/link/passwd\n+++ b/link/passwd\n@@ -1 +1 @@\n-a\n+b\n".to_owned(), Escape::Symlink("link".to_owned())),
        ("diff --git a/x b/.git/x\nrename from x\nrename to .git/x\n".to_owned(), Escape::GitFolder),
        ("diff --git a/../x b/y\ncopy from ../x\ncopy to y\n".to_owned(), Escape::Parent),
        (
            format!("diff --git a/link b/d\nrename from link\nrename to d\n{}", new("d/x")),
            Escape::Symlink("d".to_owned()),
        ),
    ] {
        match refuse(&base, &patch) {
            PatchError::Escapes { how: found, .. } => assert_eq!(found, how, "{patch}"),
            other => panic!("{other}\n{patch}"),
        }
    }
    // A link that leads outside is itself harmless; the sandbox sees to what is read through it.
    assert_changes(&apply(&base, make_link), &[("l", "link /etc")]);
}

#[test]
fn malformed_patches_name_the_line() {
    let base = plain(&[("x", "a\n")]);
    for (patch, line) in [
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n", 3),
        ("diff --git a/x b/x\n--- a/x\nnothing\n", 3),
        ("diff --git a/x b/x\n--- a/x\n+++ b/x\nnothing\n", 4),
        ("text\n@@ -1 +1 @@\n-a\n+b\n", 2),
        ("diff --git a/x b/x\nold mode abc\n", 2),
        ("diff --git a/x b/x\nGIT binary patch\nliteral x\n", 3),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n~~~\n", 4),
        ("diff --git a/x b/y\nrename from x\n", 1),
        ("diff --git a/one two b/three four\n", 1),
        ("diff --git a/x \n", 1),
        ("diff --git a//dev/null b//dev/null\nold mode 100644\n", 1),
        ("diff --git a/x b//dev/null\n", 1),
    ] {
        match refuse(&base, patch) {
            PatchError::Malformed { line: found, .. } => assert_eq!(found, line, "{patch}"),
            other => panic!("{other}\n{patch}"),
        }
    }
}

#[test]
fn binary_files_need_their_content() {
    let base = plain(&[("x", "a\n")]);
    let patch = "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n";
    assert!(matches!(refuse(&base, patch), PatchError::UnsupportedBinary { .. }));
    let gone = "diff --git a/x b/x\ndeleted file mode 100644\nindex 1..0\nBinary files a/x and /dev/null differ\n";
    assert_changes(&apply(&base, gone), &[("x", "gone")]);
}

#[test]
fn a_binary_patch_is_for_one_content_only() {
    // The ids are of no content at all; what the data says does not come into it.
    let patch = "\
diff --git a/x b/x
index 6aaf9e3cf15b90e1ee8bb3ff81b5e2ba2a5f5a8b..0a3b2d4f6a7e0d4f8c7b3a0a9c8d7e6f5a4b3c2d 100644
GIT binary patch
literal 4
LcmZQzWMXDv0003F

";
    let base = plain(&[("x", "\0\u{1}\u{2}")]);
    let error = refuse(&base, patch);
    assert!(error.to_string().contains("is not the binary file"), "{error}");
}

#[test]
fn crlf_files_with_patches_that_lost_their_carriage_returns() {
    let base = plain(&[("x", "a\r\nb\r\nc\r\n")]);
    let applied = apply(&base, "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+new\n c\n");
    assert_changes(&applied, &[("x", "644 a\r\nB\r\nnew\r\nc\r\n")]);
    assert_eq!(applied.method, ApplyMethod::LineEnds);
    // CR in the content of a patch that is itself LF is content.
    let applied = apply(&base, "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\n c\r\n");
    assert_changes(&applied, &[("x", "644 a\r\nB\nc\r\n")]);
    assert_eq!(applied.method, ApplyMethod::Exact);
}

#[test]
fn submodules_are_left_out_by_name() {
    let base = plain(&[("x.py", "a\nb\nc\n")]);
    let pointer = "diff --git a/sub b/sub\nindex 1111111..2222222 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n";
    let applied = apply(&base, &format!("{pointer}{SIMPLE}"));
    assert_changes(&applied, &[("x.py", "644 a\nB\nc\n")]);
    assert!(applied.repairs.iter().any(|r| r.contains("`sub`")), "{:?}", applied.repairs);
}

#[test]
fn too_large_is_said_with_the_limit() {
    let patch = vec![b'\n'; usize::try_from(MAX_PATCH).unwrap() + 1];
    assert!(matches!(apply_patch(&plain(&[]), &patch), Err(PatchError::TooLarge { .. })));
    let bomb = "diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 99999999999\nAVE_OC\n\n";
    assert!(matches!(refuse(&plain(&[]), bomb), PatchError::TooLarge { .. }));
}
