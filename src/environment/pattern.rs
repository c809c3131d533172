//! The patterns of definitions, compiled.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;

/// A definition's pattern, compiled once in this process: there are hundreds of them, a log has many lines, and many
/// instances ask for the same ones. `None` where it is none, which a definition that was read never has.
pub(super) fn compiled(pattern: &str) -> Option<Regex> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = known.get(pattern) {
        return regex.clone();
    }
    known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok()).clone()
}
