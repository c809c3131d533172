//! The Docker sandbox: a new container for each task, by the API of a Docker engine or of one that speaks its language
//! (Podman), version 1.41 (Docker 20.10) or newer.
//!
//! It gives the same outcomes and keeps the same limits as the embedded sandbox, on a root file system that is an image's.
//! Where the engine is on this machine it mounts the same layers; elsewhere they are copied into the container.

mod attended;
mod command;
mod config;
mod container;
mod counters;
mod create;
mod disks;
mod docker_sandbox;
mod download;
mod endpoint;
mod engine;
mod examination;
mod exit;
mod facts;
#[cfg(test)]
mod fake;
mod folder;
mod image;
mod label;
mod merged;
mod mounts;
mod own_images;
mod reaper;
mod run;
mod start;
mod streams;
mod transfer;
mod trial;
mod upload;
mod watch;

pub use config::{DockerConfig, Surroundings};
pub use docker_sandbox::DockerSandbox;
pub use endpoint::{Endpoint, EndpointError};
pub use engine::EngineError;
pub use examination::{Examination, Holdings, holdings};
pub use facts::Facts;
pub use image::own_name;
pub use own_images::{ENVIRONMENT, ImageKind, OwnImage, OwnImages};
pub use reaper::BaseImage;
