//! A command that repairs stands on the failed recipe's own base, in either sandbox.

use std::path::PathBuf;
use std::sync::Arc;

use redgreen::environment::{CommandRepairer, Failure, FailureKind, Proposal, RepairRequest, Repairer, Stage};
use redgreen::model::InfraReason;
use redgreen::sandbox::docker::{DockerConfig, DockerSandbox};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{Limits, Root, Sandbox};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::tiny::Room;
use crate::docker::{around, is_here};
use crate::support::binary;

/// What a repairer says that gives up with the name of the system that it runs on.
fn said(room: &Room, sandbox: Arc<dyn Sandbox>, root: Root) -> Proposal {
    let script = "#!/bin/sh\ncat > /dev/null\n. /etc/os-release\nprintf '{\"give-up\": \"%s\"}' \"$PRETTY_NAME\"\n";
    let command = room.place.join("repair.sh");
    fs_err::write(&command, script).unwrap();
    fs_err::set_permissions(&command, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let scratch = room.place.join("repairs");
    fs_err::create_dir_all(&scratch).unwrap();
    let command = command.display().to_string();
    let repairer = CommandRepairer::new(&command, sandbox, &scratch, Limits::default());
    let request = RepairRequest {
        spec: serde_json::from_value(json!({"language": "tiny"})).unwrap(),
        root,
        strategy: "any".to_owned(),
        failure: Failure::without_log(FailureKind::Other, Stage::Build, InfraReason::Environment, "it broke"),
        log_tail: String::new(),
        tried: Vec::new(),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(repairer.propose(&request, &CancellationToken::new())).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_repairer_runs_where_the_recipe_would() {
    let room = Room::new();
    let made = room.tiny();
    let folder = PathBuf::from(made["folder"].as_str().unwrap());
    let root = Root::Base {
        folder: Some(folder.join("root")),
        archive: Some(folder.join("root.tar")),
        image: None,
        digest: made["record"]["content"].as_str().unwrap().to_owned(),
    };
    let local = LocalSandbox::new(LocalConfig::new(binary(), room.place.join("scratch"))).unwrap();
    assert_eq!(said(&room, Arc::new(local), root.clone()), Proposal::GiveUp("Tiny one".to_owned()));
    if is_here() {
        let docker = DockerSandbox::new(DockerConfig::new(around(), room.place.join("docker"))).unwrap();
        assert_eq!(said(&room, Arc::new(docker), root), Proposal::GiveUp("Tiny one".to_owned()));
    }
}
