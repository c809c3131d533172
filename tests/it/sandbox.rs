//! The embedded sandbox, driven for real through the built binary as its helper.
//!
//! The tests do not care whether they run as root: `everything_again_as_an_unprivileged_user` runs them all once more
//! as one, where it can.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::none::NoSandbox;
use redgreen::sandbox::{End, Exit, Limits, Mount, Network, Sandbox, SandboxError, Task};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const MIB: u64 = 1 << 20;
/// The name of the helper's copy beside the copied test binary.
const COPIED_HELPER: &str = "redgreen-under-test";
const OTHER_USER: u32 = 54321;

fn is_root() -> bool {
    // SAFETY: plain system call.
    unsafe { libc::geteuid() == 0 }
}

fn helper() -> PathBuf {
    let copy = std::env::current_exe().unwrap().with_file_name(COPIED_HELPER);
    if copy.exists() { copy } else { env!("CARGO_BIN_EXE_redgreen").into() }
}

fn config() -> LocalConfig {
    LocalConfig::new(helper(), std::env::temp_dir())
}

fn sandbox() -> LocalSandbox {
    LocalSandbox::new(config()).unwrap()
}

/// Every way to limit memory and processes that this machine has.
fn levels() -> Vec<LocalSandbox> {
    let weak = LocalSandbox::new(LocalConfig { cgroup: false, ..config() }).unwrap();
    assert_eq!(weak.isolation().level, "userns");
    let best = sandbox();
    if best.isolation().level == "full" { vec![best, weak] } else { vec![weak] }
}

fn task(argv: &[&str]) -> Task {
    Task {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        cwd: "/tmp".into(),
        variables: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
        mounts: Vec::new(),
        limits: Limits { wall: Duration::from_secs(60), ..Limits::default() },
        network: Network::None,
        result_channel: false,
    }
}

fn shell(script: &str) -> Task {
    task(&["sh", "-c", script])
}

fn try_run(sandbox: &dyn Sandbox, task: &Task) -> Result<Exit, SandboxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(sandbox.run(task, &CancellationToken::new()))
}

fn run(task: &Task) -> Exit {
    try_run(&sandbox(), task).unwrap()
}

/// Runs a script that must succeed, and gives its output.
#[track_caller]
fn output(task: &Task) -> String {
    let exit = run(task);
    assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
    exit.stdout.text()
}

/// A directory whose files a task may change.
fn owned_dir(sandbox: &LocalSandbox, files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    give(sandbox, dir.path());
    dir
}

fn give(sandbox: &LocalSandbox, path: &Path) {
    let (uid, gid) = sandbox.owner();
    std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(sandbox, &entry.unwrap().path());
        }
    }
}

fn overlay(lower: &Path) -> Mount {
    Mount::Overlay { lowers: vec![lower.to_path_buf()], target: "/workspace".into(), upper: None, remove: Vec::new() }
}

/// Host processes whose command line holds a text.
fn processes(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        if line.iter().any(|word| word == text) {
            found.push(pid);
        }
    }
    found
}

/// Waits for something that another process brings about.
#[track_caller]
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

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
fn the_result_channel_survives_many_bytes() {
    let mut task = shell("head -c 3000000 /dev/zero >&$REDGREEN_RESULT_FD; head -c 2000000 /dev/zero");
    task.result_channel = true;
    let exit = run(&task);
    assert_eq!((exit.result.bytes.len(), exit.stdout.bytes.len()), (3_000_000, 2_000_000));
}

#[test]
fn output_is_capped_and_the_rest_counted() {
    let mut task = shell("head -c 5000000 /dev/zero; echo end >&2");
    task.limits.output = 1000;
    let exit = run(&task);
    assert_eq!(exit.end, End::Exited(0));
    assert_eq!((exit.stdout.bytes.len(), exit.stdout.dropped), (1000, 4_999_000));
    assert_eq!(exit.stderr.text(), "end\n");
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
fn the_whole_tree_dies_at_the_deadline() {
    for sandbox in levels() {
        let mark = format!("{}.5", 100_000 + std::process::id());
        let mut task =
            shell(&format!("setsid sleep {mark} & (sleep {mark} & exec sleep {mark}) & trap '' TERM; sleep {mark}"));
        task.limits.wall = Duration::from_secs(1);
        let exit = try_run(&sandbox, &task).unwrap();
        assert!(exit.timed_out && !exit.cancelled);
        assert_eq!(exit.end, End::Signaled(libc::SIGKILL));
        assert!(exit.seconds >= 1.0, "{}", exit.seconds);
        assert!(processes(&mark).is_empty());
    }
}

#[test]
fn background_processes_do_not_outlive_the_main_one() {
    let mark = format!("{}.25", 100_000 + std::process::id());
    let exit = run(&shell(&format!("setsid sleep {mark} & sleep 0.1")));
    assert_eq!(exit.end, End::Exited(0));
    assert!(processes(&mark).is_empty());
}

#[test]
fn the_cpu_limit_ends_a_busy_process() {
    let mut task = shell("while :; do :; done");
    task.limits.cpu = Some(Duration::from_secs(1));
    let exit = run(&task);
    assert!(exit.timed_out && exit.end == End::Signaled(libc::SIGXCPU), "{exit:?}");
    assert!(exit.cpu_seconds > 0.5 && exit.cpu_seconds < 3.0, "{}", exit.cpu_seconds);
}

#[test]
fn a_memory_hog_is_out_of_memory_also_as_a_child() {
    for sandbox in levels() {
        for script in ["exec tail /dev/zero", "tail /dev/zero; exit 5", "head -c 500M /dev/zero > /tmp/big; sleep 10"] {
            let mut task = shell(script);
            task.limits.memory = 150 * MIB;
            let exit = try_run(&sandbox, &task).unwrap();
            assert!(exit.out_of_memory, "{script}: {exit:?}");
            assert!(!exit.timed_out, "{script}");
            let peak = exit.peak_memory.unwrap();
            assert!(peak > 75 * MIB && peak < 1000 * MIB, "{script}: {peak}");
            let memory = if exit.isolation.level == "full" { "cgroup" } else { "watcher" };
            assert_eq!(exit.isolation.memory, memory);
        }
        let mut task = shell("head -c 50M /dev/zero | tail -c 40M | wc -c");
        task.limits.memory = 150 * MIB;
        assert!(!try_run(&sandbox, &task).unwrap().out_of_memory);
    }
}

#[test]
fn processes_are_limited() {
    for sandbox in levels() {
        let mut task = shell("i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); echo $i; done");
        task.limits.pids = 20;
        let exit = try_run(&sandbox, &task).unwrap();
        assert_ne!(exit.end, End::Exited(0));
        assert!(exit.stderr.text().to_lowercase().contains("fork"), "{}", exit.stderr.text());
        let started: u32 = exit.stdout.text().lines().last().unwrap().parse().unwrap();
        assert!((15..=20).contains(&started), "{started}");
        assert_eq!(exit.isolation.pids, if exit.isolation.level == "full" { "cgroup" } else { "rlimit" });
    }
}

#[test]
fn a_file_has_a_largest_size_and_memory_backed_ones_a_sum() {
    let mut task = shell("dd if=/dev/zero of=/tmp/f bs=1M count=30 2>/dev/null; stat -c %s /tmp/f");
    task.limits.file_size = 10 * MIB;
    assert_eq!(output(&task).trim(), (10 * MIB).to_string());
    let mut task = shell(
        "dd if=/dev/zero of=/tmp/f bs=1M count=12; dd if=/dev/zero of=$HOME/f bs=1M count=12; \
         cat /tmp/f $HOME/f | wc -c",
    );
    task.limits.scratch = 16 * MIB;
    let exit = run(&task);
    assert!(exit.stderr.text().contains("No space left"), "{}", exit.stderr.text());
    assert!(exit.stdout.text().trim().parse::<u64>().unwrap() <= 16 * MIB);
}

#[test]
fn only_the_loopback_is_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "import socket\n\
         def reach(*to):\n\
         \x20try: socket.create_connection(to, 5); return 'reached'\n\
         \x20except OSError as error: return error.strerror\n\
         server = socket.create_server(('127.0.0.1', 0))\n\
         print(reach(*server.getsockname()))\n\
         print(reach('127.0.0.1', {port}))\n\
         print(reach('192.0.2.1', 80))\n\
         print([name for _, name in socket.if_nameindex()])\n"
    );
    let mut task = task(&["python3", "-c", &script]);
    assert_eq!(output(&task), "reached\nConnection refused\nNetwork is unreachable\n['lo']\n");
    task.network = Network::Host;
    let exit = run(&task);
    assert_eq!(exit.stdout.text().lines().nth(1), Some("reached"), "{}", exit.stderr.text());
    assert_eq!(exit.isolation.network, "host");
}

#[test]
fn the_hosts_files_are_not_there() {
    let secret = owned_dir(&sandbox(), &[("secret", "secret")]);
    let script = format!(
        "for path in /root /etc/shadow /etc/pip.conf /etc/npmrc /etc/ssh /etc/ssl/private /opt /mnt /boot /srv \
         /var/lib /home/* {} {} /.staging /.scratch; do [ -e $path ] && echo $path; done; ls -A / /tmp /run/redgreen",
        secret.path().display(),
        env!("CARGO_MANIFEST_DIR"),
    );
    let text = output(&shell(&script));
    let seen: Vec<_> = text.lines().take_while(|line| *line != "/:").collect();
    assert_eq!(seen, ["/home/redgreen"]);
    assert!(text.ends_with("/run/redgreen:\n\n/tmp:\n") || text.ends_with("/run/redgreen:\n"), "{text}");
}

#[test]
fn nothing_of_the_callers_environment_is_in_any_process() {
    let mut task = shell("env | sort; for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f; done 2>&1 | sort -u");
    task.variables.insert("OWN".into(), "yes".into());
    let text = output(&task);
    let (first, second) = text.split_at(text.find("TMPDIR=/tmp\n").unwrap() + "TMPDIR=/tmp\n".len());
    let first: Vec<_> = first.lines().filter(|line| !line.starts_with("PWD=")).collect();
    assert_eq!(first, ["HOME=/home/redgreen", "OWN=yes", "PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp"]);
    for (name, value) in std::env::vars_os() {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        assert!(name == "PATH" || name == "HOME" || !second.contains(&format!("{name}={value}\n")), "{name}");
    }
    // Nor the task itself, or the binary, through PID 1.
    let text =
        run(&shell("cat /proc/1/environ /proc/1/maps; readlink /proc/1/exe; ls /proc/1/fd; readlink /proc/1/cwd"));
    assert!(!text.stdout.text().contains('/'), "{}", text.stdout.text());
    assert_ne!(text.end, End::Exited(0));
}

#[test]
fn no_descriptor_but_the_known_ones_is_inherited() {
    let file = tempfile::tempfile().unwrap();
    // SAFETY: a descriptor without close-on-exec, as careless libraries leave them; closed with the process.
    assert!(unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)) } > 2);
    let script = "ls /proc/self/fd; readlink /proc/self/fd/0; tty; cat /proc/self/stat | cut -d' ' -f7";
    let mut task = shell(script);
    let text = run(&task).stdout.text();
    // `ls` itself has the directory open at 3.
    assert_eq!(text, "0\n1\n2\n3\n/dev/null\nnot a tty\n0\n");
    task.result_channel = true;
    assert!(run(&task).stdout.text().starts_with("0\n1\n2\n3\n7\n"));
}

#[test]
fn the_command_has_no_rights() {
    let text = output(&shell("id -u; id -G; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; hostname; whoami"));
    let mut lines = text.lines();
    assert_eq!((lines.next(), lines.next()), (Some("1000"), Some("1000")));
    for line in lines.by_ref().take(5) {
        assert!(line.starts_with("Cap") && line.ends_with("\t0000000000000000"), "{line}");
    }
    assert_eq!(lines.collect::<Vec<_>>(), ["NoNewPrivs:\t1", "Seccomp:\t2", "redgreen", "redgreen"]);
}

#[test]
fn the_commands_user_is_the_owner_on_the_host() {
    let mark = format!("{}.125", 100_000 + std::process::id());
    let sandbox = sandbox();
    std::thread::scope(|scope| {
        let cancel = CancellationToken::new();
        let (token, task) = (cancel.clone(), task(&["sleep", &mark]));
        let sandbox = &sandbox;
        let running = scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(sandbox.run(&task, &token))
        });
        eventually("the command runs", || !processes(&mark).is_empty());
        let uid = fs::metadata(format!("/proc/{}", processes(&mark)[0])).unwrap().uid();
        assert_eq!(uid, sandbox.owner().0);
        assert_ne!(uid, 0);
        cancel.cancel();
        let exit = running.join().unwrap().unwrap();
        assert!(exit.cancelled && !exit.timed_out);
        assert_eq!(exit.end, End::Signaled(libc::SIGKILL));
    });
    assert!(processes(&mark).is_empty());
}

#[test]
fn the_machines_knobs_are_out_of_reach() {
    let script = "for path in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/kernel/hostname \
                  /proc/sysrq-trigger /proc/sys/net/ipv4/ip_forward; do [ -w $path ] && echo writable $path; \
                  (echo 0 > $path) 2>/dev/null && echo written $path; done; \
                  for path in /proc/kcore /proc/keys /proc/timer_list /proc/kallsyms; do cat $path; done; \
                  ls -A /sys /proc/acpi /proc/scsi 2>/dev/null | grep -v : ; true";
    assert_eq!(output(&shell(script)).trim(), "");
}

#[test]
fn system_calls_for_namespaces_mounts_and_keys_are_refused() {
    let script = r#"
import ctypes, errno, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def call(*args):
    ctypes.set_errno(0)
    result = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result == 0 and args[0] == CLONE: os._exit(0)
    return errno.errorcode.get(ctypes.get_errno(), "done") if result < 0 else "done"
CLONE = 56 if x86 else 220
for name, number in dict(unshare=272 if x86 else 97, mount=165 if x86 else 40, keyctl=250 if x86 else 219,
                         bpf=321 if x86 else 280, setns=308 if x86 else 268, open_tree=428, fsopen=430).items():
    print(name, call(number, 0x10000000, 0, 0, 0, 0))
for flag in (0x10000000, 0x00020000, 0x40000000):
    print("clone", call(CLONE, flag | 17, 0, 0, 0, 0))
print("clone3", call(435, 0, 0))
print("io_uring", call(425, 0, 0))
print("x32", call(0x40000000 | 165, 0, 0, 0, 0, 0) if x86 else "ENOSYS")
print("personality", call(135 if x86 else 92, 0xffffffff), call(135 if x86 else 92, 0x0400000))
for family in (socket.AF_UNIX, socket.AF_INET, 38, 40):
    try: socket.socket(family, socket.SOCK_STREAM if family < 3 else socket.SOCK_SEQPACKET); print("socket done")
    except OSError as error: print("socket", errno.errorcode[error.errno])
"#;
    assert_eq!(
        output(&task(&["python3", "-c", script])),
        "unshare EPERM\nmount EPERM\nkeyctl EPERM\nbpf EPERM\nsetns EPERM\nopen_tree EPERM\nfsopen EPERM\n\
         clone EPERM\nclone EPERM\nclone EPERM\nclone3 ENOSYS\nio_uring ENOSYS\nx32 ENOSYS\n\
         personality done EPERM\nsocket done\nsocket done\nsocket EPERM\nsocket EPERM\n"
    );
    let exit = run(&shell("unshare -Ur true"));
    assert_ne!(exit.end, End::Exited(0));
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

/// Starts a command in the background, and gives the process of the sandbox's supervisor and the command's mark.
fn with_running(number: u32, act: impl FnOnce(i32)) -> (Result<Exit, SandboxError>, String) {
    let mark = format!("{}.{number}", 100_000 + std::process::id());
    let sandbox = sandbox();
    let task = shell(&format!("setsid sleep {mark} & sleep {mark}"));
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| try_run(&sandbox, &task));
        eventually("the commands run", || processes(&mark).len() == 2);
        // Of the command: the shell, PID 1, the supervisor. The session leader is the shell's child, too.
        let shell = parent(processes(&mark)[0]);
        act(parent(parent(shell)));
        running.join().unwrap()
    });
    (outcome, mark)
}

#[test]
fn killing_the_supervisor_leaves_nothing() {
    let mut groups = Vec::new();
    let (outcome, mark) = with_running(625, |supervisor| {
        groups = cgroup_of(supervisor_child(supervisor));
        // SAFETY: plain system call on a process of this test's.
        unsafe { libc::kill(supervisor, libc::SIGKILL) };
    });
    assert!(matches!(outcome, Err(SandboxError::Helper(_))), "{outcome:?}");
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    eventually("nothing is left", || processes(&mark).is_empty());
}

#[test]
fn a_start_removes_what_dead_owners_left_and_nothing_else() {
    if sandbox().isolation().level != "full" {
        return;
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(path) = own.lines().find_map(|line| line.split_once(":memory:")) else { return };
    let parent = Path::new("/sys/fs/cgroup/memory").join(path.1.trim_start_matches('/'));
    let boot: String =
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().chars().filter(|c| *c != '-').take(8).collect();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    // Our number, but another time of start: somebody who had it before.
    let dead = parent.join(format!("redgreen-{boot}-{namespace}-{}-1-0", std::process::id()));
    let foreign = parent.join(format!("redgreen-{boot}-1-{}-1-0", std::process::id()));
    fs::create_dir(&dead).unwrap();
    fs::create_dir(&foreign).unwrap();
    let _ = sandbox();
    let (dead, alive) = (dead.exists(), foreign.exists());
    fs::remove_dir(&foreign).unwrap();
    assert!(!dead && alive);
}

/// Not a test of its own: what `killing_redgreen_leaves_nothing` kills.
#[test]
#[ignore = "sleeps until it is killed"]
fn victim() {
    let mark = format!("{}.875", 100_000 + std::process::id());
    let _ = run(&shell(&format!("setsid sleep {mark} & sleep {mark}")));
}

#[test]
fn killing_redgreen_leaves_nothing() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::victim", "--ignored"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mark = format!("{}.875", 100_000 + victim.id());
    eventually("the commands run", || processes(&mark).len() == 2);
    let groups = cgroups_of(victim.id());
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("nothing is left", || processes(&mark).is_empty());
    eventually("the cgroup is gone", || groups.iter().all(|group| !group.exists()));
    assert!(sandbox().isolation().level != "full" || !groups.is_empty());
}

/// The one child of a supervisor.
fn supervisor_child(supervisor: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// The cgroups of ours that a process is in.
fn cgroup_of(pid: i32) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.rsplit('/').next()).collect();
    walkdir::WalkDir::new("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("redgreen-")))
        .filter(|path| names.iter().any(|name| path.ends_with(name)))
        .collect()
}

/// The cgroups that belong to runs of a process.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    walkdir::WalkDir::new("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("redgreen-") && name.split('-').nth(3) == Some(&pid.to_string())
        })
        .map(walkdir::DirEntry::into_path)
        .collect()
}

#[test]
fn a_dropped_run_is_killed() {
    let mark = format!("{}.375", 100_000 + std::process::id());
    let sandbox = sandbox();
    let task = task(&["sleep", &mark]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        let run = sandbox.run(&task, &cancel);
        tokio::select! {
            _ = run => panic!("ended by itself"),
            () = async { while processes(&mark).is_empty() { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
        }
    });
    eventually("nothing is left", || processes(&mark).is_empty());
}

#[test]
fn fifty_at_once_leave_nothing_behind() {
    let sandbox = sandbox();
    let lower = owned_dir(&sandbox, &[("f", "low")]);
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let before = mounts();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cancel = CancellationToken::new();
    let tasks: Vec<Task> = (0..50)
        .map(|number| {
            let mut task = shell(&format!("cat f; echo {number} > f; cat f; exit {number}"));
            task.cwd = "/workspace".into();
            task.mounts = vec![overlay(lower.path())];
            task
        })
        .collect();
    let exits = runtime.block_on(async {
        let mut exits = Vec::new();
        let running: Vec<_> = tasks.iter().map(|task| sandbox.run(task, &cancel)).collect();
        for run in join_all(running).await {
            exits.push(run.unwrap());
        }
        exits
    });
    for (number, exit) in exits.iter().enumerate() {
        assert_eq!(exit.stdout.text(), format!("low{number}\n"), "{}", exit.stderr.text());
        assert_eq!(exit.end, End::Exited(i32::try_from(number).unwrap()));
    }
    assert_eq!(mounts(), before);
    assert_eq!(fs::read_to_string(lower.path().join("f")).unwrap(), "low");
    assert_eq!(fs::read_dir(lower.path()).unwrap().count(), 1);
}

/// Polls all futures to their ends, at the same time.
async fn join_all<T>(mut running: Vec<std::pin::Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in running.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[test]
fn the_isolation_says_what_was_in_force() {
    for sandbox in levels() {
        let lower = owned_dir(&sandbox, &[]);
        let mut task = shell("true");
        task.mounts = vec![overlay(lower.path())];
        assert_eq!(try_run(&sandbox, &task).unwrap().isolation, sandbox.isolation());
        assert_eq!(try_run(&sandbox, &shell("true")).unwrap().isolation.workspace, "none");
    }
    let results = LocalSandbox::probe(&config());
    assert_eq!(results.iter().map(|result| result.level.as_str()).collect::<Vec<_>>(), ["full", "userns"]);
    assert!(results[1].ok);
    let error = LocalSandbox::new(LocalConfig { helper: "/no/such/helper".into(), ..config() }).unwrap_err();
    assert!(error.to_string().contains("/no/such/helper"), "{error}");
}

#[test]
fn without_a_sandbox_only_the_mounts_are_there() {
    match NoSandbox::new(config()) {
        Err(error) => {
            assert!(!is_root());
            assert!(error.to_string().contains("need root"), "{error}");
        }
        Ok(none) => {
            let lower = owned_dir(&sandbox(), &[("f", "low")]);
            let mut task = shell("cat f; id -u; [ -e /root ] || echo no home; grep CapEff /proc/self/status");
            task.cwd = "/workspace".into();
            task.mounts = vec![overlay(lower.path())];
            let exit = try_run(&none, &task).unwrap();
            let uid = none.owner().0;
            assert_eq!(
                exit.stdout.text(),
                format!("low{uid}\nno home\nCapEff:\t0000000000000000\n"),
                "{}",
                exit.stderr.text()
            );
            assert_eq!(exit.isolation, none.isolation());
        }
    }
}

#[test]
fn everything_again_as_an_unprivileged_user() {
    if !is_root() {
        return;
    }
    // The build directory may lie where others cannot look.
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tests = dir.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_redgreen"), dir.path().join(COPIED_HELPER)).unwrap();
    let mut again = Command::new(&tests);
    again.args(["sandbox::", "--skip", "everything_again"]).current_dir("/").uid(OTHER_USER).gid(OTHER_USER);
    let output = loop {
        match again.output() {
            // Another test was just forking while the copy was open for writing.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            other => break other.unwrap(),
        }
    };
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Prints what a run costs from start to exit.
#[test]
#[ignore = "a measurement"]
fn measure() {
    for sandbox in levels() {
        let lower = owned_dir(&sandbox, &[]);
        let mut task = task(&["/bin/true"]);
        task.mounts = vec![overlay(lower.path())];
        let mut times: Vec<_> = (0..100)
            .map(|_| {
                let start = Instant::now();
                try_run(&sandbox, &task).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort();
        println!("{}: median {:?}, min {:?}, p90 {:?}", sandbox.isolation().level, times[50], times[0], times[90]);
    }
}
