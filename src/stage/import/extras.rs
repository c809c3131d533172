//! What the caller adds to an import: environments by repository, and a way to find merged commits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::{ImportError, Summary};
use crate::model::{EnvironmentSpec, Instance, MergedKind, parse_jsonl};
use crate::store::bench::Problem;

/// Finds the commit that addressed an instance's review, and says what it is.
pub type MergedFinder<'a> = &'a dyn Fn(&Instance) -> Option<(String, MergedKind)>;

/// What the caller adds.
#[derive(Default, Clone, Copy)]
pub struct Options<'a> {
    /// The benchmark's name; absent: the format's own.
    pub name: Option<&'a str>,
    /// Environments by repository.
    pub environments: Option<&'a Environments>,
    /// Finds merged commits where the data has none.
    pub merged: Option<MergedFinder<'a>>,
}

/// Environments by repository; names compare without case.
#[derive(Debug, Clone, Default)]
pub struct Environments {
    rows: BTreeMap<String, (String, EnvironmentSpec)>,
    problems: Vec<Problem>,
}

#[derive(Deserialize)]
struct Row {
    repo: String,
    environment: EnvironmentSpec,
}

impl Environments {
    /// Reads a file of rows `{"repo": "owner/name", "environment": {…}}`. Broken and repeated rows are named in the
    /// summary of the import that uses them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, ImportError> {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        if !path.is_file() {
            return Err(ImportError::NotThere(path.to_owned()));
        }
        Ok(Self::parse(&file, &fs_err::read_to_string(path)?))
    }

    /// Reads rows from text; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Self {
        let mut out = Self::default();
        let parsed = parse_jsonl::<Row>(text);
        out.problems.extend(parsed.errors.into_iter().map(|error| Problem::unreadable(file, error)));
        for (line, row) in parsed.rows {
            let key = row.repo.to_ascii_lowercase();
            if out.rows.contains_key(&key) {
                let text = format!("`{}` has an environment on an earlier line, which counts", row.repo);
                out.problems.push(Problem::warning(file, line, "repo", text));
                continue;
            }
            out.rows.insert(key, (row.repo, row.environment));
        }
        out
    }

    /// The environment of a repository.
    pub fn get(&self, repo: &str) -> Option<&EnvironmentSpec> {
        self.rows.get(&repo.to_ascii_lowercase()).map(|(_, spec)| spec)
    }
}

impl Options<'_> {
    /// Applies environments and merged commits, and says in the summary what fitted.
    pub(super) fn apply(&self, instances: &mut [Instance], summary: &mut Summary) {
        if let Some(environments) = self.environments {
            let mut used = BTreeSet::new();
            for instance in instances.iter_mut() {
                let key = instance.repo.to_ascii_lowercase();
                if let Some((_, spec)) = environments.rows.get(&key) {
                    instance.environment = Some(spec.clone());
                    summary.environments += 1;
                    used.insert(key);
                }
            }
            let unused = environments.rows.iter().filter(|(key, _)| !used.contains(*key));
            summary.unknown_environment_repos = unused.map(|(_, (repo, _))| repo.clone()).collect();
            summary.problems.extend(environments.problems.iter().cloned());
        }
        if let Some(find) = self.merged {
            for instance in instances.iter_mut().filter(|i| i.merged_commit.is_none()) {
                match find(instance) {
                    Some((commit, kind)) => {
                        instance.merged_commit = Some(commit);
                        instance.merged_kind = kind;
                        summary.merged_found += 1;
                    }
                    None => summary.merged_not_found += 1,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_found_in_any_case_and_broken_rows_are_named() {
        let text = "{\"repo\":\"Own/Repo\",\"environment\":{\"language\":\"python\"}}\n{\"repo\":1}\n\
                    {\"repo\":\"own/repo\",\"environment\":{\"language\":\"rust\"}}\n";
        let environments = Environments::parse("e.jsonl", text);
        assert_eq!(environments.get("own/REPO").unwrap().language, "python");
        assert!(environments.get("own/other").is_none());
        let places: Vec<_> = environments.problems.iter().map(|p| (p.line, p.field.as_str())).collect();
        assert_eq!(places, [(Some(2), "repo"), (Some(3), "repo")]);
    }
}
