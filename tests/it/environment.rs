//! Environments in the embedded sandbox, without network. A toolchain that this machine lacks leaves its tests out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use redgreen::environment::{BuildSubject, EnvironmentError, Environments, HostVariables, Prepared, Settings, StepEnd};
use redgreen::model::{EnvironmentSpec, InfraReason};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Exit, Limits, Mount, Network, Root, Sandbox, Task, WORKSPACE};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A cache, a sandbox, and the environments made with them.
struct Room {
    folder: tempfile::TempDir,
    sandbox: Arc<dyn Sandbox>,
    environments: Environments,
    said: Mutex<Vec<String>>,
}

fn room() -> Room {
    room_that(false)
}

/// `copies`: as on a machine without overlayfs.
fn room_that(copies: bool) -> Room {
    let folder = tempfile::tempdir().unwrap();
    let mut config = LocalConfig::new(env!("CARGO_BIN_EXE_redgreen"), folder.path().join("scratch"));
    config.copy_workspace = copies;
    let sandbox: Arc<dyn Sandbox> = Arc::new(LocalSandbox::new(config).unwrap());
    let host = HostVariables::pick(std::env::vars());
    // Nothing here may need the network.
    let settings = Settings { offline: true, ..Settings::new(folder.path().join("cache"), host) };
    let environments = Environments::new(settings, sandbox.clone()).unwrap();
    Room { folder, sandbox, environments, said: Mutex::default() }
}

fn spec(value: Value) -> EnvironmentSpec {
    serde_json::from_value(value).unwrap()
}

impl Room {
    /// A folder of files that belong to the sandbox's user, long unchanged.
    fn files(&self, name: &str, files: &[(&str, &str)], time: SystemTime) -> PathBuf {
        let root = self.folder.path().join(name);
        fs_err::create_dir_all(&root).unwrap();
        for (path, text) in files {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
            fs_err::OpenOptions::new().write(true).open(root.join(path)).unwrap().file().set_modified(time).unwrap();
        }
        let (uid, gid) = self.sandbox.owner();
        for entry in walkdir::WalkDir::new(&root) {
            std::os::unix::fs::lchown(entry.unwrap().path(), Some(uid), Some(gid)).unwrap();
        }
        root
    }

    fn head(&self, files: &[(&str, &str)]) -> BuildSubject {
        let snapshot = self.files("head", files, SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000));
        BuildSubject { snapshot, tree: "head".to_owned(), merged: None, merged_tree: None }
    }

    async fn prepare(&self, value: Value, subject: &BuildSubject) -> Result<Prepared, EnvironmentError> {
        let resolved = self.environments.resolve(&spec(value))?;
        let say = |text: &str| self.said.lock().unwrap().push(text.to_owned());
        self.environments.prepare(&resolved, subject, &say, &CancellationToken::new()).await
    }

    /// The same, or `None` when the toolchain is not on this machine.
    async fn prepare_if_there(&self, value: Value, subject: &BuildSubject) -> Option<Prepared> {
        match self.prepare(value, subject).await {
            Err(error) if error.reason() == InfraReason::Toolchain => {
                eprintln!("left out: {error}");
                None
            }
            other => Some(other.unwrap_or_else(|error| {
                panic!("{error}\n{}", String::from_utf8_lossy(error.log().unwrap_or_default()))
            })),
        }
    }

    /// Runs a program of the environment in the workspace, with `patch` (a folder) on top.
    async fn run(&self, prepared: &Prepared, subject: &BuildSubject, patch: Option<&Path>, argv: &[&str]) -> Exit {
        let mut lowers: Vec<PathBuf> = patch.into_iter().map(Path::to_owned).collect();
        lowers.extend(prepared.workspace_layers.clone());
        lowers.push(subject.snapshot.clone());
        let workspace = Mount::Overlay { lowers, target: WORKSPACE.into(), upper: None, remove: Vec::new() };
        let tool = |word: &&str| prepared.tools.get(*word).cloned().unwrap_or_else(|| (*word).to_owned());
        let task = Task {
            argv: argv.iter().map(tool).collect(),
            cwd: WORKSPACE.into(),
            variables: prepared.variables.clone(),
            root: Root::default(),
            mounts: [vec![workspace], prepared.mounts.clone()].concat(),
            limits: Limits::default(),
            network: Network::None,
            result_channel: false,
        };
        self.sandbox.run(&task, &CancellationToken::new()).await.unwrap()
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.lock().unwrap())
    }
}

fn output(exit: &Exit) -> String {
    assert_eq!(exit.end, End::Exited(0), "{}{}", exit.stdout.text(), exit.stderr.text());
    exit.stdout.text()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = walkdir::WalkDir::new(folder).min_depth(1).sort_by_file_name();
    entries.into_iter().map(|e| e.unwrap().path().strip_prefix(folder).unwrap().display().to_string()).collect()
}

#[tokio::test]
async fn the_shell_has_the_system_and_nothing_else() {
    let room = room();
    let head = room.head(&[("tool.sh", "echo from the tree")]);
    let prepared = room.prepare(json!({"language": "posix-sh", "rebuild": ["make"]}), &head).await.unwrap();
    assert_eq!(output(&room.run(&prepared, &head, None, &["sh", "tool.sh"]).await), "from the tree\n");
    assert!(prepared.mounts.is_empty() && prepared.workspace_layers.is_empty());
    assert_eq!(prepared.rebuild, ["make"]);
}

#[tokio::test]
async fn a_bare_python_sees_the_tree_and_no_package_of_the_host() {
    let room = room();
    let head = room.head(&[("src/inside/__init__.py", "VALUE = 42"), ("top.py", "VALUE = 1")]);
    let value = json!({"language": "python"});
    let Some(prepared) = room.prepare_if_there(value.clone(), &head).await else { return };
    let script = "import inside, sys, importlib.metadata as m, top\n\
                  print(inside.VALUE + top.VALUE, sys.prefix, [d.metadata['Name'] for d in m.distributions()])";
    let exit = room.run(&prepared, &head, None, &["python", "-c", script]).await;
    assert_eq!(output(&exit), "43 /env/python []\n");
    let steps = ["python: create the virtual environment", "python: leave nothing to run at the interpreter's start"];
    assert_eq!(room.said(), steps);
    assert_eq!(prepared.lock, json!({"python": []}));

    let again = room.prepare(value, &head).await.unwrap();
    assert_eq!(room.said(), Vec::<String>::new());
    assert_eq!(again.digest, prepared.digest);
    let other = room.prepare(json!({"language": "python", "project": "none"}), &head).await.unwrap();
    assert_eq!(room.said(), Vec::<String>::new());
    assert_ne!(other.digest, prepared.digest);
    assert_eq!(other.variables["PYTHONPATH"], "/env/python/start");
}

/// A build back end of the project's own, so that nothing has to be fetched. It writes one untracked file, and appends
/// to the tracked file that `CHANGE` names.
const BACKEND: &str = r##"
import base64, hashlib, os, zipfile

INFO = "tiny-1.0.dist-info"

def wheel(directory, files):
    open("built.txt", "w").write("by the back end")
    if os.environ.get("CHANGE"):
        open(os.environ["CHANGE"], "a").write("# more")
    files = dict(files)
    files[INFO + "/METADATA"] = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
    files[INFO + "/WHEEL"] = "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += "%s,sha256=%s,%d\n" % (name, digest, len(text))
    files[INFO + "/RECORD"] = record + INFO + "/RECORD,,\n"
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name

def build_wheel(directory, settings=None, metadata=None):
    return wheel(directory, {"tiny.py": open("lib/tiny.py").read()})

def build_editable(directory, settings=None, metadata=None):
    return wheel(directory, {"tiny.pth": os.path.abspath("lib") + "\n"})
"##;

const PYPROJECT: &str = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";

#[tokio::test]
async fn an_editable_project_points_into_the_workspace_and_an_installed_one_does_not() {
    let room = room();
    let head = room.head(&[("pyproject.toml", PYPROJECT), ("backend.py", BACKEND), ("lib/tiny.py", "VALUE = 'head'")]);
    let patch = room.files("patch", &[("lib/tiny.py", "VALUE = 'revised'")], SystemTime::now());
    let value = |project| json!({"language": "python", "project": project, "build_isolation": false});
    let Some(editable) = room.prepare_if_there(value("editable"), &head).await else { return };
    let print = ["python", "-c", "import tiny; print(tiny.VALUE, open('built.txt').read())"];
    assert_eq!(output(&room.run(&editable, &head, None, &print).await), "head by the back end\n");
    assert_eq!(output(&room.run(&editable, &head, Some(&patch), &print).await), "revised by the back end\n");
    // Only what the build made lies above the snapshot; the tracked files it read do not.
    assert_eq!(names(&editable.workspace_layers[0]), ["built.txt"]);

    let installed = room.prepare(value("installed"), &head).await.unwrap();
    assert_eq!(output(&room.run(&installed, &head, Some(&patch), &print).await), "head by the back end\n");
    // The dependency layers below are the same.
    let venvs = room.folder.path().join("cache/layers-v1/python-python");
    assert_eq!(fs_err::read_dir(venvs).unwrap().count(), 1);
}

#[tokio::test]
async fn an_install_that_changes_tracked_files_is_refused() {
    let room = room();
    let head = room.head(&[("pyproject.toml", PYPROJECT), ("backend.py", BACKEND), ("lib/tiny.py", "VALUE = 1\n")]);
    let value = json!({
        "language": "python", "project": "installed", "build_isolation": false, "variables": {"CHANGE": "lib/tiny.py"},
    });
    let error = match room.prepare(value.clone(), &head).await {
        Err(error) if error.reason() == InfraReason::Toolchain => return,
        other => other.unwrap_err(),
    };
    assert_eq!(error.reason(), InfraReason::Environment);
    assert!(error.to_string().contains("`lib/tiny.py`"), "{error}");
    assert!(!error.to_string().contains("built.txt"), "{error}");
    assert_eq!(fs_err::read_to_string(head.snapshot.join("lib/tiny.py")).unwrap(), "VALUE = 1\n");
    // It is not tried again, and no half-made layer is left.
    room.said();
    assert!(matches!(room.prepare(value, &head).await, Err(EnvironmentError::Earlier(_))));
    assert!(room.said().is_empty());
    assert_eq!(fs_err::read_dir(room.folder.path().join("cache/layers-v1/python-build")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_would_be_fetched_is_named_offline() {
    let room = room();
    let head = room.head(&[("package.json", "{}")]);
    for value in [
        json!({"language": "python", "packages": ["six==1.16.0"]}),
        json!({"language": "js", "packages": ["six==1.16.0"]}),
    ] {
        let error = room.prepare(value, &head).await.unwrap_err();
        if error.reason() != InfraReason::Toolchain {
            assert_eq!(error.reason(), InfraReason::Network);
            assert!(error.to_string().contains("`six==1.16.0`"), "{error}");
        }
    }
    let head = room.head(&[
        ("Cargo.toml", "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nlog = \"1\"\n"),
        ("src/lib.rs", ""),
    ]);
    let error = room.prepare(json!({"language": "rust"}), &head).await.unwrap_err();
    if error.reason() != InfraReason::Toolchain {
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}

#[tokio::test]
async fn a_version_that_nobody_has_is_a_missing_toolchain() {
    let room = room();
    let error = room.environments.resolve(&spec(json!({"language": "python", "version": "99.1"}))).unwrap_err();
    assert_eq!(error.reason(), InfraReason::Toolchain);
    let text = error.to_string();
    assert!(text.contains("`99.1`") && text.contains("python99.1 in PATH"), "{text}");
}

#[tokio::test]
async fn node_runs_what_is_in_the_tree() {
    let room = room();
    let head = room.head(&[("half.js", "module.exports = (x) => x / 2;")]);
    let Some(prepared) = room.prepare_if_there(json!({"language": "javascript"}), &head).await else { return };
    let exit = room.run(&prepared, &head, None, &["node", "-p", "require('./half.js')(84)"]).await;
    assert_eq!(output(&exit), "42\n");
}

#[tokio::test]
async fn cargo_is_warm_and_builds_again_what_a_patch_changed() {
    let room = room();
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let test = "#[test]\nfn answer() { assert_eq!(tiny::answer(), 42); }\n";
    let head = room.head(&[
        ("Cargo.toml", manifest),
        ("src/lib.rs", "pub fn answer() -> u8 { 42 }\n"),
        ("tests/answer.rs", test),
    ]);
    let patch = room.files("patch", &[("src/lib.rs", "pub fn answer() -> u8 { 43 }\n")], SystemTime::now());
    let Some(prepared) = room.prepare_if_there(json!({"language": "rust"}), &head).await else { return };
    let test = ["cargo", "test", "--offline", "--test", "answer"];
    let warm = room.run(&prepared, &head, None, &test).await;
    assert_eq!(warm.end, End::Exited(0), "{}{}", warm.stdout.text(), warm.stderr.text());
    assert!(!warm.stderr.text().contains("Compiling"), "{}", warm.stderr.text());
    let patched = room.run(&prepared, &head, Some(&patch), &test).await;
    assert_eq!(patched.end, End::Exited(101));
    assert!(patched.stderr.text().contains("Compiling tiny"), "{}", patched.stderr.text());
    assert!(patched.stdout.text().contains("left: 43"), "{}", patched.stdout.text());
    assert!(names(&prepared.workspace_layers[0]).contains(&"Cargo.lock".to_owned()));
    assert_eq!(prepared.lock["cargo"]["Cargo.lock"]["package"][0]["name"], "tiny");
}

#[tokio::test]
async fn a_head_whose_tests_do_not_compile_still_has_an_environment() {
    let room = room();
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let head = room.head(&[("Cargo.toml", manifest), ("src/lib.rs", ""), ("tests/broken.rs", "fn f( {}")]);
    let Some(prepared) = room.prepare_if_there(json!({"language": "rust"}), &head).await else { return };
    let exit = room.run(&prepared, &head, None, &["cargo", "test", "--offline", "--lib"]).await;
    assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
}

#[tokio::test]
async fn steps_of_the_spec_build_without_network_and_stay_above_the_snapshot() {
    for copies in [false, true] {
        steps_of_the_spec(&room_that(copies)).await;
    }
}

async fn steps_of_the_spec(room: &Room) {
    let head = room.head(&[("source.txt", "x"), ("sub/other.txt", "y")]);
    let value = json!({
        "language": "sh",
        "variables": {"COLOUR": "red"},
        "steps": [
            "env > seen.txt && touch source.txt && chmod 644 sub/other.txt",
            "wc -c < source.txt > size.txt; ls /sys/class/net > net.txt 2>/dev/null || tail -n +3 /proc/net/dev | cut -d: -f1 > net.txt",
        ],
    });
    let prepared = room.prepare(value, &head).await.unwrap();
    assert_eq!(names(&prepared.workspace_layers[0]), ["net.txt", "seen.txt", "size.txt"]);
    let read = |name: &str| fs_err::read_to_string(prepared.workspace_layers[0].join(name)).unwrap();
    let seen: BTreeMap<String, String> =
        read("seen.txt").lines().filter_map(|l| l.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    assert_eq!(seen["COLOUR"], "red");
    assert_eq!(seen["TZ"], "UTC");
    assert!(!seen.keys().any(|name| name.contains("CERT") || name.to_lowercase().contains("proxy")), "{seen:?}");
    assert_eq!(read("size.txt").trim(), "1");
    assert!(read("net.txt").split_whitespace().all(|device| device == "lo"), "{}", read("net.txt"));
}

#[tokio::test]
async fn a_failing_step_is_named_with_its_last_words() {
    let room = room();
    let head = room.head(&[("a", "")]);
    let value = json!({"language": "sh", "steps": ["echo fine", "echo the reason >&2; exit 7", "echo never"]});
    let error = room.prepare(value, &head).await.unwrap_err();
    let EnvironmentError::Earlier(error) = error else { panic!("{error}") };
    let EnvironmentError::Step { step, end, tail, log, reason, .. } = error.as_ref() else { panic!("{error}") };
    assert_eq!(
        (step.as_str(), *end, *reason),
        ("the environment's own step 2", StepEnd::Exited(7), InfraReason::Environment)
    );
    assert!(tail.ends_with("the reason") && !tail.contains("never"), "{tail}");
    assert!(String::from_utf8_lossy(log).contains("fine"));
}

#[tokio::test]
async fn a_layer_is_made_once_however_many_want_it() {
    let room = room();
    let head = room.head(&[("a", "")]);
    let value = json!({"language": "sh", "steps": ["date +%N > when.txt"]});
    let (a, b, c) = tokio::join!(
        room.prepare(value.clone(), &head),
        room.prepare(value.clone(), &head),
        room.prepare(value.clone(), &head)
    );
    let layers = [a, b, c].map(|prepared| prepared.unwrap().workspace_layers[0].clone());
    assert!(layers.iter().all(|layer| *layer == layers[0]));
    assert_eq!(room.said().len(), 1);
    let elsewhere = BuildSubject { tree: "another".to_owned(), ..head.clone() };
    assert_ne!(room.prepare(value, &elsewhere).await.unwrap().workspace_layers[0], layers[0]);
}

#[tokio::test]
async fn a_cancelled_preparation_leaves_nothing_half_made() {
    let room = room();
    let head = room.head(&[("a", "")]);
    let resolved = room.environments.resolve(&spec(json!({"language": "sh", "steps": ["sleep 600"]}))).unwrap();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let say = move |_: &str| stop.cancel();
    let result = room.environments.prepare(&resolved, &head, &say, &cancel).await;
    assert_eq!(result.unwrap_err().reason(), InfraReason::Interrupted);
    assert_eq!(fs_err::read_dir(room.folder.path().join("cache/layers-v1/shell-build")).unwrap().count(), 0);
}

#[test]
fn a_python_that_is_too_old_is_no_toolchain_whoever_wants_it() {
    let python = redgreen::environment::Definitions::load(&[]).unwrap().get("python").unwrap();
    let probe = python.toolchain.probe.last().unwrap();
    let asked = |version: &str| {
        let script = format!("import sys\nsys.version_info = {version}\n{probe}");
        let output = std::process::Command::new("python3").args(["-I", "-c", &script]).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let Some(old) = asked("(3, 7, 16, 'final', 0)") else {
        return crate::support::loudly("LEFT OUT, as there is no python3: a Python that is too old");
    };
    assert!(old["error"].as_str().is_some_and(|error| error.contains("3.7") && error.contains("3.8")), "{old}");
    assert_eq!(asked("(3, 8, 0, 'final', 0)").unwrap()["version"], "3.8.0");
}
