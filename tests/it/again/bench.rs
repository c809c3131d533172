//! A benchmark of shell instances whose oracles do what a file of the tree says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::Place;
use crate::truth::fixture::{Fixture, commits, difference, instance};

/// Passes when the answer is right. A file `coin` decides by chance, a file `slow` takes its time.
pub const ORACLE: &str = "\
#!/bin/sh
echo looking
if [ -e slow ]; then sleep 1000; fi
if [ -e coin ]; then [ $(($(od -An -N1 -tu1 /dev/urandom) % 2)) = 0 ]; exit; fi
grep -q right answer
";

/// The arms, and what each writes. `coin` decides by chance.
pub const ARMS: [(&str, &[(&str, &str)]); 4] = [
    ("right", &[("answer", "right\n")]),
    ("wrong", &[("answer", "still wrong\n")]),
    ("coin", &[("coin", "")]),
    ("slow", &[("slow", "")]),
];

fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Instances `truth/<name>` of one comment each, at `bench` of the place; their ids. `edit` may change them.
pub fn instances(place: &Place, names: &[&str], arms: &[&str], edit: impl Fn(&str, &mut Value)) -> Vec<String> {
    let mut fixture = Fixture::new(place);
    let mut ids = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let repository = fixture.repository(name);
        let (head, merged) =
            commits(&repository, &files(&[("answer", "wrong\n"), ("name", name)]), &files(&[("answer", "right\n")]));
        let mut one = instance(name, number as u64 + 1, &head, Some(&merged));
        one["environment"] = json!({"language": "shell"});
        one["comments"] = json!([{"id": "c1", "text": "This is wrong.", "test": "c1.sh", "framework": "exit"}]);
        edit(name, &mut one);
        let id = fixture.add(one, &[("c1.sh", ORACLE)]);
        for (arm, written) in ARMS.iter().filter(|(arm, _)| arms.contains(arm)) {
            fixture.revise(&id, arm, &difference(&repository, &head, &files(written)));
        }
        ids.push(id);
    }
    fixture.import();
    ids
}

/// `score bench` into a folder, with more options.
pub fn score(place: &Place, out: &str, more: &[&str]) -> crate::support::Ran {
    let mirrors = place.join("mirrors").display().to_string();
    place.run(&[&["score", "bench", "--out", out, "--mirrors", &mirrors], more].concat())
}

/// Defines a language below `definitions` of the place: a shell whose toolchain is looked for by a script on the host
/// (which prints nothing, or an answer of its own), with the steps of one layer: name, shell, script, network.
pub fn define(place: &Place, name: &str, probe: &str, steps: &[(&str, &str, &str, bool)]) {
    const FOUND: &str =
        r#"{"version": "", "executable": "/bin/sh", "roots": [], "tools": {"sh": "/bin/sh"}, "identity": {}}"#;
    let probe = format!("{probe}\necho '{FOUND}'");
    let mut definition = json!({
        "schema": 1,
        "name": name,
        "toolchain": {"programs": ["sh"], "probe": ["/bin/sh", "-c", probe]},
        "variable": [{"name": "PATH", "value": "/usr/local/bin:/usr/bin:/bin"}],
        "tools": {"sh": "/bin/sh"},
    });
    if !steps.is_empty() {
        let steps: Vec<Value> = steps
            .iter()
            .map(|(name, shell, script, network)| {
                json!({"name": name, "argv": [format!("/bin/{shell}"), "-c", script], "network": network})
            })
            .collect();
        definition["layer"] = json!([{"name": "packages", "path": format!("/env/{name}"), "step": steps}]);
    }
    fs_err::create_dir_all(place.join("definitions")).unwrap();
    fs_err::write(place.join(format!("definitions/{name}.toml")), toml::to_string(&definition).unwrap()).unwrap();
}
