//! Commands and environments that stand on a base in the embedded sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use redgreen::environment::{BuildSubject, EnvironmentError, Environments, HostVariables, Settings};
use redgreen::model::{EnvironmentSpec, InfraReason};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Exit, Limits, Mount, Network, Root, Sandbox, Task};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tiny::Room;
use crate::support::{binary, host};

fn run(sandbox: &dyn Sandbox, root: &Root, network: Network, script: &str) -> Result<Exit, String> {
    let task = Task {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        variables: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        root: root.clone(),
        mounts: Vec::new(),
        limits: Limits::default(),
        network,
        result_channel: false,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(sandbox.run(&task, &CancellationToken::new())).map_err(|e| e.to_string())
}

fn said(sandbox: &dyn Sandbox, root: &Root, network: Network, script: &str) -> String {
    let exit = run(sandbox, root, network, script).unwrap();
    assert_eq!(exit.end, End::Exited(0), "{script}: {}{}", exit.stdout.text(), exit.stderr.text());
    exit.stdout.text()
}

/// The embedded sandbox with a cgroup, where that can be had, and without.
fn levels(scratch: &Path) -> Vec<LocalSandbox> {
    [true, false]
        .into_iter()
        .map(|cgroup| LocalSandbox::new(LocalConfig { cgroup, ..LocalConfig::new(binary(), scratch) }).unwrap())
        .collect()
}

fn root_of(made: &Value) -> Root {
    let folder = PathBuf::from(made["folder"].as_str().unwrap()).join("root");
    Root::Base {
        folder: Some(folder),
        archive: None,
        image: None,
        digest: made["record"]["content"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn a_command_sees_the_bases_system_and_our_users_and_nothing_of_the_host() {
    let room = Room::new();
    let root = root_of(&room.tiny());
    for sandbox in levels(&room.place.join("scratch")) {
        let level = sandbox.isolation().level;
        let see = |network, script: &str| said(&sandbox, &root, network, script);
        assert_eq!(
            see(Network::None, "cat /etc/os-release /etc/own.conf /opt/kit/file"),
            "PRETTY_NAME=\"Tiny one\"\nof the base\nkit\n"
        );
        // The positive control: the host's own system is another one.
        assert_ne!(said(&sandbox, &Root::Host, Network::None, "cat /etc/os-release"), "PRETTY_NAME=\"Tiny one\"\n");
        // Users, hosts and resolver are ours.
        let passwd = see(Network::None, "cat /etc/passwd");
        assert!(passwd.contains("redgreen:x:1000") && !passwd.contains("someone"), "{passwd}");
        assert_eq!(
            see(Network::None, "id -u; cat /etc/hostname; ls /etc/ssl"),
            "1000\nredgreen\nopenssl.cnf\n",
            "{level}"
        );
        assert_eq!(see(Network::None, "ls -d /etc/resolv.conf /etc/pip.conf /etc/apt 2>/dev/null || true"), "");
        // Certificates and resolver are there in fetches alone, and are the host's.
        let certificates = see(Network::Host, "ls /etc/ssl/certs 2>/dev/null || true");
        assert!(!certificates.contains("theirs.pem"), "{certificates}");
        assert_eq!(certificates.is_empty(), !Path::new("/etc/ssl/certs").is_dir());
        see(Network::Host, "cat /etc/resolv.conf");
        // Nothing can be written, and what a base does not have is not there.
        for script in ["touch /usr/x", "touch /etc/x", "touch /opt/kit/x", "ls /usr/share", "ls /var/lib"] {
            assert_ne!(run(&sandbox, &root, Network::None, script).unwrap().end, End::Exited(0), "{script}");
        }
        assert_eq!(see(Network::None, "echo x > /tmp/x; cat /tmp/x; ls /usr/local/bin"), "x\ntiny-tool\n");
    }
}

#[test]
fn a_link_of_a_base_that_points_out_of_it_leads_nowhere() {
    let room = Room::new();
    let made = room.tiny();
    let folder = PathBuf::from(made["folder"].as_str().unwrap()).join("root");
    let secret = room.place.join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("word"), "hunter2\n").unwrap();
    fs::remove_dir_all(folder.join("opt")).unwrap();
    for (link, to) in [("opt", &secret), ("etc/link", &secret.join("word"))] {
        std::os::unix::fs::symlink(to, folder.join(link)).unwrap();
    }
    let sandbox = LocalSandbox::new(LocalConfig::new(binary(), room.place.join("scratch"))).unwrap();
    let root = root_of(&made);
    let script = "cat /opt/word /etc/link || true; readlink /opt";
    assert_eq!(said(&sandbox, &root, Network::None, script), format!("{}\n", secret.display()));
    // The whole of `/etc` elsewhere: only ours is left.
    fs::remove_dir_all(folder.join("etc")).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("etc")).unwrap();
    let etc = said(&sandbox, &root, Network::None, "ls /etc");
    assert!(!etc.contains("word") && etc.contains("passwd"), "{etc}");
}

#[test]
fn a_base_without_its_folder_is_said_to_be_so() {
    let room = Room::new();
    let sandbox = LocalSandbox::new(LocalConfig::new(binary(), room.place.join("scratch"))).unwrap();
    let root = |folder| Root::Base { folder, archive: None, image: None, digest: "d1".to_owned() };
    let error = run(&sandbox, &root(None), Network::None, "true").unwrap_err();
    assert!(error.contains("d1") && error.contains("no unpacked folder"), "{error}");
    let error = run(&sandbox, &root(Some("/nowhere/at/all".into())), Network::None, "true").unwrap_err();
    assert!(error.contains("/nowhere/at/all"), "{error}");
}

/// A sandbox that cannot stand on the host's own system, as a container engine's.
struct NoHost(LocalSandbox);

impl Sandbox for NoHost {
    fn isolation(&self) -> redgreen::sandbox::Isolation {
        self.0.isolation()
    }
    fn owner(&self) -> (u32, u32) {
        self.0.owner()
    }
    fn has_host_root(&self) -> bool {
        false
    }
    fn run<'a>(&'a self, task: &'a Task, cancel: &'a CancellationToken) -> redgreen::sandbox::RunFuture<'a> {
        self.0.run(task, cancel)
    }
}

fn spec(value: Value) -> EnvironmentSpec {
    serde_json::from_value(value).unwrap()
}

fn environments(room: &Room, has_host: bool, path: Option<&str>) -> Environments {
    let local = LocalSandbox::new(LocalConfig::new(binary(), room.place.join("scratch"))).unwrap();
    let sandbox: Arc<dyn Sandbox> = if has_host { Arc::new(local) } else { Arc::new(NoHost(local)) };
    let path = path.map_or_else(|| host("PATH").unwrap(), str::to_owned);
    let variables = [("PATH".to_owned(), path)];
    let settings = Settings {
        offline: true,
        makes_bases: true,
        definitions: vec![room.place.join("definitions")],
        ..Settings::new(room.place.join("cache"), HostVariables::pick(variables))
    };
    Environments::new(settings, sandbox).unwrap()
}

#[tokio::test]
async fn the_toolchain_is_the_one_in_the_base_and_keys_hold_what_the_base_is() {
    let room = Room::new();
    let made = room.tiny();
    let content = made["record"]["content"].as_str().unwrap();
    let all = environments(&room, true, None);
    let resolved = all.resolve(&spec(json!({"language": "tiny", "version": "9.1", "base": "tiny"}))).unwrap();
    assert_eq!((resolved.toolchain.version.as_str(), resolved.root.digest()), ("9.1.0", Some(content)));
    assert_eq!(resolved.identity()["base"], content);
    // A version that the base does not have, a base that is not there.
    let error = all.resolve(&spec(json!({"language": "tiny", "version": "8", "base": "tiny"}))).unwrap_err();
    assert!(error.to_string().contains("(9.1.0)") && error.reason() == InfraReason::Toolchain, "{error}");
    let error = all.resolve(&spec(json!({"language": "tiny", "base": "nothing"}))).unwrap_err();
    assert!(error.to_string().contains("there is no base `nothing`"), "{error}");
    // Without a base in the spec: the host has no such toolchain, so the base of the version, which is not there.
    for has_host in [true, false] {
        let all = environments(&room, has_host, None);
        let error = all.resolve(&spec(json!({"language": "tiny"}))).unwrap_err().to_string();
        assert!(error.contains("redgreen env base tiny-9") && error.contains("--offline"), "{error}");
        assert_eq!(error.contains("on this machine"), has_host, "{error}");
        let error = all.resolve(&spec(json!({"language": "tiny", "version": "77"}))).unwrap_err();
        assert!(matches!(error, EnvironmentError::Earlier(_)));
        assert!(error.to_string().contains("77"), "{error}");
    }
    let error = environments(&room, false, None).resolve(&spec(json!({"language": "sh", "base": "host"}))).unwrap_err();
    assert!(error.to_string().contains("cannot stand on this machine's own system"), "{error}");

    // The shell of the host and that of the base: the same path, and other environments.
    let head = room.place.join("head");
    fs::create_dir(&head).unwrap();
    let subject = BuildSubject { snapshot: head, tree: "t".to_owned(), merged: None, merged_tree: None };
    let steps = json!(["cat /etc/os-release > on.txt"]);
    let mut digests = Vec::new();
    for base in ["host", "tiny"] {
        let resolved = all.resolve(&spec(json!({"language": "sh", "base": base, "steps": steps}))).unwrap();
        let prepared = all.prepare(&resolved, &subject, &|_| {}, &CancellationToken::new()).await.unwrap();
        let on = fs::read_to_string(prepared.workspace_layers[0].join("on.txt")).unwrap();
        assert_eq!(on == "PRETTY_NAME=\"Tiny one\"\n", base == "tiny", "{on}");
        assert!(!prepared.mounts.iter().any(|mount| matches!(mount, Mount::ReadOnly { .. })));
        digests.push((prepared.digest.clone(), prepared.workspace_layers[0].clone()));
    }
    assert_ne!(digests[0], digests[1]);
}

#[test]
fn packages_of_the_system_are_asked_of_the_host() {
    let room = Room::new();
    let folder = room.place.join("bin");
    fs::create_dir(&folder).unwrap();
    // A package manager that knows one package.
    let program = folder.join("dpkg-query");
    fs::write(&program, "#!/bin/sh\nfor word; do last=$word; done\n[ \"$last\" = libgood-dev ] && echo installed\n")
        .unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let all = environments(&room, true, Some(&path));
    let of = |base: &str, packages: Value| {
        all.resolve(&spec(json!({"language": "sh", "base": base, "system_packages": packages})))
    };
    assert_eq!(of("host", json!(["libgood-dev"])).unwrap().root, Root::Host);
    let error = of("host", json!(["libgood-dev", "libbad-dev"])).unwrap_err();
    assert!(error.to_string().contains("`libbad-dev`") && !error.to_string().contains("libgood"), "{error}");
    assert_eq!(error.reason(), InfraReason::Toolchain);
    // Where nobody says `host`, a base with the package is the answer; it cannot be made here.
    let error = of("", json!(["libbad-dev"])).unwrap_err().to_string();
    assert!(error.contains("libbad-dev") && error.contains("redgreen env base"), "{error}");
}
