//! An engine in the network, by TLS: a daemon of the test's own, with certificates of its own, on the loopback.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use super::certificates::Authority;
use super::leftovers::eventually;
use super::tiny::{Fresh, ended};
use crate::support::{Place, Ran, cells, is_root};

/// The network of the test's daemon.
const BRIDGE: &str = "redgreen-tls";

/// That network, taken away when it is dropped.
struct Bridge;

impl Bridge {
    fn new() -> Self {
        ip(&["link", "add", BRIDGE, "type", "bridge"]);
        let bridge = Self;
        ip(&["address", "add", "192.168.213.1/24", "dev", BRIDGE]);
        bridge
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        ip(&["link", "delete", BRIDGE]);
    }
}

fn ip(arguments: &[&str]) {
    assert!(Command::new("ip").args(arguments).status().unwrap().success(), "ip {arguments:?}");
}

/// A daemon with a data folder of its own, ended when it is dropped.
struct Daemon(Child);

impl Daemon {
    fn start(folder: &Path, port: u16) -> Self {
        let at = |name: &str| folder.join(name).display().to_string();
        let log = fs_err::File::create(folder.join("dockerd.log")).unwrap().into_parts().0;
        let mut daemon = Command::new("dockerd");
        daemon.args(["--host", &format!("tcp://127.0.0.1:{port}"), "--tlsverify", "--tlscacert", &at("ca.pem")]);
        daemon.args(["--tlscert", &at("server.pem"), "--tlskey", &at("server-key.pem")]);
        daemon.args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        // A daemon that is told to have no bridge takes away the one that another daemon uses.
        daemon.args(["--bridge", BRIDGE, "--iptables=false", "--ip-masq=false"]);
        daemon.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(daemon.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // In order, so that it takes its own containerd and mounts away.
        let _ = rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "starts a Docker daemon of its own"]
fn an_oracle_runs_with_an_engine_that_is_spoken_to_by_tls() {
    if !is_root("a Docker daemon of a test's own") {
        return;
    }
    let place = Place::new();
    let authority = Authority::new(place.path());
    authority.sign("server", "IP:127.0.0.1,DNS:localhost", "serverAuth");
    authority.sign("cert", "DNS:client", "clientAuth");
    fs_err::rename(place.join("cert-key.pem"), place.join("key.pem")).unwrap();
    // Known to nobody.
    fs_err::create_dir(place.join("other")).unwrap();
    let other = Authority::new(&place.join("other"));
    other.sign("cert", "DNS:client", "clientAuth");
    fs_err::rename(place.join("other/cert-key.pem"), place.join("other/key.pem")).unwrap();

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _bridge = Bridge::new();
    let _daemon = Daemon::start(place.path(), port);
    let by = |command: &mut Command, certificates: Option<&str>| {
        command.env("DOCKER_HOST", format!("tcp://127.0.0.1:{port}"));
        if let Some(folder) = certificates {
            command.env("DOCKER_TLS_VERIFY", "1").env("DOCKER_CERT_PATH", place.join(folder));
        }
    };
    eventually("the daemon answers", || {
        let mut client = Command::new("docker");
        by(client.arg("version"), Some(""));
        client.output().unwrap().status.success()
    });

    let fresh = Fresh::new(1, ". ./clamp.sh; [ \"$value\" = 5 ]\n", |text| text);
    let score = |certificates: Option<&str>, run: &str| -> Command {
        let mut command = fresh.command(&["score", "bench", "--out", run, "--denominator", "all"]);
        by(&mut command, certificates);
        command
    };
    // Whoever is not known is refused, and so is an engine that nobody of ours vouches for.
    for (certificates, run) in [(None, "plain"), (Some("other"), "strange")] {
        let ran = Ran::of(score(certificates, run).output().unwrap());
        assert_ne!(ran.code, Some(0), "{run}: {}", ran.stdout);
        assert!(ran.stderr.contains("DOCKER_HOST") && ran.stderr.contains(&port.to_string()), "{run}: {}", ran.stderr);
    }
    let plain = Ran::of(score(None, "plain").output().unwrap());
    assert_eq!(plain.stderr.matches("DOCKER_TLS_VERIFY").count(), 1, "{}", plain.stderr);
    let report = ended(score(Some(""), "run"));
    let verdicts: Vec<_> = cells(&report).into_values().map(|(verdict, _)| verdict).collect();
    assert_eq!(verdicts, ["fail", "fail", "pass", "pass"], "{report:#}");
    for row in report["verdicts"].as_array().unwrap() {
        // In the network nothing of ours can be mounted.
        assert_eq!((&row["isolation"]["level"], &row["isolation"]["workspace"]), (&"container".into(), &"copy".into()));
    }
}
