//! Versions of toolchains: matched by prefix, ordered by their numbers.

use std::cmp::Ordering;

/// Whether `version` is `wanted` or a release of it: `3.11` takes `3.11` and `3.11.7`, neither `3.1` nor `3.110`.
///
/// The empty text and a leading `v` count for nothing, so that `v20` and `20` want the same.
pub fn matches_prefix(wanted: &str, version: &str) -> bool {
    let wanted = plain(wanted);
    let Some(rest) = plain(version).strip_prefix(wanted) else { return false };
    wanted.is_empty() || rest.is_empty() || rest.starts_with(['.', '-', '+'])
}

/// Orders versions by their numbers from left to right; a release goes after its own pre-releases (`1.0-beta` < `1.0`).
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (numbers_a, rest_a) = split(a);
    let (numbers_b, rest_b) = split(b);
    let length = numbers_a.len().max(numbers_b.len());
    let padded = |numbers: &[u64]| (0..length).map(|i| numbers.get(i).copied().unwrap_or(0)).collect::<Vec<_>>();
    padded(&numbers_a)
        .cmp(&padded(&numbers_b))
        .then_with(|| rest_a.is_empty().cmp(&rest_b.is_empty()))
        .then_with(|| rest_a.cmp(rest_b))
}

/// Whether `version` is at least `minimum`.
pub(super) fn at_least(version: &str, minimum: &str) -> bool {
    compare(version, minimum) != Ordering::Less
}

fn plain(version: &str) -> &str {
    let version = version.trim();
    version.strip_prefix('v').unwrap_or(version)
}

fn split(version: &str) -> (Vec<u64>, &str) {
    let version = plain(version);
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    (numbers.split('.').filter_map(|part| part.parse().ok()).collect(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_a_dot() {
        for (wanted, version) in
            [("3.11", "3.11.7"), ("3.11", "3.11"), ("", "3.8.1"), ("v20", "20.20.2"), ("1.95", "1.95.0-beta.1")]
        {
            assert!(matches_prefix(wanted, version), "{wanted} {version}");
        }
        for (wanted, version) in [("3.1", "3.11.7"), ("3.11.7", "3.11"), ("2", "20.1.0"), ("posix", "")] {
            assert!(!matches_prefix(wanted, version), "{wanted} {version}");
        }
    }

    #[test]
    fn numbers_order_and_text_does_not() {
        let mut versions = ["3.9.18", "3.11.7", "3.10.13", "3.8", "1.0", "1.0-beta", "v20.1"];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(versions, ["1.0-beta", "1.0", "3.8", "3.9.18", "3.10.13", "3.11.7", "v20.1"]);
        assert!(at_least("3.10.0", "3.8"));
        assert!(at_least("18.0.0", "18"));
        assert!(!at_least("3.7.16", "3.8"));
    }
}
