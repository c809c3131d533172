//! Lays the pages out and writes them, an instance at a time.

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use handlebars::Handlebars;
use serde::Serialize;

use super::bounds::{ONE_PAGE_BYTES, TABLE_ROWS};
use super::evidence::Evidence;
use super::front::{Front, front, ran};
use super::index::{self, InstanceLine};
use super::section::{Section, anchor, section};
use super::text::{escape, line};
use crate::model::{CommentId, InstanceId, Verdict};
use crate::report::{Built, RenderError};
use crate::stage::score::{RosterComment, RosterInstance};
use crate::store::{RunFolder, StoreError, write_atomic};

const FRONT: &str = include_str!("../../../templates/report.html.hbs");
const PAGE: &str = include_str!("../../../templates/report.page.html.hbs");
const SECTION: &str = include_str!("../../../templates/report.section.html.hbs");
const STYLE: &str = include_str!("../../../templates/report.css");
const SCRIPT: &str = include_str!("../../../templates/report.js");

/// The folder of the instances' pages, beside `report.html`.
const INSTANCES: &str = "instances";

/// Where the verdicts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All in `report.html`.
    OnePage,
    /// Each instance on a page of its own.
    Paged,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Where the verdicts are.
    pub layout: Layout,
    /// Files written.
    pub files: usize,
    /// Bytes in them.
    pub bytes: usize,
    /// The pages of instances, relative to the report's folder.
    pub pages: Vec<String>,
}

/// Writes `report.html`, and `instances/*.html` where the run is large. Pages of instances of an earlier report go.
///
/// # Errors
/// When the disk says no, or a template does not fit.
pub fn write(run: &RunFolder, built: &Built) -> Result<Made, RenderError> {
    let mut writer = Writer {
        engine: engine()?,
        nonce: nonce(built)?,
        folder: run.report_folder(),
        kept: Vec::new(),
        kept_bytes: 0,
        layout: if built.report.verdicts.len() > TABLE_ROWS { Layout::Paged } else { Layout::OnePage },
        files: HashSet::new(),
        bytes: 0,
    };
    let mut walk = Walk::new(run, built);
    if writer.layout == Layout::Paged {
        writer.add_all(&mut walk)?;
    } else {
        while let Some(section) = walk.next() {
            writer.add(&section)?;
        }
    }
    let layout = writer.layout;
    writer.finish(walk.front(layout))
}

/// What the templates see of a run that fits on one page: the front page and the instances.
pub fn contexts(run: &RunFolder, built: &Built) -> (Front, Vec<Section>) {
    let mut walk = Walk::new(run, built);
    let mut sections = Vec::new();
    while let Some(section) = walk.next() {
        sections.push(section);
    }
    (walk.front(Layout::OnePage), sections)
}

/// The comments of one instance, each with its verdicts.
type OfInstance<'a> = Vec<(&'a RosterComment, Vec<&'a Verdict>)>;

/// Goes over the instances and gathers what the front page says of all of them.
struct Walk<'a> {
    built: &'a Built,
    evidence: Evidence<'a>,
    instances: std::vec::IntoIter<OfInstance<'a>>,
    known: HashMap<&'a InstanceId, &'a RosterInstance>,
    front: Front,
}

impl<'a> Walk<'a> {
    fn new(run: &'a RunFolder, built: &'a Built) -> Self {
        let verdicts = built.report.verdicts.len();
        let mut front = front(built);
        front.has_rows = verdicts <= TABLE_ROWS;
        Self {
            built,
            evidence: Evidence::new(run, &built.rows, verdicts),
            instances: by_instance(built).into_iter(),
            known: built.roster.instances.iter().map(|i| (&i.instance_id, i)).collect(),
            front,
        }
    }

    fn next(&mut self) -> Option<Section> {
        let comments = self.instances.next()?;
        let instance = comments.first().map(|(comment, _)| &comment.instance_id);
        let known = instance.and_then(|id| self.known.get(id).copied());
        let (section, oracles) = section(&mut self.evidence, known, &comments);
        for (((comment, verdicts), view), (_, checked)) in comments.iter().zip(&section.comments).zip(&oracles) {
            self.front.health.add(comment, checked, format!("#{}", view.id));
            if self.front.has_rows {
                let seconds: Vec<f64> = verdicts.iter().map(|v| v.seconds).collect();
                self.front.rows.extend(index::rows(comment, &view.id, &view.verdicts, &seconds));
            }
        }
        let arms: Vec<&str> = self.built.report.arms.iter().map(|row| row.arm.as_str()).collect();
        self.front.instances.push(InstanceLine {
            instance: section.instance.clone(),
            title: line(&section.title, 90),
            href: format!("#{}", section.id),
            total: section.comments.len(),
            passed: index::passed(self.built.report.breakdown.instance.get(&section.instance), &arms),
        });
        Some(section)
    }

    /// The front page, all instances being seen.
    fn front(self, layout: Layout) -> Front {
        let mut front = self.front;
        front.facts.ran = ran(self.evidence.times());
        front.health.oracles.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        let rows = &front.rows;
        front.filter_arms = index::choices(rows.iter().map(|r| r.arm.as_str()));
        front.filter_verdicts = index::choices(rows.iter().map(|r| r.verdict));
        front.filter_reasons = index::choices(rows.iter().map(|r| r.class.as_str()));
        front.filter_marks = index::choices(rows.iter().flat_map(|r| r.marks.iter().map(String::as_str)));
        if layout == Layout::Paged {
            front.paged = true;
            let on_page = |instance: &str, href: &mut String| {
                *href = format!("{INSTANCES}/{}{href}", file_name(instance));
            };
            front.rows.iter_mut().for_each(|row| on_page(&row.instance, &mut row.href));
            front.health.bad.iter_mut().for_each(|bad| on_page(&bad.instance, &mut bad.href));
            front.instances.iter_mut().for_each(|line| on_page(&line.instance, &mut line.href));
        }
        front
    }
}

/// The comments that count, instance by instance, with their verdicts in the order of the arms.
fn by_instance(built: &Built) -> Vec<OfInstance<'_>> {
    let report = &built.report;
    let order: HashMap<&str, usize> = report.arms.iter().enumerate().map(|(i, row)| (row.arm.as_str(), i)).collect();
    let mut verdicts: HashMap<(&InstanceId, &CommentId), Vec<&Verdict>> = HashMap::new();
    for verdict in &report.verdicts {
        verdicts.entry((&verdict.instance_id, &verdict.comment)).or_default().push(verdict);
    }
    let chosen: HashSet<&InstanceId> = built.rows.iter().map(|row| &row.instance_id).collect();
    let comments = built.roster.by_key();
    let mut instances: Vec<OfInstance<'_>> = Vec::new();
    let mut of: Option<&InstanceId> = None;
    for row in built.roster.comment_set(report.denominator, |id| chosen.contains(id)).rows {
        let Some(comment) = comments.get(&(&row.instance_id, &row.comment)).copied() else { continue };
        let mut here = verdicts.remove(&(&comment.instance_id, &comment.comment)).unwrap_or_default();
        here.sort_by_key(|verdict| order.get(verdict.arm.as_str()).copied().unwrap_or(usize::MAX));
        match instances.last_mut() {
            Some(last) if of == Some(&comment.instance_id) => last.push((comment, here)),
            _ => instances.push(vec![(comment, here)]),
        }
        of = Some(&comment.instance_id);
    }
    instances
}

/// Puts rendered instances where they belong.
struct Writer {
    engine: Handlebars<'static>,
    nonce: String,
    folder: PathBuf,
    kept: Vec<(Section, String)>,
    kept_bytes: usize,
    layout: Layout,
    files: HashSet<String>,
    bytes: usize,
}

/// What every page's template sees.
#[derive(Serialize)]
struct Page<'a, T> {
    nonce: &'a str,
    style: &'static str,
    script: &'static str,
    sections: &'a str,
    #[serde(flatten)]
    content: T,
}

/// What an instance's page says beside its section.
#[derive(Serialize)]
struct InstancePage<'a> {
    instance: &'a str,
    title: &'a str,
}

impl Writer {
    /// Renders an instance, and keeps it as long as everything may fit on one page.
    fn add(&mut self, section: &Section) -> Result<(), RenderError> {
        let html = self.render("section", section)?;
        if self.layout == Layout::Paged {
            let made = self.instance_page(&section.instance, &section.title, &html)?;
            self.count(made);
            return Ok(());
        }
        self.kept_bytes += html.len();
        let named = Section { comments: Vec::new(), places: Vec::new(), ..section.clone() };
        self.kept.push((named, html));
        if self.kept_bytes > ONE_PAGE_BYTES {
            self.layout = Layout::Paged;
            for (section, html) in std::mem::take(&mut self.kept) {
                let made = self.instance_page(&section.instance, &section.title, &html)?;
                self.count(made);
            }
        }
        Ok(())
    }

    /// Puts every instance on a page of its own. What is behind the verdicts is read in their order, as the bounds of
    /// what is embedded want it; the pages are rendered and written beside that, on all processors.
    fn add_all(&mut self, walk: &mut Walk<'_>) -> Result<(), RenderError> {
        const WAITING: usize = 8;
        let renderers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let (send, sections) = mpsc::sync_channel::<Section>(WAITING);
        let sections = Arc::new(Mutex::new(sections));
        let writer = &*self;
        let made = std::thread::scope(|scope| {
            let work = |sections: Arc<Mutex<mpsc::Receiver<Section>>>| {
                let mut made = Vec::new();
                loop {
                    let next = sections.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(section) = next else { return Ok(made) };
                    let html = writer.render("section", &section)?;
                    made.push(writer.instance_page(&section.instance, &section.title, &html)?);
                }
            };
            // The renderers alone hold the other end: when all of them have failed, sending fails, too.
            let spawn = |_| {
                let sections = sections.clone();
                scope.spawn(move || work(sections))
            };
            let threads: Vec<_> = (0..renderers).map(spawn).collect();
            drop(sections);
            while let Some(section) = walk.next() {
                if send.send(section).is_err() {
                    break;
                }
            }
            drop(send);
            let done = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            done.collect::<Result<Vec<_>, RenderError>>()
        })?;
        made.into_iter().flatten().for_each(|made| self.count(made));
        Ok(())
    }

    /// Notes a page that was written.
    fn count(&mut self, (name, bytes): (String, usize)) {
        self.bytes += bytes;
        self.files.insert(name);
    }

    /// Writes the page of an instance; gives its name and size.
    fn instance_page(&self, instance: &str, title: &str, html: &str) -> Result<(String, usize), RenderError> {
        let page = self.render("page", &self.page(html, InstancePage { instance, title }))?;
        let name = file_name(instance);
        // One of thousands, and made again at any time: whole, but not flushed to the disk one by one.
        write_unflushed(&self.folder.join(INSTANCES).join(&name), page.as_bytes())?;
        Ok((name, page.len()))
    }

    fn finish(mut self, front: Front) -> Result<Made, RenderError> {
        let sections: String = self.kept.iter().map(|(_, html)| html.as_str()).collect();
        let page = self.render("front", &self.page(&sections, front))?;
        self.bytes += page.len();
        write_atomic(&self.folder.join("report.html"), page.as_bytes())?;
        self.remove_old()?;
        let mut pages: Vec<String> = self.files.into_iter().map(|name| format!("{INSTANCES}/{name}")).collect();
        pages.sort_unstable();
        Ok(Made { layout: self.layout, files: 1 + pages.len(), bytes: self.bytes, pages })
    }

    fn page<'a, T>(&'a self, sections: &'a str, content: T) -> Page<'a, T> {
        Page { nonce: &self.nonce, style: STYLE, script: SCRIPT, sections, content }
    }

    fn render(&self, template: &str, context: &impl Serialize) -> Result<String, RenderError> {
        self.engine.render(template, context).map_err(|e| RenderError::Template(e.to_string()))
    }

    /// Removes pages of instances that this report does not have.
    fn remove_old(&self) -> Result<(), RenderError> {
        let folder = self.folder.join(INSTANCES);
        if !folder.is_dir() {
            return Ok(());
        }
        for entry in fs_err::read_dir(&folder).map_err(StoreError::from)? {
            let entry = entry.map_err(StoreError::from)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".html") && !self.files.contains(&name) {
                fs_err::remove_file(entry.path()).map_err(StoreError::from)?;
            }
        }
        if self.files.is_empty() {
            // Somebody may keep files of their own there.
            let _ = fs_err::remove_dir(&folder);
        }
        Ok(())
    }
}

fn engine() -> Result<Handlebars<'static>, RenderError> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine.register_escape_fn(escape);
    for (name, template) in [("front", FRONT), ("page", PAGE), ("section", SECTION)] {
        engine.register_template_string(name, template).map_err(|e| RenderError::Template(e.to_string()))?;
    }
    Ok(engine)
}

/// The name that the content security policy gives to our own script and style. It is a digest over everything that
/// the pages show (texts by their digests), so that no text on a page can hold it.
fn nonce(built: &Built) -> Result<String, RenderError> {
    Ok(content_digest(built)?[..32].to_owned())
}

/// A digest over everything that a report's files show, in hexadecimal; texts count by their digests.
pub(in crate::report) fn content_digest(built: &Built) -> Result<String, RenderError> {
    let mut hasher = BufWriter::with_capacity(1 << 16, blake3::Hasher::new());
    let to = |e: serde_json::Error| RenderError::Template(e.to_string());
    serde_json::to_writer(&mut hasher, &built.report).map_err(to)?;
    serde_json::to_writer(&mut hasher, &built.manifest.roster).map_err(to)?;
    let hasher = hasher.into_inner().map_err(|e| RenderError::Template(e.to_string()))?;
    Ok(hasher.finalize().to_hex().to_string())
}

fn file_name(instance: &str) -> String {
    format!("{}.html", anchor(instance))
}

fn write_unflushed(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs_err::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
