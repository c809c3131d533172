//! HTTP clients that read nothing from their surroundings: certificates and proxies are handed to them. Knows nobody that
//! is asked by them.

mod secret;

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

pub use secret::Secret;

/// Why there is no client. Says nothing of secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(String);

/// Proxies, which may hold credentials.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// For `http` URLs.
    pub http: Option<Secret>,
    /// For `https` URLs.
    pub https: Option<Secret>,
    /// For both.
    pub all: Option<Secret>,
    /// Hosts that are reached directly, in the form of `NO_PROXY`.
    pub none_for: Option<String>,
}

/// The base URL, checked: `http` or `https`, and without credentials, which would be shown.
pub fn base_url(base: &str) -> Result<Url, HttpError> {
    let (shown, stripped) = crate::environment::strip_credentials(base);
    let url = Url::parse(base).map_err(|error| HttpError(format!("`{shown}` is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(HttpError(format!("`{shown}` is no http or https URL")));
    }
    if stripped {
        return Err(HttpError(format!("the URL of `{shown}` has credentials in it; give a key instead")));
    }
    Ok(url)
}

/// A client for this address, which trusts the certificates of `ca_bundle` and follows no redirect: that would take a key
/// elsewhere. This machine itself is never reached through a proxy.
///
/// # Errors
/// The bundle or a proxy cannot be used, or there is no bundle for an `https` address.
pub fn builder(url: &Url, ca_bundle: Option<&Path>, given: &Proxies) -> Result<ClientBuilder, HttpError> {
    let roots = match (ca_bundle, url.scheme()) {
        (Some(bundle), _) => roots(bundle)?,
        (None, "https") => {
            let said = "no CA bundle was found on this machine; name one by `SSL_CERT_FILE`, or as `ca-bundle` in `redgreen.toml`";
            return Err(HttpError(said.to_owned()));
        }
        (None, _) => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpError(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("redgreen/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .no_proxy();
    if !is_here(url) {
        for proxy in proxies(given)? {
            builder = builder.proxy(proxy);
        }
    }
    Ok(builder)
}

/// Whether it is this machine, which no proxy reaches.
fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn roots(bundle: &Path) -> Result<RootCertStore, HttpError> {
    let unusable = |said: String| HttpError(format!("the CA bundle `{}` cannot be used: {said}", bundle.display()));
    let text = fs_err::read(bundle).map_err(|error| unusable(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        // Systems keep some that are too old to be read; the others count.
        let _ = store.add(certificate);
    }
    if store.is_empty() { Err(unusable("it holds no certificate".to_owned())) } else { Ok(store) }
}

fn proxies(proxies: &Proxies) -> Result<Vec<Proxy>, HttpError> {
    let none_for = || proxies.none_for.as_deref().and_then(NoProxy::from_string);
    let broken = |error: reqwest::Error| HttpError(format!("a proxy cannot be used: {}", chain(&error.without_url())));
    let mut out = Vec::new();
    let mut add =
        |proxy: Result<Proxy, reqwest::Error>| proxy.map_err(broken).map(|proxy| out.push(proxy.no_proxy(none_for())));
    if let Some(proxy) = &proxies.http {
        add(Proxy::http(proxy.reveal()))?;
    }
    if let Some(proxy) = &proxies.https {
        add(Proxy::https(proxy.reveal()))?;
    }
    if let Some(proxy) = &proxies.all {
        add(Proxy::all(proxy.reveal()))?;
    }
    Ok(out)
}

/// An error with its causes on one line. reqwest's own text says only where it happened.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        next = cause.source();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for (text, here) in [
            ("http://localhost:1/v1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:8", true),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_here(&reqwest::Url::parse(text).unwrap()), here, "{text}");
        }
    }
}
