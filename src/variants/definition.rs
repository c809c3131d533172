//! What is known of languages: files of `environments/variants/`, with their queries compiled.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tree_sitter::Query;

use super::syntax::Tree;
use crate::repo::TreePath;

const FILES: [(&str, &str); 3] = [
    ("javascript.toml", include_str!("../../environments/variants/javascript.toml")),
    ("python.toml", include_str!("../../environments/variants/python.toml")),
    ("rust.toml", include_str!("../../environments/variants/rust.toml")),
];
const PLAIN: (&str, &str) = ("plain.toml", include_str!("../../environments/variants/plain.toml"));
const SCHEMA: u32 = 1;

/// A definition that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct DefinitionError {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub problem: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    grammars: Vec<Grammar>,
    comment: String,
    statements: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    rewrite: Rewrite,
    #[serde(default)]
    rename: Option<Rename>,
    #[serde(default)]
    mutation: Vec<Mutation>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grammar {
    name: String,
    extensions: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rewrite {
    #[serde(default)]
    brackets: Vec<String>,
    #[serde(default)]
    strings: Option<String>,
    #[serde(default)]
    orderless: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    scope: String,
    forbidden: String,
    bound: String,
    kept: String,
    other: String,
    identifiers: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    operator: String,
    query: String,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    map: BTreeMap<String, String>,
}

/// The languages that can be varied.
#[derive(Debug)]
pub struct Languages {
    all: Vec<Language>,
    plain: Vec<Plain>,
}

/// Files that have comments and no grammar here.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    comment: String,
    extensions: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainFile {
    schema: u32,
    plain: Vec<Plain>,
}

/// One grammar with its queries.
#[derive(Debug)]
pub(super) struct Language {
    pub(super) grammar: tree_sitter::Language,
    extensions: Vec<String>,
    pub(super) comment: String,
    pub(super) statements: Vec<String>,
    pub(super) ignore: Vec<Query>,
    pub(super) brackets: Vec<String>,
    pub(super) strings: Option<String>,
    pub(super) orderless: Vec<Query>,
    pub(super) rename: Option<RenameQueries>,
    pub(super) mutations: Vec<MutationQuery>,
}

/// The queries by which local names are found.
#[derive(Debug)]
pub(super) struct RenameQueries {
    pub(super) scope: Query,
    pub(super) forbidden: Query,
    pub(super) bound: Query,
    pub(super) kept: Query,
    pub(super) other: Query,
    pub(super) identifiers: Query,
}

/// One way to put a mistake in.
#[derive(Debug)]
pub(super) struct MutationQuery {
    pub(super) operator: String,
    pub(super) query: Query,
    pub(super) to: To,
}

/// What takes a target's place.
#[derive(Debug)]
pub(super) enum To {
    /// A text with the captures' texts in it.
    Text(String),
    /// What stands for the target's text; nothing where there is none.
    Map(BTreeMap<String, String>),
}

impl Languages {
    /// The definitions that redgreen brings along.
    ///
    /// # Errors
    /// When one cannot be read, or a query does not fit its grammar.
    pub fn built_in() -> Result<Self, DefinitionError> {
        let mut all = Vec::new();
        for (name, text) in FILES {
            all.extend(parse(name, text)?);
        }
        let (name, text) = PLAIN;
        let broken = |problem: String| DefinitionError { file: name.to_owned(), problem };
        let file: PlainFile = toml::from_str(text).map_err(|error| broken(error.to_string()))?;
        if file.schema != SCHEMA {
            return Err(broken(format!("schema {} is not known, only {SCHEMA}", file.schema)));
        }
        Ok(Self { all, plain: file.plain })
    }

    pub(super) fn of(&self, path: &TreePath) -> Option<&Language> {
        let ending = Path::new(path.as_path()).extension()?.to_str()?;
        self.all.iter().find(|language| language.extensions.iter().any(|e| e == ending))
    }

    /// What begins a comment in this file; `None` where its language is not known.
    pub fn comment(&self, path: &TreePath) -> Option<&str> {
        self.of(path).map(|language| language.comment.as_str()).or_else(|| self.plain(path))
    }

    /// The same for files that have comments and no grammar here.
    fn plain(&self, path: &TreePath) -> Option<&str> {
        let path = Path::new(path.as_path());
        let ending = path.extension().or(path.file_name())?.to_str()?;
        let knows = |plain: &&Plain| plain.extensions.iter().any(|extension| extension == ending);
        self.plain.iter().find(knows).map(|plain| plain.comment.as_str())
    }

    /// Whether `after` has syntax errors that `before` has not.
    pub(super) fn breaks(&self, path: &TreePath, before: &str, after: &str) -> bool {
        let Some(language) = self.of(path) else { return false };
        let has_error = |text: &str| Tree::new(language, text).is_none_or(|tree| tree.has_error());
        has_error(after) && !has_error(before)
    }

    /// The text with comment lines before line `at` (from 0), or before the closest line above where nothing else
    /// changes by it.
    pub(super) fn with_comment(
        &self,
        path: &TreePath,
        text: &str,
        at: usize,
        mark: &str,
        comment: &[String],
    ) -> Option<String> {
        const TRIES: usize = 60;
        // Without a grammar nothing can be proven, and the first place is taken.
        let language = self.of(path);
        let before = match language {
            Some(language) => Some(Tree::new(language, text)?),
            None => None,
        };
        let lines = super::fix::lines(text);
        (at.saturating_sub(TRIES)..=at.min(lines.len())).rev().find_map(|at| {
            let next = lines.get(at).copied().unwrap_or_default();
            // A line that says how the file is to be read stays where it is.
            if at < 2 && next.starts_with(['#', '/']) && (next.starts_with("#!") || next.contains("coding")) {
                return None;
            }
            let indent: String = next.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
            let mut out: String = lines[..at].concat();
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            for line in comment {
                out.push_str(format!("{indent}{mark} {line}").trim_end());
                out.push('\n');
            }
            out.push_str(&lines[at..].concat());
            let is_same = match (language, &before) {
                (Some(language), Some(before)) => before.is_same(&Tree::new(language, &out)?, |a, b| a == b),
                _ => true,
            };
            is_same.then_some(out)
        })
    }
}

fn parse(name: &str, text: &str) -> Result<Vec<Language>, DefinitionError> {
    let broken = |problem: String| DefinitionError { file: name.to_owned(), problem };
    let file: File = toml::from_str(text).map_err(|error| broken(error.to_string()))?;
    if file.schema != SCHEMA {
        return Err(broken(format!("schema {} is not known, only {SCHEMA}", file.schema)));
    }
    file.grammars.iter().map(|grammar| language(&file, grammar).map_err(broken)).collect()
}

fn language(file: &File, grammar: &Grammar) -> Result<Language, String> {
    let extensions = grammar.extensions.clone();
    let grammar = match grammar.name.as_str() {
        "javascript" => tree_sitter_javascript::LANGUAGE.into(),
        "python" => tree_sitter_python::LANGUAGE.into(),
        "rust" => tree_sitter_rust::LANGUAGE.into(),
        "tsx" => tree_sitter_typescript::LANGUAGE_TSX.into(),
        "typescript" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        other => return Err(format!("there is no grammar `{other}`")),
    };
    let query = |text: &String| Query::new(&grammar, text).map_err(|error| format!("`{text}`: {error}"));
    let queries = |texts: &[String]| texts.iter().map(query).collect::<Result<Vec<_>, _>>();
    let rename = match &file.rename {
        None => None,
        Some(rename) => Some(RenameQueries {
            scope: query(&rename.scope)?,
            forbidden: query(&rename.forbidden)?,
            bound: query(&rename.bound)?,
            kept: query(&rename.kept)?,
            other: query(&rename.other)?,
            identifiers: query(&rename.identifiers)?,
        }),
    };
    let mutations = file.mutation.iter().map(|mutation| {
        let to = match (&mutation.to, mutation.map.is_empty()) {
            (Some(text), true) => To::Text(text.clone()),
            (None, false) => To::Map(mutation.map.clone()),
            _ => return Err(format!("`{}` must have either `to` or `map`", mutation.operator)),
        };
        let query = query(&mutation.query)?;
        if query.capture_index_for_name("target").is_none() {
            return Err(format!("`{}` has no `@target`", mutation.query));
        }
        Ok(MutationQuery { operator: mutation.operator.clone(), query, to })
    });
    Ok(Language {
        extensions,
        comment: file.comment.clone(),
        statements: file.statements.clone(),
        ignore: queries(&file.ignore)?,
        brackets: file.rewrite.brackets.clone(),
        strings: file.rewrite.strings.clone(),
        orderless: queries(&file.rewrite.orderless)?,
        rename,
        mutations: mutations.collect::<Result<_, _>>()?,
        grammar,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_definitions_fit_their_grammars() {
        let languages = Languages::built_in().unwrap();
        let names = ["a.py", "a.js", "a.ts", "a.tsx", "a.rs"].map(|name| TreePath::new(name).unwrap());
        assert!(names.iter().all(|path| languages.comment(path).is_some()));
        assert!(languages.comment(&TreePath::new("README.md").unwrap()).is_none());
        let plain = ["a/b.yml", "Dockerfile"].map(|name| TreePath::new(name).unwrap());
        assert!(plain.iter().all(|path| languages.comment(path) == Some("#")));
        let with = languages.with_comment(&plain[0], "a: 1\nb: 2\n", 1, "#", &["note".to_owned()]);
        assert_eq!(with.as_deref(), Some("a: 1\n# note\nb: 2\n"));
    }

    #[test]
    fn broken_definitions_say_where_and_what() {
        let good = FILES[1].1;
        for (text, part) in [
            (good.replace("schema = 1", "schema = 2"), "schema 2"),
            (good.replace("name = \"python\"", "name = \"cobol\""), "cobol"),
            (good.replace("(raise_statement) @target", "(raise_statment) @target"), "raise_statment"),
            (good.replace("(raise_statement) @target", "(raise_statement) @it"), "@target"),
            (good.replace("to = \"None\"", ""), "either"),
            (format!("nonsense = 1\n{good}"), "nonsense"),
        ] {
            let error = parse("the file", &text).unwrap_err().to_string();
            assert!(error.starts_with("the file: ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn comments_go_where_nothing_else_changes() {
        let languages = Languages::built_in().unwrap();
        let path = TreePath::new("a.py").unwrap();
        let text = "x = 1\ny = '''\none\ntwo\n'''\n";
        let with = |at| languages.with_comment(&path, text, at, "#", &["note".to_owned()]).unwrap();
        assert_eq!(with(1), "x = 1\n# note\ny = '''\none\ntwo\n'''\n");
        assert_eq!(with(3), with(1), "not into the string");
        assert_eq!(with(5), format!("{text}# note\n"));
    }
}
