//! JUnit XML as pytest, Surefire, Jest and Go's converters write it.
//!
//! There is no standard. What is read: `testcase` elements at any depth, their `failure`, `error` and `skipped`
//! children, and such children directly below a `testsuite`. Only predefined entities and character references are
//! resolved, so a document type cannot blow up the text. A document that ends early is an error: half a report must not
//! pass for a whole one.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

/// How one test case ended, in the report's own tags. (pytest writes `failure` for every exception in a test's body, so
/// whether it was an assertion is for the reader to tell by `exception`.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseStatus {
    /// No child that says otherwise.
    Passed,
    /// `skipped`, or a status attribute that says so; expected failures are written like this too.
    Skipped,
    /// `failure`.
    Failed,
    /// `error`.
    Errored,
}

/// One test case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// `classname::name`, or the name alone where there is no class.
    pub id: String,
    /// How it ended. With several signs the worst counts.
    pub status: CaseStatus,
    /// The exception's type: the `type` attribute, else what the message begins with.
    pub exception: Option<String>,
    /// The `message` attribute, else the first line of the text that is not empty.
    pub message: Option<String>,
    /// The text inside the failure, error or skipped element.
    pub text: String,
    /// Seconds, where the report says so.
    pub seconds: Option<f64>,
}

/// A report that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JunitError {
    /// It is no XML, or not well formed.
    #[error("the JUnit report is not well-formed XML at byte {at}: {problem}")]
    Xml {
        /// Where.
        at: u64,
        /// What the parser says.
        problem: String,
    },
    /// It ends inside an element.
    #[error("the JUnit report ends inside `{0}`; the test runner was stopped while it wrote it")]
    Truncated(String),
    /// There is no `testsuite` or `testsuites`.
    #[error("the report has no `testsuite`, so it is no JUnit XML")]
    NotJunit,
}

/// What stands open while reading.
#[derive(Default)]
struct State {
    cases: Vec<Case>,
    open: Vec<String>,
    suites: Vec<String>,
    case: Option<Case>,
    sign: Option<Sign>,
    is_junit: bool,
}

/// A `failure`, `error` or `skipped` that is being read.
struct Sign {
    depth: usize,
    status: CaseStatus,
    kind: Option<String>,
    message: Option<String>,
    text: String,
}

/// Reads a report: its cases in the document's order.
///
/// # Errors
/// When it is not well formed, ends early, or is no JUnit XML.
pub fn parse(xml: &str) -> Result<Vec<Case>, JunitError> {
    let mut reader = Reader::from_str(xml.trim_start_matches('\u{feff}').trim_start());
    // An ampersand alone is how some writers put test names; it is text.
    reader.config_mut().allow_dangling_amp = true;
    let mut state = State::default();
    loop {
        let event = reader
            .read_event()
            .map_err(|error| JunitError::Xml { at: reader.error_position(), problem: error.to_string() })?;
        match event {
            Event::Start(start) => state.start(&start),
            Event::Empty(start) => {
                state.start(&start);
                state.end();
            }
            Event::End(_) => state.end(),
            Event::Text(text) => state.text(&text.into_inner()),
            Event::CData(text) => state.text(&text.into_inner()),
            Event::GeneralRef(reference) => state.text(&resolve(&reference)),
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    match state.open.pop() {
        Some(open) => Err(JunitError::Truncated(open)),
        None if state.is_junit => Ok(state.cases),
        None => Err(JunitError::NotJunit),
    }
}

fn resolve(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let name = reference.borrow().into_inner();
    quick_xml::escape::resolve_predefined_entity(&name).map_or_else(|| format!("&{name};"), str::to_owned)
}

fn attribute(start: &BytesStart<'_>, wanted: &str) -> Option<String> {
    let found = start.html_attributes().flatten().find(|a| a.key.local_name().as_ref() == wanted)?;
    let value = found.normalized_value(XmlVersion::Implicit1_0).unwrap_or(Cow::Borrowed(&*found.value));
    Some(value.into_owned())
}

impl State {
    fn start(&mut self, start: &BytesStart<'_>) {
        let name = start.local_name().as_ref().to_owned();
        match name.as_str() {
            "testsuites" => self.is_junit = true,
            "testsuite" => {
                self.is_junit = true;
                self.suites.push(attribute(start, "name").unwrap_or_default());
            }
            // A case inside a case is no dialect; the outer one counts.
            "testcase" if self.case.is_none() => self.case = Some(case(start)),
            "failure" | "error" | "skipped" if self.sign.is_none() => {
                let status = match name.as_str() {
                    "failure" => CaseStatus::Failed,
                    "error" => CaseStatus::Errored,
                    _ => CaseStatus::Skipped,
                };
                self.sign = Some(Sign {
                    depth: self.open.len(),
                    status,
                    kind: attribute(start, "type").filter(|kind| !kind.trim().is_empty()),
                    message: attribute(start, "message").filter(|message| !message.trim().is_empty()),
                    text: String::new(),
                });
            }
            _ => {}
        }
        self.open.push(name);
    }

    fn text(&mut self, text: &str) {
        if let Some(sign) = &mut self.sign {
            sign.text.push_str(text);
        }
    }

    fn end(&mut self) {
        let Some(name) = self.open.pop() else { return };
        if self.sign.as_ref().is_some_and(|sign| sign.depth == self.open.len()) {
            if let Some(sign) = self.sign.take() {
                self.close(sign);
            }
        } else if name == "testcase" && !self.open.iter().any(|open| open == "testcase") {
            self.cases.extend(self.case.take());
        } else if name == "testsuite" {
            self.suites.pop();
        }
    }

    /// A sign belongs to the open case, else to its suite, which then stands as a case of its own.
    fn close(&mut self, sign: Sign) {
        let mut case = self.case.take();
        let target = match &mut case {
            Some(case) => case,
            None if self.suites.is_empty() => return,
            None => {
                let id = self.suites.last().cloned().unwrap_or_default();
                self.cases.push(Case::passed(id, None));
                match self.cases.last_mut() {
                    Some(last) => last,
                    None => return,
                }
            }
        };
        if sign.status > target.status {
            let first_line = sign.text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
            target.status = sign.status;
            target.message = sign.message.or(first_line);
            target.exception = sign.kind.or_else(|| target.message.as_deref().and_then(exception_of));
            target.text = sign.text;
        }
        self.case = case;
    }
}

impl Case {
    fn passed(id: String, seconds: Option<f64>) -> Self {
        Self { id, status: CaseStatus::Passed, exception: None, message: None, text: String::new(), seconds }
    }
}

fn case(start: &BytesStart<'_>) -> Case {
    let name = attribute(start, "name").unwrap_or_default();
    let id = match attribute(start, "classname").filter(|class| !class.is_empty()) {
        Some(class) => format!("{class}::{name}"),
        None => name,
    };
    let seconds = attribute(start, "time").and_then(|time| time.replace(',', "").parse().ok());
    let mut case = Case::passed(id, seconds);
    let says = |attr: &str, words: &[&str]| {
        attribute(start, attr).is_some_and(|value| words.iter().any(|word| value.eq_ignore_ascii_case(word)))
    };
    if says("status", &["notrun", "skipped", "disabled"]) || says("result", &["skipped", "suppressed"]) {
        case.status = CaseStatus::Skipped;
    }
    case
}

/// The exception that a message begins with: `TypeError: …`, `pkg.Error: …`, or pytest's bare `assert …`.
fn exception_of(message: &str) -> Option<String> {
    let line = message.trim_start().lines().next()?.trim_end();
    if line == "assert" || line.starts_with("assert ") {
        return Some("AssertionError".to_owned());
    }
    let head = line.split(": ").next()?.trim_end_matches(':');
    let word = |part: &str| {
        part.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    let last = head.rsplit('.').next()?;
    // `Failed` and `Exit` are pytest's own; a sentence's first word before a colon is in lower case as a rule.
    let named = head.split('.').all(word) && last.starts_with(|c: char| c.is_uppercase());
    (named && (head.len() < line.len() || last.ends_with("Error") || last.ends_with("Exception")))
        .then(|| head.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Short<'a> = (&'a str, CaseStatus, Option<&'a str>, Option<&'a str>);

    fn short(cases: &[Case]) -> Vec<Short<'_>> {
        cases.iter().map(|c| (c.id.as_str(), c.status, c.exception.as_deref(), c.message.as_deref())).collect()
    }

    #[test]
    fn pytest_dialect() {
        let xml = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="3" skipped="1" tests="6" time="0.1">
<testcase classname="test_a" name="test_ok[a&amp;b]" time="0.001" />
<testcase classname="test_a" name="test_assert" time="0.001"><failure message="assert 1 == 2&#10; +  where">def test():
&gt;   assert 1 == 2
E   assert 1 == 2</failure></testcase>
<testcase classname="test_a" name="test_type"><failure message="TypeError: f() missing 1 argument">x</failure></testcase>
<testcase classname="test_a" name="test_fail"><failure message="Failed: DID NOT RAISE &lt;class 'ValueError'&gt;">x</failure></testcase>
<testcase classname="test_a" name="test_x"><skipped type="pytest.xfail" message="later" /></testcase>
<testcase classname="" name="test_b"><error message="collection failure">ImportError while importing
E   ModuleNotFoundError: No module named 'x'</error></testcase></testsuite></testsuites>"#;
        let cases = parse(xml).unwrap();
        assert_eq!(
            short(&cases),
            [
                ("test_a::test_ok[a&b]", CaseStatus::Passed, None, None),
                ("test_a::test_assert", CaseStatus::Failed, Some("AssertionError"), Some("assert 1 == 2\n +  where")),
                ("test_a::test_type", CaseStatus::Failed, Some("TypeError"), Some("TypeError: f() missing 1 argument")),
                (
                    "test_a::test_fail",
                    CaseStatus::Failed,
                    Some("Failed"),
                    Some("Failed: DID NOT RAISE <class 'ValueError'>")
                ),
                ("test_a::test_x", CaseStatus::Skipped, Some("pytest.xfail"), Some("later")),
                ("test_b", CaseStatus::Errored, None, Some("collection failure")),
            ]
        );
        assert!(cases[1].text.contains(">   assert 1 == 2\nE   assert"));
        assert_eq!(cases[0].seconds, Some(0.001));
    }

    #[test]
    fn other_dialects() {
        let surefire = r#"<testsuite name="T" tests="3"><properties><property name="a" value="b"/></properties>
<testcase name="a" classname="p.T" time="1,024.5"><failure message="expected:&lt;1&gt;" type="org.junit.ComparisonFailure"><![CDATA[at <x>]]></failure><rerunFailure type="y"/><system-out>&lt;failure/&gt;</system-out></testcase>
<testcase name="b" classname="p.T"><error type="java.lang.IllegalStateException"/></testcase>
<testcase name="c" classname="p.T"><flakyFailure type="z">once</flakyFailure></testcase></testsuite>"#;
        let cases = parse(surefire).unwrap();
        assert_eq!(
            short(&cases),
            [
                ("p.T::a", CaseStatus::Failed, Some("org.junit.ComparisonFailure"), Some("expected:<1>")),
                ("p.T::b", CaseStatus::Errored, Some("java.lang.IllegalStateException"), None),
                ("p.T::c", CaseStatus::Passed, None, None),
            ]
        );
        assert_eq!((cases[0].text.as_str(), cases[0].seconds), ("at <x>", Some(1024.5)));
        let jest = "<testsuites><testsuite name='s'><testcase classname=\"s x\" name=\"s x\"><failure>\n Error: expect(received).toBe(expected)\n  at y</failure></testcase></testsuite></testsuites>";
        assert_eq!(
            short(&parse(jest).unwrap()),
            [("s x::s x", CaseStatus::Failed, Some("Error"), Some("Error: expect(received).toBe(expected)"))]
        );
        let go = r#"<testsuites><testsuite name="pkg"><testcase classname="pkg" name="TestA"><failure message="Failed" type="">a_test.go:3: no & yes</failure></testcase><testcase name="TestB" status="notrun"/><error message="build failed"/></testsuite></testsuites>"#;
        assert_eq!(
            short(&parse(go).unwrap()),
            [
                ("pkg::TestA", CaseStatus::Failed, None, Some("Failed")),
                ("TestB", CaseStatus::Skipped, None, None),
                ("pkg", CaseStatus::Errored, None, Some("build failed")),
            ]
        );
    }

    #[test]
    fn the_worst_sign_of_a_case_counts() {
        let xml = "<testsuite><testcase name='a'><skipped/><error message='teardown'/><failure message='f'/></testcase></testsuite>";
        assert_eq!(short(&parse(xml).unwrap()), [("a", CaseStatus::Errored, None, Some("teardown"))]);
    }

    #[test]
    fn half_a_report_and_other_documents_are_errors() {
        let xml = "<testsuite><testcase name='a'/><testcase name='b'><failure>x";
        assert_eq!(parse(xml), Err(JunitError::Truncated("failure".to_owned())));
        assert_eq!(parse("<html/>"), Err(JunitError::NotJunit));
        assert_eq!(parse(""), Err(JunitError::NotJunit));
        assert!(matches!(parse("<testsuite></testcase>"), Err(JunitError::Xml { .. })));
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><testsuite><testcase name='n'><failure>&b;</failure></testcase></testsuite>";
        assert_eq!(parse(bomb).unwrap()[0].text, "&b;");
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*", cut in 0_usize..400) {
            let _ = parse(&text);
            let xml = "<?xml version='1.0'?><testsuites><testsuite name='s'><testcase classname='c' name='n'><failure message='m' type='t'>&#x41;&lt;<![CDATA[z]]></failure></testcase><error/></testsuite></testsuites>";
            let cut = cut.min(xml.len());
            prop_assert_eq!(parse(&xml[..cut]).is_ok(), cut == xml.len());
            let _ = parse(&format!("{}{text}{}", &xml[..cut], &xml[cut..]));
        }

        #[test]
        fn what_is_escaped_comes_back(name in "[^\\pC]{0,30}", message in "[^\\pC]{1,40}") {
            prop_assume!(!message.trim().is_empty());
            let e = |text: &str| quick_xml::escape::escape(text).into_owned();
            let xml = format!("<testsuite><testcase name=\"{}\"><failure message=\"{}\">{}</failure></testcase></testsuite>", e(&name), e(&message), e(&message));
            let cases = parse(&xml).unwrap();
            prop_assert_eq!(&cases[0].id, &name);
            prop_assert_eq!(cases[0].message.as_deref(), Some(message.as_str()));
            prop_assert_eq!(&cases[0].text, &message);
        }
    }
}
