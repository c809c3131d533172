//! `junit.xml`: the verdicts in the form that CI systems show.
//!
//! One `testsuite` an arm, one `testcase` a verdict: `classname` is the instance, `name` the comment. `fail` is a
//! `failure`, `invalid` an `error`, `missing` is `skipped`. What XML 1.0 has no place for (control characters) is
//! written out, as on the pages.

use std::collections::{HashMap, HashSet};
use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::Built;
use super::html::text::{cut, line, visible};
use crate::model::{CommentId, InstanceId, Verdict, VerdictKind};

/// Characters of a `message` attribute.
const MESSAGE_CHARS: usize = 400;

/// Bytes of a failure's text.
const TEXT_BYTES: usize = 8 << 10;

/// The report as JUnit XML.
///
/// # Errors
/// Never in practice: it is written to memory.
pub(super) fn junit(built: &Built) -> io::Result<Vec<u8>> {
    let report = &built.report;
    let suites: Vec<Suite<'_>> = suites(built);
    let mut xml = Xml(Writer::new_with_indent(Vec::new(), b' ', 1));
    xml.0.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = suites.iter().fold(Counts::default(), |all, suite| all.plus(&suite.counts()));
    xml.open("testsuites", &with(&[("name", &report.benchmark)], &all.attributes()))?;
    for suite in &suites {
        xml.open("testsuite", &with(&[("name", suite.arm)], &suite.counts().attributes()))?;
        xml.properties(&[
            ("policy", &report.policy),
            ("denominator", report.denominator.as_str()),
            ("benchmark", &report.benchmark),
            ("benchmark_digest", &report.benchmark_digest),
            ("tool_version", &report.tool_version),
            ("control", if suite.control { "true" } else { "false" }),
        ])?;
        for case in &suite.cases {
            xml.case(case)?;
        }
        xml.close("testsuite")?;
    }
    xml.close("testsuites")?;
    let mut bytes = xml.0.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

/// One arm.
struct Suite<'a> {
    arm: &'a str,
    control: bool,
    cases: Vec<Case<'a>>,
}

/// One verdict, or a comment without one.
struct Case<'a> {
    instance: &'a InstanceId,
    comment: &'a CommentId,
    kind: VerdictKind,
    verdict: Option<&'a Verdict>,
    /// Whether the arm has other verdicts of this comment.
    one_of_several: bool,
}

/// The verdicts by arm. A comment that an arm has no row for counts as in the report's table.
fn suites(built: &Built) -> Vec<Suite<'_>> {
    let report = &built.report;
    let chosen: HashSet<&InstanceId> = built.rows.iter().map(|row| &row.instance_id).collect();
    let roster = built.roster.by_key();
    let set = built.roster.comment_set(report.denominator, |id| chosen.contains(id));
    let comments: Vec<_> =
        set.rows.iter().filter_map(|row| roster.get(&(&row.instance_id, &row.comment)).copied()).collect();
    let mut by_arm: HashMap<&str, HashMap<(&InstanceId, &CommentId), Vec<&Verdict>>> = HashMap::new();
    for verdict in &report.verdicts {
        let of_arm = by_arm.entry(verdict.arm.as_str()).or_default();
        of_arm.entry((&verdict.instance_id, &verdict.comment)).or_default().push(verdict);
    }
    let none = HashMap::new();
    let suite = |arm: &str| {
        let of_arm = by_arm.get(arm).unwrap_or(&none);
        let mut cases = Vec::new();
        for comment in &comments {
            let (instance, id) = (&comment.instance_id, &comment.comment);
            let found = of_arm.get(&(instance, id));
            let one_of_several = found.is_some_and(|verdicts| verdicts.len() > 1);
            let case = |kind, verdict| Case { instance, comment: id, kind, verdict, one_of_several };
            match found {
                Some(verdicts) => cases.extend(verdicts.iter().map(|v| case(v.verdict, Some(*v)))),
                None => cases.push(case(if comment.valid { VerdictKind::Missing } else { VerdictKind::Invalid }, None)),
            }
        }
        cases
    };
    let rows = report.arms.iter();
    rows.map(|row| Suite { arm: &row.arm, control: row.control, cases: suite(&row.arm) }).collect()
}

impl Suite<'_> {
    fn counts(&self) -> Counts {
        let of = |kind| self.cases.iter().filter(|case| case.kind == kind).count();
        Counts {
            tests: self.cases.len(),
            failures: of(VerdictKind::Fail),
            errors: of(VerdictKind::Invalid),
            skipped: of(VerdictKind::Missing),
            seconds: self.cases.iter().filter_map(|case| case.verdict).map(|v| v.seconds).sum(),
        }
    }
}

#[derive(Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
    seconds: f64,
}

impl Counts {
    fn plus(self, other: &Self) -> Self {
        Self {
            tests: self.tests + other.tests,
            failures: self.failures + other.failures,
            errors: self.errors + other.errors,
            skipped: self.skipped + other.skipped,
            seconds: self.seconds + other.seconds,
        }
    }

    fn attributes(&self) -> [(&'static str, String); 5] {
        [
            ("tests", self.tests.to_string()),
            ("failures", self.failures.to_string()),
            ("errors", self.errors.to_string()),
            ("skipped", self.skipped.to_string()),
            ("time", format!("{:.3}", self.seconds)),
        ]
    }
}

fn with<'a>(first: &[(&'a str, &'a str)], more: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    first.iter().copied().chain(more.iter().map(|(name, value)| (*name, value.as_str()))).collect()
}

/// Writes elements; every value is made fit for XML on its way.
struct Xml(Writer<Vec<u8>>);

impl Xml {
    fn start<'a>(name: &'a str, attributes: &[(&str, &str)]) -> BytesStart<'a> {
        let mut start = BytesStart::new(name);
        for (name, value) in attributes {
            // In an attribute a line end would be read as a space.
            start.push_attribute((*name, line(value, MESSAGE_CHARS).as_str()));
        }
        start
    }

    fn open(&mut self, name: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
        self.0.write_event(Event::Start(Self::start(name, attributes)))
    }

    fn close(&mut self, name: &str) -> io::Result<()> {
        self.0.write_event(Event::End(BytesEnd::new(name)))
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
        self.0.write_event(Event::Empty(Self::start(name, attributes)))
    }

    fn properties(&mut self, properties: &[(&str, &str)]) -> io::Result<()> {
        if properties.is_empty() {
            return Ok(());
        }
        self.open("properties", &[])?;
        for (name, value) in properties {
            self.empty("property", &[("name", name), ("value", value)])?;
        }
        self.close("properties")
    }

    fn case(&mut self, case: &Case<'_>) -> io::Result<()> {
        let seconds = format!("{:.3}", case.verdict.map_or(0.0, |v| v.seconds));
        let (instance, name) = (case.instance.to_string(), name_of(case));
        self.open("testcase", &[("classname", &instance), ("name", &name), ("time", &seconds)])?;
        if let Some(verdict) = case.verdict {
            let key = verdict.key.as_ref().map(ToString::to_string);
            let marks = verdict.marks.iter().map(|mark| ("mark", mark.as_str()));
            let properties: Vec<_> = marks.chain(key.as_deref().map(|key| ("key", key))).collect();
            self.properties(&properties)?;
        }
        let reason = case.verdict.and_then(|v| v.reason.as_deref()).unwrap_or(match case.kind {
            VerdictKind::Invalid => "no-oracle",
            _ => "no revision",
        });
        match case.kind {
            VerdictKind::Pass => {}
            VerdictKind::Missing => self.empty("skipped", &[("message", reason)])?,
            VerdictKind::Fail | VerdictKind::Invalid => {
                let tag = if case.kind == VerdictKind::Fail { "failure" } else { "error" };
                let message = case.verdict.and_then(|v| v.message.as_deref()).unwrap_or_default();
                let kind = reason.split(": ").next().unwrap_or_default();
                let said = if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") };
                self.open(tag, &[("type", kind), ("message", &said)])?;
                let shown = cut(said.as_bytes(), TEXT_BYTES, TEXT_BYTES);
                self.0.write_event(Event::Text(BytesText::new(&visible(&shown.head))))?;
                self.close(tag)?;
            }
        }
        self.close("testcase")
    }
}

/// The comment; where there is more than one attempt at it, which one.
fn name_of(case: &Case<'_>) -> String {
    let name = case.comment.to_string();
    match case.verdict {
        Some(verdict) if case.one_of_several => {
            let mut by: Vec<&str> =
                [&verdict.agent, &verdict.model].into_iter().flatten().map(String::as_str).collect();
            let attempt = format!("attempt {}", verdict.attempt);
            by.push(&attempt);
            format!("{name} [{}]", by.join(", "))
        }
        _ => name,
    }
}
