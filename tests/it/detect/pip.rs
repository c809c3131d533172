//! How pip and a back end for it are laid out, by an interpreter whose pip is one that we wrote.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::{files, run, script};

/// What Debian's pip has in place of certifi: the system's certificates, wherever it is.
const DEBIANS_CERTIFI: &str = "def where():\n    return \"/etc/ssl/certs/ca-certificates.crt\"\n";

/// Runs a script of the definitions with a folder in front of the interpreter's modules; what it wrote, or nothing where
/// there is no Python.
fn python(modules: &Path, code: &str, arguments: &[&Path]) -> Option<String> {
    let mut command = Command::new("python3");
    let output = run(command.env("PYTHONPATH", modules).args(["-c", code]).args(arguments))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_pip_that_reads_the_systems_certificates_reads_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    files(folder.path(), &[("modules/ensurepip/__init__.py", "")]);
    fs_err::create_dir(at("modules/ensurepip/_bundled")).unwrap();
    let wheel = fs_err::File::create(at("modules/ensurepip/_bundled/pip-25.1-py3-none-any.whl")).unwrap();
    let mut wheel = zip::ZipWriter::new(wheel);
    for (name, text) in [
        ("pip/__init__.py", ""),
        ("pip/_vendor/__init__.py", ""),
        ("pip/_vendor/certifi/__init__.py", "from .core import where\n"),
        ("pip/_vendor/certifi/core.py", DEBIANS_CERTIFI),
        ("pip/_vendor/certifi/cacert.pem", "a root"),
    ] {
        wheel.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        wheel.write_all(text.as_bytes()).unwrap();
    }
    wheel.finish().unwrap();
    if python(&at("modules"), &script("python_pip.py"), &[&at("pip")]).is_none() {
        return;
    }
    let asks = "from pip._vendor.certifi.core import contents, where; print(where(), contents())";
    let said = python(&at("pip"), asks, &[]).unwrap();
    assert_eq!(said, format!("{} a root\n", at("pip/pip/_vendor/certifi/cacert.pem").display()));
}

#[test]
fn an_old_pip_gets_a_back_end_that_does_not_ask_it_in_turn() {
    // It tells what it was asked for, and installs that.
    let pip = "import os, sys\narguments = sys.argv[1:]\n\
               target = arguments[arguments.index('--target') + 1]\n\
               os.makedirs(os.path.join(target, 'setuptools-79.0.1.dist-info'))\nprint(arguments[-1])\n";
    for (version, setuptools, left) in [
        ("20.3.4", "80.9.0", "79.0.1"),
        ("20.3.4", "79.0.0", "79.0.0"),
        ("21.3", "80.9.0", "80.9.0"),
        ("25.1.1", "82.0", "82.0"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        files(
            folder.path(),
            &[
                ("pip/__init__.py", &format!("__version__ = \"{version}\"\n")),
                ("pip/__main__.py", pip),
                (&format!("backend/setuptools-{setuptools}.dist-info/METADATA"), ""),
                ("backend/setuptools/__init__.py", ""),
            ],
        );
        let code = script("python_backend.py");
        let Some(said) = python(&at("none"), &code, &[&at("pip"), &at("backend")]) else { return };
        assert_eq!(said, if left == setuptools { "" } else { "setuptools>=64,<80\n" }, "{version} and {setuptools}");
        let names = fs_err::read_dir(at("backend")).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        assert!(names.contains(&format!("setuptools-{left}.dist-info")), "{names:?}");
        assert_eq!(names.iter().filter(|name| name.ends_with(".dist-info")).count(), 1, "{names:?}");
    }
    // Without setuptools there is nothing to do.
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), &[("pip/__init__.py", "__version__ = \"20.3.4\"\n"), ("backend/flit_core/__init__.py", "")]);
    let (pip, backend) = (folder.path().join("pip"), folder.path().join("backend"));
    let said = python(folder.path(), &script("python_backend.py"), &[&pip, &backend]);
    assert!(said.is_none_or(|said| said.is_empty()));
}
