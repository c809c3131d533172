//! Caches that must not be stale.
