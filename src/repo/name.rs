//! A repository's name and the folder names under which mirrors and bundles hold it.

use super::error::RepoError;

/// `owner/name`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RepoName {
    pub owner: String,
    pub name: String,
}

impl RepoName {
    /// Takes `owner/name` apart. Both become parts of paths and of addresses, so only what hosts allow passes.
    pub(super) fn parse(repo: &str) -> Result<Self, RepoError> {
        let bad = |problem| RepoError::BadName { repo: repo.to_owned(), problem };
        let (owner, name) = repo.split_once('/').ok_or_else(|| bad("there is no `/`"))?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        for part in [owner, name] {
            if part.is_empty() {
                return Err(bad("the owner or the name is empty"));
            }
            if part.starts_with(['-', '.']) && !part.starts_with(".github") {
                return Err(bad("a part starts with `-` or `.`"));
            }
            if !part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
                return Err(bad("a part has characters other than letters, digits, `-`, `_` and `.`"));
            }
        }
        Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    /// `owner/name`.
    pub(super) fn full(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Folders that say owner and name, relative to a mirrors' folder, in order of preference.
    pub(super) fn full_folders(&self) -> Vec<String> {
        let Self { owner, name } = self;
        ["/", "__", "+"]
            .iter()
            .flat_map(|sep| [format!("{owner}{sep}{name}"), format!("{owner}{sep}{name}.git")])
            .collect()
    }

    /// Folders that say the name only.
    pub(super) fn short_folders(&self) -> [String; 2] {
        [self.name.clone(), format!("{}.git", self.name)]
    }

    /// Names of bundles, in order of preference; the last says the name only.
    pub(super) fn bundles(&self) -> [String; 4] {
        let Self { owner, name } = self;
        [
            format!("{owner}__{name}.bundle"),
            format!("{owner}+{name}.bundle"),
            format!("{owner}/{name}.bundle"),
            format!("{name}.bundle"),
        ]
    }

    /// Whether an address (of a remote) is this repository's.
    pub(super) fn is_address(&self, address: &str) -> bool {
        let address = address.trim_end_matches('/');
        let address = address.strip_suffix(".git").unwrap_or(address).to_ascii_lowercase();
        let full = self.full().to_ascii_lowercase();
        address.strip_suffix(&full).is_some_and(|before| before.is_empty() || before.ends_with(['/', ':']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_pass() {
        assert_eq!(RepoName::parse("a.b/c_d-e").unwrap().full(), "a.b/c_d-e");
        assert_eq!(RepoName::parse("o/.github").unwrap().name, ".github");
        for bad in ["x", "/x", "x/", "a/../b", "../b", "-o/x", "o/-x", "o/x y", "o/x\n", "a/b/c", "o/..", "o/.git"] {
            assert!(RepoName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses() {
        let name = RepoName::parse("Own/Repo").unwrap();
        for address in ["https://h/own/repo", "git@h:Own/Repo.git", "/srv/own/repo.git/"] {
            assert!(name.is_address(address), "{address}");
        }
        for address in ["https://h/xown/repo", "https://h/own/repo2", "https://h/other/repo"] {
            assert!(!name.is_address(address), "{address}");
        }
    }
}
