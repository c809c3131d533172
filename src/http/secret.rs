//! Keys: usable, never shown.

use std::fmt;

use serde::{Serialize, Serializer};

/// A text that no log, record or message may hold. Only [`Secret::reveal`] gives it out.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What stands where a secret was.
const MASK: &str = "[secret]";

impl Secret {
    /// Keeps a text; white space around it goes, as files end with a newline.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without this secret: servers repeat keys in their errors.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, MASK) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("sk-hunter2\n");
        assert_eq!(secret.reveal(), "sk-hunter2");
        let shown = format!("{secret:?} {}", serde_json::to_string(&secret).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(secret.scrub("bad key sk-hunter2!"), "bad key [secret]!");
    }
}
