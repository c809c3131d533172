//! Bases from what users have: tarballs, images.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fs_err as fs;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::tiny::{Room, SECRET_FILES, names, pack};

#[test]
fn a_tarball_becomes_a_base_without_special_files_and_credentials() {
    let room = Room::new();
    let source = names(&room.place.join("tiny.tar"));
    assert!(SECRET_FILES.iter().all(|path| source.contains(*path)) && source.contains("usr/lib/device"));
    let made = room.tiny();
    assert_eq!((made["made"].as_bool(), made["name"].as_str()), (Some(true), Some("tiny")));
    assert_eq!(made["record"]["packages"], json!(["tiny=9.1"]));
    assert_eq!(made["record"]["system"], "Tiny one");
    let folder = Path::new(made["folder"].as_str().unwrap());
    let kept = names(&folder.join("root.tar"));
    assert!(kept.contains("etc/own.conf") && kept.contains("usr/bin/sh") && kept.contains("tmp"), "{kept:?}");
    for gone in SECRET_FILES.iter().chain(&["usr/lib/device"]) {
        assert!(!kept.contains(*gone), "{gone}");
        assert!(!folder.join("root").join(gone).exists(), "{gone}");
    }
    // Readable for everybody, and without special bits.
    let mode = |path: &str| fs::metadata(folder.join("root").join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("etc/own.conf"), mode("usr/bin/raised"), mode("usr/bin/sh")), (0o644, 0o755, 0o755));
    assert!(!folder.join("root/var").exists(), "only what the sandbox shows is unpacked");
    let bytes = fs::metadata(folder.join("root.tar")).unwrap().len();
    assert_eq!(made["record"]["archive_bytes"], json!(bytes));

    // Again: nothing is made. Under its path, and with a package that it has or lacks.
    assert_eq!(room.tiny()["made"], false, "{made}");
    let path = room.place.join("tiny.tar").display().to_string();
    let same = room.run(&["env", "base", &path, "--json"]).exits(0).json();
    assert_eq!(same[0]["digest"], made["digest"]);
    room.run(&["env", "base", "tiny", "--package", "tiny"]).exits(0);
    let lacks = room.run(&["env", "base", "tiny", "--package", "libxml2-dev"]).exits(2);
    assert!(lacks.stderr.contains("libxml2-dev"), "{}", lacks.stderr);
    let listed = room.run(&["env", "base", "--list", "--json"]).exits(0).json();
    assert!(listed.as_array().unwrap().iter().any(|row| row["name"] == "tiny" && row["base"]["system"] == "Tiny one"));

    // A lock file says what it is; another one of the same name is seen.
    room.run(&["env", "base", "tiny", "--lock", "bases.lock"]).exits(0);
    let lock: Value = serde_json::from_str(&fs::read_to_string(room.place.join("bases.lock")).unwrap()).unwrap();
    assert_eq!(lock["bases"]["tiny"]["content"], made["record"]["content"]);
}

#[test]
fn what_is_no_root_and_what_is_no_name_is_refused() {
    let room = Room::new();
    fs::create_dir_all(room.place.join("other/etc")).unwrap();
    fs::write(room.place.join("other/etc/x"), "").unwrap();
    pack(&room.place.join("other"), &room.place.join("other.tar"));
    fs::write(room.place.join("text.tar"), "no archive at all\n".repeat(100)).unwrap();
    let cut = fs::read(room.place.join("tiny.tar")).unwrap();
    fs::write(room.place.join("cut.tar"), &cut[..cut.len() / 2]).unwrap();
    fs::write(room.place.join("packed.tar"), [b"\x28\xb5\x2f\xfd".as_slice(), &[0; 600]].concat()).unwrap();
    for (file, expected) in [
        ("./other.tar", "has no `/bin/sh`"),
        ("./text.tar", "not a tar archive"),
        ("./cut.tar", "cut off"),
        ("./packed.tar", "zstd"),
    ] {
        let ran = room.run(&["env", "base", "--from", file, "x"]).exits(2);
        assert!(ran.stderr.contains(expected), "{file}: {}", ran.stderr);
    }
    let ran = room.run(&["env", "base", "pyton-3.11"]).exits(2);
    assert!(ran.stderr.contains("`pyton-3.11`") && ran.stderr.contains("python-3.11"), "{}", ran.stderr);
    assert_eq!(room.bases().iter().filter(|name| !name.ends_with(".lock")).count(), 0, "{:?}", room.bases());
}

/// Layers of an image, as entries (path, content; a folder where that is `None`).
type Layer = Vec<(&'static str, Option<&'static str>)>;

fn layer(entries: &Layer) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        let bytes = content.unwrap_or_default().as_bytes();
        header.set_entry_type(if content.is_some() { tar::EntryType::Regular } else { tar::EntryType::Directory });
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, path, bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn archive(path: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    builder.finish().unwrap();
}

/// An image with two layers, the second with whiteouts, in the two forms in which images travel.
struct Image {
    layers: Vec<Vec<u8>>,
    config: Vec<u8>,
}

impl Image {
    fn new(tiny: &Path) -> Self {
        let more = layer(&vec![
            ("etc/.wh.own.conf", Some("")),
            ("opt/kit/.wh..wh..opq", Some("")),
            ("opt/kit/new", Some("new\n")),
            ("opt/added/", None),
        ]);
        let layers = vec![fs::read(tiny).unwrap(), more];
        let ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/bin", "API_TOKEN=hunter2", "https_proxy=http://hunter2@p"]},
            "rootfs": {"type": "layers", "diff_ids": ids},
        });
        Self { layers, config: config.to_string().into_bytes() }
    }

    fn docker(&self) -> BTreeMap<String, Vec<u8>> {
        let manifest = json!([{"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["0/layer.tar", "1/layer.tar"]}]);
        let mut files: BTreeMap<String, Vec<u8>> =
            self.layers.iter().enumerate().map(|(n, bytes)| (format!("{n}/layer.tar"), bytes.clone())).collect();
        files.insert("c.json".to_owned(), self.config.clone());
        files.insert("manifest.json".to_owned(), manifest.to_string().into_bytes());
        files
    }

    fn oci(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut blob = |bytes: &[u8], kind: &str| {
            files.insert(format!("blobs/sha256/{}", sha256(bytes)), bytes.to_vec());
            json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len()})
        };
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &self.layers[1]).unwrap();
        let layers = [blob(&self.layers[0], "layer"), blob(&packed.finish().unwrap(), "layer+gzip")];
        let config = blob(&self.config, "config");
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string();
        let mut one = blob(manifest.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        let architecture = serde_json::from_slice::<Value>(&self.config).unwrap()["architecture"].clone();
        one["platform"] = json!({"os": "linux", "architecture": architecture});
        let other = json!({"mediaType": "m", "digest": format!("sha256:{}", "0".repeat(64)), "size": 1,
                           "platform": {"os": "linux", "architecture": "s390x"}});
        files.insert("oci-layout".to_owned(), b"{\"imageLayoutVersion\": \"1.0.0\"}".to_vec());
        let index = json!({"schemaVersion": 2, "manifests": [other, one]}).to_string();
        files.insert("index.json".to_owned(), index.into_bytes());
        files
    }
}

#[test]
fn images_give_the_same_base_in_either_form_with_whiteouts_applied() {
    let room = Room::new();
    let image = Image::new(&room.place.join("tiny.tar"));
    archive(&room.place.join("docker.tar"), &image.docker());
    archive(&room.place.join("oci.tar"), &image.oci());
    let of = |file: &str, name: &str| {
        let made = room.run(&["env", "base", "--from", file, name, "--json"]).exits(0).json();
        made[0].clone()
    };
    let (docker, oci) = (of("./docker.tar", "a"), of("./oci.tar", "b"));
    assert_eq!(docker["record"]["content"], oci["record"]["content"]);
    let kept = names(&Path::new(docker["folder"].as_str().unwrap()).join("root.tar"));
    for (path, there) in [
        ("etc/own.conf", false),
        ("opt/kit/file", false),
        ("opt/kit/new", true),
        ("opt/added", true),
        ("etc/passwd", true),
    ] {
        assert_eq!(kept.contains(path), there, "{path}");
    }
    assert!(!kept.iter().any(|name| name.contains(".wh.")), "{kept:?}");
    // Only what says where toolchains are is kept of the image's variables.
    assert_eq!(docker["record"]["variables"], json!({"PATH": "/usr/local/bin:/bin"}));

    // The same without the archive around it.
    for (name, bytes) in image.oci() {
        let path = room.place.join("layout").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(of("./layout", "c")["record"]["content"], oci["record"]["content"]);
}

#[test]
fn a_damaged_image_is_refused_and_the_blob_is_named() {
    let room = Room::new();
    let image = Image::new(&room.place.join("tiny.tar"));
    let whole = image.oci();
    for name in whole.keys().filter(|name| name.starts_with("blobs/")) {
        let mut files = whole.clone();
        let bytes = files.get_mut(name).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        archive(&room.place.join("damaged.tar"), &files);
        let ran = room.run(&["env", "base", "--from", "./damaged.tar", "x"]).exits(2);
        let digest = name.trim_start_matches("blobs/sha256/");
        assert!(ran.stderr.contains(digest) && ran.stderr.contains("damaged"), "{name}: {}", ran.stderr);
    }
    let mut files = image.docker();
    files.get_mut("1/layer.tar").unwrap()[600] ^= 1;
    archive(&room.place.join("damaged.tar"), &files);
    let ran = room.run(&["env", "base", "--from", "./damaged.tar", "x"]).exits(2);
    assert!(ran.stderr.contains("1/layer.tar"), "{}", ran.stderr);
    let text = String::from_utf8(image.config.clone()).unwrap().replace("amd64", "s390x").replace("arm64", "s390x");
    let other = Image { config: text.into_bytes(), layers: image.layers.clone() };
    archive(&room.place.join("other.tar"), &other.docker());
    let ran = room.run(&["env", "base", "--from", "./other.tar", "x"]).exits(2);
    assert!(ran.stderr.contains("linux/s390x"), "{}", ran.stderr);
    assert_eq!(room.bases().iter().filter(|name| !name.ends_with(".lock")).count(), 0, "{:?}", room.bases());
}
