//! Every named fault point: reached by a run, and survived when the run dies there.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use redgreen::fault::{POINTS, Side};
use regex::Regex;

use super::stand::{Template, assert_not_wrong, in_parallel};
use crate::support::{loudly, root};

#[test]
fn the_table_names_every_point_of_the_code_and_no_other() {
    let call = Regex::new(r#"fault::point\(\s*"([^"]*)"\s*,?\s*\)"#).unwrap();
    let (mut named, mut calls) = (BTreeSet::new(), 0);
    for entry in walkdir::WalkDir::new(root().join("src")).into_iter().flatten() {
        if entry.path().extension().is_some_and(|e| e == "rs") {
            let text = fs_err::read_to_string(entry.path()).unwrap();
            named.extend(call.captures_iter(&text).map(|found| found[1].to_owned()));
            calls += text.matches("fault::point(").count() - call.find_iter(&text).count();
        }
    }
    assert_eq!(calls, 0, "fault points without a literal name");
    assert_eq!(named, POINTS.iter().map(|point| point.name.to_owned()).collect());
}

/// A death: where, at which time that the point is reached, and who dies.
struct Death {
    point: &'static str,
    nth: u64,
    what: &'static str,
}

impl Death {
    fn fault(&self) -> String {
        format!("{}:{}:{}", self.point, self.nth, self.what)
    }
}

#[test]
fn a_run_that_dies_at_any_point_ends_in_the_same_report_and_leaves_nothing() {
    die_everywhere(|count| vec![count.div_ceil(2)]);
}

/// The same at the first, the middle and the last time that each point is reached: some minutes.
///
/// `cargo test --test it crash::points -- --ignored`
#[test]
#[ignore = "takes minutes; the ordinary test takes one time for each point"]
fn a_run_that_dies_at_any_point_at_any_time() {
    die_everywhere(|count| {
        BTreeSet::from([1, 2, count.div_ceil(2), count - 1, count])
            .into_iter()
            .filter(|nth| (1..=count).contains(nth))
            .collect()
    });
}

fn die_everywhere(times: impl Fn(u64) -> Vec<u64>) {
    let template = Template::new();
    let mut deaths = Vec::new();
    // Those of the Docker sandbox have their own test, with an engine.
    for point in POINTS.iter().filter(|point| !point.name.starts_with("docker.")) {
        let Some(&count) = template.counts.get(point.name) else {
            // Without the right to make cgroups nobody comes by there.
            assert!(point.name.contains("cgroup"), "`{}` was not reached: {:?}", point.name, template.counts);
            loudly(&format!("LEFT OUT, as there are no cgroups: fault point {}", point.name));
            continue;
        };
        for nth in times(count) {
            deaths.push(Death { point: point.name, nth, what: "main" });
            // The first helper is the one that tries the sandbox out; its death says that the level does not work.
            if point.side == Side::Helper && nth > count / template.counts["helper.job.received"] {
                deaths.push(Death { point: point.name, nth, what: "own" });
                deaths.push(Death { point: point.name, nth, what: "both" });
            }
        }
    }
    in_parallel(&deaths, Death::fault, |death| die(&template, death));
    loudly(&format!("{} deaths at {} fault points, all recovered", deaths.len(), template.counts.len()));
}

fn die(template: &Template, death: &Death) {
    let stand = template.stand();
    let (ran, status) = stand.start("run", Some(&death.fault())).end();
    assert!(stand.count("run", death.point) >= death.nth, "not reached\n{}", ran.stderr);
    if death.what == "own" {
        // The helper's death is infra, and tried again at once, apart from the steps of an environment.
        assert!(matches!(ran.code, Some(0 | 3)), "{status}\n{}", ran.stderr);
    } else {
        assert_eq!(status.signal(), Some(9), "{status}\n{}", ran.stderr);
    }
    if death.point.starts_with("run.") {
        // What can be said of the dead run is not wrong, whichever benchmark it is of.
        let report = stand.redgreen(&["report", "run", "--json"]).exits(0).json();
        if report["benchmark_digest"] == template.expected.report["benchmark_digest"] {
            assert_not_wrong(&report, &template.expected.report);
        }
    }
    stand.run("run", None).exits(0);
    stand.seen("run").assert_is(&template.expected);
    stand.assert_clean();
}
