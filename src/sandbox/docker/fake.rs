//! An engine for tests: it answers on a socket as a test says, slowly or not at all where that is wanted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::endpoint::{Candidate, Endpoint};
use super::engine::Engine;
use super::facts::Facts;

/// What it does when it is asked for something.
pub enum Reply {
    /// Answers with a status and a text, after a while.
    After(u64, u16, &'static str),
    /// Never answers.
    Never,
    /// Hangs up.
    HangUp,
    /// Becomes a stream that shows these bytes, and stays open.
    Stream(&'static [u8]),
}

/// An engine and what it was asked, as `METHOD /path`.
pub struct Fake {
    pub engine: Engine,
    pub asked: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Fake {
    /// Answers what `reply` says of each request: its method and path without the API's version.
    pub fn new(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (heard, reply) = (asked.clone(), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, reply.clone(), heard.clone()));
            }
        });
        let docker = Docker::connect_with_unix(path.to_str().unwrap(), 3600, API_DEFAULT_VERSION).unwrap();
        let nothing = serde_json::from_str("{}").unwrap();
        let facts = Facts::of(&nothing, &serde_json::from_str("{}").unwrap(), "1.41".to_owned());
        let at = Candidate { endpoint: Endpoint::Unix(path), origin: "a test".to_owned() };
        Self { engine: Engine { docker, at, facts, skipped: Vec::new() }, asked, _folder: folder }
    }

    /// How often it was asked for something that begins so.
    pub fn count(&self, what: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| asked.starts_with(what)).count()
    }
}

async fn serve(
    mut stream: UnixStream,
    reply: Arc<impl Fn(&str) -> Reply + Send + Sync + 'static>,
    heard: Arc<Mutex<Vec<String>>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let path = path.split('?').next().unwrap().trim_start_matches("/v").trim_start_matches(|c| c != '/');
    let request = format!("{method} {path}");
    let reply = reply(&request);
    heard.lock().unwrap().push(request);
    match reply {
        Reply::After(millis, status, text) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            let length = text.len();
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n");
            let _ = stream.write_all(format!("{head}Content-Type: application/json\r\n\r\n{text}").as_bytes()).await;
        }
        Reply::Stream(bytes) => {
            let head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
            let _ = stream.write_all(head).await;
            let _ = stream.write_all(bytes).await;
            std::future::pending().await
        }
        Reply::Never => std::future::pending().await,
        Reply::HangUp => {}
    }
}
