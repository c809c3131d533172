//! The canaries of cargo oracles: a run of its own with a test file of ours in the oracle's place.
//!
//! libtest can't be told to run two more tests after the oracle's, and prints where the code under test prints. So the
//! same command runs once more on a file with two tests, one of which must pass and one must fail. A runner that was put
//! in cargo's way, a library that prints libtest's text and leaves before `main`, or a build that puts something else in
//! the test's place says the same of these, and shows.

use std::io;

use crate::sandbox::{Exit, Token};

use super::libtest;
use super::report::TestStatus;

const TEMPLATE: &str = include_str!("../../environments/reporters/redgreen_canary.rs");

/// What a canary run was, and how it ended.
#[derive(Debug, Clone)]
pub struct CanaryRun {
    /// Its end.
    pub exit: Exit,
    /// What it ran.
    pub source: Source,
}

/// A test file of two tests whose names nobody can foresee.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file's text.
    pub text: String,
    /// The name of the test that must pass.
    pub passes: String,
    /// The name of the test that must fail.
    pub fails: String,
    message: String,
}

impl Source {
    /// Draws names and order. `library` is the crate that the tests are linked with, where there is one.
    ///
    /// # Errors
    ///
    /// The system's, when it has no random bytes to give.
    pub fn draw(library: Option<&str>) -> io::Result<Self> {
        let (token, message) = (Token::fresh()?, Token::fresh()?);
        let (one, other) = token.as_str().split_at(16);
        let [first, second] = [one, other].map(|part| format!("case_{part}"));
        let pass_first = token.as_str().ends_with(|c: char| c < '8');
        let (two, four) = if pass_first { ("2", "5") } else { ("3", "4") };
        let library = library.map(|name| format!("extern crate {name} as _;\n")).unwrap_or_default();
        let words = [
            ("{library}", library.as_str()),
            ("{first}", &first),
            ("{second}", &second),
            ("{two}", two),
            ("{four}", four),
            ("{message}", message.as_str()),
        ];
        let text = words.iter().fold(TEMPLATE.to_owned(), |text, (word, value)| text.replace(word, value));
        let (passes, fails) = if pass_first { (first, second) } else { (second, first) };
        Ok(Self { text, passes, fails, message: message.as_str().to_owned() })
    }
}

impl CanaryRun {
    /// What is wrong with a run that ended with exit code `code`; `own_file` is the oracle's file in the tree.
    pub(super) fn problem(&self, code: i32, own_file: &str) -> Option<String> {
        let stdout = self.exit.stdout.text();
        let report = libtest::parse(&stdout, &self.exit.stderr.text(), own_file);
        let status = |name: &str| report.tests.iter().find(|test| test.id.as_str() == name).map(|test| test.status);
        let problem = if let Some(broken) = &report.broken {
            format!("does not compile: {}", broken.message.as_deref().unwrap_or("nothing was said"))
        } else if let Some(odd) = &report.odd {
            odd.clone()
        } else if !report.complete || report.tests.len() != 2 {
            format!("shows {} tests instead of 2", report.tests.len())
        } else if status(&self.source.passes) != Some(TestStatus::Passed) {
            "does not pass the test that must pass".to_owned()
        } else if status(&self.source.fails) != Some(TestStatus::Failed) || !stdout.contains(&self.source.message) {
            "does not fail the test that must fail".to_owned()
        } else if code != 101 {
            format!("left with exit code {code} instead of 101")
        } else {
            return None;
        };
        Some(format!("the canary run {problem}"))
    }
}
