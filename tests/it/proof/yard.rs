//! A cache, a sandbox and the environments that are found with them, for trees that are written here.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use redgreen::environment::{
    Acceptance, BuildSubject, Environments, HostVariables, NetworkSettings, Rejected, Repairer, Request, Settings,
    detect,
};
use redgreen::sandbox::Sandbox;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::index::INDEX;
use crate::support::{host, loudly};

/// A build back end of the project's own: nothing has to be fetched for it. It installs what `MODULES` names, and does
/// what `EXTRA` says first.
pub const BACKEND: &str = r##"
import base64, hashlib, os, zipfile

NAME, MODULES, REQUIRES = "@NAME@", [@MODULES@], [@REQUIRES@]
INFO = NAME + "-1.0.dist-info"

def extra():
    pass
@EXTRA@

def wheel(directory, files):
    extra()
    files = dict(files)
    files[INFO + "/METADATA"] = "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n%s" % (
        NAME, "".join("Requires-Dist: %s\n" % r for r in REQUIRES))
    files[INFO + "/WHEEL"] = "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += "%s,sha256=%s,%d\n" % (name, digest, len(text))
    files[INFO + "/RECORD"] = record + INFO + "/RECORD,,\n"
    name = NAME + "-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name

def build_wheel(directory, settings=None, metadata=None):
    return wheel(directory, {m: open(m).read() for m in MODULES})

def build_editable(directory, settings=None, metadata=None):
    return wheel(directory, {NAME + ".pth": os.path.abspath(".") + "\n"})
"##;

/// A project: a package, tests of it, a back end of its own.
pub struct Project {
    pub name: &'static str,
    /// What it wants.
    pub dependencies: &'static [&'static str],
    /// What its install does first, as the body of a Python function.
    pub install: &'static str,
    /// Its files beside those that every project has; they replace those.
    pub files: &'static [(&'static str, &'static str)],
}

impl Project {
    pub const fn named(name: &'static str) -> Self {
        Self { name, dependencies: &[], install: "    pass", files: &[] }
    }

    /// All files of the tree.
    pub fn tree(&self) -> Vec<(String, String)> {
        let quoted = |texts: &[&str]| texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ");
        let (name, dependencies) = (self.name, quoted(self.dependencies));
        let backend = BACKEND
            .replace("@NAME@", name)
            .replace("@MODULES@", &quoted(&[&format!("{name}/__init__.py")]))
            .replace("@REQUIRES@", &dependencies)
            .replace("@EXTRA@", &format!("\ndef extra():\n{}\n", self.install));
        let mut files = vec![
            (
                "pyproject.toml".to_owned(),
                format!(
                    "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n\n\
                     [project]\nname = \"{name}\"\nversion = \"1.0\"\ndependencies = [{dependencies}]\n"
                ),
            ),
            ("backend.py".to_owned(), backend),
            (format!("{name}/__init__.py"), "VALUE = 42\n".to_owned()),
            (
                "tests/test_value.py".to_owned(),
                format!("import pytest\nimport {name}\n\ndef test_value():\n    assert {name}.VALUE == 42\n"),
            ),
        ];
        for (path, text) in self.files {
            files.retain(|(known, _)| known != path);
            files.push(((*path).to_owned(), (*text).to_owned()));
        }
        files
    }
}

/// The day of all commits: of what was out then every machine with a Python has something.
const DAY: jiff::civil::Date = jiff::civil::date(2023, 6, 1);

/// A cache with the installer in it, made once: it takes longer than all the rest.
static WARM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proof-cache");
    let config = LocalConfig::new(env!("CARGO_BIN_EXE_redgreen"), cache.join("scratch"));
    let sandbox: Arc<dyn Sandbox> = Arc::new(LocalSandbox::new(config).unwrap());
    let mut settings = Settings::new(cache.clone(), HostVariables::pick(std::env::vars()));
    settings.network = index_at(&INDEX.as_ref()?.url());
    let environments = Environments::new(settings, sandbox).unwrap();
    // Whatever Python is taken for a tree that says nothing.
    let tree = tempfile::tempdir().unwrap();
    let detected = detect(environments.definitions(), tree.path(), Some(DAY), Some("python")).unwrap();
    let resolved = detected.versions().find_map(|version| {
        let spec = json!({"language": "python", "version": version, "packages": ["pytest"], "project": "editable"});
        environments.resolve(&serde_json::from_value(spec).unwrap()).ok()
    })?;
    let subject =
        BuildSubject { snapshot: tree.path().to_owned(), tree: "none".to_owned(), merged: None, merged_tree: None };
    // There is nothing to build: only the layers below are wanted.
    let never = CancellationToken::new();
    let prepare = environments.prepare(&resolved, &subject, &|_| {}, &never);
    std::thread::scope(|scope| {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(prepare).is_ok()
        };
        let _ = scope.spawn(run).join();
    });
    Some(cache.join("layers-v1"))
});

/// The layers of one cache in another: the files are the same ones, as nobody writes to them.
fn link_folder(layers: &Path, cache: &Path) {
    for kind in ["python-pip", "python-backend", "python-python"] {
        let (from, to) = (layers.join(kind), cache.join("layers-v1").join(kind));
        // What begins with a dot is being made, by another process of tests.
        let whole =
            |entry: &walkdir::DirEntry| entry.depth() != 1 || !entry.file_name().to_string_lossy().starts_with('.');
        for entry in walkdir::WalkDir::new(&from).into_iter().filter_entry(whole).flatten() {
            let target = to.join(entry.path().strip_prefix(&from).unwrap());
            if entry.file_type().is_dir() {
                fs_err::create_dir_all(&target).unwrap();
                let meta = entry.metadata().unwrap();
                std::os::unix::fs::chown(&target, Some(meta.uid()), Some(meta.gid())).unwrap();
                fs_err::set_permissions(&target, meta.permissions()).unwrap();
            } else {
                fs_err::hard_link(entry.path(), &target).unwrap();
            }
        }
    }
}

/// A room to find environments in.
pub struct Yard {
    pub folder: tempfile::TempDir,
    sandbox: Arc<dyn Sandbox>,
    pub environments: Arc<Environments>,
    pub said: Arc<Mutex<Vec<String>>>,
}

impl Yard {
    /// `None`, said aloud, where this machine has no Python.
    pub fn new(test: &str) -> Option<Self> {
        Self::with(test, |_| {})
    }

    /// With other settings.
    pub fn with(test: &str, edit: impl FnOnce(&mut Settings)) -> Option<Self> {
        let Some(index) = INDEX.as_ref() else {
            loudly(&format!("LEFT OUT, as there is no python3: {test}"));
            return None;
        };
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = LocalConfig::new(env!("CARGO_BIN_EXE_redgreen"), folder.path().join("scratch"));
        let sandbox: Arc<dyn Sandbox> = Arc::new(LocalSandbox::new(config).unwrap());
        let cache = folder.path().join("cache");
        if let Some(warm) = WARM.as_ref() {
            link_folder(warm, &cache);
        }
        let mut settings = Settings::new(cache, HostVariables::pick(std::env::vars()));
        settings.network = index_at(&index.url());
        edit(&mut settings);
        let environments = Arc::new(Environments::new(settings, sandbox.clone()).unwrap());
        Some(Self { folder, sandbox, environments, said: Arc::default() })
    }

    pub fn repaired_by(mut self, repairer: Arc<dyn Repairer>) -> Self {
        Arc::get_mut(&mut self.environments).unwrap().set_repairer(repairer);
        self
    }

    /// A project's tree on the host.
    pub fn subject(&self, project: &Project) -> BuildSubject {
        let root = self.folder.path().join(format!("tree-{}", project.name));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
        for (path, text) in project.tree() {
            let place = root.join(path);
            fs_err::create_dir_all(place.parent().unwrap()).unwrap();
            fs_err::write(&place, text).unwrap();
            fs_err::OpenOptions::new().write(true).open(&place).unwrap().file().set_modified(time).unwrap();
        }
        let (uid, gid) = self.sandbox.owner();
        for entry in walkdir::WalkDir::new(&root) {
            std::os::unix::fs::lchown(entry.unwrap().path(), Some(uid), Some(gid)).unwrap();
        }
        BuildSubject { snapshot: root, tree: project.name.to_owned(), merged: None, merged_tree: None }
    }

    pub fn request(&self, project: &Project) -> Request {
        Request {
            subject: self.subject(project),
            date: Some(DAY),
            language: Some("python".to_owned()),
            needs: vec![("python".to_owned(), "pytest".to_owned())],
        }
    }

    pub async fn accept(&self, request: &Request) -> Acceptance {
        self.accept_until(request, &CancellationToken::new()).await
    }

    pub async fn accept_until(&self, request: &Request, cancel: &CancellationToken) -> Acceptance {
        let said = self.said.clone();
        let say = move |text: &str| said.lock().unwrap().push(text.to_owned());
        self.environments.accept(request, false, &say, cancel).await
    }

    /// The failure of a project that gets no environment.
    pub async fn rejected(&self, project: &Project) -> Box<Rejected> {
        match self.accept(&self.request(project)).await {
            Err(rejected) => rejected,
            Ok(other) => panic!("accepted: {other:#?}\n{}", self.said.lock().unwrap().join("\n")),
        }
    }

    /// What was said so far.
    pub fn take_said(&self) -> Vec<String> {
        std::mem::take(&mut self.said.lock().unwrap())
    }

    /// Drafts of layers, and whatever else should be gone after an attempt.
    pub fn left_behind(&self) -> Vec<PathBuf> {
        let cache = self.folder.path().join("cache/layers-v1");
        let drafts = walkdir::WalkDir::new(cache).min_depth(2).max_depth(2).into_iter().flatten();
        let drafts = drafts.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        let mut left: Vec<PathBuf> = drafts.map(walkdir::DirEntry::into_path).collect();
        let scratch = fs_err::read_dir(self.folder.path().join("scratch"));
        left.extend(scratch.into_iter().flatten().flatten().map(|entry| entry.path()));
        left
    }
}

/// This machine's variables with a folder in front of the path.
pub fn host_with(folder: &Path) -> HostVariables {
    let path = format!("{}:{}", folder.display(), host("PATH").unwrap_or_default());
    let others = std::env::vars().filter(|(name, _)| name != "PATH");
    HostVariables::pick(others.chain([("PATH".to_owned(), path)]))
}

/// An index and no other one.
pub fn index_at(url: &str) -> NetworkSettings {
    let variables = [
        ("PIP_INDEX_URL", url),
        ("PIP_RETRIES", "1"),
        ("PIP_DEFAULT_TIMEOUT", "30"),
        ("no_proxy", "127.0.0.1"),
        ("NO_PROXY", "127.0.0.1"),
    ];
    NetworkSettings {
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..NetworkSettings::default()
    }
}
