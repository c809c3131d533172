//! One instance: its comments, their tests and controls, and every verdict.

use serde::Serialize;

use super::bounds::{COMMENT_BYTES, TEST_BYTES};
use super::detail::{Detail, ShownPatches, detail};
use super::evidence::Evidence;
use super::health::{Checked, OracleState, checked};
use super::text::{cut, visible};
use crate::model::{Outcome, Verdict};
use crate::stage::score::{RosterComment, RosterInstance, RosterTest};

/// One instance.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// Its id.
    pub instance: String,
    /// Its anchor.
    pub id: String,
    /// The pull request's title; empty where the run does not know it.
    pub title: String,
    /// Repository and commits, as far as they are known.
    pub places: Vec<super::Fact>,
    /// Whether there are verdicts whose evidence is not embedded.
    pub light: bool,
    /// The comments that count.
    pub comments: Vec<CommentView>,
}

/// One comment with its oracle.
#[derive(Debug, Clone, Serialize)]
pub struct CommentView {
    /// The comment's id.
    pub comment: String,
    /// Its anchor.
    pub id: String,
    /// What the human said; empty where the run does not know it.
    pub text: String,
    /// Bytes of it that are not shown.
    pub left_out: usize,
    /// The commented file and lines.
    pub place: String,
    /// Category, kind and language.
    pub labels: Vec<String>,
    /// The test.
    pub test: Option<TestView>,
    /// What the controls say, in one word.
    pub state: OracleState,
    /// Why they say so; empty where they are good.
    pub why: String,
    /// The controls.
    pub controls: Vec<Control>,
    /// The verdicts, arm by arm.
    pub verdicts: Vec<Detail>,
}

/// A control and what it showed.
#[derive(Debug, Clone, Serialize)]
pub struct Control {
    /// `head` or `merged`.
    pub name: &'static str,
    /// What it must show.
    pub wanted: String,
    /// What it showed.
    pub outcomes: Vec<String>,
}

/// The source of a test.
#[derive(Debug, Clone, Serialize)]
pub struct TestView {
    /// The framework.
    pub framework: String,
    /// The file in the benchmark.
    pub path: String,
    /// The source, or its beginning.
    pub source: String,
    /// Bytes that are not shown.
    pub left_out: usize,
    /// The file in the run folder; empty where the run does not have it.
    pub blob: String,
}

/// A section, and what the front page wants to know of its oracles, comment by comment.
pub(super) fn section<'a>(
    evidence: &mut Evidence<'_>,
    instance: Option<&RosterInstance>,
    comments: &[(&'a RosterComment, Vec<&Verdict>)],
) -> (Section, Vec<(&'a RosterComment, Checked)>) {
    evidence.next_instance();
    let name = comments.first().map(|(comment, _)| comment.instance_id.to_string()).unwrap_or_default();
    let mut patches = ShownPatches::new();
    let mut oracles = Vec::new();
    let mut views = Vec::new();
    for (index, (comment, verdicts)) in comments.iter().enumerate() {
        let checked = checked(evidence, comment, verdicts);
        let details = verdicts.iter().map(|verdict| detail(evidence, verdict, &mut patches)).collect();
        views.push(view(evidence, comment, format!("c-{}-{}", anchor(&name), index + 1), &checked, details));
        oracles.push((*comment, checked));
    }
    let mut places = Vec::new();
    if let Some(known) = instance {
        let mut place = |name: &str, value: &str| {
            places.push(super::Fact { name: name.to_owned(), value: visible(value).into_owned() });
        };
        place("repository", &known.repo);
        place("reviewed commit", &known.head_commit);
        place("merged commit", known.merged_commit.as_deref().unwrap_or("not known"));
    }
    let title = instance.map(|known| super::text::line(&known.title, 200)).unwrap_or_default();
    let light = views.iter().flat_map(|view| &view.verdicts).any(|verdict| !verdict.embedded);
    (Section { id: format!("i-{}", anchor(&name)), instance: name, title, places, light, comments: views }, oracles)
}

/// An instance's id as a part of anchors and file names: its characters are safe in both.
pub(super) fn anchor(instance: &str) -> String {
    const MOST: usize = 150;
    if instance.len() <= MOST && instance.is_ascii() {
        return instance.to_owned();
    }
    let digest = crate::model::digest_bytes(instance.as_bytes());
    format!("{}-{}", instance.chars().filter(char::is_ascii).take(100).collect::<String>(), digest.short())
}

fn view(
    evidence: &mut Evidence<'_>,
    comment: &RosterComment,
    id: String,
    checked: &Checked,
    verdicts: Vec<Detail>,
) -> CommentView {
    let text = cut(comment.text.as_bytes(), COMMENT_BYTES, COMMENT_BYTES);
    let mut labels: Vec<String> = comment.category.iter().map(|c| super::text::line(c, 60)).collect();
    if comment.valid {
        labels.push(comment.kind.as_str().to_owned());
    }
    if !comment.language.is_empty() {
        labels.push(super::text::line(&comment.language, 60));
    }
    let place = match (comment.path.as_str(), comment.lines.as_str()) {
        (path, "") => path.to_owned(),
        (path, lines) => format!("{path}:{lines}"),
    };
    CommentView {
        comment: comment.comment.to_string(),
        id,
        text: visible(&text.head).into_owned(),
        left_out: text.left_out,
        place: super::text::line(&place, 300),
        labels,
        test: comment.test.as_ref().map(|test| test_view(evidence, test)),
        state: checked.state,
        why: super::text::line(&checked.why, 300),
        controls: controls(comment, checked),
        verdicts,
    }
}

fn controls(comment: &RosterComment, checked: &Checked) -> Vec<Control> {
    if !comment.valid {
        return Vec::new();
    }
    let texts = |outcomes: &[Outcome]| outcomes.iter().map(Outcome::to_string).collect();
    let before = comment.before.iter().map(|word| super::text::line(word, 40));
    let wanted: Vec<String> = std::iter::once("failed".to_owned()).chain(before).collect();
    let mut controls = vec![Control { name: "head", wanted: wanted.join(" or "), outcomes: texts(&checked.head) }];
    if let Some(merged) = &checked.merged {
        controls.push(Control { name: "merged", wanted: "passed".to_owned(), outcomes: texts(merged) });
    }
    controls
}

fn test_view(evidence: &mut Evidence<'_>, test: &RosterTest) -> TestView {
    let mut view = TestView {
        framework: visible(&test.framework).into_owned(),
        path: visible(&test.path).into_owned(),
        source: String::new(),
        left_out: 0,
        blob: test.source.as_ref().map(Evidence::blob_path).unwrap_or_default(),
    };
    match test.source.as_ref().map(|digest| evidence.blob(digest)) {
        Some(Ok(bytes)) => {
            let shown = cut(&bytes, TEST_BYTES, TEST_BYTES);
            view.source = visible(&shown.head).into_owned();
            view.left_out = shown.left_out;
        }
        Some(Err(problem)) => view.source = format!("(cannot be read: {})", visible(&problem)),
        None => view.source = "(the benchmark lacked this file)".to_owned(),
    }
    evidence.spend(view.source.len());
    view
}
