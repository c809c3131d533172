//! How fetch steps reach package indexes: proxy, CA bundle and index settings of the host, without credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::sandbox::Mount;

/// Where the CA bundle lies in a fetch.
const CA_BUNDLE: &str = "/env/ca/bundle.pem";

/// The variables by which the usual clients are told of a CA bundle.
const CA_VARIABLES: [&str; 8] = [
    "SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
    "npm_config_cafile",
    // The last one adds to the built-in certificates, so a host's file for it may not be a whole bundle.
    "NODE_EXTRA_CA_CERTS",
];

/// Where systems keep their CA bundle.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Configuration files that are not there. (npm refuses to be given one file for both.)
const NO_CONFIGURATION: [(&str, &str); 3] = [
    ("PIP_CONFIG_FILE", "/dev/null"),
    ("npm_config_userconfig", "/env/none/user-npmrc"),
    ("npm_config_globalconfig", "/env/none/global-npmrc"),
];

/// pip's variable with folders of packages.
const FIND_LINKS: &str = "PIP_FIND_LINKS";

/// Where a folder of packages lies in a fetch. Its own path may lead through a home that is closed to others, also in the
/// root file system of a container.
fn folder_inside(number: usize) -> String {
    format!("/env/links/{number}")
}

const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// The host's network settings for fetch steps. They reach no build and no test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Variables of fetch steps: proxies and index settings, free of credentials.
    pub variables: BTreeMap<String, String>,
    /// The CA bundle on the host.
    pub ca_bundle: Option<PathBuf>,
    /// The registry that stands in for crates.io, as cargo writes it (`sparse+https://…/`).
    pub cargo_registry: Option<String>,
    /// Local folders of packages, mounted read-only at places of our own.
    pub folders: Vec<PathBuf>,
    /// Settings from which credentials were taken away; what needs them will not be reachable.
    pub stripped: Vec<String>,
}

impl NetworkSettings {
    /// Reads a process's variables and the usual files (`pip.conf`, `.npmrc`, cargo's `config.toml`) below its `HOME`
    /// and in `/etc`. Files that are not there or can't be read count for nothing.
    pub fn gather(variables: &BTreeMap<String, String>) -> Self {
        let mut settings = Self::default();
        let get = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        for name in PROXY_VARIABLES {
            let upper = name.to_ascii_uppercase();
            if let Some(value) = get(name).or_else(|| get(&upper)) {
                let value = settings.clean(name, value);
                settings.variables.insert(name.to_owned(), value.clone());
                settings.variables.insert(upper, value);
            }
        }
        let home = get("HOME").map(PathBuf::from);
        let pip = settings.gather_pip(variables, home.as_deref());
        let npm = settings.gather_npm(variables, home.as_deref());
        let cargo = settings.gather_cargo(variables, home.as_deref());
        let named = CA_VARIABLES.iter().filter_map(|name| get(name).cloned());
        settings.ca_bundle = named
            .chain([pip, npm, cargo].into_iter().flatten())
            .map(PathBuf::from)
            .chain(SYSTEM_BUNDLES.map(PathBuf::from))
            .find(|path| path.is_file());
        settings
    }

    /// The variables of a step with network.
    pub(super) fn step_variables(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        // No configuration file of the system may add an index, or credentials, of its own.
        for (name, file) in NO_CONFIGURATION {
            out.insert(name.to_owned(), file.to_owned());
        }
        out.extend(self.variables.clone());
        if let Some(links) = out.get_mut(FIND_LINKS) {
            let words = links.split(' ').map(|word| {
                let number = self.folders.iter().position(|folder| folder == Path::new(word));
                number.map_or(word.to_owned(), folder_inside)
            });
            *links = words.collect::<Vec<_>>().join(" ");
        }
        if self.ca_bundle.is_some() {
            out.extend(CA_VARIABLES.iter().map(|name| ((*name).to_owned(), CA_BUNDLE.to_owned())));
        }
        out
    }

    /// The mounts of a step with network.
    pub(super) fn step_mounts(&self) -> Vec<Mount> {
        let bundle =
            self.ca_bundle.iter().map(|source| Mount::ReadOnly { source: source.clone(), target: CA_BUNDLE.into() });
        let folders = self
            .folders
            .iter()
            .enumerate()
            .map(|(number, folder)| Mount::ReadOnly { source: folder.clone(), target: folder_inside(number).into() });
        bundle.chain(folders).collect()
    }

    /// Cargo's arguments for another registry.
    pub(super) fn cargo_arguments(&self) -> Vec<String> {
        self.cargo_registry.iter().fold(Vec::new(), |mut out, registry| {
            for value in [
                "source.crates-io.replace-with=\"host\"".to_owned(),
                format!("source.host.registry={}", toml::Value::from(registry.as_str())),
            ] {
                out.push("--config".to_owned());
                out.push(value);
            }
            out
        })
    }

    fn clean(&mut self, setting: &str, url: &str) -> String {
        let (plain, stripped) = strip_credentials(url);
        if stripped && !self.stripped.iter().any(|known| known == setting) {
            self.stripped.push(setting.to_owned());
        }
        plain
    }

    /// Sets the pip variables; gives the CA bundle that the files name.
    fn gather_pip(&mut self, variables: &BTreeMap<String, String>, home: Option<&Path>) -> Option<String> {
        const KEYS: [&str; 5] = ["index-url", "extra-index-url", "find-links", "trusted-host", "timeout"];
        let mut files = vec![PathBuf::from("/etc/pip.conf")];
        if let Some(home) = home {
            files.push(home.join(".pip/pip.conf"));
            files.push(home.join(".config/pip/pip.conf"));
        }
        files.extend(variables.get("PIP_CONFIG_FILE").map(PathBuf::from));
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for text in files.iter().filter_map(|file| fs_err::read_to_string(file).ok()) {
            values.extend(
                ini(&text)
                    .into_iter()
                    .filter(|(section, _, _)| section == "global" || section == "install")
                    .map(|(_, k, v)| (k, v)),
            );
        }
        let cert = values.get("cert").cloned();
        for key in KEYS {
            let name = format!("PIP_{}", key.to_ascii_uppercase().replace('-', "_"));
            let name = if key == "timeout" { "PIP_DEFAULT_TIMEOUT".to_owned() } else { name };
            let Some(value) = variables.get(&name).or_else(|| values.get(key)).filter(|v| !v.trim().is_empty()) else {
                continue;
            };
            let mut kept = Vec::new();
            for word in value.split_whitespace() {
                let word = self.clean(&name, word);
                if key == "find-links" && Path::new(&word).is_absolute() {
                    if !Path::new(&word).is_dir() {
                        continue;
                    }
                    self.folders.push(PathBuf::from(&word));
                }
                kept.push(word);
            }
            if !kept.is_empty() {
                self.variables.insert(name, kept.join(" "));
            }
        }
        cert
    }

    fn gather_npm(&mut self, variables: &BTreeMap<String, String>, home: Option<&Path>) -> Option<String> {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        let files = [Some(PathBuf::from("/etc/npmrc")), home.map(|home| home.join(".npmrc"))];
        for text in files.iter().flatten().filter_map(|file| fs_err::read_to_string(file).ok()) {
            values.extend(ini(&text).into_iter().map(|(_, key, value)| (key, value)));
        }
        let variable = ["npm_config_registry", "NPM_CONFIG_REGISTRY"].iter().find_map(|name| variables.get(*name));
        if let Some(value) = variable {
            values.insert("registry".to_owned(), value.clone());
        }
        for (key, value) in &values {
            // A value with `${…}` is filled from a variable that may be a secret.
            if (key == "registry" || (key.starts_with('@') && key.ends_with(":registry"))) && !value.contains("${") {
                let name = format!("npm_config_{key}");
                let value = self.clean(&name, value);
                self.variables.insert(name, value);
            }
        }
        values.get("cafile").cloned()
    }

    fn gather_cargo(&mut self, variables: &BTreeMap<String, String>, home: Option<&Path>) -> Option<String> {
        let folder = variables.get("CARGO_HOME").map(PathBuf::from).or_else(|| home.map(|home| home.join(".cargo")))?;
        let text = ["config.toml", "config"].iter().find_map(|name| fs_err::read_to_string(folder.join(name)).ok())?;
        let config: toml::Table = text.parse().ok()?;
        let string = |path: &[&str]| string_at(&config, path);
        if let Some(other) = string(&["source", "crates-io", "replace-with"]) {
            let registry = string(&["source", &other, "registry"]).or_else(|| string(&["registries", &other, "index"]));
            self.cargo_registry = registry.map(|url| self.clean("cargo's source replacement", &url));
        }
        if let Some(proxy) = string(&["http", "proxy"]) {
            let proxy = self.clean("CARGO_HTTP_PROXY", &proxy);
            self.variables.insert("CARGO_HTTP_PROXY".to_owned(), proxy);
        }
        string(&["http", "cainfo"])
    }
}

fn string_at(table: &toml::Table, path: &[&str]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    let mut table = table;
    for key in parents {
        table = table.get(*key)?.as_table()?;
    }
    table.get(*last)?.as_str().map(str::to_owned)
}

/// A URL (or `user:password@host:port`) without its user part, and whether there was one.
pub fn strip_credentials(url: &str) -> (String, bool) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{scheme}{host}{tail}"), true),
        None => (url.to_owned(), false),
    }
}

/// The `key = value` lines of an INI file with their section; indented lines go on with the value before.
fn ini(text: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut out: Vec<(String, String, String)> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            section = name.trim().to_owned();
        } else if line.starts_with([' ', '\t']) && !out.is_empty() && !trimmed.contains('=') {
            if let Some((_, _, value)) = out.last_mut() {
                value.push(' ');
                value.push_str(trimmed);
            }
        } else if let Some((key, value)) = trimmed.split_once('=') {
            let value = value.trim().trim_matches('"');
            out.push((section.clone(), key.trim().to_owned(), value.to_owned()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn credentials_are_taken_off_urls_and_nothing_else_is() {
        for (url, plain) in [
            ("https://user:p%40ss@index.example/simple/?a=b@c", "https://index.example/simple/?a=b@c"),
            ("http://token@proxy.example:3128", "http://proxy.example:3128"),
            ("user:a@b@proxy.example:3128", "proxy.example:3128"),
            ("sparse+https://u:p@crates.example/index/", "sparse+https://crates.example/index/"),
        ] {
            assert_eq!(strip_credentials(url), (plain.to_owned(), true), "{url}");
        }
        for url in ["https://index.example/@scope/x", "/opt/wheels@2", "localhost,.example", ""] {
            assert_eq!(strip_credentials(url), (url.to_owned(), false));
        }
    }

    #[test]
    fn files_and_variables_are_gathered_without_secrets() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        let links = home.path().join("wheels");
        fs_err::create_dir(&links).unwrap();
        write(
            ".config/pip/pip.conf",
            &format!(
                "# mine\n[global]\nindex-url = https://me:hunter2@pypi.example/simple\nextra-index-url =\n  https://a.example/s\n  \
                 https://b:hunter2@b.example/s\nfind-links = {} /nowhere\n[list]\nformat = columns\n",
                links.display()
            ),
        );
        write(
            ".npmrc",
            "registry=https://me:hunter2@npm.example/\n//npm.example/:_authToken=hunter2\n@org:registry=https://org.example/\n\
             @x:registry=https://${TOKEN}@x.example/\n",
        );
        write(
            ".cargo/config.toml",
            "[source.crates-io]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+https://me:hunter2@crates.example/\"\n\
             [registry]\ntoken = \"hunter2\"\n",
        );
        let home_text = home.path().to_str().unwrap();
        let settings = NetworkSettings::gather(&map(&[
            ("HOME", home_text),
            ("HTTPS_PROXY", "http://me:hunter2@proxy.example:3128"),
            ("NO_PROXY", "localhost"),
            ("AWS_SECRET", "hunter2"),
        ]));
        let all = format!(
            "{settings:?} {:?} {:?} {:?}",
            settings.step_variables(),
            settings.step_mounts(),
            settings.cargo_arguments()
        );
        assert!(!all.contains("hunter2") && !all.contains("TOKEN"), "{all}");
        let variables = &settings.variables;
        assert_eq!(variables["https_proxy"], "http://proxy.example:3128");
        assert_eq!(variables["HTTPS_PROXY"], "http://proxy.example:3128");
        assert_eq!(variables["PIP_INDEX_URL"], "https://pypi.example/simple");
        assert_eq!(variables["PIP_EXTRA_INDEX_URL"], "https://a.example/s https://b.example/s");
        assert_eq!(variables["PIP_FIND_LINKS"], links.to_str().unwrap());
        assert_eq!(variables["npm_config_registry"], "https://npm.example/");
        assert_eq!(variables["npm_config_@org:registry"], "https://org.example/");
        assert_eq!(settings.cargo_registry.as_deref(), Some("sparse+https://crates.example/"));
        assert_eq!(settings.cargo_arguments()[3], "source.host.registry=\"sparse+https://crates.example/\"");
        assert_eq!(settings.folders, std::slice::from_ref(&links));
        // A step sees it at a place that is open to its user wherever it lies on the host.
        assert_eq!(settings.step_variables()["PIP_FIND_LINKS"], "/env/links/0");
        let is_it = |mount: &Mount| match mount {
            Mount::ReadOnly { source, target } => *source == links && target == Path::new("/env/links/0"),
            _ => false,
        };
        assert!(settings.step_mounts().iter().any(is_it), "{:?}", settings.step_mounts());
        assert!(
            ["https_proxy", "PIP_INDEX_URL", "npm_config_registry"]
                .iter()
                .all(|s| settings.stripped.iter().any(|x| x == s))
        );
    }

    #[test]
    fn a_named_ca_bundle_goes_before_the_systems() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("ca.pem");
        fs_err::write(&bundle, "x").unwrap();
        let settings =
            NetworkSettings::gather(&map(&[("SSL_CERT_FILE", "/nowhere.pem"), ("PIP_CERT", bundle.to_str().unwrap())]));
        assert_eq!(settings.ca_bundle.as_deref(), Some(bundle.as_path()));
        assert_eq!(settings.step_variables()["CARGO_HTTP_CAINFO"], CA_BUNDLE);
    }
}
