//! What a project says about the version it wants: the sources of a definition, read from a tree.

use serde_json::Value;

use super::range::numbers;
use super::tree::{Tree, TreeFile};
use crate::environment::detection::{VersionDefinition, VersionKind, VersionSource};
use crate::environment::pattern::compiled;

/// How many values of one source are looked at.
const MAX_VALUES: usize = 256;

/// One thing that a project says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// The source's name.
    pub name: String,
    /// The file, and the line where one is known: `pyproject.toml:12`.
    pub place: String,
    pub kind: VersionKind,
    /// The values as they stand there; one, unless it is a list.
    pub values: Vec<String>,
}

/// All that is said, in order of precedence.
pub(super) fn said(definition: &VersionDefinition, tree: Tree<'_>) -> Vec<Said> {
    definition.sources.iter().flat_map(|source| of_source(source, tree)).collect()
}

fn of_source(source: &VersionSource, tree: Tree<'_>) -> Vec<Said> {
    let mut out: Vec<Said> = Vec::new();
    for file in tree.files(&source.file) {
        let (values, line) = values(source, &file);
        if values.is_empty() {
            continue;
        }
        let place = line.map_or_else(|| file.path.clone(), |line| format!("{}:{line}", file.path));
        match out.first_mut() {
            // Several files of one list (workflows) say it together.
            Some(first) if source.kind == VersionKind::List => {
                first.values.extend(values);
                first.values.truncate(MAX_VALUES);
            }
            _ => out.push(Said { name: source.name.clone(), place, kind: source.kind, values }),
        }
    }
    for said in &mut out {
        said.values.dedup();
    }
    out
}

/// The values that a file holds, and the line of the first.
fn values(source: &VersionSource, file: &TreeFile) -> (Vec<String>, Option<usize>) {
    let compile = |pattern: &Option<String>| pattern.as_deref().and_then(compiled);
    let pattern = compile(&source.pattern);
    let mut found: Vec<(String, Option<usize>)> = Vec::new();
    if source.key.is_empty() {
        let regions: Vec<(usize, &str)> = match compile(&source.within) {
            Some(within) => within
                .captures_iter(&file.text)
                .filter_map(|captures| captures.get(1))
                .map(|region| (region.start(), region.as_str()))
                .collect(),
            None => vec![(0, file.text.as_str())],
        };
        for (start, region) in regions {
            match &pattern {
                Some(pattern) => {
                    let captured = pattern.captures_iter(region).filter_map(|captures| captures.get(1));
                    found.extend(captured.take(MAX_VALUES).map(|m| (m.as_str().to_owned(), Some(start + m.start()))));
                }
                None => found.push((region.to_owned(), Some(start))),
            }
        }
    } else {
        for text in texts_at(file, &source.key) {
            let at = file.text.find(&text);
            match &pattern {
                Some(pattern) => {
                    let captured = pattern.captures_iter(&text).filter_map(|captures| captures.get(1));
                    found.extend(captured.take(MAX_VALUES).map(|m| (m.as_str().to_owned(), at)));
                }
                None => found.push((text, at)),
            }
        }
    }
    let mut found: Vec<(String, Option<usize>)> = found
        .into_iter()
        .map(|(text, at)| (if source.glued { unglued(text.trim()) } else { text.trim().to_owned() }, at))
        .filter(|(text, _)| !text.is_empty())
        .collect();
    found.truncate(if source.kind == VersionKind::List { MAX_VALUES } else { 1 });
    let line = found.first().and_then(|(_, at)| file.text.get(..(*at)?)).map(|before| before.matches('\n').count() + 1);
    (found.into_iter().map(|(text, _)| text).collect(), line)
}

/// `311` is `3.11`.
fn unglued(text: &str) -> String {
    if text.len() > 1 && text.chars().all(|c| c.is_ascii_digit()) {
        let (first, rest) = text.split_at(1);
        format!("{first}.{rest}")
    } else {
        text.to_owned()
    }
}

/// The text, or list of texts, at a key of a TOML or JSON file. Where a table stands (poetry's long form) its `version`
/// is meant.
fn texts_at(file: &TreeFile, key: &[String]) -> Vec<String> {
    match file.value(key) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Number(number)) => vec![number.to_string()],
        Some(Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).take(MAX_VALUES).map(str::to_owned).collect()
        }
        Some(Value::Object(table)) => {
            table.get("version").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The plain version that an exact value starts with (`v20.1.0`, `python-3.11.4`, `go1.21`): none for `system`.
pub(super) fn plain_version(text: &str) -> Option<String> {
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    // A word before it may only be the language's own: letters and a dash.
    let before = &text[..digits];
    let known =
        ["", "v", "python-", "cpython-", "go", "node-", "nodejs-"].contains(&before.to_ascii_lowercase().as_str());
    let rest = &text[digits..];
    let version = numbers(rest).into_iter().next()?;
    let after = &rest[version.len()..];
    // `3.12-dev` and `nightly-2023-01-01` are no releases.
    (known && (after.is_empty() || after.starts_with(['.', '\n', ' ', '\r', '#']))).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> VersionSource {
        toml::from_str(text).unwrap()
    }

    fn of(source: &VersionSource, name: &str, text: &str) -> (Vec<String>, Option<usize>) {
        values(source, &TreeFile { path: name.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn keys_lead_to_texts_lists_and_tables() {
        let plain = source("name = 'x'\nfile = 'x'\nkind = 'range'\nkey = ['a', 'b']");
        assert_eq!(of(&plain, "x.toml", "# one\n[a]\nb = '>=3.8'"), (vec![">=3.8".to_owned()], Some(3)));
        assert_eq!(of(&plain, "x.toml", "[a.b]\nversion = '^3'\noptional = true").0, ["^3"]);
        assert_eq!(of(&plain, "x.json", "{\"a\": {\"b\": 18}}").0, ["18"]);
        for text in ["", "[a", "a = 1", "[a]\nb = true"] {
            assert_eq!(of(&plain, "x.toml", text), (Vec::new(), None), "{text}");
        }
        let list = source("name = 'x'\nfile = 'x'\nkind = 'list'\nkey = ['a']\npattern = 'Py (3\\.\\d+)$'");
        assert_eq!(of(&list, "x.toml", "a = ['Py 3.8', 'Py 3', 'Py 3.9', 3]").0, ["3.8", "3.9"]);
    }

    #[test]
    fn patterns_look_within_a_part_and_glued_numbers_are_taken_apart() {
        let tox = source(concat!(
            "name = 'tox'\nfile = 'tox.ini'\nkind = 'list'\nglued = true\n",
            "within = '(?m)^envlist\\s*=((?:.*\\n?)(?:[ \\t]+.*\\n?)*)'\npattern = '\\b(?:py)?(\\d{2,3})\\b'",
        ));
        let text = "[tox]\nenvlist = py{37,38}-x, py311\n  lint\n[testenv]\ndeps = a==310\n";
        assert_eq!(of(&tox, "tox.ini", text), (vec!["3.7".to_owned(), "3.8".to_owned(), "3.11".to_owned()], Some(2)));
    }

    #[test]
    fn exact_values_are_plain_versions() {
        for (text, expected) in [
            ("3.11.4", Some("3.11.4")),
            ("v20.1.0", Some("20.1.0")),
            ("python-3.11.4", Some("3.11.4")),
            ("go1.21", Some("1.21")),
            ("3.11\n3.10", Some("3.11")),
            ("3.12-dev", None),
            ("pypy3.9-7.3", None),
            ("nightly-2023-01-01", None),
            ("system", None),
            ("project-env-3", None),
            ("", None),
        ] {
            assert_eq!(plain_version(text).as_deref(), expected, "{text}");
        }
    }
}
