//! Git's quoted file names: `"a/\303\251"` for names with control characters, quotes, backslashes or, by default,
//! bytes above 127 (`core.quotePath`).

/// Reads a quoted name at the start of `text`; gives the name and what comes after the closing quote.
pub(super) fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                name.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2)?;
                        rest = &rest[2..];
                        digits.iter().try_fold(escape - b'0', |value, digit| {
                            (b'0'..=b'7').contains(digit).then(|| value * 8 + (digit - b'0'))
                        })?
                    }
                    _ => return None,
                });
            }
            other => name.push(other),
        }
    }
}

/// Writes a name as git does: quoted where it has to be.
pub(super) fn quote(name: &[u8]) -> Vec<u8> {
    if name.iter().all(|b| (b' '..0x7f).contains(b) && *b != b'"' && *b != b'\\') {
        return name.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in name {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\t' => out.extend(b"\\t"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b' '..0x7f => out.push(byte),
            _ => out.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_as_git_writes_them() {
        assert_eq!(unquote(br#""a/\303\251" rest"#).unwrap(), ("a/é".as_bytes().to_vec(), &b" rest"[..]));
        assert_eq!(unquote(br#""a\tb\"\\""#).unwrap().0, b"a\tb\"\\");
        assert_eq!(quote("é \"x".as_bytes()), br#""\303\251 \"x""#);
        assert_eq!(quote(b"plain name"), b"plain name");
        for broken in [&b"\"a"[..], b"\"\\9\"", b"\"\\38\"", b"\"\\3\"", b"a"] {
            assert!(unquote(broken).is_none());
        }
    }

    proptest! {
        #[test]
        fn quoting_is_undone(name in proptest::collection::vec(any::<u8>(), 0..30)) {
            let quoted = quote(&name);
            if quoted.first() == Some(&b'"') {
                prop_assert_eq!(unquote(&quoted), Some((name, &b""[..])));
            } else {
                prop_assert_eq!(quoted, name);
            }
        }
    }
}
