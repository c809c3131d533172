//! An HTTP client that reads nothing from its surroundings: certificates and proxies are handed to it.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, NoProxy, Proxy, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::{Endpoint, FailureKind, LlmError, Proxies, Secret};

/// A client for this endpoint.
pub(super) fn client(endpoint: &Endpoint) -> Result<Client, LlmError> {
    let url = url(&endpoint.base_url)?;
    let roots = match (&endpoint.ca_bundle, url.scheme()) {
        (Some(bundle), _) => roots(bundle)?,
        (None, "https") => {
            let said = "no CA bundle was found on this machine; name one with `--ca-bundle FILE` or `SSL_CERT_FILE`";
            return Err(setup(said.to_owned()));
        }
        (None, _) => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| setup(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("redgreen/", env!("CARGO_PKG_VERSION")))
        // A redirect would take the key elsewhere.
        .redirect(redirect::Policy::none())
        .connect_timeout(endpoint.timeouts.connect)
        .no_proxy();
    if !is_here(&url) {
        for proxy in proxies(&endpoint.proxies)? {
            builder = builder.proxy(proxy);
        }
    }
    builder.build().map_err(|error| setup(format!("the HTTP client cannot be set up: {}", chain(&error.without_url()))))
}

/// The base URL, checked: `http` or `https`, and without credentials, which would be shown.
fn url(base: &str) -> Result<reqwest::Url, LlmError> {
    let (shown, stripped) = crate::environment::strip_credentials(base);
    let url = reqwest::Url::parse(base).map_err(|error| setup(format!("`{shown}` is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(setup(format!("`{shown}` is no http or https URL")));
    }
    if stripped {
        return Err(setup(format!("the URL of `{shown}` has credentials in it; give a key instead")));
    }
    Ok(url)
}

/// Whether it is this machine, which no proxy reaches.
fn is_here(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn roots(bundle: &Path) -> Result<RootCertStore, LlmError> {
    let unusable = |said: String| setup(format!("the CA bundle `{}` cannot be used: {said}", bundle.display()));
    let text = fs_err::read(bundle).map_err(|error| unusable(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        // Systems keep some that are too old to be read; the others count.
        let _ = store.add(certificate);
    }
    if store.is_empty() { Err(unusable("it holds no certificate".to_owned())) } else { Ok(store) }
}

fn proxies(proxies: &Proxies) -> Result<Vec<Proxy>, LlmError> {
    let none_for = || proxies.none_for.as_deref().and_then(NoProxy::from_string);
    let broken = |error: reqwest::Error| setup(format!("a proxy cannot be used: {}", chain(&error.without_url())));
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

fn setup(message: String) -> LlmError {
    LlmError::new(FailureKind::Setup, message)
}

/// An error with its causes on one line. reqwest's own text says only where it happened.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
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

/// A text without the endpoint's secrets.
pub(super) fn scrub(endpoint: &Endpoint, text: &str) -> String {
    let proxies = &endpoint.proxies;
    let secrets = [&endpoint.key, &proxies.http, &proxies.https, &proxies.all];
    secrets.into_iter().flatten().fold(text.to_owned(), |text, secret: &Secret| secret.scrub(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Wire;

    #[test]
    fn what_does_not_work_is_said_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        fs_err::write(&empty, "nothing").unwrap();
        for (base, bundle, said) in [
            ("not a url", None, "no URL"),
            ("ftp://host", None, "no http"),
            ("https://me:hunter2@host", Some(&empty), "credentials"),
            ("https://host", None, "--ca-bundle"),
            ("https://host", Some(&empty), "no certificate"),
            ("http://host", Some(&folder.path().join("gone")), "gone"),
        ] {
            let mut endpoint = Endpoint::new(Wire::Openai, base, "m");
            endpoint.ca_bundle = bundle.cloned();
            let error = client(&endpoint).unwrap_err();
            assert_eq!(error.kind, FailureKind::Setup);
            assert!(error.message.contains(said) && !error.message.contains("hunter2"), "{base}: {error}");
        }
        assert!(client(&Endpoint::new(Wire::Openai, "http://host", "m")).is_ok());
    }

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
