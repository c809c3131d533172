//! What a container costs, side by side with what it is compared to. Prints and asserts nothing.
//!
//! 1. From start to exit of `true`: `docker run` of the engine's own client with the same image, and the Docker sandbox
//!    with all of its limits, with a copy-on-write workspace, and with a workspace that is copied; the embedded sandbox
//!    beside them. They take turns, so that a busy machine slows all of them.
//! 2. The same of one oracle run (pytest's place is taken by unittest, which needs no packages): `docker run` of the bare
//!    command against the run through the sandbox.
//! 3. Sandboxed runs of `true` in a second, one, two and four at once.
//!
//! `cargo bench --bench docker -- ROUNDS BASE` (10 rounds where none are given). BASE is an image with `python3`, or an
//! archive of a root file system with it; without one the first local image that has it is taken.

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::measure::{Case, plain, side_by_side};
use common::sandboxed::{image_with_python, sandboxed, task, throughput};
use common::{Answer, REDGREEN};
use redgreen::model::digest_bytes;
use redgreen::sandbox::docker::{DockerConfig, DockerSandbox, Surroundings, own_name};
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{Root, Sandbox};

fn main() -> Answer<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10);
    let named = words.iter().find(|word| word.parse::<usize>().is_err());
    let Some(base) = named.cloned().or_else(image_with_python) else {
        println!("no image with python3: name one, or an archive, after `--`");
        return Ok(());
    };
    let scratch = tempfile::tempdir()?;
    fs_err::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let tree = scratch.path().join("tree");
    fs_err::create_dir(&tree)?;
    fs_err::write(tree.join("clamp_test.py"), TEST)?;
    let around = Surroundings::of(&std::env::vars().collect::<BTreeMap<_, _>>());
    let config = DockerConfig::new(around, scratch.path().join("docker"));
    let mounted = DockerSandbox::new(config.clone())?;
    let copied = DockerSandbox::new(DockerConfig { copy_workspace: true, ..config })?;
    let local = LocalSandbox::new(LocalConfig::new(REDGREEN, scratch.path()))?;
    let (root, image) = root(&base)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let test = ["/usr/bin/python3", "-m", "unittest", "clamp_test"];
    for argv in [&["/bin/true"][..], &test] {
        let task = |root: &Root| task(&tree, argv, root.clone());
        let (inside, outside) = (task(&root), task(&Root::Host));
        // So that the image is there before anybody's clock runs.
        sandboxed(&runtime, &mounted, &inside)?;
        let mut run = Command::new("docker");
        run.args(["run", "--rm", "--network", "none", "-v", &format!("{}:/workspace", tree.display())]);
        run.args(["-w", "/workspace", &image]).args(argv);
        let workspace = mounted.isolation().workspace;
        let mut cases = vec![
            Case::new("docker run --network none, a bind and no limits", move || plain(&mut run)),
            Case::new(format!("Docker sandbox ({workspace})"), || sandboxed(&runtime, &mounted, &inside)),
            Case::new("Docker sandbox (copy)", || sandboxed(&runtime, &copied, &inside)),
            Case::new("embedded sandbox", || sandboxed(&runtime, &local, &outside)),
        ];
        side_by_side(&format!("start to exit of `{}`", argv.join(" ")), rounds, &mut cases)?;
    }
    for at_once in [1, 2, 4] {
        throughput("containers of `true`", &mounted, &task(&tree, &["/bin/true"], root.clone()), at_once, 10)?;
    }
    Ok(())
}

const TEST: &str = "import unittest\n\n\nclass Clamp(unittest.TestCase):\n    def test_cut(self):\n        \
                    self.assertEqual(min(9, 5), 5)\n";

/// A base from an image's name or an archive's path, and the name of its image. An archive is known by its content: an
/// image of another one, left by an earlier benchmark, is not taken for it.
fn root(base: &str) -> Answer<(Root, String)> {
    let of = |archive, image, digest| Root::Base { folder: None, archive, image, digest };
    if Path::new(base).is_file() {
        let digest = digest_bytes(&fs_err::read(base)?).to_string();
        let name = own_name(&digest);
        Ok((of(Some(base.into()), None, digest), name))
    } else {
        // The engine's own name says which one it is.
        Ok((of(None, Some(base.to_owned()), "image".to_owned()), base.to_owned()))
    }
}
