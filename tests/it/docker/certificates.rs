//! Certificates of an authority of a test's own, made by the `openssl` program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An authority, whose files lie in a folder: `ca.pem`, `ca-key.pem`, and what it signed.
pub struct Authority {
    folder: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path) -> Self {
        let new = Self { folder: folder.to_owned() };
        new.openssl(&[
            &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=redgreen test authority"],
            &["-keyout", "ca-key.pem", "-out", "ca.pem"][..],
        ]);
        new
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A line in the middle of its certificate, which nothing else has.
    pub fn line(&self) -> String {
        let text = fs_err::read_to_string(self.certificate()).unwrap();
        text.lines().nth(8).unwrap().to_owned()
    }

    /// Signs a certificate for `names` (as openssl writes them: `DNS:…,IP:…`): `NAME.pem` with `NAME-key.pem`.
    pub fn sign(&self, name: &str, names: &str, usage: &str) {
        let [key, request, certificate, more] = ["-key.pem", ".csr", ".pem", ".cnf"].map(|end| format!("{name}{end}"));
        let extensions = format!("subjectAltName={names}\nextendedKeyUsage={usage}\n");
        fs_err::write(self.folder.join(&more), extensions).unwrap();
        self.openssl(&[
            &["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=redgreen test"],
            &["-keyout", &key, "-out", &request],
        ]);
        self.openssl(&[
            &["x509", "-req", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial"],
            &["-in", &request, "-extfile", &more, "-out", &certificate],
        ]);
    }

    fn openssl(&self, arguments: &[&[&str]]) {
        let output = Command::new("openssl").args(arguments.concat()).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
