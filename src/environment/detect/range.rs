//! Ranges of versions in the grammars that projects write them in, asked of releases.

use std::str::FromStr;
use std::sync::LazyLock;

use regex::Regex;

use super::semver::Interval;
use crate::environment::detection::Grammar;
use crate::environment::version::{at_least, matches_prefix};

/// The longest text that is read as a range.
const MAX_TEXT: usize = 512;

static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d{1,6}(?:\.\d{1,6}){0,3}").ok());

/// A range of versions.
#[derive(Debug, Clone)]
pub(super) struct Range {
    kind: Kind,
    /// The versions that its text names: the places where it may begin or end in the middle of a release.
    named: Vec<String>,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Alternatives.
    Pep440(Vec<pep440_rs::VersionSpecifiers>),
    Semver(Vec<Interval>),
    AtLeast(String),
}

impl Range {
    /// Reads a range; the error says what was not understood.
    pub fn parse(grammar: Grammar, text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() > MAX_TEXT {
            return Err(format!("a range of {} bytes is not read", text.len()));
        }
        let kind = match grammar {
            Grammar::Pep440 => {
                let parts = text.split("||").map(|part| pep440(part.trim())).collect::<Result<_, _>>()?;
                Kind::Pep440(parts)
            }
            Grammar::Semver => Kind::Semver(super::semver::intervals(text)?),
            Grammar::Minimum => match numbers(text).into_iter().next() {
                Some(version) if text.trim_start_matches('v').starts_with(&version) => Kind::AtLeast(version),
                _ => return Err(format!("`{text}` is no version")),
            },
        };
        Ok(Self { kind, named: numbers(text) })
    }

    /// Whether some patch release of `release` (a prefix such as `3.11`) lies in the range.
    pub fn takes(&self, release: &str) -> bool {
        if let Kind::Semver(intervals) = &self.kind {
            return super::semver::of_release(release).is_some_and(|own| intervals.iter().any(|i| i.meets(own)));
        }
        let padded = |fill: &'static str| {
            let parts = release.split('.').chain(std::iter::repeat(fill)).take(3.max(release.split('.').count()));
            parts.collect::<Vec<_>>().join(".")
        };
        let within = self.named.iter().filter(|named| matches_prefix(release, named)).flat_map(|named| {
            // The version itself and those right beside it.
            let mut parts: Vec<u64> = named.split('.').filter_map(|part| part.parse().ok()).collect();
            parts.resize(parts.len().max(3), 0);
            let text = |parts: &[u64]| parts.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
            let mut after = parts.clone();
            after[2] = after[2].saturating_add(1);
            [text(&parts), text(&after)]
        });
        [padded("0"), padded("999")].into_iter().chain(within).any(|version| self.contains(&version))
    }

    fn contains(&self, version: &str) -> bool {
        match &self.kind {
            Kind::Pep440(alternatives) => pep440_rs::Version::from_str(version)
                .is_ok_and(|version| alternatives.iter().any(|specifiers| specifiers.contains(&version))),
            // Asked of whole releases alone.
            Kind::Semver(_) => false,
            Kind::AtLeast(minimum) => at_least(version, minimum),
        }
    }
}

/// The plain versions in a text.
pub(super) fn numbers(text: &str) -> Vec<String> {
    let found = NUMBERS.as_ref().map(|pattern| pattern.find_iter(text).map(|m| m.as_str().to_owned()).collect());
    found.unwrap_or_default()
}

/// One alternative: PEP 440, with poetry's `^1.2`, `~1.2`, `1.*` and a bare version, and conda's single `=`.
fn pep440(text: &str) -> Result<pep440_rs::VersionSpecifiers, String> {
    let mut specifiers = Vec::new();
    for part in text.split(',').flat_map(split_spaces).filter(|part| !part.is_empty()) {
        let caret = part.strip_prefix('^');
        let tilde = part.strip_prefix('~').filter(|rest| !rest.starts_with('='));
        if let Some(version) = caret.or(tilde).map(str::trim) {
            let parts: Vec<u64> = version.split('.').map_while(|part| part.parse().ok()).collect();
            // `^` lets all but the first number that is not zero grow; `~` only what comes after the second.
            let fixed = match caret {
                Some(_) => parts.iter().position(|&n| n > 0).unwrap_or(parts.len().saturating_sub(1)),
                None => 1.min(parts.len().saturating_sub(1)),
            };
            let Some(last) = parts.get(fixed) else { return Err(format!("`{part}` is no range")) };
            let mut end = parts[..fixed].to_vec();
            end.push(last.saturating_add(1));
            let end = end.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
            specifiers.push(format!(">={version}"));
            specifiers.push(format!("<{end}"));
        } else if part == "*" {
            continue;
        } else if part.starts_with(|c: char| c.is_ascii_digit()) {
            specifiers.push(format!("=={part}"));
        } else if part.starts_with('=') && !part.starts_with("==") {
            specifiers.push(format!("={part}.*"));
        } else {
            specifiers.push(part.to_owned());
        }
    }
    pep440_rs::VersionSpecifiers::from_str(&specifiers.join(","))
        .map_err(|error| error.to_string().lines().next().unwrap_or("not a range").to_owned())
}

/// `>=3.8 <4` is two parts, `>= 3.8` one.
fn split_spaces(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match out.last_mut() {
            Some(last) if last.chars().all(|c| "<>=!~^".contains(c)) => last.push_str(word),
            _ => out.push(word.to_owned()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken<'a>(grammar: Grammar, text: &str, releases: &[&'a str]) -> Vec<&'a str> {
        let range = Range::parse(grammar, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        releases.iter().copied().filter(|release| range.takes(release)).collect()
    }

    #[test]
    fn pythons_ranges() {
        let releases = ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12"];
        for (text, expected) in [
            (">=3.8", &["3.8", "3.9", "3.10", "3.11", "3.12"][..]),
            (">= 3.8, < 3.11", &["3.8", "3.9", "3.10"]),
            (">=3.8 <3.10", &["3.8", "3.9"]),
            (">=3.8.1,<3.8.5", &["3.8"]),
            (">3.9", &["3.9", "3.10", "3.11", "3.12"]),
            ("<=3.7", &["2.7", "3.6", "3.7"]),
            ("!=3.0.*,!=3.1.*,>=2.7,<3.7", &["2.7", "3.6"]),
            ("~=3.10", &["3.10", "3.11", "3.12"]),
            ("~=3.10.2", &["3.10"]),
            ("==3.11.4", &["3.11"]),
            ("==3.9.*", &["3.9"]),
            ("^3.10", &["3.10", "3.11", "3.12"]),
            ("~3.10", &["3.10"]),
            ("3.9", &["3.9"]),
            ("3.9.*", &["3.9"]),
            ("=3.9", &["3.9"]),
            ("~2.7 || ^3.11", &["2.7", "3.11", "3.12"]),
            ("*", &releases),
            ("", &releases),
            (">=4", &[]),
        ] {
            assert_eq!(taken(Grammar::Pep440, text, &releases), expected, "{text}");
        }
    }

    #[test]
    fn nodes_ranges_and_plain_minimums() {
        let releases = ["12", "14", "16", "18", "20", "22"];
        for (text, expected) in [
            (">=18", &["18", "20", "22"][..]),
            ("^14.17.0 || ^16.10.0 || >=19.0.0", &["14", "16", "20", "22"]),
            (">=16.0.0 <20", &["16", "18"]),
            ("18.x", &["18"]),
            ("18.17.0", &["18"]),
            (">=18.17.0 <18.18.0", &["18"]),
            (">= 18", &["18", "20", "22"]),
            ("16 - 18", &["16", "18"]),
            ("16 || 18", &["16", "18"]),
            ("v18", &["18"]),
            ("~18.1", &["18"]),
            ("", &releases),
            ("*", &releases),
        ] {
            assert_eq!(taken(Grammar::Semver, text, &releases), expected, "{text}");
        }
        let releases = ["1.19", "1.20", "1.21", "1.22"];
        assert_eq!(taken(Grammar::Minimum, "1.20", &releases), ["1.20", "1.21", "1.22"]);
        assert_eq!(taken(Grammar::Minimum, "1.21.3", &releases), ["1.21", "1.22"]);
    }

    #[test]
    fn what_is_no_range_is_said() {
        for (grammar, text) in [
            (Grammar::Pep440, ">=three"),
            (Grammar::Pep440, "^"),
            (Grammar::Pep440, "^x"),
            (Grammar::Semver, "latest and greatest"),
            (Grammar::Semver, "~xx0x"),
            (Grammar::Semver, "^x.1"),
            (Grammar::Semver, ">x.2.3"),
            (Grammar::Semver, ">=18 <"),
            (Grammar::Semver, "1.2.3.4"),
            (Grammar::Semver, "16 - "),
            (Grammar::Semver, "18 workspace:*"),
            (Grammar::Minimum, "stable"),
            (Grammar::Minimum, ""),
        ] {
            assert!(Range::parse(grammar, text).is_err(), "{text}");
        }
        assert!(Range::parse(Grammar::Pep440, &">=3,".repeat(1000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in "\\PC{0,60}",
            odd in "[0-9.^~<>=!*x|, -]{0,40}",
            node in "((\\^|~|~>|=|>|>=|<|<=)? ?v?(x|\\*|[0-9]{1,3})(\\.(x|X|\\*|[0-9]{1,3})){0,2}(-[a-z0-9.]{1,4})?( | - | \\|\\| )){0,4}",
        ) {
            for grammar in [Grammar::Pep440, Grammar::Semver, Grammar::Minimum] {
                for text in [&text, &odd, &node] {
                    if let Ok(range) = Range::parse(grammar, text) {
                        range.takes("3.11");
                        range.takes("20");
                    }
                }
            }
        }
    }
}
