//! A run whose every text was written by somebody who wants to break the page.

use std::path::Path;

use redgreen::store::RunFolder;
use serde_json::{Value, json};

use crate::support::Place;

/// What all hostile texts hold: markup that would run, quotes that would end an attribute, ends of every element that a
/// text stands in, template syntax, escape sequences, a NUL, an override of the writing direction.
pub const NASTY: &str = "<script>window.pwned=1</script><img src=http://127.0.0.1:9/x onerror=window.pwned=2>\
\"'><svg onload=window.pwned=3></pre></code></samp></details></table></style></script></title><!-- ]]> {{#each}} {{{x}}} \
\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}\0\u{202e}txet\u{2066} \u{fffe} &amp; &#0; \r\n\u{85}end";

/// The same as bytes, with broken UTF-8 and a line of a megabyte.
pub fn nasty_bytes() -> Vec<u8> {
    let mut bytes = NASTY.as_bytes().to_vec();
    bytes.extend(b"\xff\xfe\xc3\x28\n");
    bytes.extend(vec![b'<'; 1 << 20]);
    bytes.extend(NASTY.as_bytes());
    bytes
}

/// The example's run with hostile texts in every place that is not checked elsewhere: comments, paths, titles, patches,
/// tests, outputs, messages, reasons, marks, names of arms, agents, models and categories.
pub fn run() -> Place {
    let place = Place::scored();
    let run = RunFolder::open(&place.join("run")).unwrap();
    let blob = run.put_blob(&nasty_bytes()).unwrap();
    let mut manifest = run.manifest().unwrap();
    let mut roster: Value = serde_json::from_slice(&run.blob(&manifest.roster).unwrap()).unwrap();
    let nasty = |value: &mut Value| *value = json!(NASTY);
    for comment in roster["comments"].as_array_mut().unwrap() {
        for field in ["text", "path", "category", "language", "lines"] {
            nasty(&mut comment[field]);
        }
        if !comment["test"].is_null() {
            comment["test"] = json!({"framework": NASTY, "path": NASTY, "source": blob});
        }
    }
    for instance in roster["instances"].as_array_mut().unwrap() {
        for field in ["repo", "title", "head_commit", "merged_commit"] {
            nasty(&mut instance[field]);
        }
    }
    for lost in roster["attrition"].as_array_mut().unwrap() {
        nasty(&mut lost["stage"]);
    }
    manifest.roster = run.put_blob(&serde_json::to_vec(&roster).unwrap()).unwrap();
    manifest.benchmark.name = NASTY.to_owned();
    run.set_manifest(&manifest).unwrap();
    let root = place.join("run");
    rewrite(&root.join("records"), |record| {
        for field in ["message", "first_line", "channel"] {
            nasty(&mut record[field]);
        }
        for digest in record["evidence"].as_object_mut().unwrap().values_mut() {
            *digest = json!(blob);
        }
        record["tests"] = json!([{"id": NASTY, "status": NASTY}]);
    });
    rewrite(&root.join("rows"), |row| {
        row["marks"] = json!([NASTY]);
        if row["patch"].is_string() {
            row["patch"] = json!(blob);
            row["agent"] = json!(NASTY);
            row["model"] = json!(NASTY);
        }
        if row["arm"] == "hare-review" {
            row["arm"] = json!(NASTY);
        }
        match row["state"]["state"].as_str().unwrap() {
            "patch" => nasty(&mut row["state"]["problem"]),
            "no-changes" => {
                row["state"] = json!({"state": "infra", "class": "disk", "detail": NASTY, "log": blob});
            }
            _ => {}
        }
    });
    place
}

/// Rewrites every JSON file below a folder.
fn rewrite(folder: &Path, edit: impl Fn(&mut Value)) {
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let mut value: Value = serde_json::from_slice(&fs_err::read(entry.path()).unwrap()).unwrap();
            edit(&mut value);
            fs_err::write(entry.path(), value.to_string()).unwrap();
        }
    }
}
