//! A package index of our own on the loopback: PEP 503 pages with PEP 592's `data-yanked`, and wheels that are made here.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

/// A package of the index.
pub struct Package {
    pub name: &'static str,
    pub version: &'static str,
    /// Its modules, by path.
    pub files: &'static [(&'static str, &'static str)],
    /// Why it was withdrawn.
    pub yanked: Option<&'static str>,
    pub requires: &'static [&'static str],
}

pub const fn package(name: &'static str, version: &'static str) -> Package {
    Package { name, version, files: &[], yanked: None, requires: &[] }
}

/// As much of a test framework as a proof needs: it collects functions and methods, runs them, tells the plugins.
const FRAMEWORK: &str = r##"
import importlib.util, os, sys, traceback

class Bag:
    def __init__(self, **what): self.__dict__.update(what)

def main(args=(), plugins=()):
    def tell(hook, what):
        for plugin in plugins:
            if hasattr(plugin, hook): getattr(plugin, hook)(what)
    items = []
    for path in [a for a in args if a.endswith(".py")]:
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        try:
            spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except Exception:
            tell("pytest_collectreport", Bag(failed=True, nodeid=path, longrepr=traceback.format_exc()))
            continue
        for name, value in sorted(vars(module).items()):
            if name.startswith("test") and callable(value):
                items.append(Bag(nodeid="%s::%s" % (path, name), run=value))
    session = Bag(items=items)
    tell("pytest_collection_finish", session)
    if "--collect-only" in args:
        return 0
    code = 0
    for item in session.items:
        outcome, why = "passed", None
        try:
            item.run()
        except Exception:
            outcome, why, code = "failed", traceback.format_exc(), 1
        print("%s %s" % (item.nodeid, outcome))
        tell("pytest_runtest_logreport", Bag(
            nodeid=item.nodeid, when="call", outcome=outcome, failed=outcome == "failed", longrepr=why))
    return code
"##;

/// What every index here has: a test framework by the name that projects ask for, and what builds are told to want.
pub fn usual() -> Vec<Package> {
    vec![
        Package { files: &[("pytest.py", FRAMEWORK)], ..package("pytest", "8.0.0") },
        package("wheel", "0.43.0"),
        package("editables", "0.5"),
        package("setuptools", "69.0.0"),
        // For single fixtures.
        Package { files: &[("steady.py", "VALUE = 1\n")], ..package("steady", "1.0") },
        Package {
            files: &[("withdrawn.py", "VALUE = 1\n")],
            yanked: Some("broken metadata"),
            ..package("withdrawn", "1.0")
        },
        Package { files: &[("six.py", "VALUE = 1\n")], ..package("six", "1.16.0") },
        Package { requires: &["steady>=2"], ..package("upper", "1.0") },
    ]
}

/// An index that is served as long as the tests run.
#[derive(Clone)]
pub struct Index {
    port: u16,
}

/// The index of all fixtures. `None` where there is no Python to make wheels with.
pub static INDEX: LazyLock<Option<Index>> = LazyLock::new(|| Index::serve(usual()));
/// The same without a test framework.
pub static BARE_INDEX: LazyLock<Option<Index>> =
    LazyLock::new(|| Index::serve(usual().into_iter().filter(|package| package.name != "pytest").collect()));

struct Served {
    /// By name: file name and why it was withdrawn.
    pages: BTreeMap<String, Vec<(String, Option<&'static str>)>>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Index {
    pub fn serve(packages: Vec<Package>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        wheels(&packages, folder.path())?;
        let mut served = Served { pages: BTreeMap::new(), files: BTreeMap::new() };
        for package in &packages {
            let file = file_name(package);
            served.files.insert(file.clone(), fs_err::read(folder.path().join(&file)).unwrap());
            served.pages.entry(package.name.to_owned()).or_default().push((file, package.yanked));
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(served);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                std::thread::spawn(move || answer(stream, &served));
            }
        });
        Some(Self { port })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/simple", self.port)
    }
}

/// An address where nobody listens.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/simple", listener.local_addr().unwrap())
}

fn file_name(package: &Package) -> String {
    format!("{}-{}-py3-none-any.whl", package.name, package.version)
}

fn answer(stream: TcpStream, served: &Served) {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    if reader.read_line(&mut request).is_err() {
        return;
    }
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default().trim_matches('/').to_owned();
    let (code, kind, body) = match path.split_once('/') {
        Some(("simple", name)) if served.pages.contains_key(name) => {
            let link = |(file, yanked): &(String, Option<&str>)| {
                let yanked = yanked.map(|why| format!(" data-yanked=\"{why}\"")).unwrap_or_default();
                format!("<a href=\"/files/{file}\"{yanked}>{file}</a><br>\n")
            };
            let links: String = served.pages[name].iter().map(link).collect();
            ("200 OK", "text/html", format!("<!DOCTYPE html><html><body>\n{links}</body></html>").into_bytes())
        }
        Some(("files", file)) if served.files.contains_key(file) => {
            ("200 OK", "application/octet-stream", served.files[file].clone())
        }
        _ => ("404 Not Found", "text/plain", b"there is no such thing".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = reader.into_inner();
    // Whoever asked may be gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// Writes the wheels; `None` where there is no Python.
fn wheels(packages: &[Package], folder: &std::path::Path) -> Option<()> {
    const MAKE: &str = r#"
import base64, hashlib, json, os, sys, zipfile
for package in json.load(sys.stdin):
    info = "%s-%s.dist-info" % (package["name"], package["version"])
    files = dict(package["files"])
    files[info + "/METADATA"] = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n%s" % (
        package["name"], package["version"], "".join("Requires-Dist: %s\n" % r for r in package["requires"]))
    files[info + "/WHEEL"] = "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += "%s,sha256=%s,%d\n" % (name, digest, len(text.encode()))
    files[info + "/RECORD"] = record + info + "/RECORD,,\n"
    with zipfile.ZipFile(os.path.join(sys.argv[1], package["file"]), "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
"#;
    let told: Vec<Value> = packages
        .iter()
        .map(|package| {
            json!({
                "name": package.name, "version": package.version, "file": file_name(package),
                "files": package.files, "requires": package.requires,
            })
        })
        .collect();
    let child = Command::new("python3").args(["-I", "-c", MAKE]).arg(folder).stdin(Stdio::piped()).spawn();
    let mut child = child.ok()?;
    child.stdin.take().unwrap().write_all(json!(told).to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    Some(())
}
