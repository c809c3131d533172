//! The HTTP client of an endpoint.

use reqwest::Client;

use super::{Endpoint, FailureKind, LlmError, Secret};
pub(super) use crate::http::chain;
use crate::http::{base_url, builder};

/// A client for this endpoint.
pub(super) fn client(endpoint: &Endpoint) -> Result<Client, LlmError> {
    let setup = |problem: String| LlmError::new(FailureKind::Setup, problem);
    let builder = base_url(&endpoint.base_url)
        .and_then(|url| builder(&url, endpoint.ca_bundle.as_deref(), &endpoint.proxies))
        .map_err(|error| setup(error.to_string()))?;
    let client = builder.connect_timeout(endpoint.timeouts.connect).build();
    client.map_err(|error| setup(format!("the HTTP client cannot be set up: {}", chain(&error.without_url()))))
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
            ("https://host", None, "SSL_CERT_FILE"),
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
}
