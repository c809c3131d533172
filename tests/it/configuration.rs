//! Revisions that touch test configuration, and caches that must not be stale.
