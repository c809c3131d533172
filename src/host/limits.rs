//! How long an answer asks to wait. Pure.

use std::time::Duration;

/// What an answer says about waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is an answer.
    Good,
    /// Ask again after this time: the host limits how often it is asked.
    Limited(Duration),
    /// Ask again after a pause of one's own: the host is in trouble.
    Trouble,
    /// Asking again is no use.
    Refused,
}

/// Where the host says that it was asked too often but not when to come back.
const SECONDARY: Duration = Duration::from_secs(60);

/// Reads an answer's status and the headers `retry-after`, `x-ratelimit-remaining`, `x-ratelimit-reset` (`now` in seconds
/// since the epoch, like the last).
pub(super) fn judge(
    status: u16,
    retry_after: Option<&str>,
    remaining: Option<&str>,
    reset: Option<&str>,
    body: &[u8],
    now: i64,
) -> Answer {
    let seconds = |text: &str| text.trim().parse::<u64>().ok().map(Duration::from_secs);
    let until = |text: &str| {
        text.trim().parse::<i64>().ok().map(|at| Duration::from_secs(at.saturating_sub(now).max(0) as u64 + 1))
    };
    match status {
        200..=299 => Answer::Good,
        403 | 429 => {
            let used_up = remaining.map(str::trim) == Some("0");
            let says_so = || body.windows(10).any(|w| w.eq_ignore_ascii_case(b"rate limit"));
            match retry_after.and_then(seconds) {
                Some(wait) => Answer::Limited(wait),
                None if used_up => Answer::Limited(reset.and_then(until).unwrap_or(SECONDARY)),
                None if status == 429 || says_so() => Answer::Limited(SECONDARY),
                None => Answer::Refused,
            }
        }
        408 | 500..=599 => Answer::Trouble,
        _ => Answer::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_what_the_headers_say() {
        let secs = |n| Answer::Limited(Duration::from_secs(n));
        for (status, retry, remaining, reset, body, want) in [
            (200, None, Some("0"), Some("9"), "", Answer::Good),
            (429, Some("7"), None, None, "", secs(7)),
            (403, None, Some("0"), Some("105"), "", secs(6)),
            // The clocks differ: at least a second, and never a negative time.
            (403, None, Some("0"), Some("50"), "", secs(1)),
            (403, None, Some("0"), Some("soon"), "", secs(60)),
            (403, None, Some("4999"), None, "You have exceeded a secondary rate limit", secs(60)),
            (429, Some("Wed, 21 Oct"), None, None, "", secs(60)),
            (403, None, Some("4999"), None, "Resource not accessible", Answer::Refused),
            (401, None, None, None, "", Answer::Refused),
            (404, None, None, None, "", Answer::Refused),
            (502, None, None, None, "", Answer::Trouble),
        ] {
            assert_eq!(judge(status, retry, remaining, reset, body.as_bytes(), 100), want, "{status} {body}");
        }
    }
}
