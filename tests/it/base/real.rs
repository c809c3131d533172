//! The real thing: a base that `mmdebstrap` makes from Debian's mirror. It stays in the cache of the tests.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::tiny::names;
use crate::support::{Place, Ran, cells, host, loudly};

/// Runs `redgreen` with the machine's own network settings.
fn online(place: &Place, arguments: &[&str]) -> Ran {
    let mut command: Command = place.command(arguments);
    for name in ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"] {
        command.envs(host(name).map(|value| (name, value)));
    }
    Ran::of(command.output().unwrap())
}

#[test]
fn a_python_of_debian_runs_the_example_as_the_hosts_does() {
    let place = Place::with_bench();
    let made = online(&place, &["env", "base", "python-3.11", "--json"]);
    let no_maker = made.stderr.contains("mmdebstrap`, which is not on this machine");
    if no_maker || (made.code == Some(3) && made.stderr.contains("did not give")) {
        loudly(&format!("LEFT OUT, as no base can be made here: {}", made.stderr.lines().last().unwrap_or_default()));
        return;
    }
    let made: Value = made.exits(0).json();
    let packages = made[0]["record"]["packages"].as_array().unwrap();
    assert!(packages.iter().any(|p| p.as_str().unwrap().starts_with("python3.11=3.11.")), "{packages:?}");
    let folder = Path::new(made[0]["folder"].as_str().unwrap());
    let kept = names(&folder.join("root.tar"));
    for gone in ["etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/resolv.conf", "dev/null"] {
        assert!(!kept.contains(gone), "{gone}");
    }
    assert!(!kept.iter().any(|name| name.starts_with("etc/ssl/certs/")), "certificates are the host's business");

    let score = |bench: &str, out: &str| {
        online(&place, &["score", bench, "-i", "*shelf*", "--out", out, "--offline"]).exits(0);
        place.run(&["report", out, "--json"]).exits(0).json()
    };
    place.edit_rows("bench/dataset.jsonl", |row| {
        if row["environment"]["language"] == "python" {
            row["environment"]["base"] = "python-3.11".into();
        }
    });
    let on_base = score("bench", "on-base");
    let verdicts = cells(&on_base);
    assert!(verdicts.values().any(|(verdict, _)| verdict == "pass"), "{verdicts:?}");
    assert!(verdicts.values().all(|(verdict, _)| verdict != "invalid"), "{verdicts:?}");
    let plain = Place::with_bench();
    let on_host = plain.run(&["score", "bench", "-i", "*shelf*", "--out", "run", "--json"]);
    if on_host.code == Some(0) {
        assert_eq!(verdicts, cells(&plain.run(&["report", "run", "--json"]).exits(0).json()));
    }
}
