//! A patch in one regular form.

use super::MAX_PATCH;
use super::error::PatchError;
use super::parse::{Parsed, parse};
use super::quote::quote;
use super::types::{Body, FilePatch, Hunk, LineKind, Operation};

/// A patch in regular form: `diff --git` headers, `a/` and `b/`, LF headers, right counts, nothing around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalised {
    /// The patch.
    pub text: Vec<u8>,
    /// What had to be put right, in words; empty for a patch as git writes it.
    pub repairs: Vec<String>,
}

/// Brings a patch into regular form. The lines of its hunks stay byte for byte.
pub fn normalise_patch(text: &[u8]) -> Result<Normalised, PatchError> {
    let parsed = read(text)?;
    Ok(Normalised { text: render(&parsed), repairs: parsed.repairs.into_iter().collect() })
}

/// Parses a patch of bounded size.
pub(super) fn read(text: &[u8]) -> Result<Parsed, PatchError> {
    let bytes = text.len() as u64;
    if bytes > MAX_PATCH {
        return Err(PatchError::TooLarge { what: "the patch".to_owned(), bytes, limit: MAX_PATCH });
    }
    parse(text)
}

pub(super) fn render(parsed: &Parsed) -> Vec<u8> {
    let mut out = Vec::new();
    for file in &parsed.files {
        render_file(file, &mut out);
    }
    out
}

fn render_file(file: &FilePatch, out: &mut Vec<u8>) {
    let name = |prefix: &str, name: &Option<Vec<u8>>, other: &Option<Vec<u8>>| {
        quote(&[prefix.as_bytes(), name.as_deref().or(other.as_deref()).unwrap_or_default()].concat())
    };
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|p| out.extend_from_slice(p));
        out.push(b'\n');
    };
    let (a, b) = (name("a/", &file.old, &file.new), name("b/", &file.new, &file.old));
    line(&[b"diff --git ", &a, b" ", &b]);
    let mode = |mode: Option<u32>| format!("{:06o}", mode.unwrap_or(0o100_644)).into_bytes();
    match file.operation {
        Operation::Create => line(&[b"new file mode ", &mode(file.new_mode)]),
        Operation::Delete => line(&[b"deleted file mode ", &mode(file.old_mode)]),
        _ => {
            if let (Some(old), Some(new)) = (file.old_mode, file.new_mode) {
                if old != new {
                    line(&[b"old mode ", &mode(Some(old))]);
                    line(&[b"new mode ", &mode(Some(new))]);
                }
            } else if file.new_mode.is_some() {
                line(&[b"new mode ", &mode(file.new_mode)]);
            } else if file.old_mode.is_some() {
                line(&[b"old mode ", &mode(file.old_mode)]);
            }
        }
    }
    let (from, to) = (name("", &file.old, &None), name("", &file.new, &None));
    match file.operation {
        Operation::Rename => [(&b"rename from "[..], &from), (b"rename to ", &to)].map(|(w, n)| line(&[w, n])),
        Operation::Copy => [(&b"copy from "[..], &from), (b"copy to ", &to)].map(|(w, n)| line(&[w, n])),
        _ => [(), ()],
    };
    if let Some((old, new)) = &file.index {
        // The mode stands here only where it does not change; elsewhere it has lines of its own.
        let same = file.old_mode.filter(|m| file.operation == Operation::Modify && file.new_mode == Some(*m));
        let tail = same.map(|m| format!(" {m:06o}")).unwrap_or_default();
        line(&[b"index ", old.as_bytes(), b"..", new.as_bytes(), tail.as_bytes()]);
    }
    match &file.body {
        Body::None => {}
        Body::BinaryWithoutData => line(&[b"Binary files ", &a, b" and ", &b, b" differ"]),
        Body::Binary { raw, .. } => {
            out.extend_from_slice(raw);
            out.push(b'\n');
        }
        Body::Text(hunks) => {
            // A tab after a name with spaces keeps them apart from a timestamp.
            let tab = |name: &[u8]| if name.contains(&b' ') && !name.starts_with(b"\"") { &b"\t"[..] } else { b"" };
            let null = b"/dev/null".to_vec();
            let a = if file.old.is_none() { &null } else { &a };
            let b = if file.new.is_none() { &null } else { &b };
            line(&[b"--- ", a, tab(a)]);
            line(&[b"+++ ", b, tab(b)]);
            for hunk in hunks {
                render_hunk(hunk, out);
            }
        }
    }
}

fn render_hunk(hunk: &Hunk, out: &mut Vec<u8>) {
    match (hunk.old_start, hunk.new_start) {
        (Some(old), Some(new)) => {
            let range = |start: usize, count: usize| match count {
                1 => start.to_string(),
                _ => format!("{start},{count}"),
            };
            let old = range(old, hunk.count(LineKind::Remove));
            let new = range(new, hunk.count(LineKind::Add));
            out.extend_from_slice(format!("@@ -{old} +{new} @@").as_bytes());
            out.extend_from_slice(&hunk.section);
        }
        _ => out.extend_from_slice(b"@@ @@"),
    }
    out.push(b'\n');
    for line in &hunk.lines {
        out.push(match line.kind {
            LineKind::Context => b' ',
            LineKind::Remove => b'-',
            LineKind::Add => b'+',
        });
        out.extend_from_slice(&line.text);
        if line.text.last() != Some(&b'\n') {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}
