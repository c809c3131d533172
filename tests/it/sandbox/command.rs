//! What a command does and says comes back as it is.

use redgreen::sandbox::{End, Mount, SandboxError, Task};

use super::{output, run, sandbox, shell, task, try_run};

#[test]
fn exit_codes_and_signals_are_the_main_processs() {
    for (script, end) in [
        ("exit 0", End::Exited(0)),
        ("exit 17", End::Exited(17)),
        ("kill -SEGV $$", End::Signaled(libc::SIGSEGV)),
        ("kill -KILL $$", End::Signaled(libc::SIGKILL)),
        ("kill -PIPE $$", End::Signaled(libc::SIGPIPE)),
        ("sleep 1000 & exit 3", End::Exited(3)),
    ] {
        let exit = run(&shell(script));
        assert_eq!(exit.end, end, "{script}");
        assert!(!exit.timed_out && !exit.out_of_memory && !exit.cancelled, "{script}");
    }
}

#[test]
fn both_streams_and_the_result_channel_are_read() {
    let mut task = shell("echo out; echo err >&2; echo result >&$REDGREEN_RESULT_FD; cat");
    task.result_channel = true;
    let exit = run(&task);
    assert_eq!((exit.stdout.text(), exit.stderr.text(), exit.result.text()).0, "out\n");
    assert_eq!(exit.stderr.text(), "err\n");
    assert_eq!(exit.result.text(), "result\n");
    // Reopening by name, as many scripts do.
    assert_eq!(output(&shell("echo a > /dev/stdout; echo b > /dev/stderr")), "a\n");
}

#[test]
fn a_fresh_token_waits_in_the_result_channel_which_cannot_be_opened_again() {
    let script = "read token <&7; echo $token; read more <&7 || echo end; echo x >&7; \
        (echo y > /proc/self/fd/7) 2>/dev/null || echo refused; (echo z > /proc/$$/fd/7) 2>/dev/null || echo refused; \
        env; tr '\\0' '\\n' < /proc/$$/cmdline";
    let mut task = shell(script);
    task.result_channel = true;
    let (one, other) = (run(&task), run(&task));
    for exit in [&one, &other] {
        let token = exit.token.as_ref().unwrap();
        let stdout = exit.stdout.text();
        let rest = stdout.strip_prefix(token.as_str()).unwrap();
        assert!(rest.starts_with("\nend\nrefused\nrefused\n"), "{stdout}");
        assert!(!rest.contains(token.as_str()), "{stdout}");
        assert_eq!(exit.result.text(), "x\n");
    }
    assert_ne!(one.token, other.token);
    task.result_channel = false;
    assert_eq!(run(&task).token, None);
    // Who reads nothing and leaves is no failure.
    assert_eq!(run(&Task { result_channel: true, ..shell("exit 3") }).end, End::Exited(3));
}

#[test]
fn the_result_channel_survives_many_bytes() {
    let mut task = shell("head -c 3000000 /dev/zero >&$REDGREEN_RESULT_FD; head -c 2000000 /dev/zero");
    task.result_channel = true;
    let exit = run(&task);
    assert_eq!((exit.result.bytes.len(), exit.stdout.bytes.len()), (3_000_000, 2_000_000));
}

#[test]
fn a_missing_program_is_a_spawn_error() {
    for program in ["no-such-program", "/no/such/program", "/etc/passwd"] {
        match try_run(&sandbox(), &task(&[program])) {
            Err(SandboxError::Spawn { program: named, .. }) => assert_eq!(named, program),
            other => panic!("{program}: {other:?}"),
        }
    }
    assert!(matches!(try_run(&sandbox(), &task(&[])), Err(SandboxError::Setup { .. })));
}

#[test]
fn a_missing_directory_is_a_setup_error_that_names_it() {
    let mut task = shell("true");
    task.mounts.push(Mount::ReadOnly { source: "/no/such/dir".into(), target: "/data".into() });
    let error = try_run(&sandbox(), &task).unwrap_err().to_string();
    assert!(error.contains("`/no/such/dir`") && error.contains("No such file"), "{error}");
    let mut task = shell("true");
    task.cwd = "/nowhere".into();
    let error = try_run(&sandbox(), &task).unwrap_err().to_string();
    assert!(error.contains("`/nowhere`"), "{error}");
}

#[test]
fn threads_and_processes_of_ordinary_programs_work() {
    let script = "import threading, subprocess, multiprocessing, tempfile, mmap\n\
                  t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n\
                  subprocess.run(['echo', 'process'], check=True)\n\
                  with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]), flush=True)\n\
                  m = mmap.mmap(-1, 4096); m[:2] = b'hi'\n\
                  with tempfile.NamedTemporaryFile() as f: print(f.name.startswith('/tmp/'))\n";
    assert_eq!(output(&task(&["python3", "-c", script])), "thread\nprocess\n[1, 2]\nTrue\n");
}
