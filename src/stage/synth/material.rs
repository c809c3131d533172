//! What a model is shown of a comment: its words, the change, the commented file and what belongs to it.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::kit::Offered;
use crate::model::{Comment, Instance};
use crate::repo::{BaseTree, ChangeSet, EntryKind, RepoError, Repository, TreePath, TreeReader};

/// Bounds, in characters.
const DESCRIPTION: usize = 6000;
const PATCH: usize = 16_000;
const FILE: usize = 16_000;
const NEIGHBOUR: usize = 5000;
const MERGED: usize = 12_000;

/// How many files beside the commented one are shown, and how many of the project's tests.
const NEIGHBOURS: usize = 3;
const TESTS: usize = 1;

/// How many test files are looked at for one that is about the commented file.
const LOOKED_AT: usize = 200;

/// The values that the first prompt is made from.
#[derive(Debug, Clone, Serialize)]
pub struct Values {
    repo: String,
    language: String,
    title: String,
    body: String,
    path: String,
    line: Option<u64>,
    hunk: String,
    comment: String,
    patch: String,
    file: String,
    neighbours: Vec<Neighbour>,
    merged: String,
    frameworks: Vec<Guide>,
}

/// Another file of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Where it is.
    pub path: String,
    /// Whether it is one of the project's tests.
    pub test: bool,
    /// Its text, or a part of it.
    pub text: String,
}

#[derive(Debug, Clone, Serialize)]
struct Guide {
    name: &'static str,
    guide: String,
}

/// All of it.
#[derive(Debug, Clone)]
pub struct Material {
    values: Values,
    merged: String,
    offered: Vec<Offered>,
    /// What the fix adds, line by line, whole.
    added: String,
}

impl Material {
    /// Reads it. Nothing later than the commit to review goes into anything but the merged change.
    ///
    /// # Errors
    /// When a commit cannot be read.
    pub fn gather(
        repository: &Repository,
        instance: &Instance,
        comment: &Comment,
        language: &str,
        offered: Vec<Offered>,
    ) -> Result<Self, RepoError> {
        let head = repository.resolve(instance.head_commit())?;
        let tree = repository.tree_of(&head)?;
        let path = TreePath::new(comment.path.as_str()).ok();
        let file = match &path {
            Some(path) => text_at(&tree, path)?,
            None => None,
        };
        let neighbours = match (&path, &file) {
            (Some(path), Some(file)) => neighbours(&tree, path, file)?,
            _ => Vec::new(),
        };
        let (merged, added) = match &instance.merged_commit {
            Some(merged) => {
                let merged = repository.resolve(merged)?;
                merged_change(&tree, &repository.changes_between(&head, &merged)?, path.as_ref())?
            }
            None => (String::new(), String::new()),
        };
        let line = comment.line.or(comment.original_line);
        let values = Values {
            repo: instance.repo.clone(),
            language: language.to_owned(),
            title: instance.title.clone(),
            body: start(instance.body.as_deref().unwrap_or_default(), DESCRIPTION),
            path: comment.path.clone(),
            line,
            hunk: end(comment.diff_hunk.as_deref().unwrap_or_default(), PATCH),
            comment: start(&comment.text, DESCRIPTION),
            patch: start(&own_file_first(&instance.commit_to_review.patch_to_review, &comment.path), PATCH),
            file: around(file.as_deref().unwrap_or_default(), line, FILE),
            neighbours,
            merged: String::new(),
            frameworks: offered.iter().map(|one| Guide { name: one.name.as_str(), guide: one.guide.clone() }).collect(),
        };
        Ok(Self { values, merged, offered, added })
    }

    /// The prompt's values, with or without the merged change.
    pub fn values(&self, with_merged: bool) -> Values {
        let merged = if with_merged { self.merged.clone() } else { String::new() };
        Values { merged, ..self.values.clone() }
    }

    /// The merged change, bounded; empty where there is none.
    pub fn merged(&self) -> &str {
        &self.merged
    }

    /// The frameworks.
    pub fn offered(&self) -> Vec<&Offered> {
        self.offered.iter().collect()
    }

    /// Whether the comment asks for this name and the fix brings it.
    pub fn asks_for(&self, symbol: &str) -> bool {
        let is_name = !symbol.is_empty() && symbol.chars().all(|c| c.is_alphanumeric() || "_-.:".contains(c));
        let Ok(word) = Regex::new(&format!(r"(?:^|[^\w]){}(?:[^\w]|$)", regex::escape(symbol))) else { return false };
        is_name && word.is_match(&self.values.comment) && word.is_match(&self.added)
    }
}

/// A file as text; `None` where there is none, or it is no text.
fn text_at(tree: &TreeReader, path: &TreePath) -> Result<Option<String>, RepoError> {
    let found = match tree.read(path) {
        // Partial mirrors lack large files.
        Err(RepoError::MissingObject { .. }) => None,
        read => read?,
    };
    Ok(found.and_then(|file| String::from_utf8(file.content).ok()))
}

/// The diff from the head to the merged commit: of the commented file, where it is among them, else of all; and all lines
/// that it adds anywhere.
fn merged_change(
    tree: &TreeReader,
    changes: &ChangeSet,
    path: Option<&TreePath>,
) -> Result<(String, String), RepoError> {
    let readable = |path: &TreePath| !matches!(tree.read(path), Err(RepoError::MissingObject { .. }));
    let changes = changes.only(readable);
    let whole = String::from_utf8_lossy(&changes.to_patch(tree)?).into_owned();
    let is_added = |line: &&str| line.starts_with('+') && !line.starts_with("+++");
    let added = whole.lines().filter(is_added).collect::<Vec<_>>().join("\n");
    let own = changes.only(|one| Some(one) == path);
    let shown = if own.is_empty() { whole } else { String::from_utf8_lossy(&own.to_patch(tree)?).into_owned() };
    Ok((start(&shown, MERGED), added))
}

/// The files of a diff, the commented one first.
fn own_file_first(patch: &str, path: &str) -> String {
    let mut files: Vec<String> = Vec::new();
    for line in patch.split_inclusive('\n') {
        if line.starts_with("diff --git ") || files.is_empty() {
            files.push(String::new());
        }
        if let Some(file) = files.last_mut() {
            file.push_str(line);
        }
    }
    let is_own = |file: &String| {
        !path.is_empty() && file.lines().next().is_some_and(|line| line.ends_with(&format!(" b/{path}")))
    };
    let (own, others): (Vec<_>, Vec<_>) = files.into_iter().partition(is_own);
    own.into_iter().chain(others).collect()
}

/// The files that the commented one names in its imports, and a test of the project that is about it.
fn neighbours(tree: &TreeReader, path: &TreePath, file: &str) -> Result<Vec<Neighbour>, RepoError> {
    let Some(own) = path.to_str() else { return Ok(Vec::new()) };
    let (folder, stem, ending) = parts(own);
    let mut paths = Vec::new();
    for entry in tree.entries()? {
        if let (EntryKind::File(_), Some(text)) = (entry.kind, entry.path.to_str())
            && text != own
            && parts(text).2 == ending
        {
            paths.push(text.to_owned());
        }
    }
    let words = imported(file);
    // Of a package its own file, which has the folder's name.
    let called = |path: &str| {
        let (folder, stem, _) = parts(path);
        let is_index = matches!(stem, "__init__" | "mod" | "lib" | "index");
        let name = if is_index { folder.rsplit('/').next().unwrap_or_default() } else { stem };
        !name.is_empty() && words.iter().any(|word| word == name)
    };
    let common = |path: &str| path.split('/').zip(own.split('/')).take_while(|(a, b)| a == b).count();
    let mut near: Vec<&String> = paths.iter().filter(|path| called(path) && !is_test(path)).collect();
    near.sort_by_key(|path| (std::cmp::Reverse(common(path)), path.len(), path.as_str()));
    let name = if matches!(stem, "__init__" | "mod" | "lib" | "index" | "main") {
        folder.rsplit('/').next().unwrap_or_default()
    } else {
        stem
    };
    let mut tests: Vec<(usize, &String, String)> = Vec::new();
    for path in paths.iter().filter(|path| is_test(path)).take(LOOKED_AT) {
        if let Ok(tree_path) = TreePath::new(path.as_str())
            && let Some(text) = text_at(tree, &tree_path)?
        {
            let mentions = if name.is_empty() { 0 } else { text.matches(name).count() };
            tests.push((mentions + 10 * usize::from(!name.is_empty() && path.contains(name)), path, text));
        }
    }
    tests.sort_by_key(|(rank, path, _)| (std::cmp::Reverse(*rank), path.as_str()));
    let mut found = Vec::new();
    for path in near.into_iter().take(NEIGHBOURS) {
        if let Ok(tree_path) = TreePath::new(path.as_str())
            && let Some(text) = text_at(tree, &tree_path)?
        {
            found.push(Neighbour { path: path.clone(), test: false, text: start(&text, NEIGHBOUR) });
        }
    }
    for (_, path, text) in tests.into_iter().take(TESTS) {
        found.push(Neighbour { path: path.clone(), test: true, text: start(&text, NEIGHBOUR) });
    }
    Ok(found)
}

/// Folder, name without ending, ending.
fn parts(path: &str) -> (&str, &str, &str) {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    (folder, stem, ending)
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.to_ascii_lowercase();
        part.starts_with("test") || part.contains("_test.") || part.contains(".test.") || part.contains(".spec.")
    })
}

/// The words of the lines that bring in other files.
fn imported(file: &str) -> Vec<String> {
    static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?m)^\s*(?:pub\s+)?(?:import|from|use|mod|require|source|\.|#\s*include|export)\b(.*)$|\brequire\s*\(([^)]*)\)|^\s*\.\s+(\S.*)$")
            .ok()
    });
    let Some(line) = LINE.as_ref() else { return Vec::new() };
    let mut words: Vec<String> = line
        .captures_iter(file)
        .flat_map(|found| {
            let text: String = found.iter().skip(1).flatten().map(|part| format!("{} ", part.as_str())).collect();
            text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|word| word.len() > 1)
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn start(text: &str, most: usize) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}\n[… cut]", &text[..at]),
    }
}

fn end(text: &str, most: usize) -> String {
    let text = text.trim_end();
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    format!("[cut …]\n{}", text.chars().skip(count - most).collect::<String>())
}

/// A file, or of a long one the lines around one of them.
fn around(text: &str, line: Option<u64>, most: usize) -> String {
    if text.chars().count() <= most {
        return text.trim_end().to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let middle = line.and_then(|line| usize::try_from(line).ok()).unwrap_or(1).clamp(1, lines.len().max(1)) - 1;
    let own = lines.get(middle).map_or(0, |line| line.chars().count() + 1);
    let (mut first, mut last, mut size) = (middle, middle, own);
    loop {
        let before = size;
        for next in [first.checked_sub(1), Some(last + 1).filter(|next| *next < lines.len())].into_iter().flatten() {
            let more = lines[next].chars().count() + 1;
            if size + more <= most {
                size += more;
                (first, last) = (first.min(next), last.max(next));
            }
        }
        if size == before {
            break;
        }
    }
    let shown = lines.get(first..=last).unwrap_or_default().join("\n");
    format!("[lines {} to {} of {}]\n{}", first + 1, last + 1, lines.len(), start(&shown, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_file_the_lines_around_the_comment_are_shown() {
        let text: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
        let shown = around(&text, Some(500), 200);
        assert!(shown.starts_with("[lines ") && shown.contains("\nline 500\n") && shown.len() < 260, "{shown}");
        assert!(around(&text, Some(1), 200).contains("line 1\n"));
        assert!(around(&text, Some(9000), 200).ends_with("line 1000"));
        assert!(around(&text, None, 200).contains("[lines 1 to"));
        assert_eq!(around("short\n", Some(1), 200), "short");
        assert!(around(&"x".repeat(500), Some(1), 100).contains("[… cut]"));
    }

    #[test]
    fn imports_name_their_files() {
        let python = imported("from .store import Store\nimport os.path\n    from a.b_c import d\nx = 'from here'\n");
        for word in ["store", "path", "b_c"] {
            assert!(python.contains(&word.to_owned()), "{word}: {python:?}");
        }
        assert!(!python.contains(&"here".to_owned()));
        assert!(imported("use crate::units::Unit;\nmod parse;\n").contains(&"units".to_owned()));
        assert!(imported("const { a } = require('./lib/names');\n").contains(&"names".to_owned()));
        assert!(imported(". ./lib/common.sh\n").contains(&"common".to_owned()));
    }

    #[test]
    fn the_commented_file_comes_first() {
        let patch = "diff --git a/a.py b/a.py\n+1\ndiff --git a/b.py b/b.py\n+2\n";
        assert!(own_file_first(patch, "b.py").starts_with("diff --git a/b.py"));
        assert_eq!(own_file_first(patch, ""), patch);
        assert_eq!(own_file_first("", "b.py"), "");
    }

    #[test]
    fn tests_are_known_by_their_place() {
        for path in ["tests/a.py", "src/test_a.py", "lib/a.test.js", "pkg/a_test.go", "test/x.sh"] {
            assert!(is_test(path), "{path}");
        }
        assert!(!is_test("src/contest.py") && !is_test("latest/a.py"));
    }
}
