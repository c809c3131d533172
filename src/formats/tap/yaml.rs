//! The first level of a YAML block, as far as test runners write it: plain, quoted and block scalars.

use std::collections::BTreeMap;

/// Reads `key: value` at the block's own indentation. Lists and nested maps are kept as the text below their key.
pub(super) fn first_level(lines: &[&str]) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    let mut lines = lines.iter().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = key_value(line) else { continue };
        let mut below = Vec::new();
        while let Some(inner) = lines.next_if(|l| l.trim().is_empty() || l.starts_with([' ', '\t', '-'])) {
            below.push(*inner);
        }
        let value = match value {
            "" => dedent(&below).join("\n"),
            mark if mark.starts_with('|') => dedent(&below).join("\n"),
            mark if mark.starts_with('>') => fold(&dedent(&below)),
            scalar => unquote(scalar),
        };
        map.insert(key.to_owned(), value.trim_end().to_owned());
    }
    map
}

fn key_value(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([' ', '\t', '-', '#']) {
        return None;
    }
    let (key, value) = line.split_once(':')?;
    // `a:b` is a plain scalar in YAML; a key's colon is followed by a blank or nothing.
    (value.is_empty() || value.starts_with([' ', '\t'])).then(|| (key.trim_matches(['"', '\'']), value.trim()))
}

fn dedent<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let common = lines.iter().filter(|l| !l.trim().is_empty()).map(|l| depth(l)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or_default()).collect()
}

/// Folded scalars: single line ends become blanks, empty lines stay.
fn fold(lines: &[&str]) -> String {
    let mut out = String::new();
    for line in lines {
        if line.is_empty() {
            out.push('\n');
        } else {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push(' ');
            }
            out.push_str(line);
        }
    }
    out
}

fn unquote(scalar: &str) -> String {
    let inside =
        |quote: char| scalar.strip_prefix(quote).and_then(|s| s.strip_suffix(quote)).filter(|_| scalar.len() > 1);
    if let Some(text) = inside('\'') {
        return text.replace("''", "'");
    }
    let Some(text) = inside('"') else { return scalar.to_owned() };
    // A double-quoted scalar's common escapes are JSON's.
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.to_owned())
}
