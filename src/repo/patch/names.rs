//! File names in patch headers: quoting, timestamps, and the `a/` `b/` prefixes in their variants.

use super::quote::unquote;

/// Prefix pairs that git writes by itself (`diff.mnemonicPrefix` among them), and the common ones of people.
const PREFIX_PAIRS: [(&[u8], &[u8]); 8] = [
    (b"a", b"b"),
    (b"i", b"w"),
    (b"c", b"i"),
    (b"c", b"w"),
    (b"o", b"w"),
    (b"1", b"2"),
    (b"old", b"new"),
    (b"before", b"after"),
];

/// A name as a header has it: `None` is `/dev/null`.
pub(super) type Raw = Option<Vec<u8>>;

/// Reads the name of a `---`, `+++`, `rename from` … line; what follows a tab is a timestamp.
pub(super) fn header_name(text: &[u8]) -> Option<Raw> {
    let name = if text.first() == Some(&b'"') {
        unquote(text)?.0
    } else {
        let end = text.iter().position(|b| *b == b'\t').unwrap_or(text.len());
        text[..end].to_vec()
    };
    match name.as_slice() {
        b"" => None,
        b"/dev/null" => Some(None),
        _ => Some(Some(name)),
    }
}

/// Reads the two names after `diff --git `. Without quotes the place where the first ends is only clear when both are
/// equal apart from their prefixes; otherwise the other headers must name the files.
pub(super) fn git_line_names(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if text.first() == Some(&b'"') {
        let (old, rest) = unquote(text)?;
        let rest = rest.strip_prefix(b" ")?;
        let new = if rest.first() == Some(&b'"') { unquote(rest)?.0 } else { rest.to_vec() };
        return Some((old, new));
    }
    if let Some(at) = text.windows(2).position(|w| w == b" \"") {
        let (new, rest) = unquote(&text[at + 1..])?;
        return rest.is_empty().then(|| (text[..at].to_vec(), new));
    }
    let spaces = || text.iter().enumerate().filter(|(_, b)| **b == b' ').map(|(i, _)| i);
    let halves = |at: usize| (&text[..at], &text[at + 1..]);
    let same_below = |(old, new): &(&[u8], &[u8])| match (strip_one(old), strip_one(new)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    };
    let found = spaces().map(halves).find(|pair| pair.0 == pair.1);
    let found = found.or_else(|| spaces().map(halves).find(same_below));
    // One space alone leaves no doubt.
    let found = found.or_else(|| (spaces().count() == 1).then(|| spaces().map(halves).next()).flatten());
    found.map(|(old, new)| (old.to_vec(), new.to_vec()))
}

/// How many leading parts of the old and the new name are prefix: 0 or 1.
pub(super) fn prefix_level(old: Option<&[u8]>, new: Option<&[u8]>) -> usize {
    let first = |name: &[u8]| name.iter().position(|b| *b == b'/').map(|i| name[..i].to_vec());
    match (old, new) {
        (Some(old), Some(new)) => {
            let known = match (first(old), first(new)) {
                (Some(a), Some(b)) => PREFIX_PAIRS.iter().any(|(x, y)| (a == *x && b == *y) || (a == *y && b == *x)),
                _ => false,
            };
            let same_below = matches!((strip_one(old), strip_one(new)), (Some(a), Some(b)) if a == b);
            usize::from(known || (old != new && same_below))
        }
        (Some(old), None) => usize::from(old.starts_with(b"a/")),
        (None, Some(new)) => usize::from(new.starts_with(b"b/")),
        (None, None) => 0,
    }
}

/// Takes `level` leading parts off, and a leading `./`.
pub(super) fn strip(name: &[u8], level: usize) -> Vec<u8> {
    let name = if level == 1 { strip_one(name).unwrap_or(name) } else { name };
    let mut name = name;
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    name.to_vec()
}

/// The name read with the other prefix level, where that makes sense.
pub(super) fn other_reading(name: &[u8], level: usize) -> Option<Vec<u8>> {
    if level == 1 {
        return Some(strip(name, 0));
    }
    let slash = name.iter().position(|b| *b == b'/')?;
    // Only what looks like a prefix: a folder of the repository must not be dropped.
    PREFIX_PAIRS.iter().any(|(x, y)| name[..slash] == **x || name[..slash] == **y).then(|| strip(name, 1))
}

fn strip_one(name: &[u8]) -> Option<&[u8]> {
    let slash = name.iter().position(|b| *b == b'/')?;
    Some(&name[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(old: &str, new: &str) -> usize {
        let side = |s: &str| (s != "-").then(|| s.as_bytes().to_vec());
        prefix_level(side(old).as_deref(), side(new).as_deref())
    }

    #[test]
    fn prefixes() {
        for (old, new, want) in [
            ("a/x", "b/x", 1),
            ("i/x", "w/x", 1),
            ("src/x", "src/x", 0),
            ("x", "x", 0),
            ("orig/src/x", "patched/src/x", 1),
            ("a/x", "a/x", 0),
            ("a/x", "b/y", 1),
            ("-", "b/x", 1),
            ("-", "src/x", 0),
            ("a/x", "-", 1),
            ("x.orig", "x", 0),
        ] {
            assert_eq!(level(old, new), want, "{old} {new}");
        }
        assert_eq!(strip(b"a/./x", 1), b"x");
        assert_eq!(strip(b"a//etc/x", 1), b"/etc/x");
    }

    #[test]
    fn names_on_the_git_line() {
        let names = |t: &str| {
            git_line_names(t.as_bytes()).map(|(a, b)| (String::from_utf8(a).unwrap(), String::from_utf8(b).unwrap()))
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(names("a/x y b/x y"), pair("a/x y", "b/x y"));
        assert_eq!(names("a/x b/x b/x b/x"), pair("a/x b/x", "b/x b/x"));
        assert_eq!(names("a/one b/two"), pair("a/one", "b/two"));
        assert_eq!(names("a/one two b/three four"), None);
        assert_eq!(names(r#""a/\303\251" "b/\303\251""#), pair("a/é", "b/é"));
        assert_eq!(names(r#"a/plain "b/q\"x""#), pair("a/plain", "b/q\"x"));
        assert_eq!(names("src/x src/x"), pair("src/x", "src/x"));
    }

    #[test]
    fn timestamps_and_null() {
        assert_eq!(header_name(b"a/x y\t2024-01-01 10:00:00"), Some(Some(b"a/x y".to_vec())));
        assert_eq!(header_name(b"/dev/null"), Some(None));
        assert_eq!(header_name(b"/dev/null\t1970"), Some(None));
        assert_eq!(header_name(b""), None);
    }
}
