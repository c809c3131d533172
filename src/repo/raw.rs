//! Objects as git writes them: what they link to, read without a repository's configuration, grafts or replacements.

use git2::Oid;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawCommit<'a> {
    pub tree: Oid,
    pub parents: Vec<Oid>,
    /// The committer's time, in seconds since 1970; none where the line cannot be read.
    pub time: Option<i64>,
    pub message: &'a [u8],
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawEntry<'a> {
    pub mode: u32,
    pub name: &'a [u8],
    pub id: Oid,
}

impl RawEntry<'_> {
    pub(super) fn is_tree(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    pub(super) fn is_submodule(&self) -> bool {
        self.mode & 0o170_000 == 0o160_000
    }
}

/// An annotated tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawTag<'a> {
    pub target: Oid,
    pub time: Option<i64>,
    pub message: &'a [u8],
}

/// Reads a commit; `None` where it is not one.
pub(super) fn commit(data: &[u8]) -> Option<RawCommit<'_>> {
    let (header, message) = head_and_message(data);
    let mut lines = header.split(|b| *b == b'\n');
    let tree = oid(lines.next()?.strip_prefix(b"tree ")?)?;
    let (mut parents, mut time) = (Vec::new(), None);
    for line in lines {
        if let Some(id) = line.strip_prefix(b"parent ") {
            parents.push(oid(id)?);
        } else if line.starts_with(b"committer ") {
            time = person_time(line);
            break;
        } else if !line.starts_with(b"author ") {
            break;
        }
    }
    Some(RawCommit { tree, parents, time, message })
}

/// Reads a tree; `None` where it is cut off or is not one.
pub(super) fn tree(mut data: &[u8]) -> Option<Vec<RawEntry<'_>>> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let space = data.iter().position(|b| *b == b' ')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&data[..space]).ok()?, 8).ok()?;
        let rest = &data[space + 1..];
        let end = rest.iter().position(|b| *b == 0)?;
        let id = Oid::from_bytes(rest.get(end + 1..end + 21)?).ok()?;
        entries.push(RawEntry { mode, name: &rest[..end], id });
        data = &rest[end + 21..];
    }
    Some(entries)
}

/// Reads an annotated tag; `None` where it is not one.
pub(super) fn tag(data: &[u8]) -> Option<RawTag<'_>> {
    let (header, message) = head_and_message(data);
    let mut lines = header.split(|b| *b == b'\n');
    let target = oid(lines.next()?.strip_prefix(b"object ")?)?;
    let time = lines.find(|l| l.starts_with(b"tagger ")).and_then(person_time);
    Some(RawTag { target, time, message })
}

/// The first line of a message, as text, cut at 100 characters and without control characters.
pub(super) fn subject(message: &[u8]) -> String {
    let line = message.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default();
    plain(&String::from_utf8_lossy(line.trim_ascii_end()))
}

/// Text for a message: one line of at most 100 characters, without control characters.
pub(super) fn plain(text: &str) -> String {
    let mut out: String = text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(100).is_some() {
        out.push('…');
    }
    out
}

/// An id of 40 hex digits and nothing else.
pub(super) fn oid(text: &[u8]) -> Option<Oid> {
    if text.len() != 40 || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    Oid::from_str(std::str::from_utf8(text).ok()?).ok()
}

fn head_and_message(data: &[u8]) -> (&[u8], &[u8]) {
    match data.windows(2).position(|w| w == b"\n\n") {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, b""),
    }
}

/// The time of a line that ends in `SECONDS ZONE`.
fn person_time(line: &[u8]) -> Option<i64> {
    let after = &line[line.iter().rposition(|b| *b == b'>')? + 1..];
    let text = std::str::from_utf8(after).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn a_commit_is_read_from_its_own_lines_alone() {
        let text = format!(
            "tree {ID}\nparent {ID}\nparent {ID}\nauthor A <a@b> 1 +0000\ncommitter B <b@c> 1500000000 +0200\n\
             encoding x\n\n  Subject\n\nparent {ID}\n"
        );
        let read = commit(text.as_bytes()).unwrap();
        assert_eq!((read.parents.len(), read.time), (2, Some(1_500_000_000)));
        assert_eq!(subject(read.message), "Subject");
        for bad in ["", "tree x\n", &format!("tree {ID}\nparent 12\n"), &format!("blob {ID}\n")] {
            assert_eq!(commit(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_tree_that_is_cut_off_is_none() {
        let id = Oid::from_str(ID).unwrap();
        let data = [b"100644 a\xff b\0".as_slice(), id.as_bytes(), b"40000 d\0", id.as_bytes()].concat();
        let read = tree(&data).unwrap();
        assert_eq!(read[0], RawEntry { mode: 0o100_644, name: b"a\xff b", id });
        assert!(read[1].is_tree());
        // The first entry is 12 bytes and an id.
        for end in 1..data.len() {
            assert_eq!(tree(&data[..end]).is_some(), end == 32, "{end}");
        }
    }

    #[test]
    fn a_tag_names_its_target_and_time() {
        let text = format!("object {ID}\ntype commit\ntag v1\ntagger A <a@b> 7 +0000\n\nRelease\n");
        let read = tag(text.as_bytes()).unwrap();
        assert_eq!((read.target.to_string().as_str(), read.time, read.message), (ID, Some(7), b"Release\n".as_slice()));
        assert_eq!(tag(format!("object {ID}").as_bytes()).unwrap().time, None);
    }
}
