//! Making room in the cache, for what watches disks.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::engine::{FreeUp, MakeRoom, size};
use crate::store::{Eviction, Sizes, evict, evict_with};

/// Deletes what nothing used for a day.
pub fn free_up(cache: &Path) -> FreeUp {
    const UNUSED: Duration = Duration::from_secs(86_400);
    let cache = cache.to_owned();
    Box::new(move || {
        let eviction = Eviction { older_than: Some(UNUSED), ..Eviction::default() };
        evict(&cache, &eviction, SystemTime::now()).map_or(0, |evicted| evicted.gone.len())
    })
}

/// Holds a cache under its limit: what was not used for longest goes, as much as is needed for what is to come.
pub fn cache_limit(cache: PathBuf, limit: u64) -> MakeRoom {
    let sizes = Sizes::default();
    Box::new(move |coming| {
        let to = limit.saturating_sub(coming);
        let eviction = Eviction { to: Some(to), ..Eviction::default() };
        let evicted = evict_with(&cache, &eviction, SystemTime::now(), &sizes).map_err(|error| error.to_string())?;
        if evicted.after > to {
            return Err(format!(
                "the cache's limit is {}, {} of it are in use and {} are wanted for the build; raise `--cache-limit`",
                size(limit),
                size(evicted.after),
                size(coming)
            ));
        }
        let count = evicted.gone.len();
        Ok((count > 0).then(|| {
            format!(
                "disk: took {count} of the cache's entries away, {}, to stay under its limit of {}",
                size(evicted.before.saturating_sub(evicted.after)),
                size(limit)
            )
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Scratch, Uses};

    #[test]
    fn a_limit_takes_the_oldest_away_and_says_when_all_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let layers = dir.path().join("layers-v1/python-python");
        for (name, days) in [("old", 5), ("young", 1)] {
            fs_err::create_dir_all(layers.join(name)).unwrap();
            fs_err::write(layers.join(name).join("file"), vec![1; 1 << 20]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(days * 86_400);
            std::fs::File::open(layers.join(name)).unwrap().set_modified(time).unwrap();
        }
        let make_room = cache_limit(dir.path().to_owned(), 3 << 20);
        assert_eq!(make_room(500 << 10), Ok(None));
        let said = make_room(3 << 19).unwrap().unwrap();
        assert!(said.starts_with("disk: took 1 of the cache's entries away, 1 MiB"), "{said}");
        assert!(!layers.join("old").exists() && layers.join("young").exists());
        let scratch = Scratch::new(dir.path()).unwrap();
        let held = Uses::new(&scratch).unwrap().hold(&layers.join("young")).unwrap();
        let said = make_room(3 << 20).unwrap_err();
        assert!(said.starts_with("the cache's limit is 3 MiB, 1 MiB of it are in use"), "{said}");
        drop(held);
        assert!(make_room(3 << 20).unwrap().is_some() && !layers.join("young").exists());
    }
}
