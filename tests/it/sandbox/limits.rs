//! Every limit ends or bounds what it is for.

use std::time::Duration;

use redgreen::sandbox::{End, Mount};

use super::{MIB, give, levels, output, owned_dir, processes, run, shell, task, try_run};

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
fn memory_that_forked_processes_share_counts_once() {
    let script = "import os, time\n\
                  block = bytearray(os.urandom(1)) * (80 << 20)\n\
                  for _ in range(4):\n\
                  \x20if os.fork() == 0: time.sleep(1); os._exit(0)\n\
                  for _ in range(4): os.wait()\n";
    for sandbox in levels() {
        let mut task = task(&["python3", "-c", script]);
        task.limits.memory = 200 * MIB;
        let exit = try_run(&sandbox, &task).unwrap();
        assert!(!exit.out_of_memory && exit.end == End::Exited(0), "{exit:?}");
        assert!(exit.peak_memory.unwrap() > 80 * MIB);
    }
}

#[test]
fn endless_output_neither_blocks_nor_outlives_the_deadline() {
    let mut task = shell("yes & yes >&2");
    task.limits.wall = Duration::from_secs(1);
    task.limits.output = 10;
    let exit = run(&task);
    assert!(exit.timed_out);
    assert_eq!(exit.stdout.text(), "y\ny\ny\ny\ny\n");
    assert!(exit.stdout.dropped > 100_000 && exit.stderr.dropped > 100_000);
}

#[test]
fn a_fork_bomb_ends_at_the_deadline() {
    for sandbox in levels() {
        let mut task = shell("bomb() { bomb | bomb & }; bomb; sleep 30");
        task.limits.pids = 50;
        task.limits.wall = Duration::from_secs(1);
        let exit = try_run(&sandbox, &task).unwrap();
        assert!(exit.timed_out || exit.end == End::Exited(2), "{exit:?}");
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
fn what_is_left_on_disk_is_limited() {
    let writing = "i=0; while [ $i -lt 200 ]; do head -c 1M /dev/zero > /kept/$1$i; i=$((i+1)); done; echo done";
    let many = "mkdir /kept/d; i=0; while [ $i -lt 20000 ]; do : > /kept/d/$i; i=$((i+1)); done; echo done";
    for sandbox in levels() {
        for (script, disk, ends) in
            [(writing, 40 * MIB, false), (many, 40 * MIB, false), (writing, 400 * MIB, true), (many, 400 * MIB, true)]
        {
            let (lower, upper) = (owned_dir(&sandbox, &[]), owned_dir(&sandbox, &[]));
            let kept = upper.path().join("upper");
            std::fs::create_dir(&kept).unwrap();
            give(&sandbox, &kept);
            let mut task = shell(script);
            task.limits.disk = disk;
            task.mounts = vec![Mount::Overlay {
                lowers: vec![lower.path().to_path_buf()],
                target: "/kept".into(),
                upper: Some(kept.clone()),
                remove: Vec::new(),
            }];
            let exit = try_run(&sandbox, &task).unwrap();
            assert!(!ends || exit.stdout.text() == "done\n", "{exit:?}");
            assert_eq!(exit.stderr.text().contains("left more than"), !ends, "{exit:?}");
            assert_eq!(exit.end == End::Exited(0), ends, "{exit:?}");
            assert!(!exit.timed_out && !exit.out_of_memory, "{exit:?}");
        }
    }
}

#[test]
fn memory_without_a_process_counts() {
    let files = "import os, time\n\
                 kept = [os.memfd_create('kept') for _ in range(20)]\n\
                 for one in kept: os.write(one, bytes(20 << 20))\n\
                 time.sleep(SECONDS)\n";
    let segments = "import ctypes, time\n\
                    libc = ctypes.CDLL(None)\n\
                    libc.shmat.restype = ctypes.c_void_p\n\
                    for _ in range(20):\n\
                    \x20at = ctypes.c_void_p(libc.shmat(libc.shmget(0, 20 << 20, 0o1600), None, 0))\n\
                    \x20libc.memset(at, 1, ctypes.c_size_t(20 << 20)); libc.shmdt(at)\n\
                    time.sleep(SECONDS)\n";
    for sandbox in levels() {
        for (script, memory, over) in
            [(files, 200, true), (segments, 200, true), (files, 900, false), (segments, 900, false)]
        {
            // Where it is over, nobody waits for the end.
            let mut task = task(&["python3", "-c", &script.replace("SECONDS", if over { "50" } else { "0.5" })]);
            task.limits.memory = memory * MIB;
            let exit = try_run(&sandbox, &task).unwrap();
            assert_eq!(exit.out_of_memory, over, "{memory}: {exit:?}");
            assert!(exit.peak_memory.unwrap() > 150 * MIB, "{exit:?}");
        }
    }
}
