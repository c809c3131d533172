//! Reads a `.git/index` (versions 2 to 4): its entries, and the ids that its extensions remember. Pure.

use git2::Oid;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub path: Vec<u8>,
    pub mode: u32,
    pub id: Oid,
    /// 0, or the side of a conflict.
    pub stage: u8,
    /// Whether git does not expect a file (`skip-worktree`).
    pub skipped: bool,
}

/// An index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IndexFile {
    pub entries: Vec<Entry>,
    /// Ids of trees in the cache of trees.
    pub trees: Vec<Oid>,
    /// Ids that a resolved conflict left.
    pub resolved: Vec<(Vec<u8>, Oid)>,
    /// Whether a part of it is in another file (`sharedindex.*`).
    pub split: bool,
}

/// Reads an index; `None` where it is none or is cut off.
pub(super) fn parse(data: &[u8]) -> Option<IndexFile> {
    let word = |at: usize| Some(u32::from_be_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?));
    if data.get(..4)? != b"DIRC" {
        return None;
    }
    let version = word(4).filter(|v| (2..=4).contains(v))?;
    let count = word(8)?;
    let mut index = IndexFile::default();
    let mut at = 12;
    let mut last: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = at;
        let mode = word(start + 24)?;
        let id = Oid::from_bytes(data.get(start + 40..start + 60)?).ok()?;
        let flags = u16::from_be_bytes(data.get(start + 60..start + 62)?.try_into().ok()?);
        at = start + 62;
        let mut more = 0;
        if flags & 0x4000 != 0 && version > 2 {
            more = u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?);
            at += 2;
        }
        if version == 4 {
            let (strip, after) = variable(data, at)?;
            last.truncate(last.len().checked_sub(strip)?);
            at = after;
        } else {
            last.clear();
        }
        let end = at + data.get(at..)?.iter().position(|b| *b == 0)?;
        last.extend_from_slice(&data[at..end]);
        at = if version == 4 { end + 1 } else { start + ((end - start) / 8 + 1) * 8 };
        let stage = ((flags >> 12) & 3) as u8;
        index.entries.push(Entry { path: last.clone(), mode, id, stage, skipped: more & 0x4000 != 0 });
    }
    // Then extensions, and 20 bytes of a checksum.
    while at.checked_add(28)? <= data.len() {
        let (name, size) = (data.get(at..at + 4)?, usize::try_from(word(at + 4)?).ok()?);
        let body = data.get(at + 8..at.checked_add(8)?.checked_add(size)?)?;
        match name {
            b"TREE" => index.trees = cached_trees(body)?,
            b"REUC" => index.resolved = resolved(body)?,
            b"link" => index.split = true,
            _ => {}
        }
        at += 8 + size;
    }
    Some(index)
}

/// A number of version 4 (git's offset encoding) and where it ends.
fn variable(data: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *data.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *data.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at + 1))
}

/// `PATH NUL COUNT SP SUBTREES LF`, then the id where the count is not negative.
fn cached_trees(mut body: &[u8]) -> Option<Vec<Oid>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let name = body.iter().position(|b| *b == 0)?;
        let line = name + 1 + body[name + 1..].iter().position(|b| *b == b'\n')?;
        let valid = body.get(name + 1) != Some(&b'-');
        body = &body[line + 1..];
        if valid {
            found.push(Oid::from_bytes(body.get(..20)?).ok()?);
            body = &body[20..];
        }
    }
    Some(found)
}

/// `PATH NUL MODE NUL MODE NUL MODE NUL`, then an id for each mode that is not 0.
fn resolved(mut body: &[u8]) -> Option<Vec<(Vec<u8>, Oid)>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let mut text = || {
            let end = body.iter().position(|b| *b == 0)?;
            let part = &body[..end];
            body = &body[end + 1..];
            Some(part)
        };
        let path = text()?.to_vec();
        let modes = [text()?, text()?, text()?];
        for _ in modes.iter().filter(|mode| **mode != b"0") {
            found.push((path.clone(), Oid::from_bytes(body.get(..20)?).ok()?));
            body = &body[20..];
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> Oid {
        Oid::from_bytes(&[n; 20]).unwrap()
    }

    fn entry(path: &[u8], flags: u16, more: Option<u16>) -> Vec<u8> {
        let mut out = vec![0; 24];
        out.extend(0o100_644_u32.to_be_bytes());
        out.extend([0; 12]);
        out.extend([1; 20]);
        out.extend((flags | more.map_or(0, |_| 0x4000)).to_be_bytes());
        out.extend(more.into_iter().flat_map(u16::to_be_bytes));
        out.extend(path);
        out
    }

    fn padded(mut entry: Vec<u8>) -> Vec<u8> {
        entry.push(0);
        while !entry.len().is_multiple_of(8) {
            entry.push(0);
        }
        entry
    }

    #[test]
    fn version_3_with_extensions() {
        let tree = [b"\x001 1\n".as_slice(), &[2; 20], b"sub\0-1 0\n"].concat();
        let reuc = [b"x\x00100644\x000\x00100644\0".as_slice(), &[3; 20], &[4; 20]].concat();
        let extension = |name: &[u8], body: &[u8]| [name, &(body.len() as u32).to_be_bytes(), body].concat();
        let data = [
            b"DIRC\0\0\0\x03\0\0\0\x02".to_vec(),
            padded(entry(b"a\xff", 0, None)),
            padded(entry(b"dir/file", 0x2000, Some(0x4000))),
            extension(b"TREE", &tree),
            extension(b"REUC", &reuc),
            vec![0; 20],
        ]
        .concat();
        let index = parse(&data).unwrap();
        assert_eq!(index.entries[0].path, b"a\xff");
        assert_eq!((index.entries[1].stage, index.entries[1].skipped), (2, true));
        assert_eq!((index.trees, index.resolved), (vec![id(2)], vec![(b"x".to_vec(), id(3)), (b"x".to_vec(), id(4))]));
        for end in 0..data.len() - 20 {
            let _ = parse(&data[..end]);
        }
    }

    #[test]
    fn version_4_shares_beginnings() {
        let mut second = entry(b"", 0, None);
        second.extend(b"\x04more\0");
        let mut first = entry(b"", 0, None);
        first.extend(b"\0dir/file\0");
        let data = [b"DIRC\0\0\0\x04\0\0\0\x02".to_vec(), first, second, vec![0; 20]].concat();
        let paths: Vec<_> = parse(&data).unwrap().entries.into_iter().map(|e| e.path).collect();
        assert_eq!(paths, [b"dir/file".to_vec(), b"dir/more".to_vec()]);
    }

    proptest! {
        #[test]
        fn nothing_panics(version in 0_u8..6, data in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&[b"DIRC\0\0\0".as_slice(), &[version, 0, 0, 0, 3], &data].concat());
            let _ = (cached_trees(&data), resolved(&data));
        }
    }
}
