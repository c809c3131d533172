//! The issues that a pull request's text says it closes. The REST interface does not list them.

use std::sync::LazyLock;

use regex::Regex;

/// `closes #1`, `Fixed owner/repo#2`, `resolves: https://github.com/owner/repo/issues/3`: the host's own keywords.
static CLOSES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?:^|\W)(?i-u:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?[ \t]+(?:(?:https?://[\w.-]+/)?([\w.-]+)/([\w.-]+?)(?:/issues/|#)|#)(\d{1,9})\b",
    )
    .ok()
});

/// The issues that a text of pull requests of `repo` says are closed: repository and number, in order, each once.
pub fn closing_references(repo: &str, text: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for groups in CLOSES.iter().flat_map(|pattern| pattern.captures_iter(text)) {
        let named =
            groups.get(1).zip(groups.get(2)).map(|(owner, name)| format!("{}/{}", owner.as_str(), name.as_str()));
        let Ok(number) = groups[3].parse() else { continue };
        let reference = (named.unwrap_or_else(|| repo.to_owned()), number);
        if !found.contains(&reference) {
            found.push(reference);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_as_the_host_knows_them() {
        let text = "Fixes #12, closes: other/place#3\nResolved https://github.com/o/r/issues/45. fix #12\nsee #9, prefix #8, \
                    hotfixes #7, closes #x, fixes#6";
        let want = [("o/r", 12), ("other/place", 3), ("o/r", 45)].map(|(r, n)| (r.to_owned(), n));
        assert_eq!(closing_references("o/r", text), want);
        assert!(closing_references("o/r", "").is_empty());
    }
}
