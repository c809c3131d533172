//! A server on loopback that answers from a script and keeps what it was asked.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One answer of the script.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status, headers and a body, in one piece.
    Whole(u16, Vec<(&'static str, String)>, String),
    /// A stream of these pieces, then its end (without the chunk that ends a body where it is torn).
    Stream { pieces: Vec<String>, torn: bool },
    /// Nothing at all, until the client goes away.
    Hang,
    /// A stream that stands still after these pieces.
    Stall(Vec<String>),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub at: Instant,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

type Answering = dyn FnMut(&Asked) -> Reply + Send;

#[derive(Clone)]
pub struct Server {
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    /// Answers in this order; what comes after is answered with status 500.
    pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        Self::answering(move |_| {
            replies.pop_front().unwrap_or_else(|| Reply::Whole(500, Vec::new(), "the script is over".to_owned()))
        })
    }

    /// Answers by what is asked.
    pub fn answering(answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), asked: Arc::default(), over: Arc::default() };
        let answer: Arc<Mutex<Box<Answering>>> = Arc::new(Mutex::new(Box::new(answer)));
        let kept = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, answer) = (kept.clone(), answer.clone());
                if kept.over.load(Ordering::Relaxed) {
                    break;
                }
                // A client that went away is no matter.
                std::thread::spawn(move || stream.and_then(|stream| kept.serve(stream, &answer)));
            }
        });
        server
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    fn serve(&self, stream: TcpStream, answer: &Mutex<Box<Answering>>) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut headers = Vec::new();
        loop {
            let mut text = String::new();
            reader.read_line(&mut text)?;
            let Some((name, value)) = text.trim().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let asked = Asked { line: line.trim().to_owned(), headers, body, at: Instant::now() };
        self.asked.lock().unwrap().push(asked.clone());
        let reply = (answer.lock().unwrap())(&asked);
        self.reply(stream, reply)
    }

    fn reply(&self, mut stream: TcpStream, reply: Reply) -> std::io::Result<()> {
        let sse = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req-7\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = |stream: &mut TcpStream, piece: &str| {
            stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
            stream.flush()
        };
        match reply {
            Reply::Whole(status, headers, body) => {
                let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(text.as_bytes())
            }
            Reply::Stream { pieces, torn } => {
                stream.write_all(sse.as_bytes())?;
                for piece in &pieces {
                    chunk(&mut stream, piece)?;
                }
                if torn { Ok(()) } else { stream.write_all(b"0\r\n\r\n") }
            }
            Reply::Hang => self.wait(),
            Reply::Stall(pieces) => {
                stream.write_all(sse.as_bytes())?;
                for piece in &pieces {
                    chunk(&mut stream, piece)?;
                }
                self.wait()
            }
        }
    }

    fn wait(&self) -> std::io::Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until && !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The last one that a test holds: threads hold clones too, and end by this.
        if Arc::strong_count(&self.asked) <= 2 {
            self.over.store(true, Ordering::Relaxed);
        }
    }
}

/// An answer of OpenAI's in one piece.
pub fn openai(text: &str) -> Reply {
    let body = json!({
        "model": "tiny-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}},
    });
    Reply::Whole(
        200,
        vec![("content-type", "application/json".to_owned()), ("x-request-id", "req-1".to_owned())],
        body.to_string(),
    )
}

/// An answer of OpenAI's as a stream.
pub fn openai_stream(text: &str) -> Reply {
    let (a, b) = text.split_at(text.len() / 2);
    let piece =
        |text: &str| json!({"model": "tiny-1", "choices": [{"delta": {"content": text}, "finish_reason": null}]});
    let end = json!({"model": "tiny-1", "choices": [{"delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"model": "tiny-1", "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}});
    let pieces = vec![
        ": ping\r\n\r\n".to_owned(),
        format!("data: {}\r\n\r\n", piece(a)),
        format!("data: {}\n\ndata: {end}\n\n", piece(b)),
        format!("data: {usage}\n\ndata: [DONE]\n\n"),
    ];
    Reply::Stream { pieces, torn: false }
}

/// A tool call of Anthropic's as a stream.
pub fn anthropic_stream(input: &str) -> Reply {
    let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    let (a, b) = input.split_at(input.len() / 2);
    let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}});
    let pieces = [
        json!({"type": "message_start", "message": {"model": "claude-tiny-1", "usage": {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "x", "input": {}}}),
        json!({"type": "ping"}),
        delta(a),
        delta(b),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    Reply::Stream { pieces: pieces.into_iter().map(event).collect(), torn: false }
}

/// An error with its message, as both vendors write it.
pub fn error(status: u16, kind: &str, message: &str) -> Reply {
    let body = json!({"type": "error", "error": {"type": kind, "code": kind, "message": message}});
    Reply::Whole(status, vec![("content-type", "application/json".to_owned())], body.to_string())
}
