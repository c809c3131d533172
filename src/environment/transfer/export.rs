//! Writing environments into an archive.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::error::TransferError;
use super::folder::{of_folder, of_link};
use super::record::{BaseEntry, Blob, EnvironmentEntry, LayerEntry, LayerPart, RECORDS, Records, SCHEMA, tag};
use crate::environment::archive::oci::{
    CONFIG, Config, ContainerConfig, Descriptor, DockerManifest, INDEX, Index, LAYER, MANIFEST, Manifest, Platform,
    RootFs, named, sha256_of,
};
use crate::environment::archive::{Part, TarWriter, Tree, sha256};
use crate::environment::{Base, Environments, Prepared};
use crate::model::{Digest, InstanceId};
use crate::sandbox::docker::ENVIRONMENT;
use crate::sandbox::{Mount, Root, WORKSPACE};

/// The one time that images were made at.
const CREATED: &str = "2000-01-01T00:00:00Z";

/// One environment to export.
#[derive(Debug)]
pub struct ExportItem {
    /// Whose it is.
    pub instance_id: InstanceId,
    /// The environment; it must stand on a base.
    pub prepared: Prepared,
    /// The head's tree.
    pub snapshot: PathBuf,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exported {
    /// The environments.
    pub environments: Vec<EnvironmentEntry>,
    /// Bytes of the archive.
    pub bytes: u64,
    /// Blobs in it.
    pub blobs: usize,
}

impl Environments {
    /// Writes environments into an archive at `out`, which appears whole or not at all. `work`: a folder for what is
    /// needed on the way. Blocks.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn export(
        &self,
        items: &[ExportItem],
        out: &Path,
        work: &Path,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Exported, TransferError> {
        let work = tempfile::Builder::new().prefix("export-").tempdir_in(work)?;
        let mut writer = Writer {
            environments: self,
            work: work.path(),
            progress,
            cancel,
            blobs: BTreeMap::new(),
            folders: HashMap::new(),
            records: Records {
                schema: SCHEMA,
                redgreen: env!("CARGO_PKG_VERSION").to_owned(),
                bases: Vec::new(),
                layers: Vec::new(),
                environments: Vec::new(),
            },
            index: Vec::new(),
            docker: Vec::new(),
        };
        for item in items {
            writer.item(item).map_err(|error| writer.ended(error))?;
        }
        writer.write(out).map_err(|error| writer.ended(error))
    }
}

struct Writer<'a> {
    environments: &'a Environments,
    work: &'a Path,
    progress: &'a (dyn Fn(&str) + Send + Sync),
    cancel: &'a CancellationToken,
    /// Where each blob's bytes are.
    blobs: BTreeMap<String, PathBuf>,
    /// Folders that are blobs already, with the path at which they were packed.
    folders: HashMap<(PathBuf, PathBuf), Blob>,
    records: Records,
    index: Vec<Descriptor>,
    docker: Vec<DockerManifest>,
}

impl Writer<'_> {
    fn go(&self) -> std::io::Result<()> {
        if self.cancel.is_cancelled() { Err(std::io::Error::other("interrupted")) } else { Ok(()) }
    }

    fn ended(&self, error: TransferError) -> TransferError {
        if self.cancel.is_cancelled() { TransferError::Cancelled } else { error }
    }

    fn item(&mut self, item: &ExportItem) -> Result<(), TransferError> {
        let prepared = &item.prepared;
        (self.progress)(&format!("{}: packing", item.instance_id));
        let Root::Base { digest, .. } = &prepared.root else {
            return Err(TransferError::OnHost { instance_id: item.instance_id.to_string() });
        };
        let base = self
            .environments
            .bases()
            .with_content(digest)
            .ok_or_else(|| TransferError::NoLayer { folder: PathBuf::from(digest) })?;
        let mut layers = vec![self.base(&base)?];
        for (folder, path) in &prepared.folders {
            layers.push(self.layer(folder, &[("root".to_owned(), path.clone())])?.remove(0));
        }
        let mut outputs = Vec::new();
        if let Some(build) = &prepared.build {
            let mut parts = Vec::new();
            for (folder, path) in &prepared.folders {
                let name = layer_name(folder);
                let over = format!("over/{name}");
                if build.join(&over).is_dir() {
                    parts.push((over, path.clone()));
                }
            }
            let overs = parts.len();
            if build.join("workspace").is_dir() {
                parts.push(("workspace".to_owned(), PathBuf::from(WORKSPACE)));
            }
            let mut blobs = self.layer(build, &parts)?;
            outputs = blobs.split_off(overs);
            layers.extend(blobs);
        }
        layers.push(self.folder(&item.snapshot, Path::new(WORKSPACE))?);
        layers.extend(outputs);
        for (at, to) in links(prepared) {
            layers.push(self.tree(&of_link(inside(&at), &to)?)?);
        }
        self.image(item, &layers)
    }

    /// The image of an environment.
    fn image(&mut self, item: &ExportItem, layers: &[Blob]) -> Result<(), TransferError> {
        let prepared = &item.prepared;
        let tag = tag(item.instance_id.as_str(), &prepared.digest);
        let labels = BTreeMap::from([
            ("redgreen.instance".to_owned(), item.instance_id.to_string()),
            (ENVIRONMENT.to_owned(), prepared.digest.to_string()),
            ("redgreen.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        let platform =
            Platform { architecture: crate::environment::base::machine().to_owned(), os: "linux".to_owned() };
        let config = Config {
            architecture: platform.architecture.clone(),
            os: platform.os.clone(),
            created: Some(CREATED.to_owned()),
            config: Some(ContainerConfig {
                user: None,
                env: Some(prepared.variables.iter().map(|(name, value)| format!("{name}={value}")).collect()),
                cmd: Some(vec!["/bin/sh".to_owned()]),
                working_dir: Some(WORKSPACE.to_owned()),
                labels: Some(labels),
            }),
            rootfs: RootFs {
                kind: "layers".to_owned(),
                diff_ids: layers.iter().map(|layer| layer.digest.clone()).collect(),
            },
        };
        let config = self.document(&config)?;
        let descriptor = |blob: &Blob, media_type: &str| Descriptor {
            media_type: media_type.to_owned(),
            digest: blob.digest.clone(),
            size: blob.size,
            annotations: BTreeMap::new(),
            platform: None,
        };
        let manifest = self.document(&Manifest {
            schema_version: 2,
            media_type: MANIFEST.to_owned(),
            config: descriptor(&config, CONFIG),
            layers: layers.iter().map(|layer| descriptor(layer, LAYER)).collect(),
            annotations: BTreeMap::new(),
        })?;
        let mut entry = descriptor(&manifest, MANIFEST);
        entry.annotations.insert("org.opencontainers.image.ref.name".to_owned(), tag.clone());
        entry.platform = Some(platform);
        self.index.push(entry);
        self.docker.push(DockerManifest {
            config: place(&config.digest),
            repo_tags: Some(vec![tag.clone()]),
            layers: layers.iter().map(|layer| place(&layer.digest)).collect(),
        });
        self.records.environments.push(EnvironmentEntry {
            instance_id: item.instance_id.to_string(),
            digest: prepared.digest.clone(),
            tag,
            manifest: manifest.digest,
        });
        Ok(())
    }

    /// A base's archive as a blob.
    fn base(&mut self, base: &Base) -> Result<Blob, TransferError> {
        if let Some(known) = self.records.bases.iter().find(|entry| entry.record.content == base.record.content) {
            return Ok(known.blob.clone());
        }
        let archive = base.archive();
        let part = Part::whole(&archive)?;
        let size = part.length();
        let digest = sha256_of(part, &|| self.go())?;
        self.blobs.insert(digest.clone(), archive);
        let blob = Blob { digest, size };
        let record = crate::environment::BaseRecord { seconds: 0.0, ..base.record.clone() };
        self.records.bases.push(BaseEntry { record, blob: blob.clone() });
        Ok(blob)
    }

    /// A layer of the cache: each of its folders as a blob, in the order given.
    fn layer(&mut self, folder: &Path, parts: &[(String, PathBuf)]) -> Result<Vec<Blob>, TransferError> {
        let missing = || TransferError::NoLayer { folder: folder.to_owned() };
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let kind = folder.parent().and_then(name).ok_or_else(missing)?;
        let digest: Digest = name(folder).and_then(|name| name.parse().ok()).ok_or_else(missing)?;
        let mut blobs = Vec::new();
        for (part, path) in parts {
            blobs.push(self.folder(&folder.join(part), path)?);
        }
        if !self.records.layers.iter().any(|known| known.digest == digest) {
            let found = self.environments.layers.find(&kind, &digest)?.ok_or_else(missing)?;
            let parts = parts.iter().zip(&blobs).map(|((folder, path), blob)| LayerPart {
                folder: folder.clone(),
                at: inside(path).display().to_string(),
                blob: blob.clone(),
            });
            let (key, lock, parts) = (found.marker.key, found.marker.lock, parts.collect());
            self.records.layers.push(LayerEntry { kind, digest, key, lock, parts });
        }
        Ok(blobs)
    }

    /// A folder as a blob.
    fn folder(&mut self, folder: &Path, at: &Path) -> Result<Blob, TransferError> {
        let known = (folder.to_owned(), at.to_owned());
        if let Some(blob) = self.folders.get(&known) {
            return Ok(blob.clone());
        }
        let blob = self.tree(&of_folder(folder, inside(at))?)?;
        self.folders.insert(known, blob.clone());
        Ok(blob)
    }

    /// A tree as a blob, in a file of ours.
    fn tree(&mut self, tree: &Tree) -> Result<Blob, TransferError> {
        struct Hashing<W>(W, Sha256, u64);
        impl<W: Write> Write for Hashing<W> {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let written = self.0.write(bytes)?;
                self.1.update(&bytes[..written]);
                self.2 += written as u64;
                Ok(written)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                self.0.flush()
            }
        }
        let path = self.work.join(format!("{}.tar", self.blobs.len()));
        let hashing = Hashing(fs_err::File::create(&path)?, Sha256::new(), 0);
        let mut writer = TarWriter::new(BufWriter::with_capacity(1 << 17, hashing));
        writer.add_tree(tree, &|| self.go())?;
        let Hashing(_, hasher, size) = writer.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let digest = named(hasher.finalize().as_slice());
        if self.blobs.contains_key(&digest) {
            fs_err::remove_file(&path)?;
        } else {
            self.blobs.insert(digest.clone(), path);
        }
        Ok(Blob { digest, size })
    }

    /// A document as a blob.
    fn document(&mut self, value: &impl Serialize) -> Result<Blob, TransferError> {
        let bytes = serde_json::to_vec(value).map_err(std::io::Error::from)?;
        let blob = Blob { digest: sha256(&bytes), size: bytes.len() as u64 };
        let path = self.work.join(format!("{}.json", self.blobs.len()));
        if !self.blobs.contains_key(&blob.digest) {
            fs_err::write(&path, bytes)?;
            self.blobs.insert(blob.digest.clone(), path);
        }
        Ok(blob)
    }

    fn write(&mut self, out: &Path) -> Result<Exported, TransferError> {
        (self.progress)(&format!("writing {}", out.display()));
        let records = self.records.clone();
        let records = self.document(&records)?;
        let index = Index { schema_version: 2, media_type: INDEX.to_owned(), manifests: self.index.clone() };
        let mut index = serde_json::to_value(&index).map_err(std::io::Error::from)?;
        index["annotations"] = json!({RECORDS: records.digest, (format!("{RECORDS}.size")): records.size.to_string()});
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder)?;
        let mut writer = TarWriter::new(BufWriter::with_capacity(1 << 17, file.as_file()));
        writer.add_bytes("oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}")?;
        writer.add_folder("blobs")?;
        writer.add_folder("blobs/sha256")?;
        for (digest, path) in &self.blobs {
            self.go()?;
            writer.add_file(&place(digest), Part::whole(path)?)?;
        }
        writer.add_bytes("index.json", &serde_json::to_vec(&index).map_err(std::io::Error::from)?)?;
        writer.add_bytes("manifest.json", &serde_json::to_vec(&self.docker).map_err(std::io::Error::from)?)?;
        writer.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        self.go()?;
        file.as_file().sync_all()?;
        let bytes = file.as_file().metadata()?.len();
        file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(out).map_err(|e| e.error)?;
        Ok(Exported { environments: self.records.environments.clone(), bytes, blobs: self.blobs.len() })
    }
}

/// Mounts that show a part of a layer at a second place, as links: where, and to what.
fn links(prepared: &Prepared) -> Vec<(PathBuf, PathBuf)> {
    let mut out = Vec::new();
    for mount in &prepared.mounts {
        let Mount::ReadOnly { source, target } = mount else { continue };
        for (folder, path) in &prepared.folders {
            if let Ok(part) = source.strip_prefix(folder.join("root"))
                && part != Path::new("")
            {
                out.push((target.clone(), path.join(part)));
            }
        }
    }
    out
}

/// The name of a layer in its definition: its folder's kind is `LANGUAGE-LAYER`, where a language may have a `-`, too.
fn layer_name(folder: &Path) -> String {
    let marker = fs_err::read_to_string(folder.join("layer.json")).ok();
    let marker: Option<serde_json::Value> = marker.and_then(|text| serde_json::from_str(&text).ok());
    marker.and_then(|m| m["key"]["layer"]["name"].as_str().map(str::to_owned)).unwrap_or_default()
}

/// Where a blob lies in the archive.
fn place(digest: &str) -> String {
    format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"))
}

/// A path of a container, without the root.
fn inside(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
