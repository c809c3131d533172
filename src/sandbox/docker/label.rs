//! Labels on everything that we leave with an engine: who owns it, until when.
//!
//! A container, volume or image of ours belongs to one process. It is taken away by a later start when that process is
//! surely dead (a process of this boot and PID namespace whose number is free or somebody else's) or when its time is
//! over. Of another machine's or namespace's process one cannot know more than the time.

use std::collections::HashMap;

use crate::sandbox::local::Identity;

/// The label with the owner's identity. Everything of ours has it.
pub const OWNER: &str = "redgreen.owner";
/// The label with a name that no other run has.
pub const RUN: &str = "redgreen.run";
/// The label with the time, in seconds since 1970, after which nobody can need it any more.
pub const EXPIRES: &str = "redgreen.expires";
/// The label of an image that was made from a base, with the base's digest. Such images have no owner: they are a cache.
pub const BASE: &str = "redgreen.base";

/// The labels of something that is made now by `owner` and is needed for `seconds` at most.
pub fn labels(name: &str, seconds: u64) -> HashMap<String, String> {
    HashMap::from([
        (OWNER.to_owned(), name.to_owned()),
        (RUN.to_owned(), name.to_owned()),
        (EXPIRES.to_owned(), now().saturating_add(seconds).to_string()),
    ])
}

/// Whether something with these labels is a leftover, as `own` sees it at `now`.
pub fn is_leftover(labels: &HashMap<String, String>, own: &Identity, now: u64) -> bool {
    let Some(owner) = labels.get(OWNER) else { return false };
    if labels.get(EXPIRES).and_then(|time| time.parse::<u64>().ok()).is_some_and(|time| time < now) {
        return true;
    }
    Identity::parse(owner).is_some_and(|owner| owner.is_dead(own))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_and_the_expired_are_leftovers() {
        let own = Identity::own().unwrap();
        let live = labels(&own.name(), 100);
        assert!(!is_leftover(&live, &own, now()));
        assert!(is_leftover(&live, &own, now() + 101));
        // The same process number at another start time: the owner is dead.
        let parts: Vec<String> = own.name().split('-').map(str::to_owned).collect();
        let with = |at: usize, value: &str| {
            let mut parts = parts.clone();
            parts[at] = value.to_owned();
            labels(&parts.join("-"), 100)
        };
        assert!(is_leftover(&with(4, "1"), &own, now()));
        // Another boot, another namespace: nobody knows.
        assert!(!is_leftover(&with(1, "00000000"), &own, now()));
        assert!(!is_leftover(&with(2, "1"), &own, now()));
        // Somebody else's.
        assert!(!is_leftover(&HashMap::from([("maintainer".to_owned(), "x".to_owned())]), &own, u64::MAX));
        assert!(!is_leftover(&HashMap::from([(OWNER.to_owned(), "me".to_owned())]), &own, now()));
    }
}
