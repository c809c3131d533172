//! The one place that writes: data to standard output, everything else to standard error.

use std::io::{ErrorKind, IsTerminal, Write};

/// Where output goes.
#[derive(Debug, Clone, Copy)]
pub struct Printer;

/// Standard output is a pipe that nobody reads any more: the reader has what it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedPipe;

impl Printer {
    /// Writes data. A closed pipe is told apart, so that the program can end quietly.
    pub fn data(&self, text: &str) -> Result<(), ClosedPipe> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(ClosedPipe),
            Err(e) => {
                self.note(&format!("could not write to standard output: {e}"));
                Err(ClosedPipe)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Writes a value as indented JSON.
    pub fn value(&self, value: &impl serde::Serialize) -> Result<(), ClosedPipe> {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.data(&format!("{text}\n")),
            Err(e) => {
                self.note(&format!("could not write JSON: {e}"));
                Err(ClosedPipe)
            }
        }
    }

    /// Writes a line for people.
    pub fn note(&self, text: &str) {
        // Standard error may be closed as well; there is nobody left to tell then.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Whether standard error is a terminal.
    pub fn is_terminal(&self) -> bool {
        std::io::stderr().is_terminal()
    }
}
