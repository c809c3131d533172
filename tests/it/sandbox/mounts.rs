//! File systems of a task.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use fs_err as fs;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Mount, Sandbox, SandboxError};

use super::{config, is_root, levels, overlay, owned_dir, sandbox, shell, task, try_run};

#[test]
fn read_only_is_read_only_and_read_write_writes() {
    let sandbox = sandbox();
    let (fixed, open) = (owned_dir(&sandbox, &[("f", "text")]), owned_dir(&sandbox, &[]));
    let mut task = shell(
        "cat /data/f; for path in /data/new /data/f /usr/new /etc/new /new /proc/new /dev/new /lib/new; do \
         (echo x > $path) 2>/dev/null && echo wrote $path; done; echo kept > /out/file; \
         echo single; cat /single",
    );
    task.mounts = vec![
        Mount::ReadOnly { source: fixed.path().into(), target: "/data".into() },
        Mount::ReadWrite { source: open.path().into(), target: "/out".into() },
        Mount::ReadOnly { source: fixed.path().join("f"), target: "/single".into() },
    ];
    let exit = try_run(&sandbox, &task).unwrap();
    assert_eq!(exit.stdout.text(), "textsingle\ntext", "{}", exit.stderr.text());
    let file = open.path().join("file");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept\n");
    assert_eq!(fs::metadata(&file).unwrap().uid(), sandbox.owner().0);
}

#[test]
fn an_overlay_is_writable_and_its_lower_stays() {
    let lower = owned_dir(&sandbox(), &[("dir/f", "low"), ("gone", ""), ("other/deep/g", "")]);
    for copy_workspace in [false, true] {
        let sandbox = LocalSandbox::new(LocalConfig { copy_workspace, ..config() }).unwrap();
        let mut task = shell(
            "echo new > dir/f; rm gone; rm -r other; mkdir other; touch other/h; mv dir moved; find . -type f | sort; \
             cat moved/f",
        );
        task.mounts = vec![overlay(lower.path())];
        task.cwd = "/workspace".into();
        let exit = try_run(&sandbox, &task).unwrap();
        assert_eq!(exit.stdout.text(), "./moved/f\n./other/h\nnew\n", "{}", exit.stderr.text());
        assert_eq!(exit.isolation.workspace, if copy_workspace { "copy" } else { "overlayfs" });
        assert_eq!(fs::read_to_string(lower.path().join("dir/f")).unwrap(), "low");
        assert!(lower.path().join("gone").exists() && lower.path().join("other/deep/g").exists());
    }
}

#[test]
fn layers_lie_on_top_of_each_other_and_mounts_inside_them() {
    let sandbox = sandbox();
    let top = owned_dir(&sandbox, &[("a", "top"), ("only:top,", "")]);
    let bottom = owned_dir(&sandbox, &[("a", "bottom"), ("b", "bottom")]);
    let inner = owned_dir(&sandbox, &[("lib", "inner")]);
    let mut task = shell("cat a b deps/x/lib; ls");
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
    let exit = try_run(&sandbox, &task).unwrap();
    assert_eq!(exit.stdout.text(), "topbottominnera\nb\ndeps\nonly:top,\n", "{}", exit.stderr.text());
    assert!(!bottom.path().join("deps").exists());
}

#[test]
fn a_mount_point_behind_a_link_is_refused() {
    let sandbox = sandbox();
    let lower = owned_dir(&sandbox, &[("f", "")]);
    let outside = owned_dir(&sandbox, &[]);
    symlink(outside.path(), lower.path().join("deps")).unwrap();
    let mut task = shell("true");
    task.mounts = vec![
        overlay(lower.path()),
        Mount::ReadOnly { source: outside.path().into(), target: "/workspace/deps/x".into() },
    ];
    let error = try_run(&sandbox, &task).unwrap_err().to_string();
    assert!(error.contains("workspace/deps/x"), "{error}");
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
}

#[test]
fn removed_paths_are_gone_with_the_parents_they_leave_empty() {
    let sandbox = sandbox();
    let lower = owned_dir(&sandbox, &[("a/b/c", ""), ("keep", ""), ("d/e", ""), ("d/f", "")]);
    symlink("/etc", lower.path().join("link")).unwrap();
    let mut task = shell("find . | sort");
    task.cwd = "/workspace".into();
    let mut mount = overlay(lower.path());
    let Mount::Overlay { remove, .. } = &mut mount else { unreachable!() };
    *remove = ["a/b/c", "d/e", "link/passwd", "missing"].map(PathBuf::from).to_vec();
    task.mounts = vec![mount];
    let exit = try_run(&sandbox, &task).unwrap();
    assert_eq!(exit.stdout.text(), ".\n./d\n./d/f\n./keep\n./link\n", "{}", exit.stderr.text());
    assert!(lower.path().join("a/b/c").exists());

    let Mount::Overlay { remove, .. } = &mut task.mounts[0] else { unreachable!() };
    *remove = vec!["../x".into()];
    assert!(matches!(try_run(&sandbox, &task), Err(SandboxError::Setup { .. })));
}

#[test]
fn a_given_upper_is_kept_and_belongs_to_the_owner() {
    for sandbox in levels() {
        let lower = owned_dir(&sandbox, &[("f", "low")]);
        let place = owned_dir(&sandbox, &[]);
        let upper = place.path().join("upper, with: odd");
        fs::create_dir(&upper).unwrap();
        let mut task = shell("echo changed > f; mkdir built; touch built/x");
        task.cwd = "/workspace".into();
        task.mounts = vec![Mount::Overlay {
            lowers: vec![lower.path().into()],
            target: "/workspace".into(),
            upper: Some(upper.clone()),
            remove: Vec::new(),
        }];
        let exit = try_run(&sandbox, &task).unwrap();
        assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
        assert_eq!(fs::read_to_string(upper.join("f")).unwrap(), "changed\n");
        for path in [upper.clone(), upper.join("built"), upper.join("built/x")] {
            let data = fs::metadata(path).unwrap();
            assert_eq!((data.uid(), data.gid()), sandbox.owner());
        }
        let names: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["upper, with: odd"]);
        // And serves as a layer.
        let mut task = shell("cat f; ls built");
        task.cwd = "/workspace".into();
        task.mounts = vec![Mount::Overlay {
            lowers: vec![upper, lower.path().into()],
            target: "/workspace".into(),
            upper: None,
            remove: Vec::new(),
        }];
        assert_eq!(try_run(&sandbox, &task).unwrap().stdout.text(), "changed\nx\n");
    }
}

#[test]
fn what_lies_in_a_closed_home_can_be_mounted() {
    let sandbox = sandbox();
    let home = owned_dir(&sandbox, &[("tools/bin/tool", "#!/bin/sh\necho works\n")]);
    fs::set_permissions(home.path().join("tools/bin/tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
    if is_root() {
        std::os::unix::fs::chown(home.path(), Some(0), Some(0)).unwrap();
    }
    fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let tools = home.path().join("tools");
    let mut task = task(&[tools.join("bin/tool").to_str().unwrap()]);
    task.mounts = vec![Mount::ReadOnly { source: tools.clone(), target: tools }];
    let exit = try_run(&sandbox, &task).unwrap();
    assert_eq!(exit.stdout.text(), "works\n", "{}", exit.stderr.text());
}
