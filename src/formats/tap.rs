//! The Test Anything Protocol, versions 12 to 14: plan, test points, directives, bail out, subtests, YAML blocks.
//!
//! Lines that are no TAP are skipped, as the protocol says. What does not fit together (no plan, numbers missing or
//! repeated) is told as a problem; what it means is for the reader to say.

mod yaml;

use std::collections::{BTreeMap, BTreeSet};

/// A TAP stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tap {
    /// The version that it names.
    pub version: Option<u32>,
    /// The tests that were announced; `Some(0)` with `skip_all` when all are skipped.
    pub plan: Option<u64>,
    /// The plan's reason for skipping everything.
    pub skip_all: Option<String>,
    /// The test points of the top level, in the stream's order.
    pub tests: Vec<Test>,
    /// The reason of a `Bail out!`, at whatever level; may be empty.
    pub bail_out: Option<String>,
    /// What does not fit together.
    pub problems: Vec<TapProblem>,
}

/// A test point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Its number: its own, else one more than the one before.
    pub number: u64,
    /// Its description, without the directive.
    pub description: String,
    /// Whether it says `ok`.
    pub ok: bool,
    /// `SKIP` or `TODO`.
    pub directive: Option<Directive>,
    /// The first level of its YAML block (`message`, `error`, `code`, …).
    pub diagnostics: BTreeMap<String, String>,
    /// The test points of its subtest.
    pub subtests: Vec<Test>,
}

/// What a test point says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    /// It did not run.
    Skip(String),
    /// It is expected to fail.
    Todo(String),
}

/// What does not fit together in a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapProblem {
    /// There is no plan, so nobody knows whether all tests were seen.
    #[error("the stream has no plan")]
    NoPlan,
    /// There are two.
    #[error("the stream has more than one plan")]
    PlanTwice,
    /// A number of the plan was not seen.
    #[error("{count} planned tests were not seen, test {first} first")]
    Missing {
        /// The first number.
        first: u64,
        /// How many there are.
        count: u64,
    },
    /// A number was seen twice.
    #[error("test {0} was seen twice")]
    Repeated(u64),
    /// A number is not in the plan.
    #[error("test {0} is not in the plan")]
    NotPlanned(u64),
    /// A YAML block has no end.
    #[error("the YAML block of test {0} has no end")]
    OpenYaml(u64),
}

/// Deeper subtests than this are taken for output of a program.
const MAX_DEPTH: usize = 32;
/// A subtest is indented by this much more than its parent.
const STEP: usize = 4;

/// One level of a stream: the top, or an open subtest.
#[derive(Default)]
struct Level {
    tests: Vec<Test>,
    plan: Option<u64>,
    skip_all: Option<String>,
    problems: Vec<TapProblem>,
}

impl Test {
    /// Whether the test point counts as passed: `ok`, or expected to fail.
    pub fn passes(&self) -> bool {
        self.ok || matches!(self.directive, Some(Directive::Todo(_)))
    }

    /// The message of its YAML block: `message`, else `error`.
    pub fn message(&self) -> Option<&str> {
        ["message", "error"].iter().find_map(|key| self.diagnostics.get(*key)).map(String::as_str)
    }

    /// The `code` of its YAML block.
    pub fn code(&self) -> Option<&str> {
        self.diagnostics.get("code").map(String::as_str)
    }
}

/// Reads a stream; any text is one.
pub fn parse(text: &str) -> Tap {
    let mut levels = vec![Level::default()];
    let mut tap = Tap::default();
    let mut lines = text.lines().peekable();
    // The level of the test point on the line before, to which a YAML block would belong.
    let mut last: Option<usize> = None;
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let content = line[indent..].trim_end();
        if let Some(depth) = last.take().filter(|depth| content == "---" && indent == depth * STEP + 2) {
            let mut block = Vec::new();
            let mut closed = false;
            // Blank lines and deeper ones belong to the block; a shallower one means that its end is lost.
            while let Some(inner) = lines.next_if(|l| l.trim().is_empty() || leading(l) >= indent) {
                if inner.trim_end().get(indent..) == Some("...") {
                    closed = true;
                    break;
                }
                block.push(inner.get(indent..).unwrap_or_default());
            }
            if let Some(test) = levels.get_mut(depth).and_then(|level| level.tests.last_mut()) {
                test.diagnostics = yaml::first_level(&block);
                let number = test.number;
                if !closed {
                    levels[depth].problems.push(TapProblem::OpenYaml(number));
                }
            }
            continue;
        }
        let depth = indent / STEP;
        if indent % STEP != 0 || depth > levels.len() || depth > MAX_DEPTH {
            continue;
        }
        if let Some(reason) = content.strip_prefix("Bail out!") {
            tap.bail_out.get_or_insert_with(|| reason.trim().to_owned());
            continue;
        }
        if depth == 0 && tap.version.is_none() {
            tap.version = content.strip_prefix("TAP version ").and_then(|v| v.trim().parse().ok());
        }
        // The comment stands at its parent's level, or inside; a level that stays empty does no harm.
        if content.starts_with("# Subtest") && depth < MAX_DEPTH {
            at(&mut levels, depth + 1);
        } else if let Some((count, skip)) = plan(content) {
            let level = at(&mut levels, depth);
            if level.plan.is_some() {
                level.problems.push(TapProblem::PlanTwice);
            } else {
                level.plan = Some(count);
                level.skip_all = skip;
            }
        } else if let Some(test) = test(content) {
            add(&mut levels, depth, test);
            last = Some(depth);
        }
    }
    // A subtest that is still open has lost its parent's test point; it stays as one of its own.
    while levels.len() > 1 {
        let depth = levels.len() - 2;
        let lost = Test {
            number: 0,
            description: "(subtest without a test point)".to_owned(),
            ok: false,
            directive: None,
            diagnostics: BTreeMap::new(),
            subtests: Vec::new(),
        };
        if levels.last().is_some_and(|level| level.tests.is_empty()) {
            levels.pop();
        } else {
            add(&mut levels, depth, lost);
        }
    }
    let mut top = levels.pop().unwrap_or_default();
    // `Bail out!` explains the rest that is missing.
    if tap.bail_out.is_none() {
        top.close();
    }
    Tap { plan: top.plan, skip_all: top.skip_all, tests: top.tests, problems: top.problems, ..tap }
}

fn leading(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn at(levels: &mut Vec<Level>, depth: usize) -> &mut Level {
    while levels.len() <= depth {
        levels.push(Level::default());
    }
    &mut levels[depth]
}

/// Adds a test point, which closes the subtest below it.
fn add(levels: &mut Vec<Level>, depth: usize, mut test: Test) {
    while levels.len() > depth + 2 {
        let inner = levels.pop().unwrap_or_default();
        // Deeper levels without a parent: their points move up, so that none is lost.
        if let Some(level) = levels.last_mut() {
            level.tests.extend(inner.tests);
        }
    }
    if levels.len() == depth + 2
        && let Some(mut inner) = levels.pop()
    {
        if !inner.tests.is_empty() || inner.plan.is_some() {
            inner.close();
        }
        test.subtests = inner.tests;
        at(levels, depth).problems.extend(inner.problems);
    }
    let level = at(levels, depth);
    if test.number == 0 {
        test.number = level.tests.last().map_or(1, |before| before.number.saturating_add(1));
    }
    level.tests.push(test);
}

impl Level {
    /// Compares the numbers that were seen with the plan.
    fn close(&mut self) {
        let mut seen = BTreeSet::new();
        for test in &self.tests {
            if !seen.insert(test.number) {
                self.problems.push(TapProblem::Repeated(test.number));
            }
        }
        let Some(plan) = self.plan else {
            self.problems.push(TapProblem::NoPlan);
            return;
        };
        self.problems.extend(seen.iter().filter(|n| **n > plan || **n == 0).map(|n| TapProblem::NotPlanned(*n)));
        let planned = seen.iter().filter(|n| **n >= 1 && **n <= plan).count() as u64;
        if planned < plan {
            // The first gap in an ordered set: no need to count through a plan of any size.
            let mut first = 1;
            for number in seen.iter().filter(|n| **n >= 1) {
                if *number != first {
                    break;
                }
                first += 1;
            }
            self.problems.push(TapProblem::Missing { first, count: plan - planned });
        }
    }
}

/// `1..N`, with what follows `# SKIP`.
fn plan(content: &str) -> Option<(u64, Option<String>)> {
    let rest = content.strip_prefix("1..")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let count = rest[..digits].parse().ok()?;
    let rest = rest[digits..].trim();
    if !rest.is_empty() && !rest.starts_with('#') {
        return None;
    }
    let skip = match directive(rest) {
        (_, Some(Directive::Skip(reason))) => Some(reason),
        _ => None,
    };
    Some((count, skip))
}

/// `ok` or `not ok`, number, description, directive.
fn test(content: &str) -> Option<Test> {
    let (ok, rest) = match content.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, content.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim_start();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    // Digits that run into other characters begin the description (`ok 2nd try`).
    let ends = rest[digits..].chars().next().is_none_or(|c| c.is_whitespace() || c == '#' || c == '-');
    let (number, rest) = match rest[..digits].parse::<u64>() {
        Ok(number) if ends => (number, &rest[digits..]),
        _ => (0, rest),
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('-').unwrap_or(rest).trim_start();
    let (description, directive) = directive(rest);
    Some(Test { number, description, ok, directive, diagnostics: BTreeMap::new(), subtests: Vec::new() })
}

/// Cuts a directive off; `\#` and `\\` in the description are unescaped. A `#` that begins no directive is text.
fn directive(text: &str) -> (String, Option<Directive>) {
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        if character == '#' && !escaped {
            let after = text[index + 1..].trim_start();
            let word = after.split(|c: char| c.is_whitespace() || c == ':').next().unwrap_or_default();
            let reason = || after[word.len()..].trim_start_matches(':').trim().to_owned();
            let found = if word.eq_ignore_ascii_case("todo") {
                Some(Directive::Todo(reason()))
            } else if word.get(..4).is_some_and(|w| w.eq_ignore_ascii_case("skip")) {
                Some(Directive::Skip(reason()))
            } else {
                None
            };
            if found.is_some() {
                return (unescape(text[..index].trim_end()), found);
            }
        }
        escaped = character == '\\' && !escaped;
    }
    (unescape(text), None)
}

fn unescape(text: &str) -> String {
    text.replace("\\#", "#").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests;
