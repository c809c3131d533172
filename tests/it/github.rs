//! Pull requests from GitHub's API: files on disk and a scripted server, with repositories that are made here.

mod disk;
mod freeze;
mod label;
mod live;
mod server;
mod stand;
