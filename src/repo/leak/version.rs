//! Which of two versions is later, as far as Python, npm and Cargo agree. Pure.

use std::cmp::Ordering;

/// A version taken apart: its numbers, and how final it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    epoch: u64,
    numbers: Vec<u64>,
    /// Below 0 before the release, 0 at it, above after it.
    stage: i8,
    stage_number: u64,
}

fn parse(text: &str) -> Option<Version> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix('v').unwrap_or(&text);
    // What is built on top of a version (`+local`) does not order it.
    let text = text.split('+').next().unwrap_or_default();
    let (epoch, text) = match text.split_once('!') {
        Some((epoch, rest)) => (epoch.parse().ok()?, rest),
        None => (0, text),
    };
    let mut numbers = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        numbers.push(rest[..end].parse().ok()?);
        rest = &rest[end..];
        match rest.strip_prefix('.') {
            Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => rest = after,
            _ => break,
        }
    }
    if numbers.is_empty() {
        return None;
    }
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    let rest = rest.trim_start_matches(['.', '-', '_']);
    let word: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
    let digits: String =
        rest[word.len()..].trim_start_matches(['.', '-', '_']).chars().take_while(char::is_ascii_digit).collect();
    let stage = match word.as_str() {
        "" if rest.is_empty() => 0,
        "post" | "rev" | "r" => 1,
        "dev" => -5,
        "a" | "alpha" => -4,
        "b" | "beta" => -3,
        "c" | "rc" | "pre" | "preview" => -2,
        // npm and Cargo order other words before the release, too.
        _ => -1,
    };
    Some(Version { epoch, numbers, stage, stage_number: digits.parse().unwrap_or(0) })
}

/// Whether `found` is later than `head`; `None` where one of them is no version.
pub(super) fn is_later(found: &str, head: &str) -> Option<bool> {
    let (found, head) = (parse(found)?, parse(head)?);
    let order = |v: &Version| (v.epoch, v.numbers.clone(), v.stage, v.stage_number);
    Some(order(&found).cmp(&order(&head)) == Ordering::Greater)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_order() {
        let ordered = [
            "0.9",
            "1.0.dev1",
            "1.0a1",
            "1.0.0-alpha.2",
            "1.0b1",
            "1.0rc1",
            "1.0rc2",
            "1.0",
            "1.0.post1",
            "1.0.1",
            "1.2",
            "1.10",
            "2",
            "18.2.0",
            "1!0.1",
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (other_at, other) in ordered.iter().enumerate() {
                assert_eq!(is_later(one, other), Some(at > other_at), "{one} {other}");
            }
        }
        for (one, same) in [("1.0", "1.0.0"), ("v1", "1"), ("1.0+local", "1.0"), ("1.0RC1", "1.0-rc.1")] {
            assert_eq!((is_later(one, same), is_later(same, one)), (Some(false), Some(false)), "{one} {same}");
        }
        assert_eq!(is_later("unknown", "1.0"), None);
        assert_eq!(is_later("1.0", ""), None);
    }
}
