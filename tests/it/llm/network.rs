//! How the client reaches a server: by TLS with an authority of one's own, and through a proxy.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::server::{Server, openai};
use crate::docker::certificates::Authority;
use crate::support::{Place, Ran};

const LABELS: &str = "{\"reason\":\"r\",\"actionable\":true,\"specific\":true,\"verifiable\":true,\"category\":\"design\",\
                      \"oracle_reason\":\"o\",\"oracle\":\"behavioral\"}";

/// A server with the certificate `server.pem` of a folder, which gives the same answer to everything.
fn serve(folder: &Path) -> u16 {
    let certificates = CertificateDer::pem_file_iter(folder.join("server.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("server-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            // A client that does not trust us breaks off.
            std::thread::spawn(move || answer(StreamOwned::new(ServerConnection::new(config).unwrap(), stream)));
        }
    });
    port
}

fn answer(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) -> std::io::Result<()> {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        text.extend_from_slice(&piece[..read]);
        let so_far = String::from_utf8_lossy(&text);
        let length = so_far.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if read == 0 || so_far.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length.unwrap_or(0)) {
            break;
        }
    }
    let message = serde_json::json!({"content": LABELS});
    let body = serde_json::json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn filter(place: &Place, out: &str, base: &str, variables: &[(&str, &str)], more: &[&str]) -> Ran {
    let words = ["filter", "bench", "--llm", "live", "--model", "m", "-i", "*rotate-8*", "--llm-tries", "1", "--json"];
    let mut command = place.command(&[&words[..], &["--out", out, "--base-url", base], more].concat());
    command.envs(variables.iter().copied());
    Ran::of(command.output().unwrap())
}

#[test]
fn an_authority_of_ones_own_is_trusted_when_it_is_named() {
    let place = Place::with_bench();
    let folder = place.join("tls");
    fs_err::create_dir(&folder).unwrap();
    let authority = Authority::new(&folder);
    authority.sign("server", "DNS:localhost,IP:127.0.0.1", "serverAuth");
    let base = format!("https://localhost:{}/v1", serve(&folder));
    let bundle = authority.certificate().display().to_string();
    filter(&place, "one", &base, &[], &["--ca-bundle", &bundle]).exits(0);
    filter(&place, "two", &base, &[("SSL_CERT_FILE", &bundle)], &[]).exits(0);
    let refused = filter(&place, "three", &base, &[], &[]).exits(2);
    assert!(
        refused.stderr.contains("certificate is not trusted") || refused.stderr.contains("no CA bundle"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_proxy_is_used_but_for_this_machine() {
    let place = Place::with_bench();
    let proxy = Server::answering(|_| openai(LABELS));
    let address = format!("http://me:hunter2@127.0.0.1:{}", proxy.port);
    let ran = filter(&place, "one", "http://models.example/v1", &[("http_proxy", &address)], &[]).exits(0);
    let asked = &proxy.asked()[0];
    assert_eq!(asked.line, "POST http://models.example/v1/chat/completions HTTP/1.1");
    assert!(asked.header("proxy-authorization").is_some_and(|value| value.starts_with("Basic ")));
    assert!(!ran.stderr.contains("hunter2"));
    let server = Server::answering(|_| openai(LABELS));
    filter(&place, "two", &server.base(), &[("http_proxy", &address)], &[]).exits(0);
    assert_eq!((server.asked().len(), proxy.asked().len()), (1, 1));
    let variables = [("HTTP_PROXY", address.as_str()), ("NO_PROXY", "models.invalid")];
    let unknown = filter(&place, "three", "http://models.invalid/v1", &variables, &[]).exits(3);
    assert_eq!((unknown.json()["open"]["connect"].as_u64(), proxy.asked().len()), (Some(1), 1), "{}", unknown.stderr);
}

#[test]
fn the_vendors_key_goes_to_no_other_server_unless_it_is_named() {
    let place = Place::with_bench();
    let server = Server::answering(|_| openai(LABELS));
    let key = [("OPENAI_API_KEY", "sk-hunter2")];
    filter(&place, "one", &server.base(), &key, &[]).exits(0);
    filter(&place, "two", &server.base(), &key, &["--key-variable", "OPENAI_API_KEY"]).exits(0);
    fs_err::write(place.join("key"), "sk-other\n").unwrap();
    filter(&place, "three", &server.base(), &key, &["--key-file", "key"]).exits(0);
    let sent: Vec<_> = server.asked().iter().map(|asked| asked.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [None, Some("Bearer sk-hunter2".to_owned()), Some("Bearer sk-other".to_owned())]);
    let everything: Vec<u8> = walkdir::WalkDir::new(place.path())
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file() && entry.file_name() != "key")
        .flat_map(|entry| fs_err::read(entry.path()).unwrap())
        .collect();
    let everything = String::from_utf8_lossy(&everything);
    assert!(!everything.contains("hunter2") && !everything.contains("sk-other"));
}
