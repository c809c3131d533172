//! A server on loopback that answers what it was told to, and remembers what it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// One answer.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Whether the connection breaks in the middle of the body.
    pub cut: bool,
}

impl Answer {
    pub fn good(body: impl ToString) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.to_string(), cut: false }
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub fn status(status: u16, message: &str) -> Self {
        Self { status, ..Self::good(format!("{{\"message\": \"{message}\"}}")) }
    }
}

/// What was asked: the path with its query, and the `Authorization` header.
pub type Asked = (String, Option<String>);

#[derive(Default)]
struct Script {
    answers: BTreeMap<String, VecDeque<Answer>>,
    asked: Vec<Asked>,
}

/// The server; it ends with the test's process.
pub struct Server {
    pub address: String,
    script: Arc<Mutex<Script>>,
}

impl Server {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script::default()));
        let of_thread = script.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = of_thread.clone();
                std::thread::spawn(move || drop(serve(stream, &script)));
            }
        });
        Self { address, script }
    }

    /// Adds an answer to the queue of a path; the last one is given again and again.
    pub fn answer(&self, path: &str, answer: Answer) {
        self.script.lock().unwrap().answers.entry(path.to_owned()).or_default().push_back(answer);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.script.lock().unwrap().asked.clone()
    }

    /// How often a path was asked for.
    pub fn count(&self, path: &str) -> usize {
        self.asked().iter().filter(|(asked, _)| asked == path).count()
    }
}

fn serve(mut stream: std::net::TcpStream, script: &Mutex<Script>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut authorization = None;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Some(value.trim().to_owned());
        }
    }
    let answer = {
        let mut script = script.lock().unwrap();
        script.asked.push((path.clone(), authorization));
        let queue = script.answers.entry(path).or_default();
        if queue.len() > 1 { queue.pop_front() } else { queue.front().cloned() }
    };
    let answer = answer.unwrap_or_else(|| Answer::status(404, "Not Found"));
    let mut text =
        format!("HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(if answer.cut { &answer.body[..answer.body.len() / 2] } else { &answer.body });
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // The other side closes when it has read all.
    std::io::copy(&mut reader, &mut std::io::sink())?;
    Ok(())
}
