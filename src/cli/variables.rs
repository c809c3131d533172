//! Environment variables: the only place that reads them.

use std::path::PathBuf;

/// A variable's value; `None` when it is not set, empty, or not text.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn get(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// The cache folder's default: `$XDG_CACHE_HOME/redgreen`, else `~/.cache/redgreen`, else a folder of the user's under
/// the system's temporary folder.
pub fn default_cache() -> PathBuf {
    if let Some(folder) = get("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute()) {
        return folder.join("redgreen");
    }
    if let Some(home) = get("HOME").map(PathBuf::from).filter(|p| p.is_absolute()) {
        return home.join(".cache/redgreen");
    }
    std::env::temp_dir().join(format!("redgreen-cache-{}", rustix::process::getuid().as_raw()))
}

/// All variables that are text.
pub fn all() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
