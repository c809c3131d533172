//! What a container writes, captured while it runs.

use bollard::container::LogOutput;

use super::command::{ABSENT, STARTS};
use super::engine::{EngineError, broken};
use crate::sandbox::{Captured, Listener};

/// What the script that starts a command said of that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Said {
    /// Nothing: it is not there, or did not get to it.
    #[default]
    Nothing,
    /// It starts the command.
    Starts,
    /// The program is not there.
    Absent,
}

/// The three streams of a task.
#[derive(Default)]
pub struct Streams {
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// The result channel.
    pub result: Captured,
    /// What was said by the first byte of the error output, where that is the script's.
    pub said: Said,
    cap: usize,
    channel: bool,
    listener: Option<Listener>,
    /// Whether the next byte of the error output is the script's.
    first: bool,
}

impl Streams {
    /// Keeps `cap` bytes of each. With `channel` the container's output is the result channel, and nobody but the caller
    /// hears of it. With `says` a script starts the command, and says so by the first byte of the error output.
    pub fn new(cap: u64, channel: bool, says: bool, listener: Option<Listener>) -> Self {
        Self { cap: usize::try_from(cap).unwrap_or(usize::MAX), channel, first: says, listener, ..Self::default() }
    }

    /// Takes what came.
    ///
    /// # Errors
    ///
    /// What is neither output nor error output cannot come from a whole stream: something of it is lost.
    pub fn take(&mut self, output: &LogOutput) -> Result<(), EngineError> {
        let (captured, bytes, heard) = match output {
            LogOutput::StdErr { message } => {
                let mut bytes = &message[..];
                if let ([first, rest @ ..], true) = (bytes, self.first) {
                    self.first = false;
                    // Any other byte is of something that went wrong before the script.
                    match *first {
                        STARTS => (self.said, bytes) = (Said::Starts, rest),
                        ABSENT => (self.said, bytes) = (Said::Absent, rest),
                        _ => {}
                    }
                }
                (&mut self.stderr, bytes, true)
            }
            LogOutput::StdOut { message } if self.channel => (&mut self.result, &message[..], false),
            LogOutput::StdOut { message } => (&mut self.stdout, &message[..], true),
            LogOutput::StdIn { .. } | LogOutput::Console { .. } => {
                return Err(broken("hand over the command's output", "the stream is torn"));
            }
        };
        captured.keep(bytes, self.cap);
        if let Some(listener) = self.listener.as_ref().filter(|_| heard && !bytes.is_empty()) {
            listener(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(text: &'static str) -> LogOutput {
        LogOutput::StdOut { message: text.into() }
    }

    fn err(text: &'static str) -> LogOutput {
        LogOutput::StdErr { message: text.into() }
    }

    #[test]
    fn streams_are_kept_apart_and_capped() {
        let mut plain = Streams::new(5, false, false, None);
        for part in [out("abc"), err("x"), out("defg"), out("h")] {
            plain.take(&part).unwrap();
        }
        assert_eq!((plain.stdout.text().as_str(), plain.stdout.dropped), ("abcde", 3));
        assert_eq!((plain.stderr.text().as_str(), plain.result.bytes.len()), ("x", 0));
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let ear = heard.clone();
        let listener: Listener = std::sync::Arc::new(move |bytes| ear.lock().unwrap().extend_from_slice(bytes));
        let mut with_channel = Streams::new(5, true, true, Some(listener));
        with_channel.take(&out("result")).unwrap();
        with_channel.take(&err("\u{6}a log line")).unwrap();
        assert_eq!(*heard.lock().unwrap(), b"a log line");
        assert_eq!((with_channel.result.text().as_str(), with_channel.stdout.bytes.len()), ("resul", 0));
    }

    #[test]
    fn only_the_first_byte_is_the_scripts() {
        let said = |parts: &[&'static str]| {
            let mut streams = Streams::new(99, false, true, None);
            for part in parts {
                streams.take(&err(part)).unwrap();
            }
            (streams.said, streams.stderr.text())
        };
        assert_eq!(said(&["\u{6}"]), (Said::Starts, String::new()));
        assert_eq!(said(&["\u{15}"]), (Said::Absent, String::new()));
        assert_eq!(said(&["", "\u{6}\u{15}"]), (Said::Starts, "\u{15}".to_owned()));
        assert_eq!(said(&["\u{6}", "\u{15}"]), (Said::Starts, "\u{15}".to_owned()));
        assert_eq!(said(&["[FATAL", "\u{6}"]), (Said::Nothing, "[FATAL\u{6}".to_owned()));
        assert_eq!(said(&[]), (Said::Nothing, String::new()));
        let mut started_by_the_engine = Streams::new(99, false, false, None);
        started_by_the_engine.take(&err("\u{15}")).unwrap();
        assert_eq!(started_by_the_engine.said, Said::Nothing);
    }

    #[test]
    fn a_torn_stream_is_an_error_and_no_output() {
        for torn in [LogOutput::Console { message: "rest".into() }, LogOutput::StdIn { message: "rest".into() }] {
            let mut streams = Streams::new(5, false, false, None);
            streams.take(&out("a")).unwrap();
            let error = streams.take(&torn).unwrap_err().to_string();
            assert!(error.contains("output") && error.contains("torn"), "{error}");
            assert_eq!(streams.stdout.text(), "a");
        }
    }
}
