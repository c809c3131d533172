//! The one place that writes: data to standard output, everything else to standard error.

use std::io::{ErrorKind, IsTerminal, Write};

use crate::report::{visible, visible_json};

/// Where output goes.
#[derive(Debug, Clone, Copy)]
pub struct Printer;

/// Why data did not arrive.
#[derive(Debug)]
pub enum OutputError {
    /// Standard output is a pipe that nobody reads any more: the reader has what it wanted.
    ClosedPipe,
    /// It could not be written.
    Unwritable(std::io::Error),
}

impl Printer {
    /// Writes data. A closed pipe is told apart, so that the program can end quietly.
    pub fn data(&self, text: &str) -> Result<(), OutputError> {
        write(&visible(text))
    }

    /// Writes a value as indented JSON.
    pub fn value(&self, value: &impl serde::Serialize) -> Result<(), OutputError> {
        let text = serde_json::to_string_pretty(value).map_err(|e| OutputError::Unwritable(e.into()))?;
        write(&visible_json(&format!("{text}\n")))
    }

    /// Writes a line for people.
    pub fn note(&self, text: &str) {
        // Standard error may be closed as well; there is nobody left to tell then.
        let _ = writeln!(std::io::stderr(), "{}", visible(text));
    }

    /// Whether standard error is a terminal.
    pub fn is_terminal(&self) -> bool {
        std::io::stderr().is_terminal()
    }
}

fn write(text: &str) -> Result<(), OutputError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        ErrorKind::BrokenPipe => OutputError::ClosedPipe,
        _ => OutputError::Unwritable(e),
    })
}
