//! Taking the run's token off the result channel, before anything is kept of it.
//!
//! The reporter writes each event as `SEAL NUMBER JSON`. The seal is the first half of an HMAC-SHA256 (RFC 2104) of the rest
//! of the line under the token, in hexadecimal. Whoever else writes into the channel does not know the token, and learns
//! nothing of it who reads from the channel; and as the numbers run from 0, nobody can put a line in, take one out or swap
//! two.

use std::borrow::Cow;

use regex::bytes::{NoExpand, Regex};
use sha2::{Digest, Sha256};

use crate::sandbox::{Exit, Token};

/// Stands before a line of the channel that did not come from the reporter, so that it is no event either.
const FOREIGN: &[u8] = b"? ";
/// Stands where the token was.
const REMOVED: &[u8] = b"[token]";

/// The digits of a seal: half of the code, as RFC 2104 has it at least.
const SEAL: usize = 32;
/// SHA-256's block, in bytes.
const BLOCK: usize = 64;

/// Removes the token from an exit. With `sealed` the channel's lines must carry seals: they are replaced by what stands
/// behind those. Returns what does not fit.
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

/// Number and event of a line that carries a seal under the token.
fn event<'a>(line: &'a [u8], token: &Token) -> Option<(u64, &'a [u8])> {
    let (own, rest) = line.split_at_checked(SEAL)?;
    let rest = rest.strip_prefix(b" ")?;
    // A line that breaks off is not sealed.
    if own != seal(token, rest.strip_suffix(b"\n")?).as_bytes() {
        return None;
    }
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&rest[..space]).ok()?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None; // `parse` takes a sign
    }
    Some((number.parse().ok()?, &rest[space + 1..]))
}

/// The seal of a text.
fn seal(token: &Token, text: &[u8]) -> String {
    hmac(token.as_str().as_bytes(), text).iter().take(SEAL / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA256, for keys no longer than a block.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, own)| *byte ^= own);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
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

    fn sealed(token: &Token, body: &str) -> String {
        format!("{} {body}\n", seal(token, body.as_bytes()))
    }

    #[test]
    fn seals_are_the_published_ones() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // RFC 4231, test cases 1 and 2.
        assert_eq!(
            hex(hmac(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn what_the_reporter_wrote_comes_out_as_it_was() {
        let token = Token::fresh().unwrap();
        assert_eq!(opened("", &token), (String::new(), None));
        let (one, two) = (sealed(&token, "0 {a}"), sealed(&token, "1 b c"));
        assert_eq!(opened(&format!("{one}{two}"), &token), ("{a}\nb c\n".to_owned(), None));
        // A last line that breaks off is no forgery.
        assert_eq!(opened(&format!("{one}{}", &two[..two.len() - 2]), &token).1, None);
    }

    #[test]
    fn lines_that_were_put_in_taken_out_or_swapped_are_seen() {
        let (token, other) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        let by = |body: &str| sealed(&token, body);
        let (zero, one, two) = (by("0 a"), by("1 c"), by("2 c"));
        for (text, part) in [
            ("{\"event\":\"start\"}\n".to_owned(), "line 1: it does not come"),
            (sealed(&other, "0 a"), "line 1: it does not come"),
            (format!("{} 0 a\n", token.as_str()), "line 1: it does not come"),
            (format!("{zero}b\n{one}"), "line 2: it does not come"),
            (format!("{zero}{two}"), "line 2: it has number 2 instead of 1"),
            (format!("{one}{zero}"), "line 1: it has number 1"),
            (format!("{zero}{zero}"), "line 2: it has number 0"),
            (zero.replace(" a", " b"), "line 1: it does not come"),
            (zero.replace(" 0 ", " 1 "), "line 1: it does not come"),
            (by("+0 a"), "line 1: it does not come"),
            (by("0"), "line 1: it does not come"),
            (format!(" {zero}"), "line 1: it does not come"),
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
            let mut text = format!("{} 0 ", &seal(&token, b"0 ")[..cut.min(32)]).into_bytes();
            text.extend(&bytes);
            let _ = unseal(&text, &token);
            scrub(&mut text, &token);
        }
    }
}
