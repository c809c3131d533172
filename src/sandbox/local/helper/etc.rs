//! `/etc` inside: an allow-list of the host's, and our own users and hosts.
//!
//! Nothing with credentials, and no configuration of package indexes: what a command may know of those comes in its
//! task.

use std::path::Path;

use fs_err as fs;

use super::super::failure::{Failure, Step};
use super::super::protocol::{HOME, INSIDE_ID};
use super::root::{Root, mkdir};

/// Host files and directories that programs need to find their libraries, types and fonts.
const ALLOWED: [&str; 15] = [
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "debian_version",
    "fonts",
    "locale.alias",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "protocols",
    "python3",
    "services",
    "ssl/openssl.cnf",
];

/// Host certificates, for tasks with network only. The private keys next to them are not in the list.
const CERTIFICATES: [&str; 5] =
    ["ssl/certs", "ssl/cert.pem", "ca-certificates", "pki/ca-trust/extracted", "pki/tls/certs"];

/// What the host knows of names in the network.
pub struct Resolver {
    resolv_conf: Vec<u8>,
    hosts: Vec<u8>,
}

impl Resolver {
    /// Reads the host's files; a missing one is empty.
    pub fn read() -> Self {
        let read = |path| fs::read(path).unwrap_or_default();
        Self { resolv_conf: read("/etc/resolv.conf"), hosts: read("/etc/hosts") }
    }
}

/// Fills `/etc`. `resolver` is there when the task has the host's network.
pub fn fill(root: &Root, resolver: Option<&Resolver>) -> Result<(), Failure> {
    mkdir("etc")?;
    let bind = |name: &str| {
        let host = Path::new("/etc").join(name);
        if host.exists() { root.bind(&host, &Path::new("etc").join(name)) } else { Ok(()) }
    };
    ALLOWED.into_iter().try_for_each(bind)?;
    // Debian's Java keeps its configuration in a directory that has the version in its name.
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with("java-")) {
            bind(name)?;
        }
    }
    let write =
        |name: &str, text: &[u8]| fs::write(Path::new("etc").join(name), text).step(|| format!("write `/etc/{name}`"));
    write(
        "passwd",
        format!(
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
             redgreen:x:{INSIDE_ID}:{INSIDE_ID}:redgreen:{HOME}:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        )
        .as_bytes(),
    )?;
    write("group", format!("root:x:0:\nredgreen:x:{INSIDE_ID}:\nnogroup:x:65534:\n").as_bytes())?;
    write("nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n")?;
    write("hostname", b"redgreen\n")?;
    let own_hosts: &[u8] = b"127.0.0.1 localhost redgreen\n::1 localhost ip6-localhost\n";
    match resolver {
        None => write("hosts", own_hosts),
        Some(resolver) => {
            write("resolv.conf", &resolver.resolv_conf)?;
            write("hosts", &[own_hosts, &resolver.hosts].concat())?;
            CERTIFICATES.into_iter().try_for_each(bind)
        }
    }
}
