//! One endpoint's limits, shared by everybody who asks it: requests at once, requests a minute, and pauses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::locked;

const MINUTE: Duration = Duration::from_secs(60);

/// Lets requests through. Clones share it.
#[derive(Debug, Clone)]
pub struct Limiter {
    slots: Arc<Semaphore>,
    per_minute: Option<usize>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    paused_until: Option<Instant>,
    /// When requests of the last minute were let through.
    sent: VecDeque<Instant>,
}

impl State {
    /// How long to wait; nothing when a request may go now.
    fn wait(&mut self, now: Instant, per_minute: Option<usize>) -> Option<Duration> {
        if let Some(until) = self.paused_until {
            if until > now {
                return Some(until - now);
            }
            self.paused_until = None;
        }
        if let Some(most) = per_minute {
            while self.sent.front().is_some_and(|sent| now.duration_since(*sent) >= MINUTE) {
                self.sent.pop_front();
            }
            if self.sent.len() >= most {
                let free = self.sent.front().map(|sent| *sent + MINUTE);
                return free.map(|free| free.saturating_duration_since(now).max(Duration::from_millis(1)));
            }
            self.sent.push_back(now);
        }
        None
    }
}

impl Limiter {
    /// So many requests at once (at least one), and so many a minute.
    pub fn new(at_once: usize, per_minute: Option<u32>) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(at_once.max(1))),
            per_minute: per_minute.map(|most| most.max(1) as usize),
            state: Arc::default(),
        }
    }

    /// Waits until a request may be sent. The permit is held while it runs.
    pub(super) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.slots.clone().acquire_owned().await.ok()?;
        loop {
            let wait = locked(&self.state).wait(Instant::now(), self.per_minute);
            match wait {
                None => return Some(permit),
                Some(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// Lets nothing through for so long: the server said that it has enough.
    pub(super) fn pause(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut state = locked(&self.state);
        if state.paused_until.is_none_or(|paused| paused < until) {
            state.paused_until = Some(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_takes_so_many() {
        let mut state = State::default();
        let now = Instant::now();
        assert_eq!(state.wait(now, Some(2)), None);
        assert_eq!(state.wait(now + MINUTE / 2, Some(2)), None);
        assert_eq!(state.wait(now + MINUTE / 2, Some(2)), Some(MINUTE / 2));
        assert_eq!(state.wait(now + MINUTE, Some(2)), None);
        assert_eq!(state.wait(now + MINUTE, None), None);
    }

    #[tokio::test]
    async fn a_pause_holds_everybody() {
        let limiter = Limiter::new(4, None);
        limiter.pause(Duration::from_millis(80));
        // A shorter one after it changes nothing.
        limiter.pause(Duration::from_millis(1));
        let began = Instant::now();
        let (a, b) = tokio::join!(limiter.enter(), limiter.enter());
        assert!(a.is_some() && b.is_some() && began.elapsed() >= Duration::from_millis(80));
    }
}
