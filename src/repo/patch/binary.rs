//! Binary content of git patches (`GIT binary patch`): base 85 lines around zlib data, whole (`literal`) or as a delta
//! in the pack format's encoding.

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::MAX_FILE;

/// One direction of a binary change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BinaryHunk {
    /// Whether the data is a delta over the old content.
    pub delta: bool,
    /// The inflated size that the header states.
    pub size: u64,
    /// The compressed data.
    pub deflated: Vec<u8>,
}

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Decodes one line: a letter for the number of bytes (`A`..`Z` = 1..26, `a`..`z` = 27..52), then groups of five digits.
pub(super) fn decode_line(line: &[u8]) -> Option<Vec<u8>> {
    let (&first, digits) = line.split_first()?;
    let length = match first {
        b'A'..=b'Z' => usize::from(first - b'A') + 1,
        b'a'..=b'z' => usize::from(first - b'a') + 27,
        _ => return None,
    };
    if digits.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let mut bytes = Vec::with_capacity(length + 3);
    for group in digits.chunks(5) {
        let mut value = 0u64;
        for digit in group {
            value = value * 85 + ALPHABET.iter().position(|a| a == digit)? as u64;
        }
        bytes.extend(u32::try_from(value).ok()?.to_be_bytes());
    }
    bytes.truncate(length);
    Some(bytes)
}

impl BinaryHunk {
    /// The new content, from the old one where it is a delta.
    pub(super) fn apply(&self, old: &[u8]) -> Result<Vec<u8>, String> {
        let data = self.inflate()?;
        if self.delta { apply_delta(old, &data) } else { Ok(data) }
    }

    fn inflate(&self) -> Result<Vec<u8>, String> {
        // One byte more than announced is enough to see that the header lies.
        let mut data = Vec::new();
        ZlibDecoder::new(self.deflated.as_slice())
            .take(self.size.min(MAX_FILE) + 1)
            .read_to_end(&mut data)
            .map_err(|e| format!("the binary data cannot be inflated: {e}"))?;
        if data.len() as u64 == self.size {
            Ok(data)
        } else {
            Err(format!("the binary data does not have the {} bytes that its header says", self.size))
        }
    }
}

fn apply_delta(old: &[u8], delta: &[u8]) -> Result<Vec<u8>, String> {
    let broken = || "the binary delta is broken".to_owned();
    let mut rest = delta;
    let from = read_size(&mut rest).ok_or_else(broken)?;
    let to = read_size(&mut rest).ok_or_else(broken)?;
    if from != old.len() as u64 {
        return Err(format!("the binary delta is for a file of {from} bytes, this one has {}", old.len()));
    }
    if to > MAX_FILE {
        return Err(format!("the binary delta makes a file of {to} bytes, more than the limit of {MAX_FILE}"));
    }
    let mut out = Vec::new();
    while let Some((&op, after)) = rest.split_first() {
        rest = after;
        if op & 0x80 != 0 {
            let mut field = |first: u8, count: u8| -> Option<usize> {
                (0..count).try_fold(0usize, |value, i| {
                    if op & (1 << (first + i)) == 0 {
                        return Some(value);
                    }
                    let (&byte, after) = rest.split_first()?;
                    rest = after;
                    Some(value | usize::from(byte) << (8 * i))
                })
            };
            let start = field(0, 4).ok_or_else(broken)?;
            let length = match field(4, 3).ok_or_else(broken)? {
                0 => 0x10000,
                n => n,
            };
            let end = start.checked_add(length).ok_or_else(broken)?;
            out.extend_from_slice(old.get(start..end).ok_or_else(broken)?);
        } else if op != 0 {
            let (new, after) = rest.split_at_checked(usize::from(op)).ok_or_else(broken)?;
            out.extend_from_slice(new);
            rest = after;
        } else {
            return Err(broken());
        }
        if out.len() as u64 > to {
            return Err(broken());
        }
    }
    if out.len() as u64 == to { Ok(out) } else { Err(broken()) }
}

fn read_size(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base85_lines() {
        // Computed with Python's base64.b85encode, whose alphabet is git's.
        assert_eq!(decode_line(b"DVPa!s").unwrap(), b"abcd");
        assert_eq!(decode_line(b"AVE_OC").unwrap(), b"a");
        assert!(decode_line(b"EVPa!s").is_none(), "five bytes need ten digits");
        assert!(decode_line(b"D~~~~~").is_none(), "more than 32 bits");
        assert!(decode_line(b"").is_none());
    }

    #[test]
    fn deltas_copy_and_insert() {
        // sizes 10 -> 7; copy 4 bytes from offset 2; insert "xyz"
        let delta = [10, 7, 0x80 | 0x01 | 0x10, 2, 4, 3, b'x', b'y', b'z'];
        assert_eq!(apply_delta(b"0123456789", &delta).unwrap(), b"2345xyz");
        assert!(apply_delta(b"012345678", &delta).is_err(), "another base");
        assert!(apply_delta(b"0123456789", &delta[..8]).is_err(), "cut off");
        assert!(apply_delta(b"0123456789", &[10, 7, 0x90, 200]).is_err(), "outside the base");
        assert!(apply_delta(b"0123456789", &[10, 7, 0]).is_err(), "reserved");
    }

    #[test]
    fn a_size_that_lies_is_refused() {
        let hunk = BinaryHunk { delta: false, size: 3, deflated: vec![1, 2, 3] };
        assert!(hunk.apply(b"").is_err());
    }
}
