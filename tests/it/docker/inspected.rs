//! Behind a proxy that looks into TLS: builds with pip, npm and cargo work in containers with no flag, and neither the
//! proxy nor its authority is in what they leave.
//!
//! The proxy is one of our own, with an authority of its own, in front of whatever way this machine has to the registries.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::certificates::Authority;
use super::{base, is_here, score};
use crate::support::{Place, Ran};
use crate::truth::fixture::Fixture;
use crate::truth::network::Registries;

/// The three registries.
const REGISTRIES: [&str; 3] = ["pypi.org", "registry.npmjs.org", "index.crates.io"];
/// Where they send others for files, unless a mirror stands in for them.
const FILES: [&str; 2] = ["files.pythonhosted.org", "static.crates.io"];

/// Says its port, and then each request that it read in plain text. It knows no way without TLS.
const PROXY: &str = r#"
import select, socket, ssl, sys, threading

inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
inside.load_cert_chain(sys.argv[1], sys.argv[2])
outside = ssl.create_default_context()

def carry(near, far, host):
    first = True
    while True:
        ready = [one for one in (near, far) if one.pending()] or select.select([near, far], [], [])[0]
        for one in ready:
            data = one.recv(65536)
            if not data:
                return
            if one is near and first:
                print(host, data.split(b"\r\n")[0].decode("ascii", "replace"), flush=True)
                first = False
            (far if one is near else near).sendall(data)

def serve(near):
    try:
        head = b""
        while b"\r\n\r\n" not in head:
            more = near.recv(65536)
            if not more:
                return
            head += more
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        if method != "CONNECT":
            near.sendall(b"HTTP/1.1 501 No\r\nContent-Length: 0\r\n\r\n")
            return
        host, port = target.rsplit(":", 1)
        far = outside.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
        near.sendall(b"HTTP/1.1 200 Yes\r\n\r\n")
        carry(inside.wrap_socket(near, server_side=True), far, host)
    except (OSError, ValueError) as error:
        print("trouble", error, flush=True)
    finally:
        near.close()

listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// The proxy, as long as it is held.
struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    fn new(place: &Place) -> Self {
        let (certificate, key) = (place.join("server.pem"), place.join("server-key.pem"));
        let mut proxy = Command::new("python3");
        proxy.args(["-I", "-c", PROXY]).args([&certificate, &key]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = proxy.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        said.read_line(&mut port).unwrap();
        let mut seen = fs_err::File::create(place.join("seen")).unwrap();
        std::thread::spawn(move || std::io::copy(&mut said, &mut seen));
        Self { child, address: format!("127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a text stands anywhere below a place, logs of builds left out.
fn holds(place: &Path, text: &str) -> bool {
    let mut grep = Command::new("grep");
    grep.args(["-r", "-a", "-F", "-l", "--exclude=log.txt", "-e", text]).arg(place);
    let output = grep.output().unwrap();
    match output.status.code() {
        Some(0) => true,
        Some(1) => false,
        _ => panic!("grep: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
#[ignore = "needs the package registries, and makes bases with Rust and Node: minutes"]
fn builds_in_containers_work_behind_a_proxy_that_looks_into_tls_and_hold_nothing_of_it() {
    if !is_here() {
        return;
    }
    let place = Place::new();
    let authority = Authority::new(place.path());
    let names: Vec<String> = REGISTRIES.iter().chain(&FILES).map(|host| format!("DNS:{host}")).collect();
    authority.sign("server", &names.join(","), "serverAuth");
    let proxy = Proxy::new(&place);
    let mut fixture = Fixture::new(&place);
    let all = Registries::new(&mut fixture, true);
    fixture.import();
    for language in ["python", "rust", "javascript"] {
        base::of(language).lend(&place.join("cache"));
    }
    let redgreen = |arguments: &[&str], trusts: bool| {
        let mut command = score::command(&place, arguments);
        command.env("REDGREEN_CACHE", place.join("cache")).env("REDGREEN_MIRRORS", place.join("mirrors"));
        let url = format!("http://{}", proxy.address);
        command.env("http_proxy", &url).env("https_proxy", &url);
        if trusts {
            command.env("SSL_CERT_FILE", authority.certificate());
        }
        Ran::of(command.output().unwrap())
    };
    let score = ["score", "bench", "--sandbox", "docker", "--json", "--out"];
    // The proxy really is in the way: who does not know its authority gets nothing.
    let refused = redgreen(&[&score[..], &["refused"]].concat(), false).exits(3).json();
    let reasons: Vec<_> =
        refused["verdicts"].as_array().unwrap().iter().map(|row| row["outcomes"].to_string()).collect();
    assert!(reasons.iter().all(|outcome| outcome.contains("infra")), "{reasons:?}");

    let report = redgreen(&[&score[..], &["run", "--retry", "infra"]].concat(), true).exits(0).json();
    all.assert_controls_are_good(&report);
    let seen = fs_err::read_to_string(place.join("seen")).unwrap();
    for host in REGISTRIES {
        assert!(seen.contains(&format!("{host} GET /")), "{host} was not asked through the proxy:\n{seen}");
    }
    // What the environments are as images: of the layers that were made in containers.
    let offline = ["env", "export", "bench", "--out", "images.tar", "--offline", "--json"];
    let exported = redgreen(&offline, true).exits(0).json();
    assert_eq!(exported["environments"].as_array().unwrap().len(), 3, "{exported:#}");
    for text in [authority.line().as_str(), "redgreen test authority", &proxy.address] {
        for what in ["cache/layers-v1", "images.tar"] {
            assert!(!holds(&place.join(what), text), "{text} is in {what}");
        }
    }
    // The look would find them.
    assert!(holds(&place.join("ca.pem"), &authority.line()));
}
