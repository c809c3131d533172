//! Reads a unified diff, plain or with git's extended headers, out of whatever text surrounds it.

use std::collections::BTreeSet;

use super::binary::{BinaryHunk, decode_line};
use super::error::PatchError;
use super::hunk::HunkReader;
use super::names::{Raw, git_line_names, header_name, other_reading, prefix_level, strip};
use super::types::{Body, FilePatch, Hunk, Operation};

/// The name that stands for a file that is not there.
const NULL: &[u8] = b"/dev/null";

/// What the parser found and what it had to put right.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub files: Vec<FilePatch>,
    pub repairs: BTreeSet<String>,
}

pub(super) fn malformed(at: usize, problem: impl Into<String>) -> PatchError {
    PatchError::Malformed { line: at + 1, problem: problem.into() }
}

/// Parses a whole patch. Text of white space alone is an empty patch.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, PatchError> {
    let mut repairs = BTreeSet::new();
    if !text.is_empty() && text.last() != Some(&b'\n') {
        repairs.insert("added the missing last newline".to_owned());
    }
    let crlf = is_crlf_text(text);
    if crlf {
        repairs.insert("took CRLF line ends off the whole patch text".to_owned());
    }
    let lines: Vec<&[u8]> = text
        .split_inclusive(|b| *b == b'\n')
        .map(|line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if crlf { line.strip_suffix(b"\r").unwrap_or(line) } else { line }
        })
        .collect();
    let mut reader = HunkReader::new(&lines);
    let mut files = Vec::new();
    let mut at = 0;
    let mut blank = true;
    while at < lines.len() {
        let line = lines[at];
        if line.starts_with(b"diff --git ") || reader.is_plain_header(at) {
            files.push(FileReader { lines: &lines, at, hunks: &mut reader, repairs: &mut repairs }.read(&mut at)?);
            continue;
        }
        if line.starts_with(b"@@ -") || line == b"GIT binary patch" {
            return Err(malformed(at, "a hunk without a file header (`---` and `+++` lines) before it"));
        }
        if line.starts_with(b"```") || line.starts_with(b"~~~") {
            repairs.insert("left out a code fence".to_owned());
        } else if !line.trim_ascii().is_empty() {
            blank = false;
            repairs.insert("left out text around the patch".to_owned());
        }
        at += 1;
    }
    if files.is_empty() && !blank {
        return Err(malformed(0, "there is no unified diff in it (no `diff --git` line and no `---`/`+++` pair)"));
    }
    repairs.append(&mut reader.repairs);
    Ok(Parsed { files, repairs })
}

/// Whether the headers themselves end in CR: then the whole text was converted. A patch of CRLF files has CR only in
/// its content lines.
fn is_crlf_text(text: &[u8]) -> bool {
    let mut headers = text
        .split(|b| *b == b'\n')
        .filter(|l| l.starts_with(b"diff --git ") || l.starts_with(b"--- ") || l.starts_with(b"+++ "))
        .peekable();
    headers.peek().is_some() && headers.all(|l| l.ends_with(b"\r"))
}

/// Reads one file's headers and hunks.
struct FileReader<'a, 'b> {
    lines: &'a [&'a [u8]],
    at: usize,
    hunks: &'b mut HunkReader<'a>,
    repairs: &'b mut BTreeSet<String>,
}

#[derive(Default)]
struct Headers {
    git: Option<(Vec<u8>, Vec<u8>)>,
    old: Option<Raw>,
    new: Option<Raw>,
    rename: (Option<Vec<u8>>, Option<Vec<u8>>),
    copy: (Option<Vec<u8>>, Option<Vec<u8>>),
    created: bool,
    deleted: bool,
    old_mode: Option<u32>,
    new_mode: Option<u32>,
    index: Option<(String, String)>,
}

impl FileReader<'_, '_> {
    fn read(mut self, end: &mut usize) -> Result<FilePatch, PatchError> {
        let first = self.at;
        let mut headers = Headers::default();
        let git = self.lines[first].strip_prefix(b"diff --git ");
        if let Some(names) = git {
            headers.git = git_line_names(names);
            self.at += 1;
        }
        let body = self.read_headers(&mut headers)?;
        *end = self.at;
        headers.into_patch(first, git.is_some(), body, self.repairs)
    }

    fn read_headers(&mut self, headers: &mut Headers) -> Result<Body, PatchError> {
        while let Some(&line) = self.lines.get(self.at) {
            let at = self.at;
            let after = |word: &str| line.strip_prefix(word.as_bytes());
            let name = |text: &[u8]| match header_name(text) {
                Some(Some(name)) => Ok(Some(name)),
                _ => Err(malformed(at, "a header without a file name")),
            };
            let mode = |text: &[u8]| {
                let text = std::str::from_utf8(text).unwrap_or_default().trim();
                u32::from_str_radix(text, 8).map(Some).map_err(|_| malformed(at, "a file mode that is not octal"))
            };
            if let Some(text) = after("old mode ") {
                headers.old_mode = mode(text)?;
            } else if let Some(text) = after("new mode ") {
                headers.new_mode = mode(text)?;
            } else if let Some(text) = after("new file mode ") {
                (headers.created, headers.new_mode) = (true, mode(text)?);
            } else if let Some(text) = after("deleted file mode ") {
                (headers.deleted, headers.old_mode) = (true, mode(text)?);
            } else if let Some(text) = after("rename from ").or_else(|| after("rename old ")) {
                headers.rename.0 = name(text)?;
            } else if let Some(text) = after("rename to ").or_else(|| after("rename new ")) {
                headers.rename.1 = name(text)?;
            } else if let Some(text) = after("copy from ") {
                headers.copy.0 = name(text)?;
            } else if let Some(text) = after("copy to ") {
                headers.copy.1 = name(text)?;
            } else if let Some(text) = after("index ") {
                headers.read_index(text);
            } else if after("similarity index ").is_some() || after("dissimilarity index ").is_some() {
                // Only for people.
            } else if line == b"GIT binary patch" {
                return self.read_binary();
            } else if line.starts_with(b"Binary files ") && line.ends_with(b" differ") {
                self.at += 1;
                return Ok(Body::BinaryWithoutData);
            } else if let Some(text) = after("--- ") {
                let next = self.lines.get(at + 1).and_then(|l| l.strip_prefix(b"+++ "));
                let next = next.ok_or_else(|| malformed(at + 1, "a `---` line must be followed by a `+++` line"))?;
                let broken = |at| malformed(at, "a header without a file name");
                headers.old = Some(header_name(text).ok_or_else(|| broken(at))?);
                headers.new = Some(header_name(next).ok_or_else(|| broken(at + 1))?);
                self.at += 2;
                let one_side = headers.old == Some(None) || headers.new == Some(None);
                let next = self.lines.get(self.at);
                if one_side && headers.git.is_some() && next.is_none_or(|l| l.starts_with(b"diff --git ")) {
                    // Some writers name both sides of an empty file.
                    return Ok(Body::None);
                }
                return self.read_hunks();
            } else {
                return Ok(Body::None);
            }
            self.at += 1;
        }
        Ok(Body::None)
    }

    fn read_hunks(&mut self) -> Result<Body, PatchError> {
        let mut hunks: Vec<Hunk> = Vec::new();
        while self.lines.get(self.at).is_some_and(|l| l.starts_with(b"@@")) {
            hunks.push(self.hunks.read(&mut self.at)?);
        }
        if hunks.is_empty() {
            return Err(malformed(self.at, "a file header must be followed by a hunk (`@@ -1,2 +1,2 @@`)"));
        }
        Ok(Body::Text(hunks))
    }

    fn read_binary(&mut self) -> Result<Body, PatchError> {
        let first = self.at;
        self.at += 1;
        let forward = self.binary_hunk()?;
        if self.lines.get(self.at).is_some_and(|l| l.starts_with(b"literal ") || l.starts_with(b"delta ")) {
            self.binary_hunk()?;
        }
        let mut raw = self.lines[first..self.at].join(&b'\n');
        raw.push(b'\n');
        Ok(Body::Binary { forward, raw })
    }

    fn binary_hunk(&mut self) -> Result<BinaryHunk, PatchError> {
        let header = self.lines.get(self.at).copied().unwrap_or_default();
        let (delta, size) = match (header.strip_prefix(b"literal "), header.strip_prefix(b"delta ")) {
            (Some(size), _) => (false, size),
            (_, Some(size)) => (true, size),
            _ => return Err(malformed(self.at, "a binary patch must go on with `literal` or `delta`")),
        };
        let size = std::str::from_utf8(size).ok().and_then(|s| s.trim().parse().ok());
        let size = size.ok_or_else(|| malformed(self.at, "a binary size that is not a number"))?;
        self.at += 1;
        let mut deflated = Vec::new();
        // A blank line ends the data; text that was trimmed may lack the last one.
        while let Some(line) = self.lines.get(self.at).filter(|l| !l.is_empty()) {
            let bytes = decode_line(line).ok_or_else(|| malformed(self.at, "a broken line of binary data"))?;
            deflated.extend(bytes);
            self.at += 1;
        }
        self.at = self.lines.len().min(self.at + 1);
        Ok(BinaryHunk { delta, size, deflated })
    }
}

impl Headers {
    fn read_index(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let mut words = text.split_whitespace();
        if let Some((old, new)) = words.next().and_then(|ids| ids.split_once("..")) {
            self.index = Some((old.to_owned(), new.to_owned()));
        }
        if let Some(mode) = words.next().and_then(|m| u32::from_str_radix(m, 8).ok()) {
            self.old_mode = self.old_mode.or(Some(mode));
            self.new_mode = self.new_mode.or(Some(mode));
        }
    }

    fn into_patch(
        self,
        first: usize,
        git: bool,
        body: Body,
        repairs: &mut BTreeSet<String>,
    ) -> Result<FilePatch, PatchError> {
        let unnamed = || malformed(first, "a file header that does not say which file it is about");
        let (old_mode, new_mode, index) = (self.old_mode, self.new_mode, self.index);
        let patch = |operation, old, new, alternates| FilePatch {
            line: first + 1,
            operation,
            old,
            new,
            alternates,
            old_mode,
            new_mode,
            index,
            git,
            body,
        };
        match (self.rename, self.copy) {
            ((Some(from), Some(to)), _) => return Ok(patch(Operation::Rename, Some(from), Some(to), Vec::new())),
            (_, (Some(from), Some(to))) => return Ok(patch(Operation::Copy, Some(from), Some(to), Vec::new())),
            ((None, None), (None, None)) => {}
            _ => return Err(malformed(first, "a rename or copy needs both of its names")),
        }
        // The `---` and `+++` lines say which side is missing; the git line names both sides in any case.
        let side = |name: Vec<u8>| (name != NULL).then_some(name);
        let sides = self.git.clone().map(|(a, b)| (side(a), side(b)));
        let (mut old, mut new) = match (self.old, self.new) {
            (Some(old), Some(new)) => (old, new),
            _ => sides.clone().ok_or_else(unnamed)?,
        };
        if self.created {
            (old, new) = (None, new.or_else(|| sides.clone().and_then(|(_, b)| b)));
        }
        if self.deleted {
            (old, new) = (old.or_else(|| sides.clone().and_then(|(a, _)| a)), None);
        }
        let level = match (&old, &new, &sides) {
            (Some(_), Some(_), _) | (_, _, None) => prefix_level(old.as_deref(), new.as_deref()),
            (_, _, Some((a, b))) if (old.is_some() && old == *a) || (new.is_some() && new == *b) => {
                prefix_level(a.as_deref(), b.as_deref())
            }
            _ => prefix_level(old.as_deref(), new.as_deref()),
        };
        if level == 0 {
            repairs.insert("read file names that have no `a/` and `b/` prefixes".to_owned());
        }
        let bare = |name: &Option<Vec<u8>>| name.as_deref().map(|n| strip(n, level));
        let others = |name: &Option<Vec<u8>>| name.as_deref().and_then(|n| other_reading(n, level));
        let (bare_old, bare_new) = (bare(&old), bare(&new));
        // `/dev/null` below a prefix would be a file of that name, which no header can spell.
        if [&bare_old, &bare_new].into_iter().flatten().any(|name| name.is_empty() || name == NULL) {
            return Err(malformed(first, "a header without a file name"));
        }
        match (&bare_old, &bare_new) {
            (None, None) => Err(unnamed()),
            (None, Some(_)) => Ok(patch(Operation::Create, None, bare_new, Vec::new())),
            (Some(_), None) => Ok(patch(Operation::Delete, bare_old, None, others(&old).into_iter().collect())),
            (Some(a), Some(b)) if a == b => {
                let alternates = others(&new).into_iter().chain(others(&old)).collect();
                Ok(patch(Operation::Modify, bare_old, bare_new, alternates))
            }
            (Some(_), Some(_)) if git => {
                repairs.insert("read two different file names as a rename".to_owned());
                Ok(patch(Operation::Rename, bare_old, bare_new, Vec::new()))
            }
            // `diff -u file.orig file` changes `file`.
            (Some(a), Some(b)) => {
                repairs.insert("read a plain diff between two file names as a change of the second".to_owned());
                let alternates = vec![a.clone()];
                let name = Some(b.clone());
                Ok(patch(Operation::Modify, name.clone(), name, alternates))
            }
        }
    }
}
