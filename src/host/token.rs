//! A token, which nothing prints.

/// A secret that proves who asks.
#[derive(Clone)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// There is nothing in it.
    #[error("the token is empty")]
    Empty,
    /// It has characters that no token has.
    #[error("the token has blanks or characters that no header may have; is it a token at all?")]
    Odd,
}

impl Token {
    /// Takes a token; blanks and line ends around it do not count.
    ///
    /// # Errors
    /// When it is empty, or cannot stand in a header. The error does not show it.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(TokenError::Odd);
        }
        Ok(Self(text.to_owned()))
    }

    /// The token as a header's value, marked as one that is not to be shown.
    pub(super) fn header(&self) -> Result<reqwest::header::HeaderValue, reqwest::header::InvalidHeaderValue> {
        let mut value = reqwest::header::HeaderValue::from_str(&format!("Bearer {}", self.0))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_checked_and_never_shown() {
        let token = Token::new(" ghp_secret\n").unwrap();
        let shown = format!("{token:?} {:?}", token.header().unwrap());
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(Token::new(" \n").unwrap_err(), TokenError::Empty);
        assert_eq!(Token::new("a b").unwrap_err(), TokenError::Odd);
        assert_eq!(Token::new("é").unwrap_err(), TokenError::Odd);
    }
}
