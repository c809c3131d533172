//! Fifty instances of one project cost one environment and fifty trees.

use std::time::Instant;

use serde_json::json;

use super::bench::{Bench, bytes};
use crate::proof::index::{Index, Package, package};
use crate::support::{Place, loudly};

const COUNT: usize = 50;

/// A module of some MiB, so that an environment weighs something.
fn heavy() -> Package {
    let table: String = (0..60_000).map(|n| format!("    {}: 'entry number {n} of the table',\n", n * 7919)).collect();
    let text: &'static str = Box::leak(format!("TABLE = {{\n{table}}}\n").into_boxed_str());
    Package { files: Box::leak(vec![("heavy.py", text)].into_boxed_slice()), ..package("heavy", "1.0") }
}

#[test]
fn fifty_instances_cost_one_environment_and_fifty_trees_and_the_second_build_builds_nothing() {
    let Some(index) = Index::serve(vec![heavy()]) else {
        return loudly("LEFT OUT, as there is no python3: fifty instances of one project");
    };
    let place = Place::new();
    let source: String = (0..500).map(|n| format!("VALUE_{n} = {n}\n")).collect();
    let step =
        "python -c 'import heavy; open(\"made.txt\", \"w\").write(str(len(heavy.TABLE)))' && cat number >>made.txt";
    let files = [("project/__init__.py", source.as_str()), ("project/more.py", source.as_str())];
    let bench = Bench::new(
        &place,
        COUNT,
        &files,
        |_| json!({"language": "python", "packages": ["heavy==1.0"], "steps": [step]}),
    );
    let bench = bench.with_variable("PIP_INDEX_URL", &index.url()).with_variable("no_proxy", "127.0.0.1");

    let one = bench.run(&["env", "build", "bench", "--instances", &bench.ids[0], "--json"]).exits(0).json();
    assert_eq!(one["built"], 1, "{one:#}");
    let environment = bytes(&bench.run(&["env", "du", "--json"]).exits(0).json(), "layer");
    assert!(environment > 4 << 20, "an environment of {environment} bytes weighs nothing");

    let first = Instant::now();
    let all = bench.run(&["env", "build", "bench", "--json"]).exits(0);
    let (first, built) = (first.elapsed(), all.json());
    assert_eq!((&built["built"], &built["cached"]), (&json!(COUNT - 1), &json!(1)), "{}", all.stderr);
    let du = bench.run(&["env", "du", "bench", "--json"]).exits(0).json();
    let (layers, trees) = (bytes(&du, "layer"), bytes(&du, "tree"));
    let most = environment * 13 / 10;
    assert!(layers <= most, "layers take {layers} bytes, 1.3 environments are {most}");
    assert_eq!(bench.layers("python-python").len(), 1);
    // Each has its own build all the same.
    assert_eq!(bench.layers("python-build").len(), COUNT);
    assert_eq!(du["benchmarks"][0]["known"], COUNT);
    assert_eq!(du["benchmarks"][0]["bytes"], json!(layers + trees));

    // Nothing is built or fetched again: no step is told of, no layer changes, offline it is the same.
    let times = || -> Vec<_> {
        let markers = ["python-python", "python-pip", "python-build"].map(|kind| (kind, bench.layers(kind)));
        let paths = markers.into_iter().flat_map(|(kind, layers)| {
            layers.into_iter().map(move |layer| format!("layers-v1/{kind}/{layer}/layer.json"))
        });
        paths.map(|path| fs_err::metadata(bench.cache().join(path)).unwrap().modified().unwrap()).collect()
    };
    let before = times();
    assert!(before.len() >= COUNT + 2);
    let second = Instant::now();
    let again = bench.run(&["env", "build", "bench", "--offline", "--json"]).exits(0);
    let second = second.elapsed();
    let json = again.json();
    assert_eq!((&json["built"], &json["cached"], &json["bytes_added"]), (&json!(0), &json!(COUNT), &json!(0)));
    assert!(!again.stderr.contains("python: "), "a step ran:\n{}", again.stderr);
    assert_eq!(times(), before);
    loudly(&format!(
        "fifty environments: {} KiB one, {} KiB layers of all, {} KiB trees; {:.1} s first, {:.2} s second",
        environment >> 10,
        layers >> 10,
        trees >> 10,
        first.as_secs_f64(),
        second.as_secs_f64()
    ));

    // A step that is needed is told of: the assertion above can fail.
    bench.run(&["env", "gc", "--to", "0"]).exits(0);
    let cold = bench.run(&["env", "build", "bench", "--instances", &bench.ids[0]]).exits(0);
    assert!(cold.stderr.contains("python: "), "{}", cold.stderr);
}
