//! What a person sees when something goes wrong, and the exit code.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 0: done. A low pass rate is not an error.
    Done,
    /// 1: a gate that was asked for says no.
    GateSaysNo,
    /// 2: usage, bad input, or a feature that is not there yet.
    Usage,
    /// 3: some work ended as infra.
    Infra,
    /// 130: interrupted; the same command goes on.
    Interrupted,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::GateSaysNo => 1,
            Status::Usage => 2,
            Status::Infra => 3,
            Status::Interrupted => 130,
        })
    }
}

/// An error for a person: what happened, what caused it, what to do.
#[derive(Debug)]
pub struct CliError {
    /// How the program ends.
    pub status: Status,
    /// What happened, as a lower-case fragment.
    pub message: String,
    /// Causes, outermost first.
    pub causes: Vec<String>,
    /// What to do.
    pub hints: Vec<String>,
}

impl CliError {
    /// Bad usage or bad input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { status: Status::Usage, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// The machine's fault.
    pub fn infra(message: impl Into<String>) -> Self {
        Self { status: Status::Infra, ..Self::usage(message) }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds an error and its own causes. A cause that only repeats the message before it is left out.
    #[must_use]
    pub fn because(mut self, error: &dyn std::error::Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            let said = self.causes.last().unwrap_or(&self.message);
            if !said.contains(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// The text for standard error.
    pub fn render(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        for cause in &self.causes {
            text.push_str(&format!("  caused by: {cause}\n"));
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }
}

impl From<crate::store::StoreError> for CliError {
    fn from(error: crate::store::StoreError) -> Self {
        let full = error.is_disk_full();
        let usage =
            matches!(error, crate::store::StoreError::NotARun { .. } | crate::store::StoreError::Malformed { .. });
        let base = if usage { Self::usage(error.to_string()) } else { Self::infra(error.to_string()) };
        if full {
            base.hint("the disk is full: free some room; nothing finished is lost, the same command goes on")
        } else {
            base
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_hints_stand_on_lines_of_their_own() {
        let io = std::io::Error::other("disk on fire");
        let error = CliError::usage("could not read `x`").because(&io).hint("use another disk");
        assert_eq!(error.render(), "error: could not read `x`\n  caused by: disk on fire\nhint: use another disk\n");
    }

    #[test]
    fn a_cause_that_was_said_already_is_left_out() {
        let io = std::io::Error::other("no such file");
        let error = CliError::usage("could not read `x`: no such file").because(&io);
        assert!(error.causes.is_empty());
    }
}
