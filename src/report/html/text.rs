//! Texts of strangers, made safe to look at: nothing invisible, nothing that reorders or erases what stands beside it.
//!
//! Escaping for HTML comes after this, once, when a template writes a value ([`escape`]).

use std::borrow::Cow;

/// Whether a character would be invisible, or would change how others are shown. Line ends and tabs are neither.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        // C0 apart from tab and newline, DEL, C1.
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator, zero width space.
        | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'
        // Marks, embeddings, overrides and isolates of writing direction; separators that break lines in disguise.
        | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        // Byte order mark, interlinear annotation, noncharacters, tags.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text with every hidden character written out: `⟨ESC⟩`, `⟨U+202E⟩`. (Unicode has pictures of control characters,
/// but many fonts do not.) CRLF is a line end.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\0' => out.push_str("⟨NUL⟩"),
            '\r' => out.push_str("⟨CR⟩"),
            '\u{1b}' => out.push_str("⟨ESC⟩"),
            c if is_hidden(c) => out.push_str(&format!("⟨U+{:04X}⟩", c as u32)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Takes out colour codes (`ESC [ … m`), which programs write by themselves and which hide nothing. Every other escape
/// sequence stays, to be seen.
pub fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    out.extend(parts.next());
    for part in parts {
        let parameters = part.bytes().take_while(|b| b.is_ascii_digit() || matches!(b, b';' | b':')).count();
        match part.as_bytes().get(parameters) {
            Some(b'm') => out.push_str(&part[parameters + 1..]),
            _ => {
                out.push_str("\u{1b}[");
                out.push_str(part);
            }
        }
    }
    Cow::Owned(out)
}

/// One line of at most `most` characters, for a table or a summary.
pub fn line(text: &str, most: usize) -> String {
    // A huge text is not walked to its end for the sake of one line.
    let near = &text[..text.floor_char_boundary(most.saturating_mul(8))];
    let words = near.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = visible(&words);
    let is_cut = words.chars().count() > most || near.len() < text.len();
    if is_cut { format!("{}…", words.chars().take(most).collect::<String>()) } else { words.into_owned() }
}

/// Beginning and, where it is cut, end of something long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The beginning; all of it where nothing is cut.
    pub head: Cow<'a, str>,
    /// How many bytes are left out between beginning and end.
    pub left_out: usize,
    /// The end; empty where nothing is cut.
    pub tail: Cow<'a, str>,
}

/// At most `most` bytes of something, `first` of them from its beginning. Broken UTF-8 is replaced, and no character is
/// cut in two.
pub fn cut(bytes: &[u8], most: usize, first: usize) -> Cut<'_> {
    if bytes.len() <= most {
        return Cut { head: String::from_utf8_lossy(bytes), left_out: 0, tail: Cow::Borrowed("") };
    }
    let is_inside = |at: usize| bytes.get(at).is_some_and(|b| b & 0b1100_0000 == 0b1000_0000);
    let mut head = first.min(most);
    // Three steps are enough in UTF-8; broken text is cut anywhere.
    for _ in 0..3 {
        head -= usize::from(head > 0 && is_inside(head));
    }
    let mut tail = bytes.len() - (most - first.min(most));
    for _ in 0..3 {
        tail += usize::from(is_inside(tail));
    }
    Cut {
        head: String::from_utf8_lossy(&bytes[..head]),
        left_out: tail - head,
        tail: String::from_utf8_lossy(&bytes[tail..]),
    }
}

/// Escapes for HTML text and for attributes in quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(entity);
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out
}

/// `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Seconds with as many digits as mean something: `0.042 s`, `1.3 s`, `250 s`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{s:.3} s"),
        s if s < 100.0 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

/// Bytes in the unit that fits: `512 B`, `3.1 KiB`, `2 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() < 0.05 { format!("{value:.0} {}", UNITS[unit]) } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_are_written_out() {
        assert_eq!(visible("a\tb\nc é 🙂"), "a\tb\nc é 🙂");
        assert_eq!(visible("a\0b\u{1b}[2Jc\u{7f}\r\nd\re"), "a⟨NUL⟩b⟨ESC⟩[2Jc⟨U+007F⟩\nd⟨CR⟩e");
        assert_eq!(visible("if x: \u{202e}} // admin\u{2066}"), "if x: ⟨U+202E⟩} // admin⟨U+2066⟩");
        assert_eq!(visible("\u{feff}x\u{200b}y\u{e0041}\u{2028}"), "⟨U+FEFF⟩x⟨U+200B⟩y⟨U+E0041⟩⟨U+2028⟩");
        assert_eq!(visible("\u{9b}31m"), "⟨U+009B⟩31m");
    }

    #[test]
    fn colours_go_and_other_sequences_stay() {
        assert_eq!(without_colours("\u{1b}[1;31mFAILED\u{1b}[0m x\u{1b}[m"), "FAILED x");
        assert_eq!(
            visible(&without_colours("\u{1b}[2Kgone \u{1b}]0;title\u{7}\u{1b}[")),
            "⟨ESC⟩[2Kgone ⟨ESC⟩]0;title⟨U+0007⟩⟨ESC⟩["
        );
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line("  a\n\n b\tc ", 10), "a b c");
        assert_eq!(line("abcdef", 3), "abc…");
        assert_eq!(line(&"x".repeat(1 << 20), 5), "xxxxx…");
        assert_eq!(line(&format!("a{}b", " ".repeat(100)), 5), "a…");
    }

    #[test]
    fn a_cut_says_what_is_missing_and_keeps_characters_whole() {
        assert_eq!(cut(b"abc", 3, 1), Cut { head: "abc".into(), left_out: 0, tail: "".into() });
        assert_eq!(cut(b"abcdefgh", 4, 1), Cut { head: "a".into(), left_out: 4, tail: "fgh".into() });
        let euros = "€€€€€€".as_bytes();
        let Cut { head, left_out, tail } = cut(euros, 8, 4);
        assert_eq!((head.as_ref(), left_out, tail.as_ref()), ("€", 12, "€"));
        assert_eq!(cut(b"\xff\xfe\xfd", 1, 1).head, "\u{fffd}");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0421, 1.26, 250.4].map(seconds), ["0.042 s", "1.3 s", "250 s"]);
        assert_eq!([512, 3174, 2 << 30].map(size), ["512 B", "3.1 KiB", "2 GiB"]);
    }

    proptest! {
        #[test]
        fn nothing_hidden_and_no_markup_is_left(text in "\\PC*|[<>&\"'\u{0}-\u{20}\u{202a}-\u{202e}a-b]*") {
            let out = escape(&visible(&text));
            prop_assert!(!out.chars().any(is_hidden));
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
        }

        #[test]
        fn a_cut_keeps_to_its_size(bytes in proptest::collection::vec(any::<u8>(), 0..300), most in 0..200_usize, first in 0..200_usize) {
            let found = cut(&bytes, most, first);
            if found.left_out == 0 {
                prop_assert_eq!(found.head, String::from_utf8_lossy(&bytes));
            } else {
                // A broken byte becomes three.
                prop_assert!(found.head.len() + found.tail.len() <= 3 * most);
                prop_assert!(found.left_out <= bytes.len());
            }
        }
    }
}
