use super::*;

const FILE: &str = "import os\n\n\ndef area(w, h):\n    return w * h\n\n\ndef price(total, rate):\n    cut = total * rate\n    return total - cut\n\n\ndef name(x):\n    return x\n";

/// A comment on `return total - cut` (line 10), whose hunk begins at line 7.
const HUNK: &str =
    "@@ -7,3 +7,5 @@ def area(w, h):\n \n+def price(total, rate):\n+    cut = total * rate\n+    return total - cut";

fn on(text: &str, hunk: &str, side: Side, lines: usize) -> Option<Fit> {
    let hunk = Hunk::parse(hunk).unwrap();
    fit(&Asked { hunk: &hunk, side, lines, line: None }, &lines_of(text))
}

fn new(text: &str, hunk: &str, lines: usize) -> Option<(Quality, usize, usize)> {
    on(text, hunk, Side::New, lines).map(|f| (f.quality, f.first, f.last))
}

#[test]
fn a_hunk_is_read_with_both_sides_and_their_lines() {
    let hunk = Hunk::parse("@@ -3,4 +10 @@ fn x()\n a\n-b\n+c\n\n\\ No newline at end of file\n+d\r\n").unwrap();
    assert_eq!(hunk.side(Side::Old), ["a", "b", ""]);
    assert_eq!(hunk.side(Side::New), ["a", "c", "", "d"]);
    assert_eq!((hunk.start(Side::Old), hunk.last(Side::Old)), (3, Some(5)));
    assert_eq!((hunk.start(Side::New), hunk.last(Side::New)), (10, Some(13)));
    let removed = Hunk::parse("@@ -1,1 +0,0 @@\n-gone").unwrap();
    assert_eq!((removed.last(Side::Old), removed.last(Side::New)), (Some(1), None));
}

#[test]
fn what_is_no_hunk_is_said_to_be_none() {
    for (text, error) in [
        ("", HunkError::Empty),
        ("\n+a", HunkError::Empty),
        ("+a", HunkError::NoHeader),
        ("@@ -1 @@\n a", HunkError::NoHeader),
        ("@@ -x,1 +1,1 @@\n a", HunkError::NoHeader),
        ("@@ -1,1 +99999999999999999999999,1 @@\n a", HunkError::NoHeader),
        ("@@ -1,1 +1,1 @@\n a\nb", HunkError::BadLine(3)),
        ("@@ -1,1 +1,1 @@\n a\nüb", HunkError::BadLine(3)),
    ] {
        assert_eq!(Hunk::parse(text), Err(error), "{text:?}");
    }
}

#[test]
fn all_lines_where_the_hunk_says() {
    assert_eq!(new(FILE, HUNK, 1), Some((Quality::Exact, 10, 10)));
    assert_eq!(new(FILE, HUNK, 3), Some((Quality::Exact, 8, 10)));
    // More commented lines than the hunk has are all it has.
    assert_eq!(new(FILE, HUNK, 99), Some((Quality::Exact, 7, 10)));
    assert_eq!(new(FILE, HUNK, 0), Some((Quality::Exact, 10, 10)));
}

#[test]
fn all_lines_at_one_other_place() {
    let moved = format!("# one\n# two\n{FILE}");
    assert_eq!(new(&moved, HUNK, 1), Some((Quality::Moved, 12, 12)));
    assert_eq!(new(&moved, HUNK, 2), Some((Quality::Moved, 11, 12)));
}

#[test]
fn two_places_are_no_place() {
    let twice = format!("# moved\n{FILE}{FILE}");
    assert_eq!(new(&twice, HUNK, 1), None);
    // Where one of them is where the hunk says, it is meant.
    assert_eq!(new(&format!("{FILE}{FILE}"), HUNK, 1), Some((Quality::Exact, 10, 10)));
}

#[test]
fn lines_that_say_nothing_are_found_only_where_the_hunk_says() {
    let hunk = "@@ -1,2 +1,2 @@\n+{\n+}";
    assert_eq!(new("{\n}\n", hunk, 1), Some((Quality::Exact, 2, 2)));
    assert_eq!(new("x\n{\n}\n", hunk, 1), None);
}

#[test]
fn white_space_and_a_changed_line_above_do_not_hide_the_commented_line() {
    let other = FILE.replace("    cut = total * rate\n    return", "  cut =  total * rate\n  return");
    let found = new(&other, HUNK, 1).unwrap();
    assert_eq!((found.1, found.2), (10, 10));
    assert!(matches!(found.0, Quality::Fuzzy(_)), "{found:?}");
    let other = FILE.replace("def price(total, rate):", "def price(total, rate, limit):");
    let found = new(&other, HUNK, 1).unwrap();
    assert!(matches!(found.0, Quality::Fuzzy(600..=999)) && found.2 == 10, "{found:?}");
}

#[test]
fn a_line_more_above_does_not_hide_it_either() {
    let other = FILE.replace("    cut = total", "    # the cut\n    cut = total");
    let found = new(&other, HUNK, 1).unwrap();
    assert!(matches!(found.0, Quality::Fuzzy(_)) && found.2 == 11, "{found:?}");
}

#[test]
fn where_the_commented_line_itself_changed_there_is_no_place() {
    assert_eq!(new(&FILE.replace("total - cut", "max(total - cut, 0)"), HUNK, 1), None);
    // Of several commented lines each counts.
    assert_eq!(new(&FILE.replace("cut = total * rate", "cut = total / rate"), HUNK, 2), None);
}

#[test]
fn the_same_line_in_other_surroundings_is_another_line() {
    let elsewhere =
        "class A:\n    def b(self):\n        pass\n\n    def c(self):\n        total = 1\n    return total - cut\n";
    assert_eq!(new(elsewhere, HUNK, 1), None);
}

#[test]
fn rough_places_that_are_about_as_good_are_none() {
    let block = "def price(total, rate, limit):\n    cut = total * rate\n    return total - cut\n";
    assert_eq!(new(&format!("\n{block}\n{block}"), HUNK, 1), None);
}

#[test]
fn the_hosts_line_helps_where_the_header_is_off() {
    let hunk = Hunk::parse("@@ -90,9 +90,9 @@\n     return x").unwrap();
    let text = "def f():\n    return x\ndef g():\n    return x\n";
    let at = |line| fit(&Asked { hunk: &hunk, side: Side::New, lines: 1, line }, &lines_of(text)).map(|f| f.last);
    assert_eq!((at(Some(4)), at(Some(2)), at(Some(1)), at(None)), (Some(4), Some(2), None, None));
    let far = Hunk::parse(&format!("@@ -{m},1 +{m},1 @@\n x", m = usize::MAX)).unwrap();
    assert_eq!(fit(&Asked { hunk: &far, side: Side::New, lines: 1, line: Some(usize::MAX) }, &["y"]), None);
    assert_eq!(far.last(Side::New), Some(usize::MAX));
}

#[test]
fn the_old_side_is_looked_for_in_the_old_file() {
    let old = "a = 1\nb = two(1)\nc = three(2)\n";
    let hunk = "@@ -1,3 +1,2 @@\n a = 1\n-b = two(1)";
    let found = on(old, hunk, Side::Old, 1).unwrap();
    assert_eq!((found.quality, found.first, found.last), (Quality::Exact, 2, 2));
    assert_eq!(on("a = 1\nc = three(2)\n", hunk, Side::Old, 1), None);
}

#[test]
fn a_side_without_lines_is_nowhere() {
    assert_eq!(new(FILE, "@@ -1,1 +0,0 @@\n-gone", 1), None);
    assert_eq!(new("", HUNK, 1), None);
    assert_eq!(new(FILE, "@@ -0,0 +1,0 @@", 1), None);
}

#[test]
fn windows_line_ends_of_either_do_not_count() {
    assert_eq!(new(&FILE.replace('\n', "\r\n"), HUNK, 1), Some((Quality::Exact, 10, 10)));
    assert_eq!(new(FILE, &HUNK.replace('\n', "\r\n"), 1), Some((Quality::Exact, 10, 10)));
}

#[test]
fn hostile_sizes_end_soon() {
    let file = "    return total - cut\n".repeat(50_000);
    assert_eq!(new(&file, HUNK, 1), None);
    let long = format!("@@ -1,9 +1,9 @@\n{}", "+x = 1\n".repeat(50_000));
    assert_eq!(new(FILE, &long, 1), None);
}

#[test]
fn qualities_are_in_order() {
    assert!(Quality::Fuzzy(700) < Quality::Fuzzy(701));
    assert!(Quality::Fuzzy(999) < Quality::Moved && Quality::Moved < Quality::Exact);
}
