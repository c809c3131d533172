//! `/etc` inside: an allow-list of the host's, or what a base has of its own, and our own users and hosts.
//!
//! Nothing with credentials, and no configuration of package indexes: what a command may know of those comes in its
//! task.

use std::os::fd::OwnedFd;
use std::path::Path;

use fs_err as fs;

use super::super::failure::{Failure, Step};
use super::super::protocol::{HOME, INSIDE_ID};
use super::place;
use super::root::{Root, mkdir};
use super::system::{System, entry, names};

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

/// What is not taken from a base: what is ours inside, what holds certificates or credentials or could, and what only
/// services and package managers read (each entry costs time in every run).
const NOT_OF_BASE: [&str; 49] = [
    "passwd",
    "passwd-",
    "group",
    "group-",
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "subuid",
    "subuid-",
    "subgid",
    "subgid-",
    "hosts",
    "hostname",
    "resolv.conf",
    "nsswitch.conf",
    "mtab",
    "machine-id",
    "ca-certificates",
    "ca-certificates.conf",
    "ssh",
    "sudoers",
    "sudoers.d",
    "pip.conf",
    "npmrc",
    "netrc",
    "krb5.conf",
    "krb5.keytab",
    "docker",
    "apt",
    "dpkg",
    "cron.d",
    "cron.daily",
    "cron.hourly",
    "cron.monthly",
    "cron.weekly",
    "init.d",
    "rc0.d",
    "rc1.d",
    "rc2.d",
    "rc3.d",
    "rc4.d",
    "rc5.d",
    "rc6.d",
    "rcS.d",
    "logrotate.d",
    "pam.d",
    "security",
    "systemd",
];
/// Folders of a base of which a part is not taken: their other entries are, one by one.
const CERTIFICATES_IN: [(&str, &[&str]); 2] =
    [("ssl", &["certs", "private", "cert.pem", "ca-bundle.pem"]), ("pki", &["ca-trust", "tls", "nssdb"])];

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
pub fn fill(root: &Root, system: &System, resolver: Option<&Resolver>) -> Result<(), Failure> {
    mkdir("etc")?;
    let bind = |name: &str| {
        let host = Path::new("/etc").join(name);
        if host.exists() { root.bind(&host, &Path::new("etc").join(name)) } else { Ok(()) }
    };
    match system {
        System::Host => {
            ALLOWED.into_iter().try_for_each(bind)?;
            // Debian's Java keeps its configuration in a directory that has the version in its name.
            for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
                if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with("java-")) {
                    bind(name)?;
                }
            }
        }
        System::Base { dir } => of_base(dir, root)?,
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

/// A base's own `/etc`, but for what is ours.
fn of_base(base: &OwnedFd, root: &Root) -> Result<(), Failure> {
    let list = |folder: &str| names(base, folder).step(|| format!("list `/{folder}` of the base"));
    for name in list("etc")?.iter().filter(|name| !NOT_OF_BASE.iter().any(|not| *name == Path::new(not))) {
        let part = CERTIFICATES_IN.iter().find(|(folder, _)| name == Path::new(folder));
        let Some((folder, certificates)) = part else {
            let path = Path::new("etc").join(name);
            entry(base, &path, &path, root)?;
            continue;
        };
        let inside = format!("etc/{folder}");
        for name in list(&inside)?.iter().filter(|name| !certificates.iter().any(|not| *name == Path::new(not))) {
            let path = Path::new(&inside).join(name);
            mkdir_once(root, &inside)?;
            entry(base, &path, &path, root)?;
        }
    }
    Ok(())
}

fn mkdir_once(root: &Root, path: &str) -> Result<(), Failure> {
    place::make_dir(&root.dir, Path::new(path), None).map(drop).step(|| format!("make the directory `/{path}`"))
}
