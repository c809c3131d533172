//! Every limit ends or bounds what it is for.

use std::time::Duration;

use redgreen::sandbox::{End, Mount, Sandbox};
use tokio_util::sync::CancellationToken;

use super::{MIB, give, output, overlay, owned_dir, sandbox, shell, task, try_run, ways};

#[test]
fn output_is_capped_and_the_rest_counted() {
    let Some(sandbox) = sandbox() else { return };
    let mut task = shell("head -c 5000000 /dev/zero; echo end >&2; exit 4");
    task.limits.output = 1000;
    let exit = try_run(sandbox, &task).unwrap();
    assert_eq!(exit.end, End::Exited(4));
    assert_eq!((exit.stdout.bytes.len(), exit.stdout.dropped), (1000, 4_999_000));
    assert_eq!(exit.stderr.text(), "end\n");
}

#[test]
fn the_whole_tree_dies_at_the_deadline() {
    for sandbox in ways() {
        let mut task = shell("setsid sleep 1000 & (sleep 1000 & exec sleep 1000) & trap '' TERM; sleep 1000");
        task.limits.wall = Duration::from_secs(1);
        let exit = try_run(sandbox, &task).unwrap();
        assert!(exit.timed_out && !exit.cancelled && !exit.out_of_memory);
        assert_eq!(exit.end, End::Signaled(libc::SIGKILL));
        assert!(exit.seconds >= 1.0, "{}", exit.seconds);
    }
}

#[test]
fn a_cancelled_task_is_told_from_a_late_one() {
    let Some(sandbox) = sandbox() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (task, cancel) = (shell("echo started; exec sleep 1000"), CancellationToken::new());
    let exit = runtime.block_on(async {
        let later = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            cancel.cancel();
        };
        let run = redgreen::sandbox::Sandbox::run(sandbox, &task, &cancel);
        tokio::join!(run, later).0.unwrap()
    });
    assert!(exit.cancelled && !exit.timed_out, "{exit:?}");
    // Before anything was made.
    let exit = runtime.block_on(redgreen::sandbox::Sandbox::run(sandbox, &task, &cancel)).unwrap();
    assert!(exit.cancelled && exit.stdout.bytes.is_empty(), "{exit:?}");
}

#[test]
fn the_cpu_limit_ends_a_busy_process() {
    let Some(sandbox) = sandbox() else { return };
    let mut task = shell("while :; do :; done");
    task.limits.cpu = Some(Duration::from_secs(1));
    let exit = try_run(sandbox, &task).unwrap();
    assert!(exit.timed_out && exit.end == End::Signaled(libc::SIGXCPU), "{exit:?}");
    assert!(exit.cpu_seconds > 0.5 && exit.cpu_seconds < 5.0, "{}", exit.cpu_seconds);
}

#[test]
fn a_memory_hog_is_out_of_memory_also_as_a_child_or_in_files() {
    let Some(sandbox) = sandbox() else { return };
    for script in [
        "exec tail /dev/zero",
        "tail /dev/zero; exit 5",
        // The rest of the tree goes, too.
        "tail /dev/zero; sleep 1000",
        "head -c 500M /dev/zero > /tmp/big; sleep 1000",
        "head -c 500M /dev/zero > /workspace/big; sleep 1000",
    ] {
        let lower = owned_dir(sandbox, &[]);
        let mut task = shell(script);
        task.mounts = vec![overlay(lower.path())];
        task.limits.memory = 150 * MIB;
        let exit = try_run(sandbox, &task).unwrap();
        assert!(exit.out_of_memory && !exit.timed_out, "{script}: {exit:?}");
        assert_eq!(exit.isolation.memory, "cgroup");
    }
    let mut task = shell("head -c 50M /dev/zero | tail -c 40M | wc -c; sleep 0.3");
    task.limits.memory = 150 * MIB;
    let exit = try_run(sandbox, &task).unwrap();
    assert!(!exit.out_of_memory, "{exit:?}");
    let peak = exit.peak_memory.unwrap();
    assert!(peak > 30 * MIB && peak <= 150 * MIB, "{peak}");
}

#[test]
fn endless_output_neither_blocks_nor_outlives_the_deadline() {
    let Some(sandbox) = sandbox() else { return };
    let mut task = shell("yes & yes >&2");
    task.limits.wall = Duration::from_secs(2);
    task.limits.output = 10;
    let exit = try_run(sandbox, &task).unwrap();
    assert!(exit.timed_out);
    assert_eq!(exit.stdout.text(), "y\ny\ny\ny\ny\n");
    assert!(exit.stdout.dropped > 100_000 && exit.stderr.dropped > 100_000);
}

#[test]
fn processes_are_limited() {
    let Some(sandbox) = sandbox() else { return };
    let mut task = shell("i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); echo $i; done");
    task.limits.pids = 20;
    let exit = try_run(sandbox, &task).unwrap();
    assert_ne!(exit.end, End::Exited(0));
    assert!(exit.stderr.text().to_lowercase().contains("fork"), "{}", exit.stderr.text());
    let started: u32 = exit.stdout.text().lines().last().unwrap().parse().unwrap();
    assert!((15..=20).contains(&started), "{started}");
    let mut bomb = shell("bomb() { bomb | bomb & }; bomb; sleep 30");
    bomb.limits.pids = 50;
    bomb.limits.wall = Duration::from_secs(2);
    let exit = try_run(sandbox, &bomb).unwrap();
    assert!(exit.timed_out || exit.end == End::Exited(2), "{exit:?}");
}

#[test]
fn a_file_has_a_largest_size_and_memory_backed_ones_a_sum() {
    let Some(sandbox) = sandbox() else { return };
    let mut task = shell("dd if=/dev/zero of=/tmp/f bs=1M count=30 2>/dev/null; stat -c %s /tmp/f");
    task.limits.file_size = 10 * MIB;
    assert_eq!(output(sandbox, &task).trim(), (10 * MIB).to_string());
    let lower = owned_dir(sandbox, &[]);
    let mut task = shell(
        "for place in /tmp /workspace $HOME /dev/shm; do dd if=/dev/zero of=$place/f bs=1M count=12; done; \
         cat /tmp/f /workspace/f $HOME/f /dev/shm/f | wc -c",
    );
    task.mounts = vec![overlay(lower.path())];
    task.limits.scratch = 16 * MIB;
    let exit = try_run(sandbox, &task).unwrap();
    assert!(exit.stderr.text().contains("No space left"), "{}", exit.stderr.text());
    if super::is_root() {
        assert!(exit.stdout.text().trim().parse::<u64>().unwrap() <= 16 * MIB, "{}", exit.stdout.text());
    }
}

#[test]
fn what_is_left_on_disk_is_limited() {
    let writing = "i=0; while [ $i -lt 100 ]; do head -c 1M /dev/zero > /kept/$i; i=$((i+1)); done; echo done; sleep 1";
    for sandbox in ways() {
        for (disk, ends) in [(40 * MIB, false), (400 * MIB, true)] {
            let (lower, place) = (owned_dir(sandbox, &[]), owned_dir(sandbox, &[]));
            let kept = place.path().join("upper");
            fs_err::create_dir(&kept).unwrap();
            give(sandbox, &kept);
            let mut task = shell(writing);
            task.limits.disk = disk;
            task.mounts = vec![Mount::Overlay {
                lowers: vec![lower.path().to_path_buf()],
                target: "/kept".into(),
                upper: Some(kept.clone()),
                remove: Vec::new(),
            }];
            let exit = try_run(sandbox, &task).unwrap();
            let note = format!("left more than {disk} bytes on disk");
            assert_eq!(exit.stderr.text().contains(&note), !ends, "{exit:?}");
            assert_eq!(exit.end == End::Exited(0), ends, "{exit:?}");
            assert!(!exit.timed_out && !exit.out_of_memory, "{exit:?}");
        }
    }
}

#[test]
fn what_is_thrown_away_has_a_limit_of_its_own_and_that_is_told() {
    // In memory a full file system says so by itself; elsewhere it is measured.
    for sandbox in ways().into_iter().filter(|sandbox| sandbox.isolation().workspace == "copy") {
        let lower = owned_dir(sandbox, &[]);
        let mut task = shell("head -c 60M /dev/zero > /workspace/much; sleep 30");
        task.mounts = vec![overlay(lower.path())];
        task.limits.scratch = 20 * MIB;
        let exit = try_run(sandbox, &task).unwrap();
        let note = format!("left more than {} bytes on disk", 20 * MIB);
        assert!(exit.stderr.text().contains(&note) && !exit.timed_out, "{exit:?}");
    }
}

#[test]
fn as_many_files_may_be_open_as_in_the_embedded_sandbox() {
    for sandbox in ways() {
        let said = output(sandbox, &shell("ulimit -Sn; ulimit -Hn"));
        let numbers: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
        // Less where the engine itself has less.
        assert!(numbers[0] == 4096 && (4096..=65_536).contains(&numbers[1]), "{said}");
        let mut odd = shell("ulimit -Sn");
        odd.variables.insert("npm_config_@a:registry".to_owned(), "x".to_owned());
        assert_eq!(output(sandbox, &odd), "4096\n");
    }
}

#[test]
fn memory_without_a_process_counts() {
    let Some(sandbox) = sandbox() else { return };
    let files = "import os, time\n\
                 kept = [os.memfd_create('kept') for _ in range(20)]\n\
                 for one in kept: os.write(one, bytes(20 << 20))\n\
                 time.sleep(SECONDS)\n";
    for (memory, over) in [(200, true), (900, false)] {
        let mut task = task(&["python3", "-c", &files.replace("SECONDS", if over { "50" } else { "0.5" })]);
        task.limits.memory = memory * MIB;
        let exit = try_run(sandbox, &task).unwrap();
        assert_eq!(exit.out_of_memory, over, "{memory}: {exit:?}");
    }
}
