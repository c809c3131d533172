//! Variants of small fixes against what was written down by hand.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;
use crate::model::Comment;
use crate::repo::{Change, ChangeSet, FileContent, FileMode, TreePath};

/// Compiling all queries takes its time.
static LANGUAGES: LazyLock<Languages> = LazyLock::new(|| Languages::built_in().unwrap());

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn file(text: &str) -> FileContent {
    FileContent { mode: FileMode::Regular, content: text.into() }
}

/// A fix of one file.
fn fix(name: &str, old: &str, new: &str) -> (Fix, BTreeMap<TreePath, FileContent>) {
    let head = BTreeMap::from([(path(name), file(old))]);
    let merged = ChangeSet { changes: [(path(name), Change::Write(file(new)))].into() };
    (Fix::new(merged, &head, None), head)
}

/// The text that a variant gives the only file; the old one where it does not change it.
fn text_of(variant: &Variant, old: &str) -> String {
    match variant.changes.changes.values().next() {
        Some(Change::Write(file)) => String::from_utf8(file.content.clone()).unwrap(),
        Some(Change::Remove) => panic!("removed"),
        None => old.to_owned(),
    }
}

fn comment(line: Option<u64>, hunk: Option<&str>) -> Comment {
    serde_json::from_value(serde_json::json!({
        "id": "c", "text": "t", "path": "a.py", "original_line": line, "diff_hunk": hunk
    }))
    .unwrap()
}

fn rewritten(name: &str, old: &str, new: &str, way: &str) -> Option<String> {
    let languages = &*LANGUAGES;
    let (fix, _) = fix(name, old, new);
    rewrites(&fix, languages).iter().find(|variant| variant.name == way).map(|variant| text_of(variant, old))
}

#[test]
fn a_comment_is_found_by_what_the_host_showed() {
    let head = BTreeMap::from([(path("a.py"), file("x\na\nb\nx\na\nb\n"))]);
    let at = |line, hunk| place(&comment(line, hunk), &head).unwrap().lines;
    assert_eq!(at(Some(2), None), Some(1..2));
    assert_eq!(at(Some(99), None), None);
    // The numbers are of another commit; of two places the closer one is meant.
    assert_eq!(at(Some(99), Some("@@ -1 +1,2 @@\n a\n+b")), Some(5..6));
    assert_eq!(at(Some(2), Some("@@ -1 +1,2 @@\n a\n+b")), Some(2..3));
    assert_eq!(at(None, Some("@@ -1 +1 @@\n+nowhere")), None);
    // On the old side.
    assert_eq!(at(Some(1), Some("@@ -1 +1 @@\n x\n-a")), Some(0..1));
    assert_eq!(place(&comment(None, None), &head).unwrap().path, path("a.py"));
}

#[test]
fn near_misses_take_the_fix_away_and_drops_a_part_of_it() {
    let far = "\n".repeat(12);
    let old = format!("def f():\n    return 1\n{far}def g():\n    return 1\n");
    let new = format!("def f():\n    return 2\n{far}def g():\n    return 2\n");
    let (fix, head) = fix("a.py", &old, &new);
    let languages = &*LANGUAGES;
    let place = place(&comment(Some(2), None), &head).unwrap();
    let (made, spot) = controls(&fix, Some(&place), head.get(&path("a.py")), languages, 5);
    assert_eq!(spot, Spot::Lines);
    let names: Vec<(&str, Class)> = made.iter().map(|variant| (variant.name.as_str(), variant.class)).collect();
    // Without the file there is no change at all, which is the control `head`.
    let wanted = [
        (COMMENT_ONLY, Class::NearMiss),
        (FIX_AS_COMMENT, Class::NearMiss),
        (WITHOUT_NEAR, Class::NearMiss),
        ("drop a.py:16", Class::Drop),
    ];
    assert_eq!(names, wanted);
    assert_eq!(text_of(&made[0], &old), old.replacen("    return 1", "    # Looked at in review.\n    return 1", 1));
    let lines = "    #     return 2\n    #     return 2\n    return 1";
    assert_eq!(text_of(&made[1], &old), old.replacen("    return 1", lines, 1));
    assert_eq!(text_of(&made[2], &old), new.replacen("return 2", "return 1", 1));
    assert_eq!(text_of(&made[3], &old), old.replacen("return 1", "return 2", 1));

    // Where only the file is known, nobody can say which hunk matters.
    let anywhere = Place { lines: None, ..place };
    let (made, spot) = controls(&fix, Some(&anywhere), head.get(&path("a.py")), languages, 5);
    assert_eq!(spot, Spot::File);
    let near: Vec<&str> =
        made.iter().filter(|variant| variant.class == Class::NearMiss).map(|variant| variant.name.as_str()).collect();
    assert_eq!(near, [COMMENT_ONLY, FIX_AS_COMMENT]);
    assert_eq!(controls(&fix, None, None, languages, 5).1, Spot::Unknown);
}

#[test]
fn what_others_did_on_the_main_branch_is_no_part_of_the_fix() {
    let far = "\n".repeat(12);
    let text = |f: &str, g: &str, h: &str| format!("def f():\n{f}{far}def g():\n{g}{far}def h():\n{h}");
    let (one, two, more) = ("    return 1\n", "    return 2\n", "    log()\n    return 1\n");
    // The pull request brought a log line into f, and the fix changes g and takes that line out. Others changed h.
    let (base, head) = (text(one, one, one), text(more, one, one));
    let (before, landed) = (text(one, one, two), text(one, two, two));
    let files = |text: &str| BTreeMap::from([(path("a.py"), file(text))]);
    let mut merged = ChangeSet { changes: [(path("a.py"), Change::Write(file(&landed)))].into() };
    merged.changes.insert(path("b.py"), Change::Write(file("theirs\n")));
    let mut origins = Origins { base: Some(files(&base)), before: files(&before) };
    origins.before.insert(path("b.py"), file("theirs\n"));
    let fix = Fix::new(merged.clone(), &files(&head), Some(&origins));
    assert_eq!(fix.own, [path("a.py")].into());
    let edit = &fix.edits[0];
    let places: Vec<usize> = edit.hunks.iter().map(|hunk| hunk.old.start).collect();
    assert_eq!((edit.changes.len(), places), (3, vec![1, 16]));
    assert_eq!(edit.without(&edit.hunks.iter().collect::<Vec<_>>()), text(more, one, two));
    // Without the base it is the lines that only went which could be anybody's.
    let half = Origins { base: None, ..origins };
    let places = |fix: &Fix| fix.edits[0].hunks.iter().map(|hunk| hunk.old.start).collect::<Vec<_>>();
    assert_eq!(places(&Fix::new(merged.clone(), &files(&head), Some(&half))), [1, 16]);
    assert_eq!(Fix::new(merged, &files(&head), None).edits[0].hunks.len(), 3);
}

#[test]
fn hunks_that_cannot_stand_alone_are_no_drops() {
    let far = "\n".repeat(12);
    let old = format!("x = (1)\n{far}y = 2\n");
    let new = format!("x = (1\n{far})\ny = 2\n");
    let languages = &*LANGUAGES;
    let (both, _) = fix("a.py", &old, &new);
    assert_eq!(both.edits[0].hunks.len(), 2);
    assert_eq!(controls(&both, None, None, languages, 9).0, []);
    // Where no language is known, nobody can tell.
    let (both, _) = fix("a.txt", &old, &new);
    assert_eq!(controls(&both, None, None, languages, 9).0.len(), 2);
}

#[test]
fn rewrites_change_the_text_and_nothing_else() {
    let old = "x = 1\n";
    let new = "x = f(a, [1, 2], 'b', \"it's\", key='c')\n";
    let to = |way| rewritten("a.py", old, new, way);
    let broken = "x = f(a,\n        [1,\n        2],\n        'b',\n        \"it's\",\n        key='c')\n";
    assert_eq!(to("line-breaks").as_deref(), Some(broken));
    assert_eq!(to("quotes").as_deref(), Some("x = f(a, [1, 2], \"b\", \"it's\", key=\"c\")\n"));
    assert_eq!(to("joined-lines"), None);
    assert_eq!(rewritten("a.py", old, broken, "joined-lines").as_deref(), Some(new));
    assert_eq!(
        rewritten("a.py", "y = 1\n", "y = 1\nx = 2\n", "comments").as_deref(),
        Some("y = 1\n\n# The next lines are as before.\nx = 2\n")
    );
    // Quotes and breaks inside of formatted strings stay.
    assert_eq!(rewritten("a.py", old, "x = f\"{g(a, b)} 'c'\"\n", "line-breaks"), None);
    assert_eq!(rewritten("a.py", old, "x = f\"{g['c']}\"\n", "quotes"), None);
    assert_eq!(rewritten("a.py", old, "x = r'c'\n", "quotes"), None);
    // What does not parse is not rewritten.
    assert_eq!(rewritten("a.py", old, "x = f(a, (b\n", "line-breaks"), None);
    // Lines that the fix did not touch stay.
    assert_eq!(rewritten("a.py", "f(1, 2)\n", "f(1, 2)\nx = 1\n", "line-breaks"), None);
}

#[test]
fn imports_of_one_statement_change_places() {
    let to = |new| rewritten("a.py", "x = 1\n", new, "import-order");
    assert_eq!(to("from a import b, c as d, e\n").as_deref(), Some("from a import e, c as d, b\n"));
    assert_eq!(to("from a import b\n"), None);
    assert_eq!(to("from __future__ import b, c\n"), None);
    let js = rewritten("a.ts", "x\n", "import { a, b } from 'c'\n", "import-order");
    assert_eq!(js.as_deref(), Some("import { b, a } from 'c'\n"));
    let rust = rewritten("a.rs", "\n", "use a::{b, c};\n", "import-order");
    assert_eq!(rust.as_deref(), Some("use a::{c, b};\n"));
}

#[test]
fn only_names_that_are_local_for_certain_are_renamed() {
    let to = |new: &str| rewritten("a.py", "x = 1\n", new, "renamed-locals");
    let new = "def f(a, k=1):\n    b = a.b\n    for i in b:\n        g(b=b, i=i)\n    return f'{b}'\n";
    let wanted = "def f(a, k=1):\n    b_value = a.b\n    for i_value in b_value:\n        g(b=b_value, i=i_value)\n    return f'{b_value}'\n";
    assert_eq!(to(new).as_deref(), Some(wanted));
    for kept in [
        "def f(a):\n    a = 1\n    return a\n",
        "def f():\n    global b\n    b = 1\n",
        "def f():\n    b = 1\n    return lambda: b\n",
        "def f():\n    b = 1\n    return locals()\n",
        "def f():\n    b = 1\n    def g():\n        return b\n    return g\n",
        "def f():\n    b = 1\n    return f'{b=}'\n",
        "def f():\n    b = 1\n    return [b for b in c]\n",
        "b_value = 1\ndef f():\n    b = 1\n    return b\n",
        "b = 1\n",
    ] {
        assert_eq!(to(kept), None, "{kept}");
    }
}

#[test]
fn mutants_are_of_the_lines_of_the_fix() {
    let languages = &*LANGUAGES;
    let old = "def f(a):\n    \"\"\"x\"\"\"\n    return a == 1\n";
    let new = "def f(a):\n    \"\"\"y\"\"\"\n    if a > 2 and a:\n        raise E('m')\n    return a == 1\n";
    let (fix, _) = fix("a.py", old, new);
    let (made, count) = mutants(&fix, languages, &|_, _| true, 1, 100);
    let mut texts: Vec<String> = made
        .iter()
        .map(|mutant| text_of(mutant, old))
        .map(|text| text.lines().skip(2).take(2).map(str::trim).collect::<Vec<_>>().join(" "))
        .collect();
    texts.sort();
    let wanted = [
        "if a <= 2 and a: raise E('m')",
        "if a > (2 + 1) and a: raise E('m')",
        "if a > 2 and a: pass",
        "if a > 2 and a: raise E(\"\")",
        "if a > 2 or a: raise E('m')",
        "if a >= 2 and a: raise E('m')",
        "if not (a > 2 and a): raise E('m')",
    ];
    assert_eq!((texts, count), (wanted.map(str::to_owned).to_vec(), 7));
    // The same seed draws the same ones, and fewer of them are the first ones.
    let (few, _) = mutants(&fix, languages, &|_, _| true, 1, 3);
    assert_eq!(few, made[..3]);
    assert_ne!(mutants(&fix, languages, &|_, _| true, 2, 3).0, few);
    let (of_line, _) = mutants(&fix, languages, &|_, line| line == 3, 1, 100);
    assert_eq!(of_line.len(), 2);
    assert!(of_line.iter().all(|mutant| mutant.about.contains("at line 4 of a.py")));
}

#[test]
fn every_language_has_mutants() {
    let languages = &*LANGUAGES;
    for (name, new, least) in [
        ("a.js", "function f(a) {\n  if (a > 1 && a) { g(a); }\n  return a + 1;\n}\n", 8),
        ("a.ts", "function f(a: number): number {\n  if (a > 1) { throw a; }\n  return a + 1;\n}\n", 6),
        ("a.tsx", "const f = (a: number) => <p>{a > 1 ? a : 2}</p>\n", 4),
        ("a.rs", "fn f(a: i32) -> i32 {\n    if a > 1 { g(a); }\n    a + 1\n}\n", 6),
    ] {
        let (fix, _) = fix(name, "\n", new);
        let (made, _) = mutants(&fix, languages, &|_, _| true, 1, 100);
        assert!(made.len() >= least, "{name}: {made:#?}");
    }
}

#[test]
fn lines_of_code_are_told_from_others() {
    let languages = &*LANGUAGES;
    let new = "def f(a):\n    '''Says\n    something.'''\n    # why\n\n    x = g(a,\n          b)\n    if (x or\n            a):\n        y()\n";
    let edit = Edit::new(&path("a.py"), "\n", new).unwrap();
    let found: Vec<(usize, usize)> =
        code_lines(&edit, languages).iter().map(|code| (code.line, code.statement)).collect();
    assert_eq!(found, [(0, 0), (5, 5), (6, 5), (7, 7), (8, 7), (9, 9)]);
    assert_eq!(code_lines(&Edit::new(&path("a.txt"), "", "a\n").unwrap(), languages), []);
}
