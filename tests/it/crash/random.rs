//! `kill -9` at random instants.

use std::time::{Duration, Instant};

use super::stand::{Template, in_parallel};
use crate::support::loudly;

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers for the same seed everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A part of a duration.
    fn part_of(&mut self, whole: Duration) -> Duration {
        whole.mul_f64(self.next() as f64 / u64::MAX as f64)
    }
}

#[test]
fn twenty_kills_at_random_instants_change_nothing() {
    kill_at_random(20, 1);
}

/// As many as one trusts: 200 kills. `cargo test --test it crash::random -- --ignored`
#[test]
#[ignore = "takes minutes; the ordinary test kills 20 times"]
fn two_hundred_kills_at_random_instants_change_nothing() {
    kill_at_random(200, 2);
}

/// Each place is killed one to three times in a row before the run may end.
fn kill_at_random(kills: usize, seed: u64) {
    let template = Template::new();
    // A run's length under the load of the others, and of this machine now.
    let lengths = std::sync::Mutex::new(Vec::new());
    in_parallel(
        &[0, 1, 2, 3],
        |_| "a run that nobody kills".to_owned(),
        |_| {
            let start = Instant::now();
            template.stand().run("run", None).exits(0);
            lengths.lock().unwrap().push(start.elapsed());
        },
    );
    let length = lengths.into_inner().unwrap().into_iter().max().unwrap_or_default();
    let mut random = Random(seed);
    let mut cases = Vec::new();
    let mut planned = 0;
    while planned < kills {
        let times = (random.next() % 3 + 1).min((kills - planned) as u64);
        planned += times as usize;
        cases.push((0..times).map(|_| random.part_of(length)).collect::<Vec<_>>());
    }
    let (hit, ended) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicUsize::new(0));
    in_parallel(
        &cases,
        |case| format!("killed after {case:?}"),
        |case| {
            let stand = template.stand();
            for instant in case {
                let mut running = stand.start("run", None);
                std::thread::sleep(*instant);
                let alive = running.child.try_wait().unwrap().is_none();
                let counter = if alive { &hit } else { &ended };
                counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                running.kill();
            }
            stand.run("run", None).exits(0);
            stand.seen("run").assert_is(&template.expected);
            stand.assert_clean();
        },
    );
    let (hit, ended) = (hit.into_inner(), ended.into_inner());
    assert_eq!(hit + ended, kills);
    assert!(hit * 3 > kills, "only {hit} of {kills} met a live run");
    loudly(&format!(
        "{kills} random instants in {} runs of up to {length:?}: {hit} met a live run, {ended} one that had ended; \
         0 differences, 0 leftovers",
        cases.len()
    ));
}
