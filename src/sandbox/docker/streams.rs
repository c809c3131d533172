//! What a container writes, captured while it runs.

use bollard::container::LogOutput;

use crate::sandbox::{Captured, Listener};

/// The three streams of a task.
#[derive(Default)]
pub struct Streams {
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// The result channel.
    pub result: Captured,
    cap: usize,
    channel: bool,
    listener: Option<Listener>,
}

impl Streams {
    /// Keeps `cap` bytes of each. With `channel` the container's output is the result channel, and nobody but the caller
    /// hears of it.
    pub fn new(cap: u64, channel: bool, listener: Option<Listener>) -> Self {
        Self { cap: usize::try_from(cap).unwrap_or(usize::MAX), channel, listener, ..Self::default() }
    }

    /// Takes what came.
    pub fn take(&mut self, output: &LogOutput) {
        let (captured, bytes, heard) = match output {
            LogOutput::StdErr { message } => (&mut self.stderr, message, true),
            LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message } => {
                (if self.channel { &mut self.result } else { &mut self.stdout }, message, !self.channel)
            }
        };
        captured.keep(bytes, self.cap);
        if let Some(listener) = self.listener.as_ref().filter(|_| heard) {
            listener(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_kept_apart_and_capped() {
        let out = |text: &'static str| LogOutput::StdOut { message: text.into() };
        let err = |text: &'static str| LogOutput::StdErr { message: text.into() };
        let mut plain = Streams::new(5, false, None);
        for part in [out("abc"), err("x"), out("defg"), out("h")] {
            plain.take(&part);
        }
        assert_eq!((plain.stdout.text().as_str(), plain.stdout.dropped), ("abcde", 3));
        assert_eq!((plain.stderr.text().as_str(), plain.result.bytes.len()), ("x", 0));
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let ear = heard.clone();
        let listener: Listener = std::sync::Arc::new(move |bytes| ear.lock().unwrap().extend_from_slice(bytes));
        let mut with_channel = Streams::new(5, true, Some(listener));
        with_channel.take(&out("result"));
        with_channel.take(&err("a log line"));
        assert_eq!(*heard.lock().unwrap(), b"a log line");
        assert_eq!((with_channel.result.text().as_str(), with_channel.stdout.bytes.len()), ("resul", 0));
    }
}
