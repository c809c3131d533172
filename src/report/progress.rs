//! Progress: a bar on a terminal, plain lines on a pipe.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::{Event, Progress, Reporter, SkipCause, Stamped};

/// One bar with counts, what is slowest and the time left.
pub struct TerminalProgress {
    bar: ProgressBar,
    lines: Lines,
}

impl Default for TerminalProgress {
    fn default() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        // The template is fixed text; should it ever not parse, the library's own style serves.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, lines: Lines::default() }
    }
}

impl TerminalProgress {
    fn show(&self, progress: &Progress) {
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
        self.bar.set_message(visible(&status(progress)).into_owned());
    }
}

impl Reporter for TerminalProgress {
    fn on_event(&mut self, event: &Stamped, progress: &Progress) {
        if matches!(event.event, Event::RunFinished) {
            self.bar.finish_and_clear();
            return;
        }
        // A line draws the bar again, which is to be of this event already.
        self.show(progress);
        if let Some(line) = self.lines.of(&event.event) {
            self.bar.println(visible(&line));
        }
    }

    fn on_tick(&mut self, progress: &Progress) {
        self.show(progress);
    }
}

/// Plain lines: what a person must know at once, and a status line every few seconds.
pub struct LineProgress<W: Write + Send> {
    out: W,
    every: Duration,
    last: Instant,
    lines: Lines,
}

impl<W: Write + Send> LineProgress<W> {
    /// Lines to `out`, a status line at most every `every`.
    pub fn new(out: W, every: Duration) -> Self {
        Self { out, every, last: Instant::now(), lines: Lines::default() }
    }

    fn status(&mut self, progress: &Progress) {
        if progress.total > 0 && self.last.elapsed() >= self.every {
            self.last = Instant::now();
            self.line(&format!("{}/{} {}", progress.done, progress.total, status(progress)));
        }
    }

    fn line(&mut self, line: &str) {
        // Nobody may be reading standard error any more; the run goes on all the same.
        let _ = writeln!(self.out, "{}", visible(line));
    }
}

impl<W: Write + Send> Reporter for LineProgress<W> {
    fn on_event(&mut self, event: &Stamped, progress: &Progress) {
        if let Some(line) = self.lines.of(&event.event) {
            self.line(&line);
        }
        self.status(progress);
    }

    fn on_tick(&mut self, progress: &Progress) {
        self.status(progress);
    }
}

/// The lines that are shown whatever the display, each once: what concerns a revision is skipped oracle by oracle, and a
/// person needs to read it once.
#[derive(Debug, Default)]
struct Lines {
    said: HashSet<String>,
}

impl Lines {
    fn of(&mut self, event: &Event) -> Option<String> {
        let line = line_for_people(event)?;
        let repeats = matches!(event, Event::TasksSkipped { .. } | Event::Note { .. });
        (!repeats || self.said.insert(line.clone())).then_some(line)
    }
}

fn line_for_people(event: &Event) -> Option<String> {
    match event {
        Event::RunStarted { tasks, instances } => {
            Some(format!("scoring {}, {} at most", counted(*instances, "instance"), counted(*tasks, "oracle run")))
        }
        Event::TaskRetried { task, reason } => Some(format!("{task}: trying again after {}", one_line(reason))),
        Event::TasksSkipped { count, instance_id, reason, cause } => match cause {
            // That the run was interrupted, or starts nothing more, is said once, for all of them.
            SkipCause::Interrupted | SkipCause::Stopped => None,
            SkipCause::Infra => {
                let reason = one_line(reason);
                Some(format!("{instance_id}: {} skipped, infra: {reason}", counted(*count, "oracle run")))
            }
            SkipCause::Decided | SkipCause::Control => Some(format!("{instance_id}: not run: {}", one_line(reason))),
        },
        Event::TasksAdded { count, instance_id, reason } => {
            Some(format!("{instance_id}: {} more: {}", counted(*count, "oracle run"), one_line(reason)))
        }
        Event::Note { text } => Some(text.clone()),
        Event::Draining => {
            Some("interrupted: letting what runs finish, starting nothing new (again to stop at once)".to_owned())
        }
        Event::Stopping => Some("stopping at once".to_owned()),
        _ => None,
    }
}

fn status(progress: &Progress) -> String {
    let mut text = format!(
        "{} passed, {} not, {} infra",
        progress
            .done
            .saturating_sub(progress.failed + progress.infra + progress.skipped.saturating_sub(progress.infra)),
        progress.failed,
        progress.infra
    );
    if progress.cached > 0 {
        text.push_str(&format!(", {} from records", progress.cached));
    }
    if let Some(slowest) = progress.slowest() {
        text.push_str(&format!(
            "; {} running, longest {} ({})",
            progress.running.len(),
            slowest.what,
            human_seconds(slowest.since.elapsed().as_secs_f64())
        ));
    }
    if let Some(left) = progress.seconds_left() {
        text.push_str(&format!("; about {} left", human_seconds(left)));
    }
    text
}

/// `1 oracle run`, `2 oracle runs`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A text of several lines as one.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// A text in which nothing moves a terminal's cursor, changes its colours or turns its lines around: what revisions and
/// tests say is shown to people as it is spelled. Line ends and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    spelled(text, |c| c.escape_unicode().to_string())
}

/// The same for JSON, whose own escapes keep its meaning: such a letter can only stand inside a string there.
pub(crate) fn visible_json(text: &str) -> Cow<'_, str> {
    spelled(text, |c| format!("\\u{:04x}", u32::from(c)))
}

fn spelled(text: &str, spell: impl Fn(char) -> String) -> Cow<'_, str> {
    let moves = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(moves) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if moves(c) { out.push_str(&spell(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Seconds for people: `4 s`, `3 min`, `2 h 5 min`.
pub(crate) fn human_seconds(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_terminal_is_spelled() {
        assert_eq!(visible("plain\tä\n"), "plain\tä\n");
        assert_eq!(visible("a\u{1b}[31m\0\r\u{9b}\u{202e}z"), "a\\u{1b}[31m\\u{0}\\u{d}\\u{9b}\\u{202e}z");
    }

    #[test]
    fn json_means_the_same_when_it_is_spelled() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}\u{7f}\u{202e}\u{2069} ä \n\t"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = visible_json(&text);
        assert!(shown.contains("\\u009b") && !shown.contains(['\u{7f}', '\u{9b}', '\u{202e}']), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn seconds_for_people() {
        assert_eq!(human_seconds(3.6), "4 s");
        assert_eq!(human_seconds(61.0), "1 min 1 s");
        assert_eq!(human_seconds(7500.0), "2 h 5 min");
    }
}
