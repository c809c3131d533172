//! Environments by hand: for a repository, for commits of it, or for a range of its history.
//!
//! JSON Lines: `{"repo": "owner/name", "commits": ["1a2b3c", "from..to"], "environment": {…}}`. Without `commits` a line
//! is for all commits of the repository. What fits a commit most closely counts: the longest prefix of its id, then a
//! range, then the whole repository; of equals the first.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::{EnvironmentSpec, parse_jsonl};

/// Why overrides cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// The file cannot be read.
    #[error("the overrides cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// Lines that are no overrides.
    #[error("{}:{line}: {message}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The first such line.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A range cannot be looked up in the repository's history.
    #[error("the override of `{repo}` for `{range}` cannot be looked up: {message}")]
    Range {
        /// The repository.
        repo: String,
        /// The range.
        range: String,
        /// What the repository says.
        message: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    repo: String,
    #[serde(default)]
    commits: Vec<String>,
    environment: EnvironmentSpec,
}

/// Environments by hand, which are taken at their word.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overrides {
    lines: Vec<Line>,
}

impl Overrides {
    /// Reads a file. One bad line refuses it all: what was meant for an instance must not silently go missing.
    ///
    /// # Errors
    /// See [`OverrideError`].
    pub fn load(file: &Path) -> Result<Self, OverrideError> {
        let text = fs_err::read_to_string(file)?;
        let parsed = parse_jsonl::<Line>(&text);
        let refuse = |line, message: String| OverrideError::Line { file: file.to_owned(), line, message };
        if let Some(error) = parsed.errors.first() {
            return Err(refuse(error.line, error.to_string()));
        }
        let mut lines = Vec::new();
        for (number, line) in parsed.rows {
            if line.repo.split('/').filter(|part| !part.is_empty()).count() != 2 {
                return Err(refuse(number, format!("`repo` must be `owner/name`, not `{}`", line.repo)));
            }
            // A later version may know more, but what a person writes by hand is rather a slip.
            if let Some(field) = line.environment.extra.keys().next() {
                return Err(refuse(
                    number,
                    format!("the environment has a field `{field}`, which is none of an environment's"),
                ));
            }
            if let Some(commit) = line.commits.iter().find(|commit| !is_commits(commit)) {
                let message =
                    format!("`{commit}` is neither the beginning of a commit's id (4 to 40 digits) nor `from..to`");
                return Err(refuse(number, message));
            }
            lines.push(line);
        }
        Ok(Self { lines })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The environment of a commit, given by its full id. `is_in_range` says whether it lies in `from..to`: reachable
    /// from `to` and not from `from`; it is asked only where no prefix fits.
    ///
    /// # Errors
    /// When the history cannot be asked.
    pub fn find(
        &self,
        repo: &str,
        commit: &str,
        is_in_range: impl Fn(&str, &str) -> Result<bool, String>,
    ) -> Result<Option<&EnvironmentSpec>, OverrideError> {
        let commit = commit.to_ascii_lowercase();
        let of_repo: Vec<&Line> = self.lines.iter().filter(|line| line.repo.eq_ignore_ascii_case(repo)).collect();
        let fits = |prefix: &String| !prefix.contains("..") && commit.starts_with(&prefix.to_ascii_lowercase());
        let mut best: Option<(usize, &Line)> = None;
        for line in &of_repo {
            let length = line.commits.iter().filter(|prefix| fits(prefix)).map(String::len).max();
            if let Some(length) = length.filter(|length| best.is_none_or(|(known, _)| *length > known)) {
                best = Some((length, line));
            }
        }
        if let Some((_, line)) = best {
            return Ok(Some(&line.environment));
        }
        for line in &of_repo {
            for (range, (from, to)) in line.commits.iter().filter_map(|text| Some((text, text.split_once("..")?))) {
                let error = |message| OverrideError::Range { repo: line.repo.clone(), range: range.clone(), message };
                if is_in_range(from, to).map_err(error)? {
                    return Ok(Some(&line.environment));
                }
            }
        }
        Ok(of_repo.into_iter().find(|line| line.commits.is_empty()).map(|line| &line.environment))
    }
}

fn is_commits(text: &str) -> bool {
    let is_prefix = |text: &str| (4..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit());
    match text.split_once("..") {
        Some((from, to)) => is_prefix(from) && is_prefix(to),
        None => is_prefix(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Overrides, OverrideError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("environments.jsonl");
        fs_err::write(&file, text).unwrap();
        Overrides::load(&file)
    }

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    #[test]
    fn the_longest_prefix_wins_then_a_range_then_the_repository() {
        let line = |commits: &str, version: &str| {
            format!(
                "{{\"repo\":\"Own/Repo\"{commits},\"environment\":{{\"language\":\"python\",\"version\":\"{version}\"}}}}\n"
            )
        };
        let all = line("", "1")
            + &line(",\"commits\":[\"aaaa..bbbb\",\"cccc..dddd\"]", "2")
            + &line(",\"commits\":[\"1a2b\"]", "3")
            + &line(",\"commits\":[\"ffff\",\"1A2B3C\"]", "4");
        let overrides = load(&all).unwrap();
        let found = |repo: &str, commit: &str, inside: bool| {
            let range = |from: &str, to: &str| Ok(inside && (from, to) == ("cccc", "dddd"));
            overrides.find(repo, commit, range).unwrap().and_then(|spec| spec.version.clone())
        };
        assert_eq!(found("own/repo", COMMIT, true).as_deref(), Some("4"));
        assert_eq!(found("own/repo", &COMMIT.replace("3c4d5e", "000000"), true).as_deref(), Some("3"));
        assert_eq!(found("own/repo", &"9".repeat(40), true).as_deref(), Some("2"));
        assert_eq!(found("own/repo", &"9".repeat(40), false).as_deref(), Some("1"));
        assert_eq!(found("own/other", COMMIT, true), None);
        let broken = overrides.find("own/repo", &"9".repeat(40), |_, _| Err("no such commit".to_owned()));
        assert!(broken.unwrap_err().to_string().contains("`aaaa..bbbb`"));
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = "{\"repo\":\"a/b\",\"environment\":{\"language\":\"python\"}}\n";
        for bad in [
            "{\"repo\":\"a/b\"}",
            "{\"repo\":\"ab\",\"environment\":{\"language\":\"python\"}}",
            "{\"repo\":\"a/b\",\"commits\":[\"xyz\"],\"environment\":{\"language\":\"python\"}}",
            "{\"repo\":\"a/b\",\"commits\":[\"main..1a2b\"],\"environment\":{\"language\":\"python\"}}",
            "{\"repo\":\"a/b\",\"environment\":{\"language\":\"python\",\"versoin\":\"3.9\"}}",
            "{\"repo\":\"a/b\",\"comits\":[],\"environment\":{\"language\":\"python\"}}",
            "nonsense",
        ] {
            let error = load(&format!("{good}{bad}\n")).unwrap_err().to_string();
            assert!(error.contains("environments.jsonl:2: "), "{error}");
        }
        assert!(load("").unwrap().is_empty());
    }
}
