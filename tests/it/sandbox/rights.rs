//! What a command can see and do, and what not.

use std::os::unix::fs::MetadataExt;

use fs_err as fs;
use redgreen::sandbox::{End, Network, Sandbox};
use tokio_util::sync::CancellationToken;

use super::{eventually, output, owned_dir, processes, run, sandbox, shell, task};

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
print("unknown", call(900, 0, 0))
print("pidfd_getfd", call(438, 0, 0, 0))
print("x32", call(0x40000000 | 165, 0, 0, 0, 0, 0) if x86 else "ENOSYS")
print("personality", call(135 if x86 else 92, 0xffffffff), call(135 if x86 else 92, 0x0400000))
for family in (socket.AF_UNIX, socket.AF_INET, 38, 40):
    try: socket.socket(family, socket.SOCK_STREAM if family < 3 else socket.SOCK_SEQPACKET); print("socket done")
    except OSError as error: print("socket", errno.errorcode[error.errno])
"#;
    assert_eq!(
        output(&task(&["python3", "-c", script])),
        "unshare EPERM\nmount EPERM\nkeyctl EPERM\nbpf EPERM\nsetns EPERM\nopen_tree EPERM\nfsopen EPERM\n\
         clone EPERM\nclone EPERM\nclone EPERM\nclone3 ENOSYS\nio_uring ENOSYS\nunknown ENOSYS\npidfd_getfd EPERM\nx32 ENOSYS\n\
         personality done EPERM\nsocket done\nsocket done\nsocket EPERM\nsocket EPERM\n"
    );
    let exit = run(&shell("unshare -Ur true"));
    assert_ne!(exit.end, End::Exited(0));
}

#[test]
fn the_sandboxs_own_first_process_cannot_be_harmed() {
    let script = "import os, resource, signal\n\
                  for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):\n\
                  \x20try: os.kill(1, number)\n\
                  \x20except PermissionError: pass\n\
                  for harm in (lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)),\n\
                  \x20            lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),\n\
                  \x20            lambda: open('/proc/1/mem', 'rb+')):\n\
                  \x20try: harm(); print('harmed', flush=True)\n\
                  \x20except PermissionError: print('refused', flush=True)\n\
                  os._exit(4)\n";
    let exit = run(&task(&["python3", "-c", script]));
    assert_eq!(exit.stdout.text(), "refused\nrefused\nrefused\n", "{}", exit.stderr.text());
    assert_eq!(exit.end, End::Exited(4));
}
