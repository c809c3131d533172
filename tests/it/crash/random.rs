//! `kill -9` at random instants.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::stand::{Stand, Template, in_parallel};
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

    /// A number from 0 to 1.
    fn part(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
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
    let lengths = Mutex::new(Vec::new());
    in_parallel(
        &[0, 1, 2, 3],
        |_| "a run that nobody kills".to_owned(),
        |_| {
            let start = Instant::now();
            template.stand().run("run", None).exits(0);
            lengths.lock().unwrap().push(start.elapsed());
        },
    );
    // How long a run takes changes with the machine's load, so what is drawn is a part of a length that follows it.
    let length = Mutex::new(lengths.into_inner().unwrap().into_iter().max().unwrap_or_default());
    let mut random = Random(seed);
    let mut cases = Vec::new();
    let mut planned = 0;
    while planned < kills {
        let times = (random.next() % 3 + 1).min((kills - planned) as u64);
        planned += times as usize;
        cases.push((0..times).map(|_| random.part()).collect::<Vec<_>>());
    }
    let (hit, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    in_parallel(
        &cases,
        |case| format!("killed after {case:?} of a run"),
        |case| {
            let mut stand = template.stand();
            for part in case {
                while !meets(&stand, *part, &length) {
                    // It was over before: one that was not killed proves nothing, and there is nothing left to kill.
                    ended.fetch_add(1, Ordering::Relaxed);
                    stand = template.stand();
                }
                hit.fetch_add(1, Ordering::Relaxed);
            }
            stand.run("run", None).exits(0);
            stand.seen("run").assert_is(&template.expected);
            stand.assert_clean();
        },
    );
    let (hit, ended) = (hit.into_inner(), ended.into_inner());
    assert_eq!(hit, kills);
    loudly(&format!(
        "{kills} kills at random instants of {} runs, each of a live run ({ended} more were over before): \
         0 differences, 0 leftovers",
        cases.len()
    ));
}

/// Starts a run and kills it after a part of the usual length; whether it was still running then.
fn meets(stand: &Stand, part: f64, length: &Mutex<Duration>) -> bool {
    let mut running = stand.start("run", None);
    let instant = length.lock().unwrap().mul_f64(part);
    std::thread::sleep(instant);
    let alive = running.child.try_wait().unwrap().is_none();
    running.kill();
    let mut length = length.lock().unwrap();
    if !alive {
        *length = length.mul_f64(0.85);
    } else if part > 0.8 {
        *length = length.mul_f64(1.1);
    }
    alive
}
