//! What a build step that runs says while it runs: which step, for how long, with how much time left, its last line.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::Phase;
use crate::sandbox::Listener;

/// Starts a line of a build's output that says which step comes.
pub(super) const STEP_MARK: &str = "==> ";

/// The longest line that is shown, in characters.
const SHOWN: usize = 160;

/// The end of what a step wrote so far. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The line that is being written.
    open: Vec<u8>,
    /// The last one that was not empty.
    last: Vec<u8>,
    /// The step that the output itself named last.
    step: Option<String>,
}

impl Tail {
    /// What the sandbox is to tell.
    pub fn listener(&self) -> Listener {
        let tail = self.clone();
        Arc::new(move |bytes| tail.take(bytes))
    }

    fn take(&self, bytes: &[u8]) {
        const LONGEST: usize = 4096;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Progress bars write the same line over and over.
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, ended) = match piece.split_last() {
                Some((b'\n' | b'\r', line)) => (line, true),
                _ => (piece, false),
            };
            let room = LONGEST.saturating_sub(kept.open.len());
            kept.open.extend_from_slice(&line[..line.len().min(room)]);
            if ended {
                let line = std::mem::take(&mut kept.open);
                if let Some(step) = line.strip_prefix(STEP_MARK.as_bytes()) {
                    kept.step = Some(String::from_utf8_lossy(step).trim().to_owned());
                } else if !line.trim_ascii().is_empty() {
                    kept.last = line;
                }
            }
        }
    }

    /// The last line that says something, and the step that the output named.
    fn now(&self) -> (String, Option<String>) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = kept.open.trim_ascii();
        let line = if open.is_empty() { kept.last.trim_ascii() } else { open };
        let text = String::from_utf8_lossy(line);
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        (shown, kept.step.clone())
    }
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pulse {
    phase: Phase,
    step: String,
    /// Since the step began.
    ran: Duration,
    /// Until the phase is over.
    left: Duration,
    line: String,
}

impl Pulse {
    /// Of a step that runs.
    pub fn new(phase: Phase, step: &str, ran: Duration, left: Duration, tail: &Tail) -> Self {
        let (line, named) = tail.now();
        Self { phase, step: named.unwrap_or_else(|| step.to_owned()), ran, left, line }
    }
}

impl fmt::Display for Pulse {
    /// `fetch: install the packages: 30 s, at most 870 s more: Building wheel for x`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, step, ran, left, line } = self;
        write!(f, "{phase}: {step}: {} s, at most {} s more", ran.as_secs(), left.as_secs())?;
        if line.is_empty() { Ok(()) } else { write!(f, ": {line}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_something_is_shown_and_the_step_that_the_output_names() {
        let tail = Tail::default();
        let say = tail.listener();
        say(b"==> inst");
        say(b"all the project\nrunning build\n  10%\r  20%\r\n\n");
        let pulse = Pulse::new(Phase::Build, "build", Duration::from_secs(31), Duration::from_millis(869_900), &tail);
        assert_eq!(pulse.to_string(), "build: install the project: 31 s, at most 869 s more: 20%");
        say(b"half a li");
        assert_eq!(tail.now().0, "half a li");
        say(&[b'x'; 10_000]);
        assert_eq!(tail.now().0.chars().count(), SHOWN + 1);
        let silent = Pulse::new(Phase::Fetch, "download", Duration::ZERO, Duration::from_secs(9), &Tail::default());
        assert_eq!(silent.to_string(), "fetch: download: 0 s, at most 9 s more");
    }
}
