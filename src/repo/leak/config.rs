//! Reads a `.git/config` as text. Nothing that it says is followed or run. Pure.

use super::finding::{Finding, Later, LeakKind};
use super::names::shown;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// `section.subsection.key`, section and key in small letters.
    name: String,
    section: String,
    value: String,
    line: usize,
}

/// What the settings of a file amount to.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
    /// Where `core.worktree` says that the work tree is.
    pub work_tree: Option<String>,
}

/// Looks at a configuration file; `place` is its name for messages.
pub(super) fn remarks(text: &[u8], place: &str) -> Remarks {
    let mut remarks = Remarks::default();
    for setting in settings(text) {
        let at = format!("{place} line {}", setting.line);
        let name = shown(setting.name.as_bytes());
        let mut find = |kind, what: String| remarks.findings.push(Finding::new(kind, &at, Later::Possible, what));
        let value = setting.value.as_str();
        let key = setting.name.rsplit('.').next().unwrap_or_default();
        if has_secret(value) {
            find(LeakKind::Credential, format!("`{name}` has a password or token in its address"));
        }
        match (setting.section.as_str(), key) {
            ("remote", "url" | "pushurl") | ("submodule", "url") => {
                find(LeakKind::Remote, format!("`{name}` is {}", without_secret(value)));
            }
            ("url", "insteadof" | "pushinsteadof") => {
                let name = without_secret(&name);
                find(LeakKind::AddressRewrite, format!("`{name}` = {}", without_secret(value)));
            }
            ("credential", _) => find(LeakKind::Credential, format!("`{name}` is set")),
            ("http", "extraheader" | "cookiefile" | "sslkey" | "proxy") if !value.is_empty() => {
                find(LeakKind::Credential, format!("`{name}` is set; its value may hold a secret"));
            }
            ("include" | "includeif", "path") => {
                find(
                    LeakKind::UnknownFile,
                    format!("`{name}` reads {}, which is not looked at", shown(value.as_bytes())),
                );
            }
            ("core", "worktree") => remarks.work_tree = Some(value.to_owned()),
            ("extensions", "objectformat") if !value.eq_ignore_ascii_case("sha1") => {
                find(LeakKind::Damaged, format!("object format `{}` cannot be read", shown(value.as_bytes())));
            }
            ("extensions", "refstorage") if !value.eq_ignore_ascii_case("files") => {
                find(LeakKind::Damaged, format!("ref storage `{}` cannot be read", shown(value.as_bytes())));
            }
            _ if runs_something(&setting.section, key) && !value.is_empty() => {
                remarks.notes.push(format!("{at}: git would run a program for `{name}`; the check did not"));
            }
            _ => {}
        }
        if setting.section == "url" && has_secret(&setting.name) {
            let what = "an address with a password or token in it";
            remarks.findings.push(Finding::new(LeakKind::Credential, &at, Later::Possible, what));
        }
    }
    remarks
}

/// Whether git starts what the value names.
fn runs_something(section: &str, key: &str) -> bool {
    match section {
        "alias" | "pager" => true,
        "core" => matches!(
            key,
            "fsmonitor"
                | "hookspath"
                | "sshcommand"
                | "editor"
                | "pager"
                | "gitproxy"
                | "askpass"
                | "alternaterefscommand"
        ),
        "filter" => matches!(key, "clean" | "smudge" | "process"),
        "diff" => matches!(key, "textconv" | "command" | "external"),
        "merge" => key == "driver",
        "gpg" => key == "program",
        "uploadpack" => key == "packobjectshook",
        _ => false,
    }
}

fn settings(text: &[u8]) -> Vec<Setting> {
    let mut found = Vec::new();
    let (mut prefix, mut section) = (String::new(), String::new());
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        while line.ends_with('\\') && !line.ends_with("\\\\") {
            line.pop();
            match lines.next() {
                Some((_, more)) => line.push_str(more.trim()),
                None => break,
            }
        }
        let mut rest = line.as_str();
        if let Some(header) = rest.strip_prefix('[') {
            let (inside, after) = end_of_header(header);
            let (name, sub) = match inside.split_once('"') {
                Some((name, sub)) => (name.trim(), Some(sub.trim_end_matches('"').replace('\\', ""))),
                None => match inside.split_once('.') {
                    Some((name, sub)) => (name, Some(sub.to_owned())),
                    None => (inside.trim(), None),
                },
            };
            section = name.to_ascii_lowercase();
            prefix = sub.map_or_else(|| section.clone(), |sub| format!("{section}.{sub}"));
            rest = after.trim();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let name = format!("{prefix}.{}", key.trim().to_ascii_lowercase());
        found.push(Setting { name, section: section.clone(), value: plain_value(value), line: at + 1 });
    }
    found
}

/// What is inside the brackets, and what is after them on the same line.
fn end_of_header(text: &str) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// A value without quotes and comments.
fn plain_value(text: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::new(), false, false);
    for c in text.trim().chars() {
        match c {
            _ if escaped => {
                escaped = false;
                out.push(c);
            }
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

/// Whether an address has a user with a password, or a token in a user's place.
pub(super) fn has_secret(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', ' ', '\t']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        // `ssh://git@host` is a name that everybody uses.
        Some((user, _)) => user.contains(':') || (scheme.ends_with("http") || scheme.ends_with("https")),
        None => false,
    }
}

/// An address without what stands before its `@`, as text.
pub(super) fn without_secret(text: &str) -> String {
    if !has_secret(text) {
        return shown(text.as_bytes());
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let end = rest.find(['/', ' ', '\t']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    shown(format!("{scheme}://***@{host}{}", &rest[end..]).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(LeakKind, String)> {
        remarks(text.as_bytes(), "c").findings.into_iter().map(|f| (f.kind, f.what)).collect()
    }

    #[test]
    fn what_leads_to_the_future_is_found_and_secrets_are_not_repeated() {
        let found = kinds(
            "[core]\n\tbare = false ; no\n[remote \"o]r\\\"igin\"] url = https://u:pa55@h.example/x # c\n\
             [branch \"main\"]\n\tremote = origin\n[url \"https://tok3n@h/\"]\n\tinsteadOf = gh:\n\
             [http \"https://h/\"]\n\textraHeader = \"AUTHORIZATION: basic pa55\"\n[Credential]\nhelper=store\n\
             [include]\n\tpath = ~/x\n",
        );
        let want = [
            LeakKind::Credential,
            LeakKind::Remote,
            LeakKind::AddressRewrite,
            LeakKind::Credential,
            LeakKind::Credential,
            LeakKind::Credential,
            LeakKind::UnknownFile,
        ];
        assert_eq!(found.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), want, "{found:?}");
        assert!(!found.iter().any(|(_, what)| what.contains("pa55") || what.contains("tok3n")), "{found:?}");
        assert!(found[1].1.contains("https://***@h.example/x"), "{found:?}");
    }

    #[test]
    fn programs_are_notes_and_a_plain_file_says_nothing() {
        let text =
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./x\n[alias]\n\tst = !sh\n[user]\n\tname = a\n";
        let remarks = remarks(text.as_bytes(), ".git/config");
        assert!(remarks.findings.is_empty());
        assert_eq!(remarks.notes.len(), 2, "{:?}", remarks.notes);
        assert!(remarks.notes[0].contains("line 3"), "{:?}", remarks.notes);
        assert!(!has_secret("ssh://git@h/x") && !has_secret("git@h:x") && has_secret("https://t@h/x"));
    }

    #[test]
    fn broken_files_are_read_as_far_as_they_go() {
        for text in ["[", "[a", "[a \"b", "=", "[a]\nx = \"", "\\", "a\\", "[\u{ff}]", "[url \"\\"] {
            let _ = remarks(text.as_bytes(), "c");
        }
    }
}
