//! Room on disks and long builds: what fifty instances share, what goes from the cache and what stays, full disks, killed
//! builds, and the verbs that look at environments.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod bench;
mod evict;
mod extension;
mod fifty;
mod full;
mod killed;
mod verbs;
