//! File systems of a task.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use fs_err as fs;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Mount, Root, Sandbox, SandboxError, Task};

use super::{output, overlay, owned_dir, shell, try_run, ways};
use crate::support::binary;

fn is_copy(sandbox: &dyn Sandbox) -> bool {
    sandbox.isolation().workspace == "copy"
}

#[test]
fn read_only_is_read_only_and_read_write_writes() {
    for sandbox in ways() {
        let fixed = owned_dir(sandbox, &[("f", "text"), ("d/tool", "#!/bin/sh\necho tool\n")]);
        let open = owned_dir(sandbox, &[("old", "old"), ("gone", "")]);
        let tool = fixed.path().join("d/tool");
        fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut task = shell(
            "cat /data/f; for path in /data/new /data/f /usr/new /etc/new /new /proc/new /lib/new /oracle/new; do \
             (echo x > $path) 2>/dev/null && echo wrote $path; done; echo kept > /out/file; cat /out/old; \
             rm /out/gone; cat /oracle/single; /data/d/tool",
        );
        task.mounts = vec![
            Mount::ReadOnly { source: fixed.path().into(), target: "/data".into() },
            Mount::ReadWrite { source: open.path().into(), target: "/out".into() },
            Mount::ReadOnly { source: fixed.path().join("f"), target: "/oracle/single".into() },
        ];
        let exit = try_run(sandbox, &task).unwrap();
        assert_eq!(exit.stdout.text(), "textoldtexttool\n", "{}", exit.stderr.text());
        let file = open.path().join("file");
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept\n");
        assert_eq!(fs::metadata(&file).unwrap().uid(), sandbox.owner().0);
        assert!(!open.path().join("gone").exists());
        assert_eq!(exit.isolation.workspace, "none");
    }
}

#[test]
fn an_overlay_is_writable_and_its_lower_stays() {
    for sandbox in ways() {
        let lower = owned_dir(sandbox, &[("dir/f", "low"), ("gone", ""), ("other/deep/g", "")]);
        let mut task = shell(
            "echo new > dir/f; rm gone; rm -r other; mkdir other; touch other/h; mv dir moved; find . -type f | sort; \
             cat moved/f; stat -c %u:%g .",
        );
        task.mounts = vec![overlay(lower.path())];
        task.cwd = "/workspace".into();
        let exit = try_run(sandbox, &task).unwrap();
        let (uid, gid) = sandbox.owner();
        let wanted = format!("./moved/f\n./other/h\nnew\n{uid}:{gid}\n");
        assert_eq!(exit.stdout.text(), wanted, "{}", exit.stderr.text());
        assert_eq!(exit.isolation.workspace, sandbox.isolation().workspace);
        assert_eq!(fs::read_to_string(lower.path().join("dir/f")).unwrap(), "low");
        assert!(lower.path().join("gone").exists() && lower.path().join("other/deep/g").exists());
    }
}

#[test]
fn layers_lie_on_top_of_each_other_and_mounts_inside_them() {
    for sandbox in ways() {
        let top = owned_dir(sandbox, &[("a", "top"), ("only:top,", "")]);
        let bottom = owned_dir(sandbox, &[("a", "bottom"), ("b", "bottom")]);
        let inner = owned_dir(sandbox, &[("lib", "inner")]);
        let mut task = shell("cat a b deps/x/lib; ls; echo own > deps/own");
        task.cwd = "/workspace".into();
        task.mounts = vec![
            Mount::Overlay {
                lowers: vec![top.path().into(), bottom.path().into()],
                target: "/workspace".into(),
                upper: None,
                remove: Vec::new(),
            },
            Mount::ReadOnly { source: inner.path().into(), target: "/workspace/deps/x".into() },
        ];
        let exit = try_run(sandbox, &task).unwrap();
        assert_eq!(exit.stdout.text(), "topbottominnera\nb\ndeps\nonly:top,\n", "{}", exit.stderr.text());
        // The place that was made for the mount is the command's, as in the embedded sandbox.
        assert!(is_copy(sandbox) || exit.end == End::Exited(0), "{}", exit.stderr.text());
        assert!(!bottom.path().join("deps").exists());
    }
}

#[test]
fn a_mount_point_behind_a_link_is_refused() {
    for sandbox in ways().into_iter().filter(|sandbox| !is_copy(*sandbox)) {
        let lower = owned_dir(sandbox, &[("f", "")]);
        let outside = owned_dir(sandbox, &[]);
        symlink(outside.path(), lower.path().join("deps")).unwrap();
        let mut task = shell("true");
        task.mounts = vec![
            overlay(lower.path()),
            Mount::ReadOnly { source: outside.path().into(), target: "/workspace/deps/x".into() },
        ];
        let error = try_run(sandbox, &task).unwrap_err().to_string();
        assert!(error.contains("workspace/deps/x"), "{error}");
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    }
}

#[test]
fn removed_paths_are_gone_with_the_parents_they_leave_empty() {
    for sandbox in ways() {
        let lower = owned_dir(sandbox, &[("a/b/c", ""), ("keep", ""), ("d/e", ""), ("d/f", "")]);
        symlink("/etc", lower.path().join("link")).unwrap();
        let mut task = shell("find . | sort");
        task.cwd = "/workspace".into();
        let mut mount = overlay(lower.path());
        let Mount::Overlay { remove, .. } = &mut mount else { unreachable!() };
        *remove = ["a/b/c", "d/e", "link/passwd", "missing"].map(PathBuf::from).to_vec();
        task.mounts = vec![mount];
        let exit = try_run(sandbox, &task).unwrap();
        assert_eq!(exit.stdout.text(), ".\n./d\n./d/f\n./keep\n./link\n", "{}", exit.stderr.text());
        assert!(lower.path().join("a/b/c").exists());
        let Mount::Overlay { remove, .. } = &mut task.mounts[0] else { unreachable!() };
        *remove = vec!["../x".into()];
        assert!(matches!(try_run(sandbox, &task), Err(SandboxError::Setup { .. })));
    }
}

/// A layer that one sandbox made is a layer for the other.
#[test]
fn a_given_upper_is_kept_and_serves_both_sandboxes() {
    let config = LocalConfig::new(binary(), std::env::temp_dir());
    for sandbox in ways() {
        let local = LocalSandbox::new(config.clone()).unwrap();
        assert_eq!(local.owner(), sandbox.owner());
        let lower = owned_dir(sandbox, &[("f", "low"), ("gone/x", ""), ("was/dir", "")]);
        let place = owned_dir(sandbox, &[]);
        let upper = place.path().join("upper, with: odd");
        fs::create_dir(&upper).unwrap();
        let mut task = shell("echo changed > f; mkdir built; touch built/x; rm -r gone was; mkdir was; touch was/new");
        task.cwd = "/workspace".into();
        task.mounts = vec![Mount::Overlay {
            lowers: vec![lower.path().into()],
            target: "/workspace".into(),
            upper: Some(upper.clone()),
            remove: Vec::new(),
        }];
        let exit = try_run(sandbox, &task).unwrap();
        assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
        assert_eq!(fs::read_to_string(upper.join("f")).unwrap(), "changed\n");
        for path in [upper.clone(), upper.join("built"), upper.join("built/x")] {
            let data = fs::metadata(path).unwrap();
            assert_eq!((data.uid(), data.gid()), sandbox.owner());
        }
        let names: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["upper, with: odd"]);
        let mut task = shell("cat f; find . | sort");
        task.cwd = "/workspace".into();
        let lowers = if is_copy(sandbox) { vec![upper] } else { vec![upper, lower.path().into()] };
        task.mounts = vec![Mount::Overlay { lowers, target: "/workspace".into(), upper: None, remove: Vec::new() }];
        let wanted = "changed\n.\n./built\n./built/x\n./f\n./was\n./was/new\n";
        assert_eq!(output(sandbox, &task), wanted);
        assert_eq!(output(&local, &Task { root: Root::Host, ..task }), wanted);
    }
}

/// The other way round, and times are kept.
#[test]
fn a_layer_of_the_embedded_sandbox_is_one_here() {
    let local = LocalSandbox::new(LocalConfig::new(binary(), std::env::temp_dir())).unwrap();
    for sandbox in ways() {
        let lower = owned_dir(sandbox, &[("f", "low"), ("gone", ""), ("was/dir", "")]);
        let upper = owned_dir(sandbox, &[]);
        let mut task = shell("echo changed > f; touch -d '2001-02-03 04:05:06.5' f; rm -r gone was; mkdir was");
        task.cwd = "/workspace".into();
        task.mounts = vec![Mount::Overlay {
            lowers: vec![lower.path().into()],
            target: "/workspace".into(),
            upper: Some(upper.path().into()),
            remove: Vec::new(),
        }];
        let exit = try_run(&local, &Task { root: Root::Host, ..task.clone() }).unwrap();
        assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
        task.argv[2] = "cat f; stat -c %.1Y f; find . | sort".to_owned();
        task.mounts = vec![Mount::Overlay {
            lowers: vec![upper.path().into(), lower.path().into()],
            target: "/workspace".into(),
            upper: None,
            remove: Vec::new(),
        }];
        assert_eq!(output(sandbox, &task), "changed\n981173106.5\n.\n./f\n./was\n");
    }
}
