//! How a command is started, and how its end is told.

use redgreen::sandbox::local::HOME;
use redgreen::sandbox::{End, Root, SandboxError, Task};

use super::{output, sandbox, shell, task, try_run, ways};

#[test]
fn ends_are_told_apart() {
    let Some(sandbox) = sandbox() else { return };
    for (script, end) in [
        ("exit 0", End::Exited(0)),
        ("exit 3", End::Exited(3)),
        ("exit 127", End::Exited(127)),
        ("kill -9 $$", End::Signaled(9)),
        ("kill -SEGV $$", End::Signaled(11)),
        ("exec python3 -c 'import os; os.abort()'", End::Signaled(6)),
    ] {
        let exit = try_run(sandbox, &shell(script)).unwrap();
        assert_eq!(exit.end, end, "{script}: {}", exit.stderr.text());
        assert!(!exit.timed_out && !exit.out_of_memory && !exit.cancelled, "{script}: {exit:?}");
        assert_eq!((exit.isolation.sandbox.as_str(), exit.isolation.level.as_str()), ("docker", "container"));
    }
}

#[test]
fn the_variables_are_exactly_the_tasks_and_ours() {
    for sandbox in ways() {
        let mut task = task(&["/usr/bin/env", "-0"]);
        task.variables = [("A", "b c\n'\"$x"), ("EMPTY", "")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        let text = output(sandbox, &task);
        let mut seen: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
        seen.sort_unstable();
        assert_eq!(seen, ["A=b c\n'\"$x", "EMPTY=", &format!("HOME={HOME}"), "TMPDIR=/tmp"]);
        // A name that no shell can have gets through, too.
        task.variables.insert("npm_config_@a:registry".to_owned(), "x".to_owned());
        assert!(output(sandbox, &task).contains("npm_config_@a:registry=x\0"));
    }
}

#[test]
fn a_program_that_is_not_there_is_no_result() {
    for sandbox in ways() {
        for argv in [&["no-such-program"][..], &["/no/such/program", "x"]] {
            let mut missing = task(argv);
            missing.result_channel = argv.len() == 2;
            let error = try_run(sandbox, &missing).unwrap_err();
            assert!(matches!(&error, SandboxError::Spawn { program, .. } if program == argv[0]), "{error}");
        }
        // Whoever says so, and was there, was there.
        let liar = shell("echo '[FATAL tini (7)] exec x failed: No such file or directory' >&2; exit 127");
        assert_eq!(try_run(sandbox, &liar).unwrap().end, End::Exited(127));
        // Nor is anybody believed who reads how they were started, or says what is said of others.
        for said in ["words[words.index(b'-c') + 2]", "b'\\x15'", "b'\\x06\\x15'"] {
            let script = format!(
                "import os; words = open('/proc/1/cmdline', 'rb').read().split(b'\\0'); os.write(2, {said}); os._exit(127)"
            );
            let exit = try_run(sandbox, &task(&["/usr/bin/python3", "-c", &script])).unwrap();
            assert_eq!(exit.end, End::Exited(127), "{said}");
            assert!(!exit.stderr.bytes.is_empty(), "{said}");
        }
    }
}

#[test]
fn programs_are_never_looked_up_in_the_current_directory() {
    let Some(sandbox) = sandbox() else { return };
    let planted = "#!/bin/sh\necho planted\n";
    let lower = super::owned_dir(sandbox, &[("planted", planted), ("true", planted)]);
    for name in ["planted", "true"] {
        fs_err::set_permissions(lower.path().join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for path in [":/usr/bin", "/usr/bin:", ".:/usr/bin", "/usr/bin::/bin"] {
        let mut task = task(&["planted"]);
        task.mounts = vec![super::overlay(lower.path())];
        task.cwd = "/workspace".into();
        task.variables.insert("PATH".to_owned(), path.to_owned());
        assert!(matches!(try_run(sandbox, &task), Err(SandboxError::Spawn { .. })), "{path}");
        // The positive control: it is there, and can be run.
        task.argv = vec!["./planted".to_owned()];
        assert_eq!(output(sandbox, &task), "planted\n");
        // What the shell can do by itself, too, is the file of that name elsewhere.
        task.argv = vec!["true".to_owned()];
        assert_eq!(output(sandbox, &task), "", "{path}");
    }
}

#[test]
fn the_result_channel_is_apart_and_its_token_comes_by_its_own_way() {
    for sandbox in ways() {
        let mut task = shell(
            "read token <&$REDGREEN_TOKEN_FD; echo $token >&$REDGREEN_RESULT_FD; read more <&6 || echo end >&7; \
             echo out; echo err >&2; read line || echo nothing to read",
        );
        task.result_channel = true;
        let exit = try_run(sandbox, &task).unwrap();
        let token = exit.token.as_ref().unwrap().as_str();
        assert_eq!(exit.result.text(), format!("{token}\nend\n"));
        assert_eq!(exit.stderr.text(), "out\nerr\nnothing to read\n");
        assert_eq!(exit.stdout.text(), "");
        assert_ne!(try_run(sandbox, &task).unwrap().token, exit.token);
        task.argv[2] = "exit 3".to_owned();
        assert_eq!(try_run(sandbox, &task).unwrap().end, End::Exited(3));
        task.result_channel = false;
        let plain = try_run(sandbox, &task).unwrap();
        assert!(plain.token.is_none() && plain.result.bytes.is_empty());
    }
}

#[test]
fn the_hosts_root_is_refused_with_what_to_do() {
    let Some(sandbox) = sandbox() else { return };
    assert!(!redgreen::sandbox::Sandbox::has_host_root(sandbox));
    let error = try_run(sandbox, &Task { root: Root::Host, ..shell("true") }).unwrap_err().to_string();
    assert!(error.contains("env base"), "{error}");
    let absent = Root::Base { folder: None, archive: None, image: Some("no-such-image:1".into()), digest: "x".into() };
    let error = try_run(sandbox, &Task { root: absent, ..shell("true") }).unwrap_err().to_string();
    assert!(error.contains("no-such-image:1") && error.contains("docker pull"), "{error}");
    let broken = Root::Base { folder: None, archive: Some("/no/such.tar".into()), image: None, digest: "none".into() };
    let error = try_run(sandbox, &Task { root: broken, ..shell("true") }).unwrap_err().to_string();
    assert!(error.contains("/no/such.tar"), "{error}");
}
