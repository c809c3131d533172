//! Where a model is served, and how it is asked.

use std::path::PathBuf;
use std::time::Duration;

use super::{Proxies, Secret, Wire};

/// A server's address, the model that is asked there, and bounds of asking.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// How it is spoken to.
    pub wire: Wire,
    /// Below which URL, without the path of the API's call.
    pub base_url: String,
    /// The model, as the server calls it.
    pub model: String,
    /// The key; servers of one's own have none.
    pub key: Option<Secret>,
    /// Whether answers are asked for as streams, in which a hang is noticed early.
    pub stream: bool,
    /// The file with the certificates that are trusted.
    pub ca_bundle: Option<PathBuf>,
    /// Proxies. This machine itself is never reached through one.
    pub proxies: Proxies,
    /// How long is waited.
    pub timeouts: Timeouts,
    /// How often is tried.
    pub retries: Tries,
}

impl Endpoint {
    /// An endpoint with the usual bounds.
    pub fn new(wire: Wire, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            wire,
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            stream: true,
            ca_bundle: None,
            proxies: Proxies::default(),
            timeouts: Timeouts::default(),
            retries: Tries::default(),
        }
    }
}

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection [10 s].
    pub connect: Duration,
    /// From sending to the answer's first byte [10 min: a model on processors alone reads a long prompt for minutes].
    pub first_byte: Duration,
    /// Between two pieces of an answer [2 min].
    pub idle: Duration,
    /// For one call with all its tries and waits [30 min].
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(1800),
        }
    }
}

impl Timeouts {
    /// The names that [`Self::set`] knows.
    pub const NAMES: [&'static str; 4] = ["connect", "first-byte", "idle", "total"];

    /// Sets one by name; false when there is none of that name.
    pub fn set(&mut self, name: &str, time: Duration) -> bool {
        let field = match name {
            "connect" => &mut self.connect,
            "first-byte" => &mut self.first_byte,
            "idle" => &mut self.idle,
            "total" => &mut self.total,
            _ => return false,
        };
        *field = time;
        true
    }
}

/// How often a request is sent, and the waits between: exponential, of which a random part is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    /// Requests in all; 6 where nothing is said.
    pub most: u32,
    /// The first wait at most [0.5 s]; it doubles.
    pub first_wait: Duration,
    /// No wait is longer, whatever a server asks for [60 s].
    pub longest_wait: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Self { most: 6, first_wait: Duration::from_millis(500), longest_wait: Duration::from_secs(60) }
    }
}

impl Tries {
    /// The wait after so many failed tries (from 1): what the server asked for, else a part (0 to 1) of a doubling time,
    /// neither beyond the longest.
    pub(super) fn wait(&self, failed: u32, asked: Option<Duration>, part: f64) -> Duration {
        let wait = asked.unwrap_or_else(|| {
            let doubled = self.first_wait.saturating_mul(1 << failed.saturating_sub(1).min(20));
            doubled.min(self.longest_wait).mul_f64(part.clamp(0.0, 1.0))
        });
        wait.min(self.longest_wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_the_server_goes_first() {
        let tries = Tries::default();
        let ms = |failed, asked, part| tries.wait(failed, asked, part).as_millis();
        assert_eq!([ms(1, None, 1.0), ms(2, None, 1.0), ms(3, None, 0.5)], [500, 1000, 1000]);
        assert_eq!([ms(9, None, 1.0), ms(90, None, 1.0), ms(4, None, 0.0)], [60_000, 60_000, 0]);
        assert_eq!(ms(1, Some(Duration::from_secs(7)), 0.1), 7000);
        assert_eq!(ms(1, Some(Duration::from_secs(3600)), 0.1), 60_000);
    }
}
