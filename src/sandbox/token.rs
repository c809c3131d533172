//! The secret of one run's result channel.

use std::fmt;
use std::io;

use rustix::rand::GetRandomFlags;

const BYTES: usize = 16;

/// Sixteen random bytes in hexadecimal, drawn anew for each run. Who can show it on a line of the result channel has read
/// the channel first. It is never serialised and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token that nobody can foresee.
    ///
    /// # Errors
    ///
    /// The system's, when it has no random bytes to give.
    pub fn fresh() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        let mut drawn = 0;
        while drawn < BYTES {
            match rustix::rand::getrandom(&mut bytes[drawn..], GetRandomFlags::empty()) {
                Ok(more) => drawn += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_not_shown() {
        let (one, other) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 32);
        assert!(one.as_str().chars().all(|c| c.is_ascii_hexdigit()));
        assert!(!format!("{one:?}").contains(one.as_str()));
    }
}
