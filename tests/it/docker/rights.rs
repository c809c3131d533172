//! What a command in a container may do, and sees.

use std::path::Path;

use redgreen::sandbox::Sandbox;
use redgreen::sandbox::local::HOME;

use super::{output, overlay, owned_dir, sandbox, shell, task, try_run, ways};

#[test]
fn no_right_is_left() {
    for sandbox in ways() {
        let text = output(sandbox, &shell("cat /proc/self/status; id -u; id -g; id -G; id -un"));
        for line in [
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let (uid, gid) = sandbox.owner();
        assert!(text.ends_with(&format!("{uid}\n{gid}\n{gid}\nredgreen\n")), "{text}");
    }
}

#[test]
fn there_is_no_network_but_a_loopback() {
    let Some(sandbox) = sandbox() else { return };
    let script = "import socket\n\
                  print(sorted(name for _, name in socket.if_nameindex() if name in ('lo', 'eth0', 'docker0')))\n\
                  server = socket.create_server(('127.0.0.1', 0))\n\
                  socket.create_connection(server.getsockname()); print('loopback')\n\
                  for address in ('192.0.2.1', '172.17.0.1', '169.254.169.254'):\n\
                  \x20try: socket.create_connection((address, 80), 2); print('reached', address)\n\
                  \x20except OSError as error: print(error.errno)\n\
                  print(socket.gethostname(), socket.gethostbyname('localhost'))";
    // 101: the network is unreachable.
    assert_eq!(
        output(sandbox, &task(&["python3", "-c", script])),
        "['lo']\nloopback\n101\n101\n101\nredgreen 127.0.0.1\n"
    );
}

#[test]
fn a_fetch_has_the_hosts_network() {
    let Some(sandbox) = sandbox() else { return };
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('there')");
    let mut task = task(&["python3", "-c", &script]);
    task.network = redgreen::sandbox::Network::Host;
    let exit = try_run(sandbox, &task).unwrap();
    assert_eq!(exit.stdout.text(), "there\n", "{}", exit.stderr.text());
    assert_eq!(exit.isolation.network, "host");
}

#[test]
fn nothing_of_the_host_is_in_sight() {
    let Some(sandbox) = sandbox() else { return };
    let lower = owned_dir(sandbox, &[("f", "")]);
    let mut task = shell(
        "ls /home; ls -d /root/* /dev/sd* /dev/vd* /dev/kmsg /dev/mem /run/docker.sock /var/run/docker.sock 2>/dev/null; \
         for path in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/mm; do \
         (echo x > $path) 2>/dev/null && echo wrote $path; done; cat /proc/kcore /proc/keys /proc/kallsyms 2>/dev/null; \
         ls /proc | grep -c '^[0-9]'; pwd; touch /tmp/a $HOME/b /dev/shm/c /var/tmp/d && echo $HOME; ulimit -c",
    );
    task.mounts = vec![overlay(lower.path())];
    task.cwd = "/workspace".into();
    let text = output(sandbox, &task);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("redgreen", "/workspace", HOME), "{text}");
    assert!(lines[1].parse::<u32>().unwrap() < 8, "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    assert!(!Path::new("/tmp/a").exists());
}

#[test]
fn what_is_in_force_is_said() {
    for sandbox in ways() {
        let said = sandbox.isolation();
        assert_eq!(
            (said.sandbox.as_str(), said.level.as_str(), said.network.as_str()),
            ("docker", "container", "none")
        );
        assert_eq!((said.memory.as_str(), said.pids.as_str()), ("cgroup", "cgroup"));
    }
    let workspaces: Vec<String> = ways().iter().map(|sandbox| sandbox.isolation().workspace).collect();
    if super::is_here() {
        // On this machine the engine can mount our files: otherwise half of these tests test nothing.
        assert_eq!(workspaces, ["overlayfs", "copy"]);
    }
}
