//! Two runs at once do not touch each other: one folder, one cache, one cold cache.

use super::stand::{Stand, Template, eventually};

/// How often both runs together reached a point.
fn both(stand: &Stand, point: &str) -> u64 {
    stand.count("run-a", point) + stand.count("run-b", point)
}

#[test]
fn what_is_made_once_is_made_once_among_processes() {
    let template = Template::new();
    for (point, made) in [
        ("repo.clone.made", ["repo.clone.renamed", "repo.marker.renamed", "layer.renamed"]),
        ("repo.snapshot.written", ["repo.snapshot.renamed", "repo.marker.renamed", "layer.renamed"]),
        ("layer.draft.made", ["layer.draft.made", "layer.log.written", "layer.renamed"]),
    ] {
        let stand = template.stand();
        let first = stand.start("run-a", Some(&format!("{point}:1:wait")));
        eventually("the first makes it", || stand.count("run-a", point) == 1);
        let second = stand.start("run-b", None);
        // The second stands before the lock that the first holds.
        eventually("the second came up to it", || stand.count("run-b", "toolchain.probe.spawned") == 1);
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(stand.count("run-b", point), 0);
        stand.go("run-a");
        first.end().0.exits(0);
        second.end().0.exits(0);
        for made in made {
            assert_eq!(both(&stand, made), template.counts[made], "{point}: {made}");
        }
        stand.seen("run-a").assert_is(&stand.seen("run-b"));
        stand.assert_clean();
    }
}

#[test]
fn who_waits_takes_over_when_the_maker_dies() {
    let template = Template::new();
    for point in ["repo.clone.made", "repo.snapshot.renamed", "layer.synced"] {
        let stand = template.stand();
        let first = stand.start("run-a", Some(&format!("{point}:1:wait")));
        eventually("the first makes it", || stand.count("run-a", point) == 1);
        let second = stand.start("run-b", None);
        eventually("the second came up to it", || stand.count("run-b", "toolchain.probe.spawned") == 1);
        first.kill();
        second.end().0.exits(0);
        assert!(stand.count("run-b", point) >= 1, "{point}");
        stand.run("run-a", None).exits(0);
        stand.seen("run-a").assert_is(&stand.seen("run-b"));
        stand.assert_clean();
    }
}

#[test]
fn two_runs_into_one_folder_end_in_the_same_report_whichever_is_ahead() {
    let template = Template::new();
    for point in ["run.manifest.put", "run.door.shared", "run.row.written", "run.record.put", "report.files.written"] {
        let stand = template.stand();
        let first = stand.start("run", Some(&format!("{point}:1:wait")));
        eventually("the first stands", || stand.count("run", point) == 1);
        // It has its faults elsewhere; `run` is the last one started.
        let go = stand.later("run");
        // Who lays out the rows, or is about to, lets nobody else in for that time.
        let blocks = matches!(point, "run.manifest.put" | "run.row.written");
        let second = stand.start("run", None);
        if blocks {
            std::thread::sleep(std::time::Duration::from_millis(200));
        } else {
            second.end().0.exits(0);
            stand.seen("run").assert_is(&template.expected);
            go();
            first.end().0.exits(0);
            stand.run("run", None).exits(0);
            stand.seen("run").assert_is(&template.expected);
            stand.assert_clean();
            continue;
        }
        go();
        first.end().0.exits(0);
        second.end().0.exits(0);
        stand.run("run", None).exits(0);
        stand.seen("run").assert_is(&template.expected);
        stand.assert_clean();
    }
}

#[test]
fn one_of_two_in_the_same_folder_dies_and_the_other_ends() {
    let template = Template::new();
    for point in ["run.row.made", "run.record.put", "store.file.written", "run.event.appended"] {
        let stand = template.stand();
        let nth = template.counts[point].div_ceil(2);
        let survivor = stand.start("run", None);
        let (_, _) = stand.start("run", Some(&format!("{point}:{nth}"))).end();
        survivor.end().0.exits(0);
        stand.run("run", None).exits(0);
        stand.seen("run").assert_is(&template.expected);
        stand.assert_clean();
    }
}
