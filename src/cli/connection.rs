//! How this machine reaches others: certificates and proxies, for clients that read no variables themselves.

use std::path::PathBuf;

use super::error::CliError;
use super::settings::Layers;
use super::variables;
use crate::environment::NetworkSettings;
use crate::http::{Proxies, Secret};

/// The file with the certificates that are trusted: the one that was asked for, else this machine's.
pub(super) fn ca_bundle(layers: &Layers, option: Option<PathBuf>) -> Result<Option<PathBuf>, CliError> {
    let picked = layers.pick(
        option.map(Some),
        "REDGREEN_CA_BUNDLE",
        |text| Ok(Some(PathBuf::from(text))),
        |file| Ok(file.ca_bundle.clone().map(Some)),
        || NetworkSettings::gather(&variables::all()).ca_bundle,
    )?;
    Ok(picked.value)
}

/// What the host says of proxies, in either case of letters.
pub(super) fn proxies() -> Proxies {
    let get = |name: &str| variables::get(name).or_else(|| variables::get(&name.to_ascii_uppercase()));
    Proxies {
        http: get("http_proxy").map(|text| Secret::new(&text)),
        https: get("https_proxy").map(|text| Secret::new(&text)),
        all: get("all_proxy").map(|text| Secret::new(&text)),
        none_for: get("no_proxy"),
    }
}
