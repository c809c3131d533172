//! Taking the run's token off the result channel, before anything is kept of it.
//!
//! The reporter writes each event as `TOKEN NUMBER JSON`. Whoever else writes into the channel does not know the token;
//! and as the numbers run from 0, nobody can put a line in, take one out or swap two.

use std::borrow::Cow;

use regex::bytes::{NoExpand, Regex};

use crate::sandbox::{Exit, Token};

/// Stands before a line of the channel that did not come from the reporter, so that it is no event either.
const FOREIGN: &[u8] = b"? ";
/// Stands where the token was.
const REMOVED: &[u8] = b"[token]";

/// Removes the token from an exit. With `sealed` the channel's lines must carry it: they are replaced by what stands
/// behind it. Returns what does not fit.
pub(super) fn open(exit: &mut Exit, sealed: bool) -> Option<String> {
    let Some(token) = exit.token.take() else {
        return sealed.then(|| "the run had no token".to_owned());
    };
    let mut problem = None;
    if sealed {
        (exit.result.bytes, problem) = unseal(&exit.result.bytes, &token);
    }
    for (name, captured) in [("output", &mut exit.stdout), ("error output", &mut exit.stderr)] {
        let said = scrub(&mut captured.bytes, &token);
        if said && sealed {
            problem.get_or_insert_with(|| format!("the run's token is in the {name}"));
        }
    }
    scrub(&mut exit.result.bytes, &token);
    problem
}

/// The lines without their seals, and what is wrong with the first bad one. A last line without an end stays as it is:
/// that it breaks off is said elsewhere.
fn unseal(bytes: &[u8], token: &Token) -> (Vec<u8>, Option<String>) {
    let mut out = Vec::with_capacity(bytes.len());
    let (mut problem, mut expected) = (None, 0);
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let whole = line.ends_with(b"\n");
        let wrong = match event(line, token) {
            Some((n, event)) if n == expected => {
                expected += 1;
                out.extend_from_slice(event);
                continue;
            }
            Some((n, _)) => format!("it has number {n} instead of {expected}"),
            None => "it does not come from the reporter".to_owned(),
        };
        if whole {
            problem.get_or_insert(format!("line {}: {wrong}", number + 1));
        }
        out.extend_from_slice(FOREIGN);
        out.extend_from_slice(line);
    }
    (out, problem)
}

/// Number and event of a line that carries the token.
fn event<'a>(line: &'a [u8], token: &Token) -> Option<(u64, &'a [u8])> {
    let rest = line.strip_prefix(token.as_str().as_bytes())?.strip_prefix(b" ")?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&rest[..space]).ok()?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None; // `parse` takes a sign
    }
    Some((number.parse().ok()?, &rest[space + 1..]))
}

/// Whether there was something to remove. One pass: whoever knows the token can print it as often as fits.
fn scrub(bytes: &mut Vec<u8>, token: &Token) -> bool {
    // Digits and letters are no syntax.
    let Ok(pattern) = Regex::new(token.as_str()) else { return false };
    match pattern.replace_all(bytes, NoExpand(REMOVED)) {
        Cow::Borrowed(_) => false,
        Cow::Owned(clean) => {
            *bytes = clean;
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(text: &str, token: &Token) -> (String, Option<String>) {
        let (bytes, problem) = unseal(text.as_bytes(), token);
        (String::from_utf8(bytes).unwrap(), problem)
    }

    #[test]
    fn what_the_reporter_wrote_comes_out_as_it_was() {
        let token = Token::fresh().unwrap();
        let t = token.as_str();
        assert_eq!(opened("", &token), (String::new(), None));
        assert_eq!(opened(&format!("{t} 0 {{a}}\n{t} 1 b c\n"), &token), ("{a}\nb c\n".to_owned(), None));
        // A last line that breaks off is no forgery.
        assert_eq!(opened(&format!("{t} 0 a\n{}", &t[..9]), &token).1, None);
    }

    #[test]
    fn lines_that_were_put_in_taken_out_or_swapped_are_seen() {
        let (token, other) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        let (t, o) = (token.as_str(), other.as_str());
        for (text, part) in [
            ("{\"event\":\"start\"}\n".to_owned(), "line 1: it does not come"),
            (format!("{o} 0 a\n"), "line 1: it does not come"),
            (format!("{t} 0 a\nb\n{t} 1 c\n"), "line 2: it does not come"),
            (format!("{t} 0 a\n{t} 2 c\n"), "line 2: it has number 2 instead of 1"),
            (format!("{t} 1 a\n{t} 0 c\n"), "line 1: it has number 1"),
            (format!("{t} 0 a\n{t} 0 a\n"), "line 2: it has number 0"),
            (format!("{t} +0 a\n"), "line 1: it does not come"),
            (format!("{t} 0\n"), "line 1: it does not come"),
            (format!(" {t} 0 a\n"), "line 1: it does not come"),
        ] {
            let (out, problem) = opened(&text, &token);
            assert!(problem.as_deref().is_some_and(|problem| problem.contains(part)), "{text}: {problem:?}");
            assert!(!out.starts_with('{'), "{out}");
        }
    }

    #[test]
    fn nothing_keeps_the_token() {
        let token = Token::fresh().unwrap();
        let t = token.as_str();
        let mut bytes = format!("{t}{t} x {t}\n{}", &t[1..]).into_bytes();
        assert!(scrub(&mut bytes, &token));
        assert_eq!(bytes, format!("[token][token] x [token]\n{}", &t[1..]).as_bytes());
        assert!(!scrub(&mut bytes, &token));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in any::<Vec<u8>>(), cut in 0_usize..40) {
            let token = Token::fresh().unwrap();
            let _ = unseal(&bytes, &token);
            let mut text = format!("{} 0 ", &token.as_str()[..cut.min(32)]).into_bytes();
            text.extend(&bytes);
            let _ = unseal(&text, &token);
            scrub(&mut text, &token);
        }
    }
}
