//! Two-stage Ctrl-C: the first starts nothing new and saves, the second stops at once.

use tokio::signal::unix::{SignalKind, signal};

use crate::engine::{Event, Events, Scheduler};

/// Listens for Ctrl-C and for the polite end signal until the task is dropped.
pub async fn watch(scheduler: Scheduler, events: Events) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        let at_once = tokio::select! {
            _ = interrupt.recv() => false,
            _ = terminate.recv() => true,
            _ = hangup.recv() => true,
        };
        if at_once || scheduler.drain.is_cancelled() {
            events.send(Event::Stopping);
            scheduler.drain.cancel();
            scheduler.stop.cancel();
        } else {
            events.send(Event::Draining);
            scheduler.drain.cancel();
        }
    }
}
