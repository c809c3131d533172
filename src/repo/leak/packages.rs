//! The project's own package in a later version: installed, or in a package manager's cache.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::ObjectType;

use super::Watch;
use super::files::{self, place};
use super::finding::{Later, LeakKind};
use super::inventory::Inventory;
use super::known::{Read, Tree};
use super::names::shown;
use super::version::is_later;

/// The project under review, as package managers call it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// Its names, in small letters with `-` between words.
    names: Vec<String>,
    /// Its version at the commit to review.
    pub version: Option<String>,
}

/// A package's name as indexes compare them.
fn plain(name: &str) -> String {
    let mut out = String::new();
    for c in name.trim_start_matches('@').chars() {
        let c = if matches!(c, '_' | '.' | '/') { '-' } else { c.to_ascii_lowercase() };
        if !(c == '-' && out.ends_with('-')) {
            out.push(c);
        }
    }
    out
}

/// The text in quotes after `key =` or `key:`.
fn quoted(text: &str, key: &str) -> Option<String> {
    for (at, _) in text.match_indices(key) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.') {
            continue;
        }
        let Some(rest) = text[at + key.len()..].trim_start().strip_prefix(['=', ':']) else { continue };
        let rest = rest.trim_start();
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
        if let Some((value, _)) = rest[1..].split_once(quote).filter(|(v, _)| !v.contains('\n')) {
            return Some(value.to_owned());
        }
    }
    None
}

/// The value of a key in a section of an INI file.
fn ini(text: &str, section: &str, key: &str) -> Option<String> {
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.trim() == format!("[{section}]");
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside)
            && name.trim() == key
        {
            return Some(value.trim().to_owned()).filter(|v| !v.is_empty() && !v.contains(':'));
        }
    }
    None
}

impl Own {
    /// Reads names and version from the files of a commit; `extra` is a name that is known anyway.
    pub(super) fn of(tree: Option<&Tree>, read: &Read<'_>, extra: Option<&str>) -> Self {
        let mut own = Self::default();
        let mut add = |name: Option<String>, version: Option<String>| {
            if let Some(name) = name.map(|n| plain(&n)).filter(|n| !n.is_empty() && !own.names.contains(n)) {
                own.names.push(name);
            }
            own.version = own.version.take().or(version.filter(|v| v.starts_with(|c: char| c.is_ascii_digit())));
        };
        let text = |path: &str| -> Option<String> {
            let file = tree?.files.get(path.as_bytes())?;
            let (_, data) = read(file.id).filter(|(kind, _)| *kind == ObjectType::Blob)?;
            String::from_utf8(data).ok()
        };
        if let Some(toml) = text("pyproject.toml").and_then(|t| t.parse::<toml::Table>().ok()) {
            let poetry = toml.get("tool").and_then(|t| t.get("poetry"));
            for table in [toml.get("project"), poetry].into_iter().flatten() {
                let field = |name: &str| Some(table.get(name)?.as_str()?.to_owned());
                add(field("name"), field("version"));
            }
        }
        if let Some(toml) = text("Cargo.toml").and_then(|t| t.parse::<toml::Table>().ok()) {
            let field = |name: &str| Some(toml.get("package")?.get(name)?.as_str()?.to_owned());
            add(field("name"), field("version"));
        }
        if let Some(json) = text("package.json").and_then(|t| serde_json::from_str::<serde_json::Value>(&t).ok()) {
            let field = |name: &str| json[name].as_str().map(str::to_owned);
            add(field("name"), field("version"));
        }
        if let Some(cfg) = text("setup.cfg") {
            add(ini(&cfg, "metadata", "name"), ini(&cfg, "metadata", "version"));
        }
        if let Some(setup) = text("setup.py") {
            add(quoted(&setup, "name"), quoted(&setup, "version"));
        }
        add(extra.map(|e| e.rsplit('/').next().unwrap_or(e).to_owned()), None);
        const VERSION_FILES: [&[u8]; 5] =
            [b"/__init__.py", b"/__version__.py", b"/__about__.py", b"/_version.py", b"/version.py"];
        if own.version.is_none() {
            let paths = tree.iter().flat_map(|t| t.files.keys());
            let likely = paths.filter(|path| {
                let depth = path.iter().filter(|b| **b == b'/').count();
                depth <= 2 && VERSION_FILES.iter().any(|end| path.ends_with(end)) && !path.starts_with(b"test")
            });
            own.version = likely
                .filter_map(|path| text(std::str::from_utf8(path).ok()?))
                .find_map(|text| quoted(&text, "__version__"))
                .filter(|v| v.starts_with(|c: char| c.is_ascii_digit()));
        }
        own
    }

    /// Whether a version is a finding.
    fn judge(&self, version: &str) -> Option<Later> {
        match self.version.as_deref().and_then(|head| is_later(version, head)) {
            Some(true) => Some(Later::Certain),
            Some(false) => None,
            None => Some(Later::Possible),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.names.contains(&plain(name))
    }

    /// The version in a name such as `name-1.2-py3-none-any.whl`, `name-1.2.dist-info`, `name-1.2.tgz`.
    fn version_in(&self, name: &str) -> Option<String> {
        const ENDS: [&str; 12] = [
            ".dist-info",
            ".egg-info",
            ".egg",
            ".whl",
            ".tar.gz",
            ".tar.bz2",
            ".tar.xz",
            ".tgz",
            ".zip",
            ".crate",
            ".conda",
            ".msgpack",
        ];
        let name = ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        name.match_indices('-').find_map(|(at, _)| {
            let version = name[at + 1..].split('-').next().unwrap_or_default();
            let number = version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
            // npm and Cargo write `-rc.1` after the numbers.
            let pre = name[at + 1..].split('-').nth(1).filter(|p| p.starts_with(|c: char| c.is_ascii_lowercase()));
            let pre = pre.filter(|p| ["alpha", "beta", "rc", "pre", "dev"].iter().any(|w| p.starts_with(w)));
            (number && self.is(&name[..at]))
                .then(|| pre.map_or_else(|| version.to_owned(), |pre| format!("{version}-{pre}")))
        })
    }

    /// What a file or folder says of a later version of the project, if it does.
    pub(super) fn sighting(&self, path: &Path, is_folder: bool) -> Option<(LeakKind, Later, String)> {
        if self.names.is_empty() {
            return None;
        }
        let name = path.file_name()?.to_str()?;
        let all = path.to_string_lossy();
        if let Some(version) = self.version_in(name) {
            let later = self.judge(&version)?;
            let kind = if ["info", "egg"].iter().any(|end| name.ends_with(end)) && is_folder {
                LeakKind::Package
            } else {
                LeakKind::PackageCache
            };
            return Some((kind, later, self.says(&version)));
        }
        if is_folder && let Some(stem) = name.strip_suffix(".egg-info").filter(|stem| self.is(stem)) {
            let text = files::read(&path.join("PKG-INFO"), 4 << 20).bytes()?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let version = text.lines().find_map(|l| l.strip_prefix("Version:")).unwrap_or_default().trim().to_owned();
            return Some((LeakKind::Package, self.judge(&version)?, format!("{stem}: {}", self.says(&version))));
        }
        if name == "package.json" && !is_folder {
            let (_, below) = all.rsplit_once("/node_modules/")?;
            if !self.is(below.strip_suffix("/package.json")?) {
                return None;
            }
            let json: serde_json::Value = serde_json::from_slice(&files::read(path, 4 << 20).bytes()?).ok()?;
            let version = json["version"].as_str().unwrap_or_default();
            return Some((LeakKind::Package, self.judge(version)?, self.says(version)));
        }
        if is_folder {
            return None;
        }
        if all.contains("/_cacache/index-v5/") {
            return self.in_npm_index(&files::read(path, 4 << 20).bytes()?);
        }
        if all.contains("/http/") || all.contains("/http-v2/") {
            return self.in_pip_answer(&files::start(path, 8192).ok()?);
        }
        None
    }

    fn says(&self, version: &str) -> String {
        let version = if version.is_empty() { "an unknown version" } else { version };
        match &self.version {
            Some(head) => {
                format!("version {}; the commit to review has {}", shown(version.as_bytes()), shown(head.as_bytes()))
            }
            None => format!("version {}; that of the commit to review is not known", shown(version.as_bytes())),
        }
    }

    /// npm's index: lines of a checksum and JSON, whose key ends in the address of what was fetched.
    fn in_npm_index(&self, data: &[u8]) -> Option<(LeakKind, Later, String)> {
        let mut best: Option<(Later, String)> = None;
        for line in String::from_utf8_lossy(data).lines() {
            let Some((_, json)) = line.split_once('\t') else { continue };
            let Ok(json) = serde_json::from_str::<serde_json::Value>(json) else { continue };
            let key = json["key"].as_str().unwrap_or_default();
            let found = if let Some((before, tarball)) = key.rsplit_once("/-/") {
                let own = before.rsplit_once("://").is_some_and(|(_, path)| {
                    path.split_once('/').is_some_and(|(_, name)| self.is(&name.replace("%2f", "/").replace("%2F", "/")))
                });
                let version = tarball.strip_suffix(".tgz").and_then(|stem| {
                    stem.match_indices('-')
                        .map(|(at, _)| &stem[at + 1..])
                        .find(|v| v.starts_with(|c: char| c.is_ascii_digit()))
                });
                version.filter(|_| own).and_then(|v| Some((self.judge(v)?, self.says(v))))
            } else {
                let name =
                    key.rsplit_once("://").and_then(|(_, path)| path.split_once('/')).map_or("", |(_, name)| name);
                let own = !name.is_empty() && self.is(&name.replace("%2f", "/").replace("%2F", "/"));
                own.then(|| (Later::Possible, "the list of all its versions at some time".to_owned()))
            };
            best = best.into_iter().chain(found).max_by_key(|(later, _)| *later);
        }
        best.map(|(later, what)| (LeakKind::PackageCache, later, what))
    }

    /// An answer that pip kept: the package index names project and version in headers of its own.
    fn in_pip_answer(&self, start: &[u8]) -> Option<(LeakKind, Later, String)> {
        let value = |key: &[u8]| {
            let at = start.windows(key.len()).position(|w| w.eq_ignore_ascii_case(key))? + key.len();
            // MessagePack: a text is its length (in one byte with 101 before it, or after 0xd9) and its bytes.
            let (length, from) = match *start.get(at)? {
                short @ 0xa0..=0xbf => (usize::from(short & 0x1f), at + 1),
                0xd9 => (usize::from(*start.get(at + 1)?), at + 2),
                _ => return None,
            };
            String::from_utf8(start.get(from..from + length)?.to_vec()).ok()
        };
        let project = value(b"x-pypi-file-project").filter(|p| self.is(p))?;
        let version = value(b"x-pypi-file-version")?;
        Some((LeakKind::PackageCache, self.judge(&version)?, format!("{project}: {}", self.says(&version))))
    }
}

/// Looks through folders with packages that somebody named. Gives the number of files.
pub(super) fn look(
    root: &Path,
    folders: &[PathBuf],
    own: &Own,
    inventory: &mut Inventory,
    watch: &mut Watch<'_>,
) -> u64 {
    let mut seen = 0;
    for folder in folders {
        let mut walk = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter();
        while let Some(entry) = walk.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    inventory.notes.push(format!("not looked at: {}", shown(e.to_string().as_bytes())));
                    continue;
                }
            };
            let is_folder = entry.file_type().is_dir();
            if !is_folder && !entry.file_type().is_file() {
                continue;
            }
            seen += u64::from(!is_folder);
            watch("files of packages", seen);
            if let Some((kind, later, what)) = own.sighting(entry.path(), is_folder) {
                inventory.find(kind, place(root, entry.path()), later, what);
                if is_folder {
                    walk.skip_current_dir();
                }
            }
        }
    }
    seen
}

/// The source of a `.pyc`, by its name: `a/__pycache__/m.cpython-311.pyc` and `a/m.pyc` are of `a/m.py`.
pub(super) fn source_of(path: &[u8]) -> Option<Vec<u8>> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let name = path.file_name()?.as_bytes();
    let stem = name.strip_suffix(b".pyc").or_else(|| name.strip_suffix(b".pyo"))?;
    let folder = path.parent()?;
    let (folder, stem) = if folder.file_name().is_some_and(|n| n == "__pycache__") {
        (folder.parent()?, stem.split(|b| *b == b'.').next()?)
    } else {
        (folder, stem)
    };
    let source = folder.join(std::ffi::OsStr::from_bytes(&[stem, b".py"].concat()));
    Some(source.as_os_str().as_bytes().to_vec())
}

/// Time (its low 32 bits) and size of the source that a `.pyc` says that it was made from (PEP 3147, PEP 552); `None`
/// where it says neither.
pub(super) fn compiled_from(header: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    (word(4)? == 0).then_some(())?;
    Some((word(8)?, word(12)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use git2::Oid;

    use super::super::known::TreeFile;
    use super::*;

    fn own(files: &[(&str, &str)], extra: Option<&str>) -> Own {
        let mut tree = Tree::default();
        let mut blobs = BTreeMap::new();
        for (path, text) in files {
            let id = Oid::hash_object(ObjectType::Blob, text.as_bytes()).unwrap();
            tree.files.insert(path.as_bytes().to_vec(), TreeFile { mode: 0o100_644, id });
            blobs.insert(id, (ObjectType::Blob, text.as_bytes().to_vec()));
        }
        Own::of(Some(&tree), &|id| blobs.get(&id).cloned(), extra)
    }

    #[test]
    fn names_and_versions_are_read_from_every_usual_file() {
        for (files, name, version) in [
            (&[("pyproject.toml", "[project]\nname = \"My_Pkg\"\nversion = \"1.2\"\n")][..], "my-pkg", Some("1.2")),
            (&[("setup.py", "from x import y\nsetup(name='my.pkg',\n  version=\"1.2\")")], "my-pkg", Some("1.2")),
            (&[("setup.cfg", "[metadata]\nname = my-pkg\nversion = attr: x.y\n")], "my-pkg", None),
            (&[("Cargo.toml", "[package]\nname = \"my-pkg\"\nversion = \"1.2.0\"\n")], "my-pkg", Some("1.2.0")),
            (&[("package.json", "{\"name\": \"@my/pkg\", \"version\": \"1.2.0\"}")], "my-pkg", Some("1.2.0")),
            (
                &[("setup.py", "setup(name=n, version=v)"), ("src/my_pkg/__init__.py", "__version__ = '1.2'")],
                "proj",
                Some("1.2"),
            ),
        ] {
            let own = own(files, Some("o/proj"));
            assert!(own.is(name) && own.is("proj"), "{own:?}");
            assert_eq!(own.version.as_deref(), version, "{files:?}");
        }
    }

    #[test]
    fn later_packages_are_told_by_their_names() {
        let own = own(&[("setup.py", "setup(name='my-pkg', version='1.2')")], None);
        let later = |name: &str, folder: bool| own.sighting(Path::new(&format!("/x/{name}")), folder).map(|s| s.1);
        for name in [
            "my_pkg-1.3-py3-none-any.whl",
            "my-pkg-1.3.tar.gz",
            "My.Pkg-2.0.crate",
            "my-pkg-1.2.1.tgz",
            "my-pkg-1.3.0-rc.1.tgz",
        ] {
            assert_eq!(later(name, false), Some(Later::Certain), "{name}");
        }
        assert_eq!(later("my_pkg-1.3.dist-info", true), Some(Later::Certain));
        for name in ["my_pkg-1.2.dist-info", "my_pkg-1.1.dist-info", "my-pkg-extra-9.9.dist-info", "my-pkg"] {
            assert_eq!(later(name, true), None, "{name}");
        }
    }

    #[test]
    fn caches_of_npm_and_pip() {
        let own = own(&[("package.json", "{\"name\": \"semver\", \"version\": \"7.5.0\"}")], None);
        let line = |address: &str| {
            format!("\nabc\t{{\"key\":\"make-fetch-happen:request-cache:https://r.example/{address}\"}}")
        };
        let npm = |address: &str| own.in_npm_index(line(address).as_bytes()).map(|f| f.1);
        assert_eq!(npm("semver/-/semver-7.5.1.tgz"), Some(Later::Certain));
        assert_eq!(npm("semver/-/semver-7.5.0.tgz"), None);
        assert_eq!(npm("other/-/other-9.0.0.tgz"), None);
        assert_eq!(npm("semver"), Some(Later::Possible));
        let answer = |version: &str| {
            [b"\xb3x-pypi-file-project\xa6semver\xb3x-pypi-file-version\xa5".as_slice(), version.as_bytes()].concat()
        };
        assert_eq!(own.in_pip_answer(&answer("7.6.0")).map(|f| f.1), Some(Later::Certain));
        assert_eq!(own.in_pip_answer(&answer("7.4.0")), None);
        assert_eq!(own.in_pip_answer(b"x-pypi-file-project\xd9"), None);
    }

    #[test]
    fn bytecode_names_its_source() {
        assert_eq!(source_of(b"a/__pycache__/m.cpython-311.opt-1.pyc").unwrap(), b"a/m.py");
        assert_eq!(source_of(b"m.pyc").unwrap(), b"m.py");
        assert_eq!(source_of(b"m.py"), None);
        let header = [[1, 2, 3, 4], [0; 4], [9, 0, 0, 0], [7, 0, 0, 0]].concat();
        assert_eq!(compiled_from(&header), Some((9, 7)));
        assert_eq!(compiled_from(&header[..12]), None);
    }
}
