//! Reading many small files on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `work` on every item, on as many threads as there are processors (at most eight), and gives what came of it in
/// the items' order.
pub(super) fn in_order<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    const AT_ONCE: usize = 64;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8).min(items.len().div_ceil(AT_ONCE));
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(AT_ONCE, Ordering::Relaxed);
            let Some(part) = items.get(start..items.len().min(start + AT_ONCE)).filter(|part| !part.is_empty()) else {
                return done;
            };
            done.push((start, part.iter().map(&work).collect::<Vec<T>>()));
        }
    };
    let mut parts: Vec<(usize, Vec<T>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut parts = take();
        for other in others {
            match other.join() {
                Ok(more) => parts.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    });
    parts.sort_unstable_by_key(|(start, _)| *start);
    parts.into_iter().flat_map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_stays_and_nothing_is_lost() {
        for count in [0, 1, 63, 64, 65, 1000, 4096] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|n| n * 2).collect();
            assert_eq!(in_order(&items, |n| n * 2), doubled);
        }
    }
}
