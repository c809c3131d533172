//! What a long build shows: lines on a pipe; on a terminal one line that moves, and lines for what began and ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::printer::Printer;
use crate::report::{human_seconds, visible};
use crate::stage::score::EnvironmentEvent;

/// Shows events of builds, which come from several tasks at once.
pub(super) struct Display {
    printer: Printer,
    terminal: Option<Terminal>,
}

struct Terminal {
    bar: ProgressBar,
    running: Mutex<Running>,
}

/// What runs, by instance: since when, and what it said last.
#[derive(Debug, Default)]
struct Running(BTreeMap<String, (Instant, String)>);

impl Display {
    /// For so many environments.
    pub fn new(printer: &Printer, count: usize) -> Self {
        let terminal = printer.is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr());
            // The template is fixed text; should it ever not parse, the library's own style serves.
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            Terminal { bar, running: Mutex::default() }
        });
        Self { printer: *printer, terminal }
    }

    /// How often steps are to give a sign of life: often enough to move on a terminal, seldom enough for a log.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(if self.terminal.is_some() { 1 } else { 30 })
    }

    /// Shows an event; `line` is what there is to say of it.
    pub fn show(&self, event: &EnvironmentEvent<'_>, line: Option<String>) {
        let Some(terminal) = &self.terminal else {
            if let Some(line) = line {
                self.printer.note(&line);
            }
            return;
        };
        let mut running = terminal.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.take_in(event);
        if let EnvironmentEvent::Ended(_) = event {
            if let Some(line) = line {
                terminal.bar.println(visible(&line));
            }
            terminal.bar.inc(1);
        }
        terminal.bar.set_message(visible(&running.text()).into_owned());
    }

    /// The end of all builds.
    pub fn finish(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.bar.finish_and_clear();
        }
    }
}

impl Running {
    fn take_in(&mut self, event: &EnvironmentEvent<'_>) {
        match event {
            EnvironmentEvent::Started(id) => {
                self.0.insert(id.to_string(), (Instant::now(), String::new()));
            }
            EnvironmentEvent::Step(id, text) => {
                let entry = self.0.entry(id.to_string()).or_insert_with(|| (Instant::now(), String::new()));
                entry.1 = text.lines().next().unwrap_or_default().to_owned();
            }
            EnvironmentEvent::Ended(end) => {
                self.0.remove(&end.instance_id.to_string());
            }
        }
    }

    /// How many run, and what the one that has run longest is at.
    fn text(&self) -> String {
        let Some((id, (since, step))) = self.0.iter().min_by_key(|(_, (since, _))| *since) else {
            return String::new();
        };
        let others = match self.0.len() {
            1 => String::new(),
            count => format!("{count} running; "),
        };
        format!("{others}{id} ({}): {step}", human_seconds(since.elapsed().as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_of_the_one_that_runs_longest() {
        let ids = ["o__r-1@0123abc", "o__r-2@0123abc"].map(|id| id.parse().unwrap());
        let mut running = Running::default();
        for id in &ids {
            running.take_in(&EnvironmentEvent::Started(id));
        }
        running.take_in(&EnvironmentEvent::Step(&ids[1], "repository"));
        running.take_in(&EnvironmentEvent::Step(&ids[0], "fetch: install: 3 s, at most 9 s more\nmore"));
        assert_eq!(running.text(), "2 running; o__r-1@0123abc (0 s): fetch: install: 3 s, at most 9 s more");
    }
}
