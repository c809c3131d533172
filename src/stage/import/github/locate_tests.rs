use super::*;

/// Commits by name: the files of each, and when it was written. All are read against `base`.
struct Fake {
    files: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
    times: BTreeMap<&'static str, i64>,
}

impl Commits for Fake {
    fn has(&self, commit: &str) -> bool {
        self.files.contains_key(commit)
    }

    fn file(&self, commit: &str, path: &str) -> Option<Rc<str>> {
        self.files.get(commit)?.get(path).map(|text| Rc::from(*text))
    }

    fn base(&self, commit: &str) -> Option<String> {
        (commit != "base" && self.has(commit)).then(|| "base".to_owned())
    }

    fn authored(&self, commit: &str) -> i64 {
        self.times.get(commit).copied().unwrap_or_default()
    }
}

const ONE: &str = "def cut(x):\n    return x - 1\n\n\ndef add(x):\n    return x + 1\n";
const TWO: &str = "def cut(x):\n    return max(x - 1, 0)\n\n\ndef add(x):\n    return x + 1\n";
const HUNK: &str = "@@ -0,0 +1,6 @@\n+def cut(x):\n+    return x - 1";
const ADD: &str = "@@ -0,0 +1,6 @@\n+def cut(x):\n+    return x - 1\n+\n+\n+def add(x):\n+    return x + 1";
const OLD_HUNK: &str = "@@ -1,2 +0,0 @@\n-first()\n-second()";

fn fake() -> (Fake, Vec<String>) {
    let commits = [
        ("base", vec![("old.py", "first()\nsecond()\n")], 0),
        ("start", vec![("readme", "r"), ("old.py", "first()\nsecond()\n")], 10),
        ("a", vec![("calc.py", ONE)], 20),
        ("b", vec![("calc.py", ONE), ("other.py", "x = 1\n")], 30),
        ("c", vec![("calc.py", TWO), ("other.py", "x = 2\n")], 50),
    ];
    let files = commits.iter().map(|(name, files, _)| (*name, files.iter().copied().collect())).collect();
    let times = commits.iter().map(|(name, _, time)| (*name, *time)).collect();
    (Fake { files, times }, ["start", "a", "b", "c"].map(str::to_owned).to_vec())
}

fn thread(reviewed: &str, path: &str, hunk: &str) -> Wanted {
    Wanted {
        reviewed: Some(reviewed.to_owned()),
        path: Some(path.to_owned()),
        hunk: Hunk::parse(hunk).map_err(|e| e.to_string()),
        side: Side::New,
        lines: 1,
        line: None,
        file_level: false,
        written: Some(40),
    }
}

/// Commit, how it was found, lines there, and candidates; or why not.
type Place = Result<(String, How, Option<(usize, usize)>, usize), AttritionReason>;

fn located(wanted: &[Wanted]) -> Vec<Place> {
    let (fake, order) = fake();
    let found = locate(wanted, &order, &fake);
    found.into_iter().map(|f| f.map(|f| (f.commit, f.how, f.lines, f.candidates)).map_err(|n| n.reason)).collect()
}

fn at(commit: &str, how: How, lines: Option<(usize, usize)>, candidates: usize) -> Place {
    Ok((commit.to_owned(), how, lines, candidates))
}

#[test]
fn the_named_commit_counts_where_it_holds_the_hunk() {
    assert_eq!(located(&[thread("a", "calc.py", HUNK)]), [at("a", How::Commit, Some((2, 2)), 1)]);
}

#[test]
fn a_commit_that_is_gone_is_found_by_its_lines_and_not_by_dates() {
    // `a` and `b` have the lines; `b` is the later one that is not an answer to the comment.
    assert_eq!(located(&[thread("gone", "calc.py", HUNK)]), [at("b", How::Hunk, Some((2, 2)), 2)]);
    // Were all written later (dates lie), the first one is nearest to what was seen.
    let early = Wanted { written: Some(1), ..thread("gone", "calc.py", HUNK) };
    assert_eq!(located(&[early]), [at("a", How::Hunk, Some((2, 2)), 2)]);
    let undated = Wanted { written: None, ..thread("gone", "calc.py", HUNK) };
    assert_eq!(located(&[undated]), [at("b", How::Hunk, Some((2, 2)), 2)]);
}

#[test]
fn a_named_commit_without_the_lines_is_not_believed() {
    assert_eq!(located(&[thread("c", "calc.py", HUNK)]), [at("b", How::Hunk, Some((2, 2)), 2)]);
    assert_eq!(located(&[thread("start", "calc.py", HUNK)]), [at("b", How::Hunk, Some((2, 2)), 2)]);
}

#[test]
fn threads_of_one_review_go_to_the_commit_that_holds_most_of_them() {
    let only_b = thread("gone", "other.py", "@@ -0,0 +1,1 @@\n+x = 1");
    let late = Wanted { written: Some(100), ..thread("gone", "calc.py", HUNK) };
    assert_eq!(located(std::slice::from_ref(&late)), [at("b", How::Hunk, Some((2, 2)), 2)]);
    let early = Wanted { written: Some(25), ..late };
    assert_eq!(located(std::slice::from_ref(&early)), [at("a", How::Hunk, Some((2, 2)), 2)]);
    assert_eq!(located(&[early, only_b]), [at("b", How::Hunk, Some((2, 2)), 2), at("b", How::Hunk, Some((1, 1)), 1)]);
}

#[test]
fn threads_that_no_commit_holds_together_go_their_own_ways() {
    let in_c = thread("gone", "other.py", "@@ -0,0 +1,1 @@\n+x = 2");
    let found = located(&[thread("gone", "calc.py", HUNK), in_c]);
    assert_eq!(found, [at("b", How::Hunk, Some((2, 2)), 2), at("c", How::Hunk, Some((1, 1)), 1)]);
}

#[test]
fn rough_matches_come_after_whole_ones() {
    let changed_above = ADD.replace("x - 1", "x - 2");
    // In `a` and `b` five of six lines agree, in `c` as many: the best score is shared.
    let found = located(&[thread("gone", "calc.py", &changed_above)]);
    assert_eq!(found, [at("b", How::HunkFuzzy, Some((6, 6)), 3)]);
    // At the named commit a rough match is as good as its word, unless another commit has all.
    assert_eq!(located(&[thread("c", "calc.py", &changed_above)]), [at("c", How::HunkFuzzy, Some((6, 6)), 1)]);
    assert_eq!(located(&[thread("c", "calc.py", ADD)]), [at("b", How::Hunk, Some((6, 6)), 2)]);
}

#[test]
fn removed_lines_are_looked_for_in_the_base() {
    let old = Wanted { side: Side::Old, lines: 2, ..thread("a", "old.py", OLD_HUNK) };
    assert_eq!(located(std::slice::from_ref(&old)), [at("a", How::Commit, Some((1, 2)), 1)]);
    // In `start` the lines are still there.
    let gone = Wanted { reviewed: Some("gone".to_owned()), ..old.clone() };
    let found = located(&[gone]);
    assert_eq!(found, [at("b", How::Hunk, Some((1, 2)), 3)]);
    let part = Wanted { hunk: Hunk::parse("@@ -1,2 +1,1 @@\n-first()\n second()").map_err(|e| e.to_string()), ..old };
    assert_eq!(located(&[part])[0].as_ref().unwrap_err(), &AttritionReason::NotLocated);
}

#[test]
fn comments_on_whole_files() {
    let file = |reviewed: &str, path: &str| Wanted {
        file_level: true,
        hunk: Err("none".to_owned()),
        ..thread(reviewed, path, "")
    };
    assert_eq!(located(&[file("b", "other.py")]), [at("b", How::Commit, None, 1)]);
    // Two commits have the file with other content.
    assert_eq!(located(&[file("gone", "other.py")]), [Err(AttritionReason::Ambiguous)]);
    // With another thread of the same review there is no doubt.
    assert_eq!(
        located(&[file("gone", "other.py"), thread("gone", "calc.py", HUNK)]),
        [at("b", How::File, None, 2), at("b", How::Hunk, Some((2, 2)), 2)]
    );
    // A file that the pull request removes.
    assert_eq!(located(&[file("c", "old.py")]), [at("c", How::Commit, None, 1)]);
    assert_eq!(located(&[file("gone", "nowhere.py")]), [Err(AttritionReason::NotLocated)]);
}

#[test]
fn without_a_hunk_the_hosts_line_counts_at_its_commit_only() {
    let bare = |reviewed: &str, line| Wanted {
        hunk: Err("empty".to_owned()),
        line,
        lines: 2,
        ..thread(reviewed, "calc.py", "")
    };
    assert_eq!(located(&[bare("a", Some(2))]), [at("a", How::Commit, Some((1, 2)), 1)]);
    assert_eq!(
        located(&[bare("a", Some(99)), bare("gone", Some(2)), bare("a", None)]),
        vec![Err(AttritionReason::NotLocated); 3]
    );
}

#[test]
fn what_names_no_file_or_no_commit() {
    let nameless = Wanted { path: None, ..thread("a", "", HUNK) };
    let unnamed = Wanted { reviewed: None, ..thread("a", "calc.py", HUNK) };
    assert_eq!(located(&[nameless, unnamed]), [Err(AttritionReason::NotInline), at("b", How::Hunk, Some((2, 2)), 2)]);
    assert_eq!(
        locate(&[thread("gone", "calc.py", HUNK)], &[], &fake().0)[0].as_ref().unwrap_err().reason,
        AttritionReason::NotLocated
    );
}
