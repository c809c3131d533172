//! JSON values of a file with the lines they begin on: one value, several one after the other, JSON Lines, and lists,
//! whose entries come one by one so that a list that was cut off gives what is whole of it.

use serde_json::Value;
use serde_json::value::RawValue;

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// Lists in lists deeper than this are not opened: `gh api --paginate --slurp` makes one list of pages.
const DEPTH: usize = 4;

/// Gives every value that is not a list, with its line; then what is broken. Reading a file ends at the first place that is
/// no JSON, as nobody knows where the next value would begin.
pub(super) fn values(text: &str, mut take: impl FnMut(usize, Value)) -> Vec<Broken> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, at: 0, counted: (0, 1), broken: Vec::new() };
    while reader.skip_blank() {
        if !reader.value(0, &mut take) {
            break;
        }
    }
    reader.broken
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// A place and its line, from which lines are counted on.
    counted: (usize, usize),
    broken: Vec<Broken>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) -> bool {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{1e}']).len();
        self.at < self.text.len()
    }

    fn line(&mut self) -> usize {
        let (from, line) = self.counted;
        let line = line + self.text[from..self.at].bytes().filter(|b| *b == b'\n').count();
        self.counted = (self.at, line);
        line
    }

    fn fails(&mut self, line: usize, problem: impl Into<String>) -> bool {
        self.broken.push(Broken { line, problem: problem.into() });
        false
    }

    /// Reads one value; whether the text goes on behind it.
    fn value(&mut self, depth: usize, take: &mut impl FnMut(usize, Value)) -> bool {
        if depth < DEPTH && self.rest().starts_with('[') {
            return self.list(depth, take);
        }
        let line = self.line();
        let mut stream = serde_json::Deserializer::from_str(self.rest()).into_iter::<&RawValue>();
        let raw = match stream.next() {
            Some(Ok(raw)) => raw,
            Some(Err(error)) => {
                let at = line + error.line().saturating_sub(1);
                let what = if error.is_eof() { "the file ends in the middle of a value" } else { "this is no JSON" };
                return self.fails(at, format!("{what}: {}", without_place(&error)));
            }
            None => return false,
        };
        self.at += stream.byte_offset();
        match serde_json::from_str(raw.get()) {
            Ok(value) => take(line, value),
            // Too deep, or a number that is none: it is known where it ends.
            Err(error) => {
                self.fails(
                    line + error.line().saturating_sub(1),
                    format!("this is no JSON: {}", without_place(&error)),
                );
            }
        }
        true
    }

    fn list(&mut self, depth: usize, take: &mut impl FnMut(usize, Value)) -> bool {
        let opened = self.line();
        self.at += 1;
        let mut first = true;
        loop {
            if !self.skip_blank() {
                return self.fails(opened, "the list that begins here has no end; the file was cut off");
            }
            match (self.text.as_bytes()[self.at], first) {
                (b']', _) => {
                    self.at += 1;
                    return true;
                }
                (b',', false) => {
                    self.at += 1;
                    if !self.skip_blank() {
                        continue;
                    }
                }
                (_, true) => {}
                _ => {
                    let line = self.line();
                    return self.fails(line, "this is no JSON: a `,` or `]` is missing in a list");
                }
            }
            first = false;
            if !self.value(depth + 1, take) {
                return false;
            }
        }
    }
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rfind(" at line ").map_or(text.clone(), |at| text[..at].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with their lines.
    type Rows = Vec<(usize, String)>;

    fn read(text: &str) -> (Rows, Rows) {
        let mut found = Vec::new();
        let broken = values(text, |line, value| found.push((line, value.to_string())));
        (found, broken.into_iter().map(|b| (b.line, b.problem)).collect())
    }

    fn rows(list: &[(usize, &str)]) -> Rows {
        list.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
    }

    #[test]
    fn lists_values_and_lines_one_after_the_other() {
        let text = "\u{feff}[\n  {\"a\": 1},\n  {\n\"b\": 2}\n][]\n{\"c\":3}\n\n[[{\"d\":4}],[{\"e\":5}]]{\"f\":6}";
        let want = [
            (2, "{\"a\":1}"),
            (3, "{\"b\":2}"),
            (6, "{\"c\":3}"),
            (8, "{\"d\":4}"),
            (8, "{\"e\":5}"),
            (8, "{\"f\":6}"),
        ];
        assert_eq!(read(text), (rows(&want), vec![]));
        assert_eq!(read(" \n"), (vec![], vec![]));
    }

    #[test]
    fn what_is_whole_of_a_broken_file_comes_through() {
        let (found, broken) = read("[{\"a\":1},\n{\"b\":2},\n{\"c\":");
        assert_eq!(found, rows(&[(1, "{\"a\":1}"), (2, "{\"b\":2}")]));
        assert_eq!(broken.len(), 1);
        assert!(broken[0].0 == 3 && broken[0].1.starts_with("the file ends in the middle"), "{broken:?}");
        let (found, broken) = read("[{\"a\":1}\n");
        assert_eq!((found.len(), broken[0].0), (1, 1));
        let (found, broken) = read("{\"a\":1}\n[{\"b\":2}\n{\"c\":3}]\n");
        assert_eq!((found.len(), broken[0].0), (2, 3), "{broken:?}");
        let (found, broken) = read("<html>\n");
        assert!(found.is_empty() && broken[0].1.starts_with("this is no JSON"), "{broken:?}");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let (found, broken) = read(&deep);
        assert!(found.is_empty() && broken.len() == 1, "{broken:?}");
    }
}
