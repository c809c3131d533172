//! A thread's words without its people: mentions and authors become `@author`, `@user1`, `@user2` … in the order of
//! their appearance. Code stays as it is: a decorator is no person, nor is the end of a mail address.

use std::collections::BTreeMap;

/// The stand-ins of one thread's people. Logins compare without case.
#[derive(Debug, Clone, Default)]
pub struct Names {
    author: Option<String>,
    known: BTreeMap<String, String>,
}

impl Names {
    /// Begins with the pull request's author.
    pub fn new(author: Option<&str>) -> Self {
        Self { author: author.map(str::to_ascii_lowercase), known: BTreeMap::new() }
    }

    /// The stand-in of a login, `@unknown` where there is none (the account is gone).
    pub fn of(&mut self, login: Option<&str>) -> String {
        let Some(login) = login.filter(|l| !l.is_empty()).map(str::to_ascii_lowercase) else {
            return "@unknown".to_owned();
        };
        if self.author.as_deref() == Some(login.as_str()) {
            return "@author".to_owned();
        }
        let next = self.known.len() + 1;
        self.known.entry(login).or_insert_with(|| format!("@user{next}")).clone()
    }

    /// The text with every mention replaced, except in code blocks and code spans.
    pub fn hide(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut fence: Option<&str> = None;
        for line in text.split_inclusive('\n') {
            let start = line.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
            match (fence, mark) {
                (None, Some(mark)) => fence = Some(mark),
                (Some(open), Some(mark)) if open == mark => fence = None,
                (None, None) => {
                    self.hide_line(line, &mut out);
                    continue;
                }
                _ => {}
            }
            out.push_str(line);
        }
        out
    }

    fn hide_line(&mut self, line: &str, out: &mut String) {
        let bytes = line.as_bytes();
        let mut at = 0;
        let mut copied = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'`' => {
                    // A span ends at a run of as many back-ticks; without one the back-ticks are just that.
                    let run = bytes[at..].iter().take_while(|b| **b == b'`').count();
                    at = span_end(bytes, at + run, run).unwrap_or(at + run);
                }
                b'@' if begins_mention(bytes, at) => {
                    let login = login_at(line, at + 1);
                    if login.is_empty() {
                        at += 1;
                        continue;
                    }
                    out.push_str(&line[copied..at]);
                    at += 1 + login.len();
                    let team = team_at(line, at);
                    if team > 0 {
                        out.push_str("@team");
                        at += team;
                    } else {
                        out.push_str(&self.of(Some(login)));
                    }
                    copied = at;
                }
                _ => at += 1,
            }
        }
        out.push_str(&line[copied..]);
    }
}

fn span_end(bytes: &[u8], mut at: usize, run: usize) -> Option<usize> {
    while at < bytes.len() {
        if bytes[at] != b'`' {
            at += 1;
            continue;
        }
        let here = bytes[at..].iter().take_while(|b| **b == b'`').count();
        at += here;
        if here == run {
            return Some(at);
        }
    }
    None
}

/// A mention does not follow a letter, a digit or what stands in addresses.
fn begins_mention(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| bytes[i]);
    !before
        .is_some_and(|b| b.is_ascii_alphanumeric() || b >= 0x80 || matches!(b, b'_' | b'.' | b'/' | b'-' | b'+' | b'@'))
}

/// The login that begins here: letters, digits and single hyphens, at most 39, followed by no letter of any script.
fn login_at(line: &str, from: usize) -> &str {
    let rest = &line[from..];
    let bytes = rest.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let hyphen = bytes[end] == b'-' && end > 0 && bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !bytes[end].is_ascii_alphanumeric() && !hyphen {
            break;
        }
        end += 1;
    }
    // Bots have a mark behind their names.
    let bot = rest[end..].starts_with("[bot]");
    let goes_on = rest[end..].chars().next().is_some_and(|c| c == '_' || (!c.is_ascii() && c.is_alphanumeric()));
    if end > 39 || goes_on { "" } else { &rest[..if bot && end > 0 { end + 5 } else { end }] }
}

/// The length of `/team` behind an organisation's name; 0 where there is none.
fn team_at(line: &str, from: usize) -> usize {
    let Some(rest) = line[from..].strip_prefix('/') else { return 0 };
    let name = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')).count();
    if name == 0 { 0 } else { name + 1 }
}

/// A text with `\n` line ends, without blank lines around it.
pub fn plain_lines(text: &str) -> String {
    text.replace("\r\n", "\n").trim().to_owned()
}

/// What a comment's suggestion blocks would put in the place of the commented lines, one text a block.
pub fn suggestions(body: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in body.lines() {
        let start = line.trim_start();
        let ticks = start.bytes().take_while(|b| *b == b'`').count();
        match &mut open {
            None if ticks >= 3 && start[ticks..].trim() == "suggestion" => open = Some((ticks, String::new())),
            Some((fence, _)) if ticks >= *fence && start[ticks..].trim().is_empty() => {
                found.extend(open.take().map(|(_, text)| text));
            }
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    // A block that nobody closed goes on to the end, as the host shows it.
    found.extend(open.map(|(_, text)| text));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> String {
        Names::new(Some("Ada")).hide(text)
    }

    #[test]
    fn people_are_replaced_and_code_is_not() {
        for (text, want) in [
            ("@ada, ask @bob-x and @Bob-X.", "@author, ask @user1 and @user1."),
            ("use `@property` or ``a ` @b``, @c", "use `@property` or ``a ` @b``, @user1"),
            ("```py\n@fixture\n```\n@c", "```py\n@fixture\n```\n@user1"),
            ("~~~\n```\n@x\n~~~\n@c\n", "~~~\n```\n@x\n~~~\n@user1\n"),
            ("mail a@b.c or b@ada", "mail a@b.c or b@ada"),
            ("cc @org/some-team please", "cc @team please"),
            ("an open ` tick @c", "an open ` tick @user1"),
            ("(@c) @c_d @é @", "(@user1) @c_d @é @"),
            ("thanks @helper[bot]!", "thanks @user1!"),
            ("https://x.org/@c", "https://x.org/@c"),
            ("@-c @c--d", "@-c @user1--d"),
            ("é@c ü", "é@c ü"),
        ] {
            assert_eq!(hidden(text), want, "{text}");
        }
        assert_eq!(hidden(&format!("@{}", "a".repeat(40))), format!("@{}", "a".repeat(40)));
    }

    #[test]
    fn names_keep_their_numbers_and_a_lost_account_has_none() {
        let mut names = Names::new(Some("ada"));
        assert_eq!(names.of(Some("Eve")), "@user1");
        assert_eq!(names.hide("@bob @eve"), "@user2 @user1");
        assert_eq!(
            (names.of(None), names.of(Some("")), names.of(Some("ADA"))),
            ("@unknown".into(), "@unknown".into(), "@author".into())
        );
    }

    #[test]
    fn suggestion_blocks() {
        let body = "Try\n```suggestion\n    x = 1\n```\nor\n````suggestion\n```\n````\n```py\nno\n```\n";
        assert_eq!(suggestions(body), ["    x = 1\n", "```\n"]);
        assert_eq!(suggestions("```suggestion\r\na\r\n```"), ["a\n"]);
        assert_eq!(suggestions("```suggestion\n```"), [""]);
        assert_eq!(suggestions("```suggestion\nx"), ["x\n"]);
        assert!(suggestions("no `suggestion`").is_empty());
    }
}
