//! Options that several verbs share.

use std::path::PathBuf;

use super::error::CliError;
use super::settings::{Layers, Source, Sourced};
use super::variables;

/// Reads `redgreen.toml` of the current folder.
pub(super) fn layers() -> Result<Layers, CliError> {
    let folder = std::env::current_dir().map_err(|e| CliError::infra("the current folder is gone").because(&e))?;
    Layers::load(&folder)
}

/// `--cache`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct CacheOption {
    /// Folder for clones, trees and environment layers [default: $XDG_CACHE_HOME/redgreen].
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    cache: Option<PathBuf>,
}

impl CacheOption {
    /// The cache folder, absolute.
    pub(super) fn resolve(&self, layers: &Layers) -> Result<Sourced<PathBuf>, CliError> {
        let picked = layers.pick(
            self.cache.clone(),
            "REDGREEN_CACHE",
            |t| Ok(PathBuf::from(t)),
            |f| Ok(f.cache.clone()),
            variables::default_cache,
        )?;
        Ok(Sourced { value: absolute(&picked.value)?, source: picked.source })
    }
}

/// Where repositories come from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RepositoryOptions {
    /// Folder with repositories, as `owner/name`, `owner__name.git`, `owner+name/repo` and the like; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    pub(super) mirrors: Vec<PathBuf>,
    /// Where to clone repositories from that are not found, with `{owner}` and `{name}` in it.
    #[arg(long, value_name = "URL", help_heading = "Where things are")]
    pub(super) clone_from: Option<String>,
    /// Never use the network: what is not there already is infra.
    #[arg(long, help_heading = "Where things are")]
    pub(super) offline: bool,
}

/// The resolved form of [`RepositoryOptions`].
#[derive(Debug, Clone)]
pub(super) struct Repositories {
    /// Mirror folders.
    pub(super) mirrors: Sourced<Vec<PathBuf>>,
    /// Clone template.
    pub(super) clone_from: Sourced<Option<String>>,
    /// No network.
    pub(super) offline: Sourced<bool>,
}

impl RepositoryOptions {
    pub(super) fn resolve(&self, layers: &Layers) -> Result<Repositories, CliError> {
        let list = |t: &str| Ok(std::env::split_paths(t).collect());
        let mirrors = layers.pick(
            (!self.mirrors.is_empty()).then(|| self.mirrors.clone()),
            "REDGREEN_MIRRORS",
            list,
            |f| Ok(f.mirrors.clone()),
            Vec::new,
        )?;
        for folder in &mirrors.value {
            if !folder.is_dir() {
                return Err(CliError::usage(format!("the mirrors folder `{}` is not there", folder.display()))
                    .hint(format!("it was named by: {}", mirrors.source)));
            }
        }
        Ok(Repositories {
            mirrors,
            clone_from: layers.pick(
                self.clone_from.clone().map(Some),
                "REDGREEN_CLONE_FROM",
                |t| Ok(Some(t.to_owned())),
                |f| Ok(f.clone_from.clone().map(Some)),
                || None,
            )?,
            offline: layers.pick(
                self.offline.then_some(true),
                "REDGREEN_OFFLINE",
                parse_bool,
                |f| Ok(f.offline),
                || false,
            )?,
        })
    }
}

impl Repositories {
    /// The settings and their sources, for `doctor`.
    pub(super) fn describe(&self) -> Vec<(&'static str, String, Source)> {
        let mirrors = self.mirrors.value.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        vec![
            ("mirrors", mirrors, self.mirrors.source.clone()),
            ("clone-from", self.clone_from.value.clone().unwrap_or_default(), self.clone_from.source.clone()),
            ("offline", self.offline.value.to_string(), self.offline.source.clone()),
        ]
    }
}

/// Reads yes or no.
pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither yes nor no")),
    }
}

/// Makes a path absolute without touching the file system.
pub(super) fn absolute(path: &std::path::Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|e| CliError::usage(format!("`{}` is no path", path.display())).because(&e))
}
